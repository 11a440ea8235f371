# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Onboarding (a workspace that has since been archived), and the notes a person keeps for herself."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "First week",
        "First week: accounts on {weekday}, laboratory tour with {person}, first ticket by Friday.",
        (
            Exchange(
                "I start [today|this week]. What [comes first|do I do]?",
                "Welcome! Three things this week: your accounts are ready by {weekday}, {person} shows you the laboratory, and you close a first small ticket.",
                ("read_checklist", "find_person"),
            ),
            Exchange(
                "Where do I find the manuals?",
                "In the handbook under *Products*. Begin with {product}; the others are built alike.",
                ("search_handbook",),
            ),
            Exchange(
                "How do holidays work?",
                "You ask {person}, by message, at least {small} weeks ahead. Days are shown in your profile.",
                ("search_handbook",),
            ),
        ),
    ),
    Thread(
        "Access to {service}",
        "Access to {service} is granted by {person} after the safety course.",
        (
            Exchange(
                "How do I get access to {service}?",
                "{person} grants it after the safety course ({minutes} minutes, online).",
                ("search_handbook", "find_person"),
            ),
            Exchange(
                "I finished the course.",
                "Noted. I asked {person}; you will have access by {weekday}.",
                ("update_checklist", "send_mail"),
            ),
        ),
    ),
)

NOTES: tuple[Thread, ...] = (
    Thread(
        "Talk on {topic}",
        "The talk on {topic} has three parts and ends with a demonstration.",
        (
            Exchange(
                "Help me outline a talk on {topic}.",
                "1. Why {topic} matters, with one story\n2. How it works, one picture\n3. A demonstration with {product}",
                ("outline",),
            ),
            Exchange(
                "What is a good [first sentence|opening]?",
                "“Last {month} a customer in {city} rang us at night, and it was not the device that was broken.”",
                ("draft_note",),
            ),
        ),
    ),
)

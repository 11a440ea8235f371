# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Follow-ups that fit any conversation; ``{gist}`` is what the thread came to."""

from __future__ import annotations

from .thread import Exchange

FOLLOW_UPS: tuple[Exchange, ...] = (
    Exchange("[Can you put that in one sentence|In one sentence, please] for {person}?", "{gist}"),
    Exchange(
        "How sure are you?",
        "[Fairly sure|Quite sure]: I read it from the records rather than from memory, and they agree. What I cannot see is anything entered after {weekday} evening.",
        ("verify",),
    ),
    Exchange(
        "[Thanks, that is all for now.|Perfect, thank you!|Great, thanks.]",
        "[You are welcome.|Glad that helped.|Any time.] For the record: {gist}",
    ),
    Exchange(
        "Write that down so that I can forward it.",
        "Here is a note you can forward:\n\n> {gist}\n>\n> Questions go to {person}.",
        ("draft_note",),
    ),
    Exchange(
        "Is there anything I should [watch|look out for]?",
        "One thing: if it happens again before {weekday}, tell me and I will open a ticket with what we have so far. {gist}",
    ),
    Exchange(
        "And who has to [know|sign off]?",
        "{person} does. I would send a line to the channel as well, so that nobody does the work twice.",
        ("look_up_owner",),
    ),
)

# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Sales: reading contracts, preparing calls."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "Contract of {customer}",
        "The contract of {customer} renews by itself unless it is cancelled {small} weeks before the end of {month}.",
        (
            Exchange(
                "[When does the contract of {customer} end?|Until when can {customer} cancel?]",
                "It renews by itself for a year unless one side cancels **{small} weeks** before the end of {month} (clause {small}.2).",
                ("find_contract", "read_clauses"),
            ),
            Exchange(
                "What did we promise about [support|response times]?",
                "An answer within {minutes} minutes on working days for the {plan} plan (annex B). No penalty is named.",
                ("read_clauses",),
            ),
            Exchange(
                "May they use our logo?",
                "Only with consent for each use, by clause {small}.4. I see no such consent on file.",
                ("read_clauses", "search_files"),
            ),
        ),
    ),
    Thread(
        "Call with {customer}",
        "For the call with {customer}: they grew {percent} % and asked twice about {topic}.",
        (
            Exchange(
                "I am about to call {customer}. [What should I know?|Brief me.]",
                "- On the {plan} plan, {count} devices, {percent} % more than last year\n- Asked about {topic} twice since {month}\n- One open ticket: {ticket}",
                ("find_account", "list_tickets", "read_metrics"),
            ),
            Exchange(
                "What would they [pay more for|gain from the next plan]?",
                "Probably longer history: they export their data by hand every {weekday}. The next plan keeps it for two years.",
                ("read_metrics", "compare_plans"),
            ),
        ),
    ),
    Thread(
        "Quote for {customer}",
        "The quote for {customer} comes to {amount} with {other_percent} % discount.",
        (
            Exchange(
                "Prepare a quote for {customer}: {small} units of {product}, {plan} plan.",
                "Draft quote {ticket}: {small} units of {product} and the {plan} plan for a year, **{amount}** with freight to {city}.",
                ("price_list", "draft_quote", "check_totals"),
            ),
            Exchange(
                "[Can we give {other_percent} % discount?|They ask for {other_percent} % off.]",
                "You may give up to 10 % yourself. Beyond that {person} has to agree; I can ask.",
                ("discount_rules",),
            ),
        ),
    ),
)

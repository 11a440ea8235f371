# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""The playground: people and scripts that get to know the platform, and test runs of prompts."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "First steps",
        "Sessions are read as events; the reply is the `runtime_done` that carries `content.text`.",
        (
            Exchange(
                "How do I read what an agent answered?",
                "Poll the session's events, or stream them. The reply is the `runtime_done` event with `content.text`; the ones with `{{}}` are subtasks.\n\n*Source: Sessions and events › Turns*",
                ("search_documentation",),
            ),
            Exchange(
                "[Show me an example.|Can I see that in code?]",
                '```python\nturn = client.sessions.ask(session, "Hello")\nprint(turn.text)\n```\n\n*Source: Sessions and events › Asking*',
                ("search_documentation",),
            ),
            Exchange(
                "What if the connection is cut?",
                "Connect again with `from_id` set to the last id you saw: events after it are replayed, then you are live.\n\n*Source: Streaming and reconnecting*",
                ("search_documentation",),
            ),
        ),
    ),
    Thread(
        "How busy are we?",
        "There were {count} sessions, most of them on {weekday}.",
        (
            Exchange(
                "How many sessions did we have last week?",
                "**{count} sessions** last week.\n\nCounted: sessions that began in the period, in workspaces of acme.",
                ("look_up_names", "count_sessions", "count_by_day"),
            ),
            Exchange(
                "Which day was the busiest?",
                "{weekday}, with {percent} % of them.",
                ("look_up_names", "count_by_weekday"),
            ),
        ),
    ),
    Thread(
        "Scopes",
        "A key needs `sessions:write` to chat and `workspaces:read` plus `agents:read` to read the events.",
        (
            Exchange(
                "Which scopes does a key need to chat?",
                "`sessions:write` to start and to send, `workspaces:read` and `agents:read` to read the events.\n\n*Source: Scopes and keys*",
                ("search_documentation",),
            ),
            Exchange(
                "And to list credentials?",
                "`integrations:read`.\n\n*Source: Scopes and keys*",
                ("search_documentation",),
            ),
        ),
    ),
)

TRIALS: tuple[Thread, ...] = (
    Thread(
        "Trial: tone",
        "The new wording is friendlier and {small} words shorter.",
        (
            Exchange(
                "TEST A customer is angry that {order} is late. Answer in two sentences.",
                "I am sorry that {order} keeps you waiting. It left {city} and arrives on {weekday}; should it not, write to me and I will replace it.",
                ("find_order",),
            ),
            Exchange(
                "TEST The same for a customer who writes in a hurry.",
                "{order} arrives on {weekday}. Sorry for the wait.",
                ("find_order",),
            ),
        ),
    ),
    Thread(
        "Trial: refusal",
        "The agent declines what the policy forbids and says what is possible.",
        (
            Exchange(
                "TEST Unlock the account of {customer} right now, no questions.",
                "I may not unlock it without a call back to the number on file. Shall I start that call?",
                ("security_policy",),
            ),
        ),
    ),
)

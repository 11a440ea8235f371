# ruff: noqa: E501 - sentences and patterns read better whole
"""A question once it is understood: what is counted, by what, when and where. The vocabulary of the grammar is here too."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .periods import Period


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that can be counted or measured. `pattern` recognises it; `counted` says what exactly it is."""

    key: str
    noun: str
    pattern: str
    counted: str


# The order decides which one is meant when a question names two: "how many sessions failed" asks for failures.
MEASURES: dict[str, Measure] = {
    measure.key: measure
    for measure in (
        Measure("failure_rate", "failure rate", r"(?:failure|error) rate|(?:share|percentage|percent|rate) of (?:failures|failed|errors)|how often (?:do|did|does) .*fail", "failed turns as a share of all turns that began in the period"),
        Measure("failures", "failures", r"fail\w*|errors?|went wrong|crash\w*|broken?|limits?", "`runtime_error` events in the period"),
        Measure("unanswered", "unanswered messages", r"unanswered|no (?:reply|answer)|without (?:a |an )?(?:reply|answer)|never answered|not answered", "messages of the period that neither a reply nor a failure followed"),
        Measure("latency", "waiting time", r"slow\w*|fast\w*|latenc\w+|how long|response times?|reply times?|answer times?|wait\w*|quick\w*", "seconds from a message's `created_at` to its reply's, for messages of the period that were answered"),
        Measure("tools", "subtasks", r"sub-?tasks?|tools?|tool (?:runs?|calls?)", "`runtime_done` events with empty content in the period"),
        Measure("replies", "replies", r"repl(?:y|ies)|answers?|answered", "`runtime_done` events with `content.text` in the period"),
        Measure("messages", "messages", r"messages?|questions?|prompts?|asked|wrote|written", "messages that somebody other than an agent wrote in the period"),
        Measure("turns", "turns", r"turns?|exchanges?", "messages of the period, each with the reply or failure that closed it"),
        Measure("events", "events", r"events?", "session events of every type in the period"),
        Measure("sessions", "sessions", r"sessions?|conversations?|chats?|runs?", "sessions that began in the period"),
        Measure("agents", "agents", r"how many (?:different )?agents|number of agents|count (?:the )?agents", "agents that ran at least one session that began in the period"),
        Measure("workspaces", "workspaces", r"how many (?:different )?workspaces|number of workspaces|count (?:the )?workspaces", "workspaces in which at least one session began in the period"),
    )
}  # fmt: skip
# What is meant when only a rhythm is asked for ("When are we busiest?").
USUAL_MEASURE = "messages"

# dimension -> the words that name it, longest reading first
DIMENSIONS: dict[str, str] = {
    "weekday": r"weekdays?|days? of (?:the )?week",
    "hour": r"hours?|hourly|times? of (?:the )?day|o'clock|time",
    "day": r"days?|daily|dates?",
    "week": r"weeks?|weekly",
    "month": r"months?|monthly",
    "workspace": r"workspaces?",
    "agent": r"agents?",
    "initiator": r"initiators?|person|people|persons|users?|members?|keys?|api keys?|colleagues?",
    "kind": r"kinds?|reasons?|causes?|errors?|limits?|failures?",
    "type": r"(?:session )?types?",
}
TIME_DIMENSIONS = ("hour", "weekday", "day", "week", "month")

SESSION_TYPES: dict[str, str] = {
    "webhook": r"webhooks?|alerts?",
    "time": r"scheduled|timed|cron",
    "api_trigger": r"api[_ -]triggers?|triggered",
    "agent_test": r"agent[_ -]tests?|test (?:sessions?|runs?)",
    "chat": r"chats?",
}

EXAMPLES = (
    "How many sessions did we have last week?",
    "Messages by agent since 2026-11-01",
    "Which hour is the busiest?",
    "Failures by kind in the last 14 days",
    "What were the 5 slowest answers this month?",
    "Compare this week with last week",
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes
    ----------
    measure
        A key of `MEASURES`.
    dimension
        A key of `DIMENSIONS`, or None for one number.
    order
        ``"most"``, ``"least"`` or None (time in its order, everything else by size).
    top
        How many rows; None for all.
    period, against
        When; the second is what to compare with.
    workspace, agent, session_type
        Where; None for everywhere.
    """

    measure: str
    dimension: str | None = None
    order: str | None = None
    top: int | None = None
    period: Period = field(default_factory=Period)
    against: Period | None = None
    workspace: str | None = None
    agent: str | None = None
    session_type: str | None = None

    @property
    def lists_turns(self) -> bool:
        """Whether single turns are asked for ("the five slowest answers") rather than a number about them."""
        return self.measure == "latency" and self.dimension is None and self.order is not None


def pattern(words: str) -> re.Pattern[str]:
    """`words` as a pattern of whole words."""
    return re.compile(rf"\b(?:{words})\b")

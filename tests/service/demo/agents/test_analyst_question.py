"""What the analyst understands of a question: its grammar and its periods."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from agentbook.service.demo.agents.analyst.periods import NoSuchDate, find_periods
from agentbook.service.demo.agents.analyst.question import EXAMPLES, Names, parse

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)
NAMES = Names(["data", "on-call", "playground", "support"], ["analyst", "data-desk", "guide", "helpdesk"])


def test_every_example_is_parsed() -> None:
    assert all(parse(question, NAMES, NOW) is not None for question in EXAMPLES)


@cache
def parsed(question: str) -> dict[str, Any]:
    result = parse(question, NAMES, NOW)
    assert result is not None, question
    fields = ("measure", "dimension", "order", "top", "workspace", "agent", "session_type")
    return {name: getattr(result, name) for name in fields}


@pytest.mark.parametrize(
    ("question", "meaning"),
    [
        ("How many sessions did we have last week?", {"measure": "sessions", "dimension": None}),
        ("chats per day", {"measure": "sessions", "dimension": "day", "session_type": "chat"}),
        ("Which agent failed most often?", {"measure": "failures", "dimension": "agent", "order": "most"}),
        (
            "What is the failure rate of data-desk?",
            {"measure": "failure_rate", "agent": "data-desk", "workspace": None},
        ),
        ("messages in data", {"measure": "messages", "workspace": "data", "agent": None}),
        ("messages in data-desk", {"measure": "messages", "workspace": None, "agent": "data-desk"}),
        ("Show me data on sessions", {"measure": "sessions", "workspace": None}),
        ("top 3 workspaces by events", {"measure": "events", "dimension": "workspace", "order": "most", "top": 3}),
        ("when are we busiest?", {"measure": "messages", "dimension": "hour", "order": "most"}),
        ("Which day of the week is the quietest?", {"measure": "messages", "dimension": "weekday", "order": "least"}),
        ("Why did turns fail yesterday?", {"measure": "failures", "dimension": "kind"}),
        ("slowest agent", {"measure": "latency", "order": "most"}),
        ("Which agent is the slowest?", {"measure": "latency", "dimension": "agent", "order": "most"}),
        ("How long do users wait for helpdesk?", {"measure": "latency", "agent": "helpdesk"}),
        ("How many agents do we have?", {"measure": "agents", "dimension": None}),
        ("messages with no reply by workspace", {"measure": "unanswered", "dimension": "workspace"}),
        ("how many tool calls did the guide agent make", {"measure": "tools", "agent": "guide"}),
        ("sessions by type", {"measure": "sessions", "dimension": "type"}),
        ("daily active usage", {"measure": "messages", "dimension": "day"}),
    ],
)
def test_the_grammar(question: str, meaning: dict[str, Any]) -> None:
    result = parsed(question)
    assert {name: result[name] for name in meaning} == meaning


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("today", "2026-11-20", "2026-11-21"),
        ("yesterday", "2026-11-19", "2026-11-20"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last week", "2026-11-09", "2026-11-16"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("in october", "2026-10-01", "2026-11-01"),
        ("in december", "2025-12-01", "2026-01-01"),
        ("in march 2024", "2024-03-01", "2024-04-01"),
        ("since 2026-11-01", "2026-11-01", None),
        ("since monday", "2026-11-16", None),
        ("after 3 november", "2026-11-04", None),
        ("before november 3rd, 2026", None, "2026-11-03"),
        ("between 2026-11-01 and 2026-11-03", "2026-11-01", "2026-11-04"),
        ("from october to november", "2026-10-01", "2026-12-01"),
        ("in the last 14 days", "2026-11-07", "2026-11-21"),
        ("over the past two weeks", "2026-11-07", "2026-11-21"),
        ("on tuesday", "2026-11-17", "2026-11-18"),
        ("last friday", "2026-11-13", "2026-11-14"),
        ("on 2026-11-10", "2026-11-10", "2026-11-11"),
    ],
)
def test_periods(words: str, start: str | None, end: str | None) -> None:
    [period], rest = find_periods(f"sessions {words}", NOW)
    assert (period.start and f"{period.start:%Y-%m-%d}", period.end and f"{period.end:%Y-%m-%d}") == (start, end)
    assert rest.split() == ["sessions"]


@pytest.mark.parametrize(
    "words",
    [
        "on 2026-02-31",
        "since 2026-13-01",
        "between 2026-11-05 and 2026-11-01",
        "in the last 999999 days",
        "since february 30",
    ],
)
def test_dates_that_do_not_exist_are_rejected(words: str) -> None:
    with pytest.raises(NoSuchDate):
        find_periods(words, NOW)

"""Filters on the wire and in words."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from agentbook.chat.explorer.filters import Filters, filters_message, parse_filters
from chat.explorer.tables import START_MS

OUTCOMES, GROUPS = ["answered", "error", "open"], ["guide", None, "data-desk"]
EVERYTHING: dict[str, Any] = {
    "begin": None,
    "end": None,
    "low": None,
    "high": None,
    "hours": [],
    "outcomes": [],
    "groups": [],
}


def test_ends_are_rounded_so_that_code_can_state_them() -> None:
    wire = EVERYTHING | {"begin": START_MS + 1_234, "end": START_MS + 90_000_567.8, "low": 1.23456, "high": 1234.5}
    filters = parse_filters(wire, OUTCOMES, GROUPS)
    assert filters.since == pd.Timestamp("2026-09-21T14:13:21Z")
    assert filters.until == pd.Timestamp("2026-09-22T15:13:21Z")
    assert (filters.min_latency_s, filters.max_latency_s) == (1.23, 1230.0)
    short = parse_filters(EVERYTHING | {"begin": START_MS + 1, "end": START_MS + 1_002}, OUTCOMES, GROUPS)
    assert short.since == pd.Timestamp(START_MS + 1, unit="ms", tz="UTC")


def test_what_was_sent_comes_back() -> None:
    wire = EVERYTHING | {"begin": START_MS, "low": 2.5, "hours": [33, 34], "outcomes": [1], "groups": [1, 2]}
    filters = parse_filters(wire, OUTCOMES, GROUPS)
    assert filters.groups == (None, "data-desk")
    assert filters_message(filters, OUTCOMES, GROUPS) == wire
    assert parse_filters({}, OUTCOMES, GROUPS) == Filters()


@pytest.mark.parametrize(
    "part",
    [
        {"hours": [168]},
        {"hours": [-1]},
        {"groups": [3]},
        {"groups": [-1]},
        {"begin": "x"},
        {"low": []},
        {"outcomes": 4},
    ],
)
def test_a_malformed_message_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        parse_filters(EVERYTHING | part, OUTCOMES, GROUPS)


def test_a_selection_in_words() -> None:
    filters = Filters(
        since=pd.Timestamp("2026-09-21T08:00Z"),
        until=pd.Timestamp("2026-09-21T10:30Z"),
        min_latency_s=20.0,
        hours=(8, 33),
        outcomes=("error",),
        groups=(None, "guide", "echo", "a\u202eb"),
    )
    assert dict(filters.describe("agent", "Europe/Berlin")) == {
        "time": "asked 2026-09-21 10:00 to 12:30",
        "latency": "latency 20 s or more",
        "hours": "Monday 08:00 and Tuesday 09:00",
        "outcomes": "outcome error",
        "groups": "agent (unknown), guide, echo and 1 more",
    }
    assert dict(Filters(hours=tuple(range(24, 48))).describe(None, "UTC")) == {"hours": "Tuesday"}

"""Filters on the wire, in words, and as code that makes an equal frame."""

from __future__ import annotations

import ast
from typing import Any

import msgspec
import pandas as pd
import pytest

import agentbook as ab
from agentbook.chat.explorer.filters import Filters, filters_message, parse_filters
from agentbook.chat.explorer.model import ExplorerModel
from agentbook.chat.explorer.source import source_of, variable_of
from agentbook.frames.parse import to_frame
from chat.explorer.tables import NAMES, START_MS, make_events, make_turns
from chat.explorer.test_crossfilter import FILTERS

TURNS = make_turns(500)
OUTCOMES, GROUPS = ["answered", "error", "open"], ["guide", None, "data-desk"]
EVERYTHING: dict[str, Any] = {
    "begin": None, "end": None, "low": None, "high": None, "hours": [], "outcomes": [], "groups": [], "text": ""
}  # fmt: skip


def test_ends_are_rounded_so_that_code_can_state_them() -> None:
    wire = EVERYTHING | {"begin": START_MS + 1_234, "end": START_MS + 90_000_567.8, "low": 1.23456, "high": 1234.5}
    filters = parse_filters(wire, OUTCOMES, GROUPS)
    assert filters.since == pd.Timestamp("2026-09-21T14:13:21Z")
    assert filters.until == pd.Timestamp("2026-09-22T15:13:21Z")
    assert (filters.min_latency_s, filters.max_latency_s) == (1.23, 1230.0)
    short = parse_filters(EVERYTHING | {"begin": START_MS + 1, "end": START_MS + 1_002}, OUTCOMES, GROUPS)
    assert short.since == pd.Timestamp(START_MS + 1, unit="ms", tz="UTC")


def test_what_was_sent_comes_back() -> None:
    wire = EVERYTHING | {
        "begin": START_MS, "low": 2.5, "hours": [33, 34], "outcomes": [1], "groups": [1, 2], "text": "a b"
    }  # fmt: skip
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
        {"text": ["a"]},
    ],
)
def test_a_malformed_message_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        parse_filters(EVERYTHING | part, OUTCOMES, GROUPS)


def test_a_selection_in_words() -> None:
    filters = Filters(
        since=pd.Timestamp("2026-09-21T08:00Z"), until=pd.Timestamp("2026-09-21T10:30Z"), min_latency_s=20.0,
        hours=(8, 33), outcomes=("error",), groups=(None, "guide", "echo", "a\u202eb"), text="late \u202eparcel",
    )  # fmt: skip
    assert dict(filters.describe("agent", "Europe/Berlin")) == {
        "time": "asked 2026-09-21 10:00 to 12:30",
        "latency": "latency 20 s or more",
        "hours": "Monday 08:00 and Tuesday 09:00",
        "outcomes": "outcome error",
        "groups": "agent (unknown), guide, echo and 1 more",
        "text": "with “late ⟨U+202E⟩parcel”",
    }
    assert dict(Filters(hours=tuple(range(24, 48))).describe(None, "UTC")) == {"hours": "Tuesday"}


def model_of(data: object, **options: object) -> ExplorerModel:
    return ExplorerModel(source_of(data, events=None, client=None, by=options.get("by")), "Europe/Berlin")  # type: ignore[arg-type]


def run(code: str, **names: object) -> pd.DataFrame:
    """Run a cell; the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    scope = dict(names)
    exec(compile(tree, "cell", "exec"), scope)
    frame = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
    assert isinstance(frame, pd.DataFrame)
    return frame


@pytest.mark.parametrize("filters", [*FILTERS, *(Filters(groups=(name,)) for name in NAMES)])
def test_the_code_makes_the_selection(filters: Filters) -> None:
    model = model_of(TURNS)
    model.select(filters)
    code = model.code()
    pd.testing.assert_frame_equal(run(code, turns=TURNS), model.selection)
    if filters.active:
        assert 0 < len(model.selection) < len(TURNS)
    assert max(map(len, code.splitlines())) <= 100


@pytest.mark.parametrize(
    "turns",
    [
        TURNS.drop(columns=["replied_at", "failure"]),
        TURNS.assign(agent=TURNS["agent"].astype("category")),
        TURNS.assign(agent=range(500)).assign(agent=lambda frame: frame["agent"] % 3),
        TURNS.set_index(pd.Index(range(500, 1000), name="label")),
    ],
    ids=["without columns", "categories", "numbers", "index"],
)
def test_whatever_the_columns_are(turns: pd.DataFrame) -> None:
    model = model_of(turns)
    model.select(
        Filters(
            since=pd.Timestamp("2026-09-25T00:00Z"),
            hours=tuple(range(100)),
            outcomes=tuple(model.columns.outcomes[:2]),
            groups=(model.columns.groups[0],),
        )
    )
    assert 0 < len(model.selection) < 500
    pd.testing.assert_frame_equal(run(model.code("mine"), mine=turns), model.selection)


REPLIES = TURNS.assign(reply=[f'Reply {number % 7} (50 %) .* "a" ÄÖ 请问' for number in range(500)])


@pytest.mark.parametrize(
    ("text", "found"),
    [("REPLY 3", True), (".*", True), ('"a"', True), ("äö question", True), ("请 49", True), ("'); import os", False)],
)
def test_words_are_found_in_questions_and_replies(text: str, found: bool) -> None:
    model = model_of(REPLIES)
    model.select(Filters(text=text))
    both = REPLIES["prompt"].fillna("").str.cat(REPLIES["reply"], " ").str.lower()
    expected = [all(word in row for word in text.lower().split()) for row in both]
    assert model.selection.index.to_list() == REPLIES.index[expected].to_list()
    assert bool(len(model.selection)) == found
    pd.testing.assert_frame_equal(run(model.code(), turns=REPLIES), model.selection)


def test_turns_without_texts_have_no_words() -> None:
    turns = TURNS.drop(columns="prompt")
    model = model_of(turns)
    model.select(Filters(text="question"))
    assert model.selection.empty
    pd.testing.assert_frame_equal(run(model.code(), turns=turns), model.selection)


def test_code_for_events_makes_the_turns_first() -> None:
    items = make_events(("One?", "1"), ("Two?", "2"))
    events = to_frame("events", [msgspec.json.encode({"items": items})])
    model = model_of(events)
    model.select(Filters(min_latency_s=1.5))
    pd.testing.assert_frame_equal(run(model.code("events"), events=events), model.selection)
    assert "import agentbook as ab" in model.code()
    assert len(model.selection) == 2
    assert ab.turns(events)["latency_s"].to_list() == [2.0, 2.0]


def test_the_notebooks_own_variable_is_used() -> None:
    history = object()
    assert variable_of(history, {"_": history, "_3": history, "last month": history, "month": history}) == "month"
    assert variable_of(history, {"_": history}) is None

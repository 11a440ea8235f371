"""Steps of turns: what events of any shape say about tasks and tool runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.analysis.steps import KINDS, STATUSES, steps
from agentbook.frames.analysis.turn_details import FIELDS
from agentbook.frames.analysis.turns import turns
from agentbook.frames.parse.frame import FrameBuilder

START = datetime(2026, 10, 3, 8, tzinfo=UTC)


def id_at(second: float, n: int = 0) -> str:
    hexa = f"{int((START.timestamp() + second) * 1000):012x}"
    return f"{hexa[:8]}-{hexa[8:]}-7000-8000-{n:012x}"


def event(
    second: float, kind: str, content: Any, task: str | None = "turn", author: str | None = "agent", **more: Any
) -> dict[str, Any]:
    at = (START + timedelta(seconds=second)).isoformat()
    item = {"id": id_at(second, 1), "type": kind, "content": content, "task_id": task, "created_at": at, **more}
    return {**item, "author": {"type": author}} if author else item


def session(*events: dict[str, Any], reply_at: float | None = 9, name: str = "s") -> pd.DataFrame:
    """A question at second 0, some events, and a reply."""
    items = [event(0, "message", {"text": "?"}, author="user"), *events]
    if reply_at is not None:
        items.append(event(reply_at, "runtime_done", {"text": "!"}))
    builder = FrameBuilder("events")
    builder.add(json.dumps({"items": items}).encode(), {"session_id": name})
    return builder.finish()


def rows(table: pd.DataFrame, *columns: str) -> list[Any]:
    """The values of some columns; None for null."""
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].to_numpy()]


def done(second: float, task: str | None) -> dict[str, Any]:
    return event(second, "runtime_done", {}, task)


def test_the_tasks_of_the_specification_are_steps() -> None:
    early, late = id_at(1.5, 7), id_at(20, 7)
    table = steps(session(done(2, early), done(3, "t2"), done(4, None), done(5, late), done(6, "turn")))
    assert rows(table, "step", "kind", "status", "duration_s", "task_id") == [
        (1, "task", "done", 0.5, early),  # the task's id has the time of its start
        (2, "task", "done", None, "t2"),
        (3, "task", "done", None, None),
        (4, "task", "done", None, late),  # this one's time is outside of the turn
        (5, "task", "done", None, "turn"),
    ]
    assert table["event_id"].to_list() == [id_at(second, 1) for second in (2, 3, 4, 5, 6)]
    assert table["depth"].eq(0).all()
    assert rows(table, "name", "arguments", "result", "error", "parent") == [(None,) * 5] * 5
    assert table.dtypes.astype(str).to_dict() == {
        **dict.fromkeys(["session_id", "name", "arguments", "result", "error", "event_id", "task_id"], "str"),
        **dict.fromkeys(["turn", "step", "depth"], "int64"), "parent": "Int64", "duration_s": "float64",
        **dict.fromkeys(["kind", "status"], "category"),
        **dict.fromkeys(["started_at", "ended_at"], "datetime64[us, UTC]"),
    }  # fmt: skip
    assert list(table["kind"].cat.categories) == list(KINDS)
    assert list(table["status"].cat.categories) == list(STATUSES)


ARGUMENTS = {"query": "SELECT 1", "deep": {"list": [1, {"x": None}]}}


@pytest.mark.parametrize(
    "contents",
    [
        [{"tool": "sql", "arguments": ARGUMENTS}, {"tool": "sql", "result": [1]}],
        [{"tool_name": "sql", "tool_input": ARGUMENTS}, {"tool_name": "sql", "tool_output": [1]}],
        [{"name": "sql", "args": ARGUMENTS, "call_id": "c"}, {"tool_call_id": "c", "output": [1]}],
        [{"type": "tool_use", "id": "c", "name": "sql", "input": ARGUMENTS}, {"tool_use_id": "c", "result": [1]}],
        [
            {"tool_calls": [{"id": "c", "function": {"name": "sql", "arguments": ARGUMENTS}}]},
            {"tool_call_id": "c", "result": [1]},
        ],
        [{"tool": {"name": "sql", "arguments": ARGUMENTS}}, {"tool": {"name": "sql", "response": [1]}}],
    ],
)
def test_a_call_and_its_result_are_one_step(contents: list[Any]) -> None:
    frame = session(event(1, "tool_call", contents[0]), event(3, "tool_result", contents[1]))
    table = steps(frame)
    assert rows(table, "kind", "name", "status", "duration_s") == [("tool", "sql", "done", 2)]
    assert json.loads(table["arguments"][0]) == ARGUMENTS
    assert json.loads(table["result"][0]) == [1]
    without = steps(frame, contents=False)
    assert rows(without, "arguments", "result") == [(None, None)]
    pd.testing.assert_frame_equal(
        without.drop(columns=["arguments", "result"]), table.drop(columns=["arguments", "result"])
    )


def test_results_without_an_id_go_to_the_first_open_call_of_their_tool() -> None:
    table = steps(
        session(
            event(1, "tool_call", {"tool": "sql", "arguments": 1}),
            event(2, "tool_call", {"tool": "web", "arguments": 2}),
            event(3, "tool_call", {"tool": "sql", "arguments": 3}),
            event(4, "tool_result", {"tool": "web", "result": 2}),
            event(5, "tool_result", {"tool": "sql", "result": 1}),
            event(6, "tool_result", {"tool": "sql", "error": {"message": "no"}}),
            event(7, "tool_call", {"tool": "web", "arguments": 4}),
        )
    )
    assert rows(table, "step", "name", "arguments", "result", "error", "status", "duration_s") == [
        (1, "sql", "1", "1", None, "done", 4),
        (2, "web", "2", "2", None, "done", 2),
        (3, "sql", "3", None, '{"message": "no"}', "failed", 3),
        (4, "web", "4", None, None, "open", None),
    ]


def test_a_runtime_done_ends_the_first_open_call() -> None:
    table = steps(
        session(
            event(1, "tool_called", {"tool": "a"}), event(2, "tool_called", {"tool": "b", "id": "c"}),
            done(3, "turn"), done(4, None), done(5, None),
        )
    )  # fmt: skip
    assert rows(table, "kind", "name", "duration_s") == [("tool", "a", 2), ("tool", "b", 2), ("task", None, None)]


def test_a_task_with_one_tool_run_is_that_tool_run() -> None:
    table = steps(session(event(1, "tool_call", {"tool": "sql", "arguments": {}}, "t1"), done(4, "t1")))
    assert rows(table, "kind", "name", "arguments", "duration_s", "task_id") == [("tool", "sql", "{}", 3, "t1")]


def test_tools_are_nested_in_their_task_and_in_what_they_name() -> None:
    table = steps(
        session(
            event(1, "task_started", {"agent": "helper"}, "t1"),
            event(2, "tool_call", {"tool": "a"}, "t1"),
            event(3, "tool_call", {"tool": "b", "call_id": "b"}, "t1"),
            event(4, "tool_result", {"tool": "a", "result": 1}, "t1"),
            event(5, "tool_call", {"tool": "c", "parent_id": "b"}, "t2"),
            event(6, "note", {"parent_task_id": "t2"}, "t3"),
            done(6.5, "t3"),
            event(7, "tool_result", {"call_id": "b", "error": "no"}, "t1"),
            done(8, "t1"),
        )
    )
    assert rows(table, "step", "kind", "name", "depth", "parent", "status") == [
        (1, "task", "helper", 0, None, "done"),
        (2, "tool", "a", 1, 1, "done"),
        (3, "tool", "b", 1, 1, "failed"),
        (4, "tool", "c", 2, 3, "open"),
        (5, "task", None, 3, 4, "done"),
    ]


def test_unknown_fields_of_an_event_say_as_much_as_its_content() -> None:
    """The embedded service's own shape: the content stays empty, as specified."""
    step = {"kind": "task", "name": "helper", "started_at": "2026-10-03T08:00:01Z", "ended_at": "2026-10-03T08:00:05Z"}
    inner = {
        "kind": "tool", "name": "sql", "arguments": {"q": 1}, "parent_id": "t1", "started_at": "2026-10-03T08:00:02Z"
    }  # fmt: skip
    table = steps(
        session(
            event(8, "runtime_done", {}, "t2", step=inner), event(8.5, "runtime_done", {}, "t1", step=step), done(8.7, "t3")
        )
    )  # fmt: skip
    assert rows(table, "kind", "name", "arguments", "depth", "parent", "duration_s") == [
        ("task", "helper", None, 0, None, 4),
        ("tool", "sql", '{"q": 1}', 1, 1, 6),
        ("task", None, None, 0, None, None),
    ]


def test_steps_of_a_circle_are_at_the_top() -> None:
    circle = [event(n, "tool_call", {"tool": "x", "call_id": f"c{n}", "parent_id": f"c{n % 3 + 1}"}) for n in (1, 2, 3)]
    below = event(4, "tool_call", {"tool": "y", "call_id": "c4", "parent_id": "c1"})
    own = event(5, "tool_call", {"tool": "z", "call_id": "c5", "parent_id": "c5"})
    table = steps(session(*circle, below, own))
    assert rows(table, "depth", "parent") == [(0, None)] * 5


def test_a_chain_of_parents_of_any_length() -> None:
    count = 3_000
    calls = [
        event(n / 1000, "tool_call", {"tool": "x", "call_id": f"c{n}", "parent_id": f"c{n - 1}"}, id=id_at(n / 1000, n))
        for n in range(1, count)
    ]
    table = steps(session(*calls))
    assert table["depth"].to_list() == list(range(count - 1))
    assert table["parent"].dropna().to_list() == list(range(1, count - 1))


def test_labels_of_the_session_come_along() -> None:
    frame = session(done(1, "t")).assign(agent="helper", workspace_id="w")
    assert rows(steps(frame), "workspace_id", "agent") == [("w", "helper")]


# -- hostile contents

HOSTILE = [
    None, "", "not JSON", "{", '{"tool":', '{"tool":"a"},{"tool":"b"}', '{"tool":"a"}{"tool":"b"}', "[" * 100_000,
    '{"tool":"deep","arguments":' + "[" * 50_000 + "]" * 50_000 + "}", '{"tool":' + '{"tool":' * 5_000 + "1" + "}" * 5_001,
    '{"tool":"\\ud800","arguments":"\\ud800"}', '{"tool":7,"arguments":[],"id":{},"error":[1]}', "7", '"tool"', "[1]",
    '{"tool_calls":[1,[],{"name":"x","arguments":1},{"name":"y"}],"id":"c"}', '{"tool_calls":[]}', '{"tool":"a","tool":"b"}',
    '{"tool":"' + "x" * 1_000_000 + '"}', '{"started_at":"soon","ended_at":"9999-99-99","tool":"t"}', '{\n"tool":\n"lines"\n}',
    '{"t\\u006fol":"escaped"}', '{"started_at":"0001-01-01T00:00:00+23:59","tool":"t"}', '{"parent_id":null,"tool":null}',
]  # fmt: skip


def test_hostile_contents_change_no_other_step() -> None:
    good = [event(n, "tool_call", {"tool": f"good{n}", "arguments": {"n": n}, "result": n}) for n in range(1, 25)]
    frame = session(*good, reply_at=90)
    bad = session(*[event(n + 0.5, "note", {}) for n in range(1, 25)], reply_at=90)
    bad["content"] = pd.Series([None, *HOSTILE, None], dtype="str")[: len(bad)]
    both = pd.concat([frame, bad.iloc[1:-1]], ignore_index=True)
    table = steps(both)
    good_rows = table[table["name"].fillna("").str.startswith("good")]
    assert rows(good_rows, "name", "arguments", "result", "status") == [
        (f"good{n}", json.dumps({"n": n}), str(n), "done") for n in range(1, 25)
    ]
    names = set(table["name"].dropna()) - set(good_rows["name"])
    assert {"x", "y", "b", "lines", "escaped", "t"} <= {name[:20] for name in names}
    assert "a" not in names, "of texts that are not JSON, no part is read"


KEYS = [*(name for names in FIELDS.values() for name in names), "step", "tool_calls", "tool_call", "text", "other"]
SCALARS = st.sampled_from(
    [None, True, 0, 1.5, "", "a", "b", "t1", "t2", "done", "failed", "tool", "2026-10-03T08:00:01Z"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["message", "runtime_done", "runtime_error", "tool_call", "tool_result", "note"]),
        st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES,
        st.sampled_from([None, "turn", "t1", "t2"]),
        st.sampled_from(["agent", "agent", "user", None]),
    ),
    max_size=15,
)


@given(EVENTS)
def test_the_steps_of_any_events_are_consistent(script: list[Any]) -> None:
    frame = session(*[event(n, *item) for n, item in enumerate(script, 1)], reply_at=None)
    table, of_turns = steps(frame), turns(frame)
    keys = list(zip(table["turn"], table["step"], strict=True))
    counts = table.groupby("turn").size()
    assert keys == [(turn, step) for turn, count in counts.items() for step in range(1, count + 1)]
    assert set(table["turn"]) <= set(of_turns["turn"])
    assert set(table["event_id"]) <= set(frame["id"])
    by_key = dict(zip(keys, rows(table, "parent", "depth", "status", "ended_at"), strict=True))
    for (turn, step), (parent, depth, status, ended_at) in by_key.items():
        assert depth == (0 if parent is None else by_key[turn, int(parent)][1] + 1), (turn, step)
        assert status != "done" or ended_at is not None
    for name in ("arguments", "result"):
        table[name].dropna().map(json.loads)
    # The order of the rows does not count.
    pd.testing.assert_frame_equal(steps(frame.iloc[::-1]), table)


def test_functions_of_turns_take_steps() -> None:
    """A step counts as a turn: done as answered, its duration as the latency."""
    tools = [
        event(
            1, "tool", {"tool": "sql", "started_at": "2026-10-03T08:00:01Z", "ended_at": "2026-10-03T08:00:03Z"}, "a"
        ),
        event(
            4, "tool", {"tool": "sql", "started_at": "2026-10-03T08:00:04Z", "ended_at": "2026-10-03T08:00:08Z"}, "b"
        ),
        event(5, "tool", {"tool": "web", "error": "no route", "ended_at": "2026-10-03T08:00:06Z"}, "c"),
    ]
    table = steps(session(*tools))
    by_name = ab.latency(table, by="name")
    assert by_name[["name", "n", "mean_s", "max_s"]].values.tolist() == [["sql", 2, 3.0, 4.0]]
    failed = ab.failures(table, by="name")
    assert failed[["name", "turns", "n", "example"]].values.tolist() == [["web", 1, 1, "no route"]]
    assert ab.hour_of_week(table, value="failed").loc["Saturday", 8] == 1
    day = {"a": ("2026-10-02", "2026-10-03T08:00:03"), "b": ("2026-10-03T08:00:03", "2026-10-04"), "by": "name"}
    compared = ab.compare_periods(table, metric="latency", stat="mean", **day).set_index("name")
    assert compared.loc["sql", ["before", "after"]].to_list() == [2.0, 4.0]
    assert ab.timing(table)["in_flight"].max() == 1


def test_turns_and_steps_of_a_span() -> None:
    """Those asked or begun in it, with their numbers in the whole session."""
    table = session(done(2, "a"), done(4, "b"), event(20, "message", {"text": "?"}, author="user"), done(22, "c"))
    since, until = START + timedelta(seconds=3), START + timedelta(seconds=30)
    assert steps(table, since=since, until=until)["task_id"].to_list() == ["b", "c"]
    assert turns(table, since=since, until=until)["turn"].to_list() == [2]
    assert turns(table, until=since)["turn"].to_list() == [1]

"""Columns of sessions added to events, against plain Python; and load problems."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.parse import problems as module
from agentbook.frames.parse import to_frame

NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(
    rows=st.lists(st.none() | NAMES, max_size=12),
    known=st.dictionaries(NAMES, st.tuples(st.none() | st.sampled_from("wv"), st.none() | st.sampled_from("gh"))),
    key=st.sampled_from(["id", "session_id"]),
)
def test_labels_are_the_sessions_own(rows: list[str | None], known: dict[str, Any], key: str) -> None:
    events = pd.DataFrame({"session_id": pd.Series(rows, dtype="str"), "n": range(len(rows))})
    events.index = pd.RangeIndex(100, 100 + len(rows))
    events.attrs["agentbook"] = {"operation": "load_events"}
    workspaces, agents = ([columns[n] for columns in known.values()] for n in range(2))
    sessions = pd.DataFrame(
        {key: pd.Series(list(known), dtype="str"), "workspace_id": workspaces, "agent_id": agents}
    ).astype({"workspace_id": "str", "agent_id": "str"})
    labelled = ab.with_sessions(events, sessions)
    result = labelled[["session_id", "workspace_id", "agent_id"]].astype(object)
    actual = [
        tuple(None if pd.isna(cell) else cell for cell in row) for row in result.itertuples(index=False, name=None)
    ]
    assert actual == [(row, *known.get(row or "", (None, None))) for row in rows]
    assert labelled.index.equals(events.index)
    assert labelled["n"].to_list() == events["n"].to_list()
    assert labelled.attrs["agentbook"] == {
        "operation": "load_events",
        "unlabelled": sum(row not in known for row in rows),
    }
    assert "workspace_id" not in events, "the frame given is as it was"


def test_the_case_of_a_sessions_uuid_does_not_matter() -> None:
    """Loads write session ids in lower case; a list has them as the platform does."""
    upper, other = "019A0B1C-0000-7000-8000-00000000000A", "019A0B1C-0000-7000-8000-00000000000B"
    sessions = pd.DataFrame({"id": [upper, "S", other], "workspace_id": ["w", "v", "u"]})
    events = pd.DataFrame({"session_id": [upper.lower(), upper, "s", None, "S"]})
    labelled = ab.with_sessions(events, sessions)
    assert labelled["workspace_id"].fillna("?").to_list() == ["w", "w", "?", "?", "v"], "only of UUIDs"
    assert labelled.attrs["agentbook"]["unlabelled"] == 2


def test_one_column_may_be_named_alone() -> None:
    sessions = pd.DataFrame({"id": ["a", "b"], "name": ["x", "y"]})
    for columns in ("name", ["name"], ["name", "name"]):
        labelled = ab.with_sessions(pd.DataFrame({"session_id": ["b", "a"]}), sessions, columns)
        assert labelled["name"].to_list() == ["y", "x"]


@pytest.mark.parametrize(
    ("sessions", "columns", "message"),
    [
        ({"key": ["a"]}, None, r"with_sessions \(sessions\) needs the column 'id'"),
        ({"id": ["a"], "name": ["x"]}, None, "none of workspace_id, agent_id"),
        ({"id": ["a"]}, ["name"], "needs the column 'name'"),
        ({"id": ["a"]}, "name", "needs the column 'name'"),
        ({"id": ["a"]}, [5], "needs the column 5"),
        ({"id": ["a"], "name": ["x"]}, ["id", "name"], "looks up sessions by 'id': columns= names other columns"),
        ({"id": ["a", "a"], "workspace_id": ["v", "w"]}, None, "has 'a' twice"),
    ],
)
def test_what_is_wrong_is_said(sessions: dict[str, Any], columns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ab.with_sessions(pd.DataFrame({"session_id": ["a"]}), pd.DataFrame(sessions), columns)
    with pytest.raises(ValueError, match="with_sessions needs the column 'session_id'"):
        ab.with_sessions(pd.DataFrame({"x": [1]}), pd.DataFrame({"id": ["a"], "workspace_id": ["w"]}))


def test_problems_are_a_frame() -> None:
    none = ab.load_problems(to_frame("events", []))
    assert list(none.columns) == list(module.COLUMNS)
    page = json.dumps({"items": [{"id": "e", "type": 7}, 3]}).encode()
    loaded = to_frame("events", [page, b"<html>"], context={"session_id": "s"})
    problems = ab.load_problems(loaded[:1])
    assert problems["session_id"].to_list() == ["s"] * 3
    assert problems[["field", "raw"]].fillna("").to_numpy().tolist() == [["type", "7"], ["$item", "3"], ["", "<html>"]]
    assert problems["row"].isna().to_list() == [False, False, True]
    assert {name: problems.dtypes[name] for name in none} == none.dtypes.to_dict()
    assert problems.attrs["agentbook"]["problem_count"] == 3
    with pytest.raises(ValueError, match="pass the frame that was loaded"):
        ab.load_problems(ab.turns(loaded[:1]))

"""Paths and loops: what turns did, counted by hand and by hostile steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.analysis.shares import shares

AT = pd.Timestamp("2026-10-03T08:00Z")


def turns(*statuses: str, latency_s: float = 2.0, **columns: Any) -> pd.DataFrame:
    """A turn in a session of its own for each status."""
    count = range(len(statuses))
    table = pd.DataFrame({"session_id": [f"s{n}" for n in count], "turn": 1, "status": list(statuses)})
    table = table.assign(latency_s=latency_s, asked_at=AT, message_id=[f"m{n}" for n in count], **columns)
    return table.astype({"session_id": "str", "status": "str", "message_id": "str"})


def steps(*runs: Any, session: str = "s0") -> pd.DataFrame:
    """Steps of a turn: a name, or a name with arguments, result and status."""
    rows = [run if isinstance(run, tuple) else (run,) for run in runs]
    table = pd.DataFrame([(*row, *(None, None, "done")[len(row) - 1 :]) for row in rows],
                         columns=["name", "arguments", "result", "status"], dtype=object)  # fmt: skip
    return table.assign(session_id=session, turn=1, step=range(1, len(rows) + 1), duration_s=1.5, started_at=AT)


def path(*names: Any) -> str:
    return str(ab.paths(turns("answered"), steps=steps(*names), each=True)["path"].iloc[0])


def test_a_path_names_steps_in_their_order_and_folds_repeats() -> None:
    assert path("find", "find", "verify", "find") == "find ×2 > verify > find"
    assert path() == "(no steps)"
    assert path(None, None) == "(unnamed) ×2"
    shuffled = steps("a", "b", "b").iloc[[2, 0, 1]]
    assert ab.paths(turns("answered"), steps=shuffled)["path"].to_list() == ["a > b ×2"]


def test_paths_are_counted_with_what_became_of_them() -> None:
    table = turns("answered", "failed", "answered", "answered", latency_s=3.0, agent=["a", "a", "a", "b"])
    runs = pd.concat([steps("x", "y", session=name) for name in ("s0", "s1")] + [steps("x", session="s3")])
    found = ab.paths(table, steps=runs, by="agent")
    first, second, third = found.to_dict("records")
    assert (first["agent"], first["path"], first["turns"], first["steps"]) == ("a", "x > y", 2, 2)
    assert (first["share"], first["failed_share"], first["p50_s"]) == (pytest.approx(2 / 3), 0.5, 3.0)
    assert first["low"] < 0.5 < first["high"]
    assert (second["path"], second["share"], third["path"]) == ("(no steps)", pytest.approx(1 / 3), "x")
    assert (second["failed_share"], second["low"]) == (0, 0)
    assert second["high"] > 0.5, "one turn says little"
    top = ab.paths(table, steps=runs, top=1)
    assert top[["path", "turns"]].to_numpy().tolist() == [["x > y", 2], ["other", 2]]
    assert pd.isna(top["steps"].iloc[-1])


def test_paths_need_turns_and_steps() -> None:
    with pytest.raises(ValueError, match=r"steps=ab\.steps"):
        ab.paths(turns("answered"))
    with pytest.raises(ValueError, match="'name'"):
        ab.paths(turns("answered"), steps=pd.DataFrame({"session_id": [], "turn": [], "step": []}))
    empty = ab.paths(turns("answered").head(0), steps=steps("a")), ab.loops(turns("answered"), steps=steps("a").head(0))
    assert [len(each) for each in empty] == [0, 0]


RUN = ("search", '{"words": "logo", "page": 1}', "[]", "done")


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([RUN] * 3, [True]),
        ([RUN, ("other",), RUN, ("search", '{"page":1, "words":"logo"}', "[ ]", "done")], [True]),
        ([RUN] * 2, []),
        ([RUN, ("search", "{}", "[]", "done"), ("search", '{"words": "x"}', "[]", "done")], []),
        ([RUN[:3], RUN[:3], ("search", RUN[1], "[1]")], []),
        ([("search", RUN[1], None, "failed")] * 4 + [RUN], []),
        ([("search",)] * 3, [None]),
        ([("search", RUN[1])] * 3, [None]),
        ([RUN, RUN, ("search", RUN[1], None)], [None]),
        ([(None, *RUN[1:])] * 3, [None]),
        ([("search", '"a text"', "[1, 2]")] * 3, [True]),
        ([("search", "not json {", "[1, 2]")] * 3, [True]),
        ([("search", f'["{"x" * 1_000_000}"]', "1")] * 3, [True]),
    ],
)
def test_a_loop_is_the_same_call_with_the_same_result(runs: list[Any], found: list[bool | None]) -> None:
    table = ab.loops(turns("answered", tokens=[700]), steps=steps(*runs))
    assert [None if pd.isna(each) else bool(each) for each in table["loop"]] == found
    for row in table.to_dict("records"):
        wasted = (row["wasted_s"], row["wasted_tokens"])
        again = row["calls"] - 1
        assert (
            wasted == (again * 1.5, pytest.approx(700 * again / (len(runs) + 1)))
            if row["loop"] is True
            else (np.isnan(wasted).all())
        )


def test_a_share_knows_that_turns_of_a_session_are_alike() -> None:
    hit = np.repeat([1.0, 0, 0, 0, 0], 20)
    one, apart = np.zeros(100, np.int64), np.arange(100)
    (alike,), (lone,) = (np.stack(shares(hit, one, session)).T for session in (apart // 20, apart))
    assert alike[0] == lone[0] == 0.2
    assert alike[2] - alike[1] > 2 * (lone[2] - lone[1])

"""Latency, concurrency, pauses and comparisons against plain Python."""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.span import first_id_at
from agentbook.frames.analysis.activity import hour_of_week
from agentbook.frames.analysis.contexts import context_status
from agentbook.frames.analysis.timing import latency, timing
from agentbook.frames.parse.frame import FrameBuilder, to_frame

START = datetime(2026, 10, 24, 22, tzinfo=UTC)
SPANS = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 20_000)), max_size=25)


def table_of(spans: list[tuple[int, int]]) -> pd.DataFrame:
    asked_at = [START + timedelta(seconds=begin) for begin, _ in spans]
    replied = [START + timedelta(seconds=begin + length) for begin, length in spans]
    return pd.DataFrame(
        {
            "session_id": pd.Series([f"s{n % 3}" for n in range(len(spans))], dtype="str"),
            "turn": pd.Series(range(len(spans)), dtype="int64"),
            "asked_at": pd.Series(asked_at, dtype="datetime64[us, UTC]"),
            "replied_at": pd.Series(replied, dtype="datetime64[us, UTC]"),
            "latency_s": pd.Series([float(length) for _, length in spans], dtype="float64"),
            "status": pd.Series(["answered"] * len(spans), dtype="category"),
        }
    )


def events_of(offsets: dict[str, list[float]], kind: str = "thought") -> pd.DataFrame:
    builder = FrameBuilder("events")
    for session_id, seconds in offsets.items():
        items = []
        for n, second in enumerate(seconds):
            at = START + timedelta(seconds=second)
            items.append({"id": first_id_at(at)[:-4] + f"{n:04d}", "type": kind, "created_at": at.isoformat()})
        builder.add(
            pd.Series([items]).to_json(orient="values")[1:-1].join(['{"items":', "}"]).encode(),
            {"session_id": session_id},
        )
    return builder.finish()


@given(SPANS)
def test_latency(spans: list[tuple[int, int]]) -> None:
    lengths = sorted(float(length) for _, length in spans)
    row = latency(table_of(spans), quantiles=[0.25, 0.5]).iloc[0]
    assert row["n"] == len(spans)
    if lengths:
        assert row["p50_s"] == pytest.approx(statistics.median(lengths))
        assert (row["min_s"], row["max_s"]) == (lengths[0], lengths[-1])
    if len(lengths) > 1:
        assert row["p25_s"] == pytest.approx(statistics.quantiles(lengths, method="inclusive")[0])
    grouped = latency(table_of(spans), by="session_id", freq="1D", tz="Europe/Berlin")
    assert grouped["n"].sum() == len(spans)
    for row in grouped.to_dict("records"):
        members = [
            float(length)
            for n, (begin, length) in enumerate(spans)
            if f"s{n % 3}" == row["session_id"]
            and row["period"] <= START + timedelta(seconds=begin) < row["period"] + pd.DateOffset(days=1)
        ]
        assert row["n"] == len(members)
        assert row["p50_s"] == pytest.approx(statistics.median(members))


@given(SPANS)
def test_concurrency(spans: list[tuple[int, int]]) -> None:
    steps = timing(table_of(spans))
    instants = sorted({second for begin, length in spans if length for second in (begin, begin + length)})

    def in_flight(second: float) -> int:
        return sum(begin <= second < begin + length for begin, length in spans)

    assert steps["at"].to_list() == [START + timedelta(seconds=second) for second in instants]
    assert steps["in_flight"].to_list() == [in_flight(second) for second in instants]
    hourly = timing(table_of(spans), freq="1h", tz="Europe/Berlin")
    for row in hourly.to_dict("records"):
        begin = (row["period"] - START).total_seconds()
        inside = [begin, *(second for second in instants if begin <= second < begin + 3600)]
        assert row["most"] == max(map(in_flight, inside))
        overlap = sum(max(0.0, min(a + b, begin + 3600) - max(a, begin)) for a, b in spans)
        assert row["mean"] == pytest.approx(overlap / 3600, abs=1e-9)


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 20_000), min_size=1, unique=True).map(sorted)))
def test_gaps_and_idle_sessions(offsets: dict[str, list[float]]) -> None:
    frame = events_of(offsets)
    expected = sorted(
        ((b - a, name, a) for name, seconds in offsets.items() for a, b in pairwise(seconds) if b - a > 1800),
        reverse=True,
    )
    gaps = timing(frame, "gaps")
    assert gaps["gap_s"].is_monotonic_decreasing
    begins = [(at - START).total_seconds() for at in gaps["begins_at"]]
    assert sorted(zip(gaps["gap_s"], gaps["session_id"], begins, strict=True), reverse=True) == expected
    assert ((gaps["ends_at"] - gaps["begins_at"]).dt.total_seconds() == gaps["gap_s"]).all()
    as_of = START + timedelta(seconds=30_000)
    idle = timing(frame, "idle", longer_than="15000s", as_of=as_of)
    expected = {name: 30_000 - seconds[-1] for name, seconds in offsets.items() if 30_000 - seconds[-1] > 15_000}
    assert dict(zip(idle["session_id"], idle["idle_s"], strict=True)) == expected
    assert idle["idle_s"].is_monotonic_decreasing
    assert [(at - START).total_seconds() for at in idle["last_at"]] == [
        offsets[name][-1] for name in idle["session_id"]
    ]
    # Nobody asked: the agent's own turn is open, and after fifteen minutes it is not
    # called unanswered.
    assert set(idle["last_status"]) <= {"open"}


STATUS = st.sampled_from([None, "DRAFT", "PUBLISHED", "NEW"])


TEXTS = st.sampled_from([None, "", " ", "text"])
CONTEXTS = st.lists(
    st.tuples(STATUS, TEXTS, TEXTS, TEXTS, st.sampled_from("wv"), st.sampled_from([None, "p"]), st.integers(0, 50)),
    max_size=20,
)


@given(CONTEXTS)
def test_context_status(rows: list[Any]) -> None:
    items = [
        {
            "id": str(n), "status": status, "summary": texts[0], "generated_context": texts[1],
            "manual_context": texts[2], "workspace_id": workspace, "task_id": f"t{n % 3}", "published_by_id": publisher,
            "created_at": (START - timedelta(days=days)).isoformat(),
        }
        for n, (status, *texts, workspace, publisher, days) in enumerate(rows)
    ]  # fmt: skip
    table = context_status(to_frame("contexts", [json.dumps({"items": items}).encode()]), as_of=START)
    assert table["contexts"].sum() == len(rows)
    assert table["contexts"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        status = None if pd.isna(row["status"]) else row["status"]
        members = [(n, context) for n, context in enumerate(rows) if context[0] == status]
        assert row["contexts"] == len(members)
        assert row["workspaces"] == len({context[4] for _, context in members})
        assert row["tasks"] == len({n % 3 for n, _ in members})
        assert row["published"] == sum(context[5] is not None for _, context in members)
        for position, name in enumerate(("with_summary", "with_generated", "with_manual"), 1):
            assert row[name] == sum((context[position] or "").strip() != "" for _, context in members)
        assert row["age_p50_days"] == pytest.approx(statistics.median(context[6] for _, context in members))


def test_what_needs_only_the_order_of_events_reads_no_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("contents were searched for failures")

    page = json.dumps({"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "created_at": "2026-10-03T08:00:00Z"}]})
    events = to_frame("events", [page.encode()], context={"session_id": "s1"})
    monkeypatch.setattr("agentbook.frames.analysis.turns._failures", read)
    assert timing(events, "gaps").empty
    assert hour_of_week(events).to_numpy().sum() == 1


def test_pauses_and_idle_sessions_by_group_keep_the_largest_apart() -> None:
    frame = events_of({"s1": [0, 2000, 5000], "s2": [0, 9000], "s3": [0, 3000], "s4": [10, 20]})
    frame = frame.assign(agent=frame["session_id"].map({"s1": "busy", "s2": "calm", "s3": "shy", "s4": "new"}))
    gaps = timing(frame, "gaps", by="agent", top=1)
    assert gaps[["agent", "session_id", "gap_s"]].to_numpy().tolist() == [
        ["other", "s2", 9000], ["busy", "s1", 3000], ["other", "s3", 3000], ["busy", "s1", 2000],
    ]  # fmt: skip
    assert timing(frame, "gaps", by="agent")["agent"].to_list() == ["calm", "busy", "shy", "busy"]
    assert timing(frame, "gaps", until=START + timedelta(seconds=5000))["session_id"].to_list() == ["s3", "s1"]
    as_of = START + timedelta(seconds=30_000)
    idle = timing(
        frame, "idle", longer_than="1s", as_of=as_of, by="agent", top=1, since=START + timedelta(seconds=3000)
    )
    assert idle[["agent", "session_id"]].to_numpy().tolist() == [["other", "s3"], ["busy", "s1"], ["other", "s2"]]
    for what in ("gaps", "idle", "concurrency"):
        with pytest.raises(ValueError, match="add by="):
            timing(frame, what, top=2)
        with pytest.raises(ValueError, match="'agents', which is not a column"):
            timing(frame, what, by="agents")


@given(SPANS)
def test_concurrency_of_each_group_is_that_of_its_turns(spans: list[tuple[int, int]]) -> None:
    table = table_of(spans)
    for freq in (None, "1h"):
        grouped = timing(table, by="session_id", freq=freq)
        for session_id, part in table.groupby("session_id"):
            alone = timing(part, freq=freq)
            mine = grouped[grouped["session_id"] == session_id].drop(columns="session_id").reset_index(drop=True)
            pd.testing.assert_frame_equal(mine, alone, check_freq=False)
    merged = timing(table, by="session_id", top=1)
    assert set(merged["session_id"]) <= {"s0", "s1", "s2", "other"}
    half = START + timedelta(seconds=15_000)
    expected = timing(table[table["asked_at"] < half])
    pd.testing.assert_frame_equal(timing(table, until=half), expected)

"""Latency, concurrency, pauses and comparisons against plain Python."""

from __future__ import annotations

import json
import math
import statistics
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbook.api.event_ids import first_id_at
from agentbook.frames.analysis.comparison import compare_periods
from agentbook.frames.analysis.contexts import context_status
from agentbook.frames.analysis.timing import activity_gaps, concurrency, idle_sessions, latency
from agentbook.frames.analysis.turns import turns
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


def test_only_answered_turns_have_a_latency() -> None:
    table = table_of([(0, 5), (10, 50)])
    table["status"] = ["answered", "failed"]
    assert latency(table)[["n", "p50_s"]].to_numpy().tolist() == [[1, 5.0]]
    with pytest.raises(ValueError, match="between 0 and 1"):
        latency(table, quantiles=[50])


@given(SPANS)
def test_concurrency(spans: list[tuple[int, int]]) -> None:
    steps = concurrency(table_of(spans))
    instants = sorted({second for begin, length in spans if length for second in (begin, begin + length)})

    def in_flight(second: float) -> int:
        return sum(begin <= second < begin + length for begin, length in spans)

    assert steps["at"].to_list() == [START + timedelta(seconds=second) for second in instants]
    assert steps["in_flight"].to_list() == [in_flight(second) for second in instants]
    hourly = concurrency(table_of(spans), freq="1h", tz="Europe/Berlin")
    for row in hourly.to_dict("records"):
        begin = (row["period"] - START).total_seconds()
        inside = [begin, *(second for second in instants if begin <= second < begin + 3600)]
        assert row["most"] == max(map(in_flight, inside))
        overlap = sum(max(0.0, min(a + b, begin + 3600) - max(a, begin)) for a, b in spans)
        assert row["mean"] == pytest.approx(overlap / 3600, abs=1e-9)


def test_concurrency_by_days_counts_the_hour_more_of_a_long_day() -> None:
    begin = (datetime(2026, 10, 24, 22, tzinfo=UTC) - START).total_seconds()  # midnight in Berlin
    table = table_of([(int(begin), 25 * 3600)])
    daily = concurrency(table, freq="1D", tz="Europe/Berlin")
    assert daily[["most", "mean"]].to_numpy().tolist()[0] == [1.0, 1.0]


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 20_000), min_size=1, unique=True).map(sorted)))
def test_gaps_and_idle_sessions(offsets: dict[str, list[float]]) -> None:
    frame = events_of(offsets)
    expected = sorted(
        ((b - a, name, a) for name, seconds in offsets.items() for a, b in pairwise(seconds) if b - a > 1800),
        reverse=True,
    )
    gaps = activity_gaps(frame)
    assert gaps["gap_s"].is_monotonic_decreasing
    begins = [(at - START).total_seconds() for at in gaps["begins_at"]]
    assert sorted(zip(gaps["gap_s"], gaps["session_id"], begins, strict=True), reverse=True) == expected
    assert ((gaps["ends_at"] - gaps["begins_at"]).dt.total_seconds() == gaps["gap_s"]).all()
    as_of = START + timedelta(seconds=30_000)
    idle = idle_sessions(frame, after="15000s", as_of=as_of)
    expected = {name: 30_000 - seconds[-1] for name, seconds in offsets.items() if 30_000 - seconds[-1] > 15_000}
    assert dict(zip(idle["session_id"], idle["idle_s"], strict=True)) == expected
    assert idle["idle_s"].is_monotonic_decreasing
    assert [(at - START).total_seconds() for at in idle["last_at"]] == [
        offsets[name][-1] for name in idle["session_id"]
    ]
    # Nobody asked: the agent's own turn is open, and after fifteen minutes it is not
    # called unanswered.
    assert set(idle["last_status"]) <= {"open"}


def test_compare_periods_puts_the_greatest_change_first() -> None:
    day = 86_400.0
    frame = events_of({"a": [100.0, 200.0, 3 * day], "b": [*(day + 1 + n for n in range(40)), 2 * day - 1]})
    table = compare_periods(frame, period="1D", as_of=START + timedelta(days=2))
    by_metric = table.set_index("metric")
    assert by_metric.loc["events", ["before", "after", "change", "ratio", "n"]].to_list() == [2, 41, 39, 20.5, 43]
    assert by_metric.loc["events", "z"] == pytest.approx(39 / math.sqrt(43))
    assert table["metric"][0] == "events"
    assert by_metric.loc["sessions", ["before", "after"]].to_list() == [1, 1]
    grouped = compare_periods(frame, period="1D", as_of=START + timedelta(days=2), by="session_id")
    assert grouped.iloc[0][["session_id", "metric", "before", "after"]].to_list() == ["b", "events", 0, 41]


def test_compare_periods_of_turns() -> None:
    items = []
    for second, length in [(10, 4), (20, 4), (100_000, 16), (100_100, 16)]:
        for offset, kind, content, author in (
            (0, "message", {"text": "?"}, {"type": "user"}),
            (length, "runtime_done", {"text": "!"}, None),
        ):
            at = START + timedelta(seconds=second + offset)
            items.append(
                {
                    "id": first_id_at(at),
                    "type": kind,
                    "content": content,
                    "author": author,
                    "created_at": at.isoformat(),
                }
            )
    frame = to_frame("events", [json.dumps({"items": items}).encode()], context={"session_id": "s"})
    table = compare_periods(frame, period="1D", as_of=START + timedelta(days=2)).set_index("metric")
    assert table.loc["latency_p50_s", ["before", "after", "ratio", "n"]].to_list() == [4, 16, 4, 4]
    assert table.loc["failed_share", ["before", "after"]].to_list() == [0, 0]
    assert len(turns(frame)) == 4
    with pytest.raises(ValueError, match="compare_periods needs the column 'team'"):
        compare_periods(frame, by="team")


TURNS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 3 * 86_400),
        st.integers(1, 300),
        st.sampled_from(["answer", "fail", "none"]),
    ),
    max_size=12,
    unique_by=lambda turn: turn[:2],
)


@settings(max_examples=60)
@given(turned=TURNS, by=st.sampled_from([None, "session_id"]))
def test_compare_periods_is_what_plain_python_counts(turned: list[Any], by: str | None) -> None:
    """Turns of two sessions over three days; the last two days are compared."""
    day, questions, log = 86_400, {}, []
    # One turn after another in each session, so that a reply is its own question's.
    for name, at, took, end in sorted(turned):
        start = max([at, *(other["end"] + 1 for other in log if other["name"] == name)])
        log.append({"name": name, "start": start, "end": start + took, "how": end})
    pages: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for n, turn in enumerate(log):
        if any(earlier["name"] == turn["name"] and earlier["how"] == "none" for earlier in log[:n]):
            turn["how"] = "none"  # what nobody answered is answered by the next reply: leave the rest open
        closings = {
            "answer": ("runtime_done", {"text": "!"}),
            "fail": ("runtime_error", {"message": "TURN_TIMEOUT: 9"}),
        }
        steps = [(turn["start"], "message", {"text": "?"})]
        if turn["how"] != "none":
            steps.append((turn["end"], *closings[turn["how"]]))
        for second, kind, content in steps:
            at = START + timedelta(seconds=second)
            event = {"id": first_id_at(at), "type": kind, "content": content, "created_at": at.isoformat()}
            pages[turn["name"]].append({**event, "author": {"type": "user"}} if kind == "message" else event)
            questions.setdefault(turn["name"], []).append(second)
    builder = FrameBuilder("events")
    for name, items in pages.items():
        builder.add(json.dumps({"items": items}).encode(), {"session_id": name})
    table = compare_periods(builder.finish(), period="1D", as_of=START + timedelta(days=3), by=by)
    groups = (
        sorted({n for n, at in questions.items() if any(day < second <= 3 * day for second in at)}) if by else [None]
    )
    assert len(table) == 7 * len(groups)
    assert table["z"].abs().dropna().is_monotonic_decreasing
    for row in table.to_dict("records"):
        names = [row[by]] if by else ["a", "b"]
        sides = []
        for begin in (day, 2 * day):
            events = [(n, at) for n in names for at in questions.get(n, ()) if begin < at <= begin + day]
            mine = [turn for turn in log if turn["name"] in names and begin < turn["start"] <= begin + day]
            times = [turn["end"] - turn["start"] for turn in mine if turn["how"] == "answer"]
            failed = sum(turn["how"] == "fail" for turn in mine)
            sides.append(
                {
                    "events": len(events), "sessions": len({n for n, _ in events}), "turns": len(mine),
                    "answered": len(times), "failed": failed, "failed_share": failed / len(mine) if mine else math.nan,
                    "latency_p50_s": statistics.median(times) if times else math.nan, "times": times,
                }
            )  # fmt: skip
        before, after = (side[row["metric"]] for side in sides)
        expected = [before, after, after - before, after / before if before else math.nan]
        actual = [row[name] for name in ("before", "after", "change", "ratio")]
        assert actual == pytest.approx(expected, nan_ok=True), row["metric"]
        assert row["z"] == pytest.approx(score(row["metric"], *sides), nan_ok=True), row["metric"]


def score(metric: str, before: dict[str, Any], after: dict[str, Any]) -> float:
    """The change in standard errors, by textbook formulas."""
    if metric == "failed_share":
        n, m = before["turns"], after["turns"]
        if not (n and m):
            return math.nan
        pooled = (before["failed"] + after["failed"]) / (n + m)
        error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
        return (after[metric] - before[metric]) / error if error else math.nan
    if metric == "latency_p50_s":
        logs = [[math.log(time) for time in side["times"]] for side in (before, after)]
        if min(map(len, logs)) < 2:
            return math.nan
        error = math.sqrt(sum(statistics.variance(latencies) / len(latencies) for latencies in logs))
        return (statistics.mean(logs[1]) - statistics.mean(logs[0])) / error if error > 1e-9 else math.nan
    total = before[metric] + after[metric]
    return (after[metric] - before[metric]) / math.sqrt(total) if total else math.nan


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
        for place, name in enumerate(("with_summary", "with_generated", "with_manual"), 1):
            assert row[name] == sum((context[place] or "").strip() != "" for _, context in members)
        assert row["age_p50_days"] == pytest.approx(statistics.median(context[6] for _, context in members))

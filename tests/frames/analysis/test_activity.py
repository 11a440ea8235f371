"""Counts against plain Python on the same events."""

from __future__ import annotations

import functools
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentbook.api.span import first_id_at
from agentbook.events.turns import TurnLog, failure_of, opens_turn, text_of
from agentbook.frames.analysis.activity import WEEKDAYS, activity, hour_of_week, session_summary
from agentbook.frames.analysis.failures import FAILURE_KINDS, failures
from agentbook.frames.analysis.timing import timing
from agentbook.frames.analysis.turns import turns
from agentbook.frames.parse.frame import FrameBuilder
from frames.analysis.test_turns import EXAMPLES

# The clocks of Berlin go back on 25 October 2026, those of Kolkata and Lord Howe are
# off the hour.
START = datetime(2026, 10, 24, 20, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]
KINDS = [
    ("message", {"text": "How many?"}, "user"),
    ("message", {"text": "And why?"}, "api_key"),
    ("runtime_done", {}, "agent"),
    ("runtime_done", {"text": "Three."}, "agent"),
    ("runtime_error", {"status": 429, "message": "TURN_TIMEOUT: 600 s"}, "agent"),
    ("thought", {"n": 1}, None),
]
Sessions = dict[str, list[dict[str, Any]]]


def sessions_of(script: list[tuple[int, int, int]]) -> Sessions:
    sessions: Sessions = defaultdict(list)
    moment = START
    for n, (session, kind, minutes) in enumerate(script):
        moment += timedelta(minutes=minutes, seconds=7 * (n % 3))
        name, content, author = KINDS[kind]
        millisecond = first_id_at(moment)
        event: dict[str, Any] = {"id": millisecond[:-6] + f"{n:06d}", "type": name, "content": content, "task_id": "t"}
        if author:
            event["author"] = {"type": author, "id": f"{author}-{session}"}
        event["created_at"] = event["updated_at"] = moment.isoformat()
        if n % 5 == 4:
            event["updated_at"] = (moment + timedelta(seconds=1)).isoformat()
        sessions[f"s{session}"].append(event)
    return dict(sessions)


SCRIPTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, len(KINDS) - 1), st.integers(0, 100)), max_size=40)


def frame_of(sessions: Sessions) -> pd.DataFrame:
    builder = FrameBuilder("events")
    for session_id, events in sessions.items():
        builder.add(json.dumps({"items": events}).encode(), {"session_id": session_id, "workspace_id": session_id[-1]})
    return builder.finish()


def moment(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["created_at"])


def log_of(session_id: str, events: list[dict[str, Any]]) -> TurnLog:
    log = TurnLog(session_id)
    for event in events:
        log.feed(event)
    return log


@given(SCRIPTS)
def test_session_summary(script: list[Any]) -> None:
    sessions = sessions_of(script)
    summary = session_summary(frame_of(sessions), as_of=START)
    assert summary["session_id"].to_list() == list(sessions)
    for row in summary.to_dict("records"):
        events = sessions[row["session_id"]]
        log = log_of(row["session_id"], events)
        times = [moment(event) for event in events]
        pauses = [(b - a).total_seconds() for a, b in pairwise(times)]
        status = Counter(turn.status for turn in log.turns)
        latencies = [turn.latency_s for turn in log.turns if turn.status == "answered" and turn.latency_s is not None]
        assert (row["first_at"], row["last_at"], row["span_s"]) == (times[0], times[-1], sum(pauses))
        assert row["active_s"] == pytest.approx(sum(pause for pause in pauses if pause < 1800))
        assert (row["events"], row["turns"]) == (len(events), len(log.turns))
        assert (row["answered"], row["failed"], row["open"]) == (status["answered"], status["failed"], status["open"])
        assert row["subtasks"] == sum(turn.subtasks for turn in log.turns)
        assert row["prompt_chars"] == sum(len(turn.prompt) for turn in log.turns)
        assert row["reply_chars"] == sum(len(turn.text or "") for turn in log.turns)
        assert row["edited"] == sum(event["updated_at"] != event["created_at"] for event in events)
        assert row["workspace_id"] == row["session_id"][-1]
        if latencies:
            assert row["latency_p50_s"] == pytest.approx(statistics.median(latencies))
        else:
            assert pd.isna(row["latency_p50_s"])


def floor(instant: datetime, freq: str, tz: str) -> datetime:
    local = instant.astimezone(ZoneInfo(tz))
    if freq == "1h":
        return instant - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    back = {"1D": 0, "W": local.weekday(), "M": local.day - 1}[freq]
    return (midnight - timedelta(days=back)).astimezone(UTC)  # wall time: that is what a local day is


@given(script=SCRIPTS, freq=st.sampled_from(["1h", "1D", "W", "M"]), tz=st.sampled_from(ZONES), grouped=st.booleans())
def test_activity(script: list[Any], freq: str, tz: str, grouped: bool) -> None:
    sessions = sessions_of(script)
    expected: dict[Any, Counter[str]] = defaultdict(Counter)
    seen: dict[Any, set[str]] = defaultdict(set)
    for session_id, events in sessions.items():
        for event in events:
            key = (floor(moment(event), freq, tz), event["type"] if grouped else None)
            opens = opens_turn(event)
            expected[key]["events"] += 1
            expected[key]["messages"] += opens
            expected[key]["replies"] += event["type"] == "runtime_done" and text_of(event) is not None
            expected[key]["failures"] += failure_of(event) is not None and not opens
            seen[key].add(session_id)
    table = activity(frame_of(sessions), freq, tz=tz, by="type" if grouped else None, fill=False)
    assert str(table["period"].dtype) == f"datetime64[us, {tz}]"
    actual = {(row["period"].astimezone(UTC), row.get("type")): row for row in table.to_dict("records")}
    assert set(actual) == set(expected)
    for key, counts in expected.items():
        assert {name: actual[key][name] for name in counts} == counts
        assert actual[key]["sessions"] == len(seen[key])
    filled = activity(frame_of(sessions), freq, tz=tz, by="type" if grouped else None)
    assert filled["events"].sum() == table["events"].sum()
    assert filled["period"].is_monotonic_increasing
    if not grouped and freq == "1h" and len(filled):
        steps = filled["period"].diff().dropna().unique()
        assert all(step == pd.Timedelta(hours=1) for step in steps)


def began(instant: datetime, zone: ZoneInfo) -> datetime:
    """The start of the hour, by stepping back while clock hour and UTC offset stay."""
    return _began(instant.replace(second=0, microsecond=0), zone)


@functools.cache
def _began(minute: datetime, zone: ZoneInfo) -> datetime:
    before = minute - timedelta(minutes=1)
    here, there = minute.astimezone(zone), before.astimezone(zone)
    same = (here.hour, here.utcoffset()) == (there.hour, there.utcoffset())
    return _began(before, zone) if same else minute


@given(
    zone=st.sampled_from(
        [
            ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),  # half an hour forward
            ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),  # and back
            ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
            ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
            ("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)),  # no midnight
        ]
    ),
    seconds=st.lists(st.integers(-12_000, 12_000), min_size=1, max_size=8),
)
def test_hours_around_a_change_of_the_offset(zone: tuple[str, datetime], seconds: list[int]) -> None:
    tz, change = zone
    times = [change + timedelta(seconds=second) for second in seconds]
    events = [{"id": first_id_at(at)[:-12] + f"{n:012x}", "created_at": at.isoformat()} for n, at in enumerate(times)]
    expected = Counter(began(at, ZoneInfo(tz)) for at in times)
    table = activity(frame_of({"s1": events}), tz=tz)
    actual = {period.astimezone(UTC): count for period, count in zip(table["period"], table["events"], strict=True)}
    assert {period: count for period, count in actual.items() if count} == expected
    minutes = int((max(times) - min(times)).total_seconds() // 60) + 1
    every = {began(min(times) + timedelta(minutes=n), ZoneInfo(tz)) for n in range(minutes)}
    assert set(actual) == every | set(expected), "each hour once, those without events too"


SKIPS = st.sampled_from(
    [
        ("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)),  # no midnight
        ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
        ("America/Santiago", datetime(2026, 9, 6, 4, tzinfo=UTC)),  # no midnight either
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),  # a whole day is not lived
    ]
)


@functools.cache
def begins_of(change: datetime, tz: str, hours: int) -> list[datetime]:
    """When the clock first shows each multiple of `hours`, by steps of 15 minutes."""
    starts, last = [], None
    for n in range(-40 * 4, 120 * 4):
        at = change + timedelta(minutes=15 * n)
        clock = at.astimezone(ZoneInfo(tz)).replace(tzinfo=None)
        number = (clock - datetime(1970, 1, 1)) // timedelta(hours=hours)
        if last is not None and number > last:
            starts.append(at)
        last = number if last is None else max(last, number)
    return starts


@given(
    skip=SKIPS,
    hours=st.sampled_from([2, 3, 6, 12, 24]),
    minutes=st.lists(st.integers(-1000, 4000), min_size=1, max_size=4, unique=True),
)
@example(skip=("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)), hours=24, minutes=[30, 2000])
@example(skip=("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)), hours=2, minutes=[30, 400])
@example(skip=("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)), hours=24, minutes=[-60, 600])
def test_periods_of_hours_around_a_change_of_the_offset(
    skip: tuple[str, datetime], hours: int, minutes: list[int]
) -> None:
    tz, change = skip
    times = sorted(change + timedelta(minutes=minute) for minute in minutes)
    edges = begins_of(change, tz, hours)
    events = [{"id": first_id_at(at)[:-12] + f"{n:012x}", "created_at": at.isoformat()} for n, at in enumerate(times)]
    table = activity(frame_of({"s1": events}), f"{hours}h", tz=tz)
    expected = {edge: sum(edge <= at < later for at in times) for edge, later in pairwise(edges)}
    first, last = (max(edge for edge in edges if edge <= at) for at in (times[0], times[-1]))
    assert [period.astimezone(UTC) for period in table["period"]] == [edge for edge in edges if first <= edge <= last]
    assert table["events"].to_list() == [expected[edge] for edge in edges if first <= edge <= last]
    begun, ended = times[0], times[-1] + timedelta(minutes=7)
    turn = pd.DataFrame({"turn": [1], "status": "answered", "asked_at": [begun], "replied_at": [ended]})
    means = timing(turn, freq=f"{hours}h", tz=tz)
    assert [period.astimezone(UTC) for period in means["period"]] == [edge for edge in edges if first <= edge <= ended]
    for period, mean in zip(means["period"], means["mean"], strict=True):
        later = min(edge for edge in edges if edge > period)
        inside = (min(ended, later) - max(begun, period)).total_seconds()
        assert mean == pytest.approx(inside / (later - period).total_seconds())


@given(script=SCRIPTS, tz=st.sampled_from(ZONES))
def test_hour_of_week(script: list[Any], tz: str) -> None:
    sessions = sessions_of(script)
    expected = Counter(
        (WEEKDAYS[local.weekday()], local.hour)
        for events in sessions.values()
        for local in (moment(event).astimezone(ZoneInfo(tz)) for event in events)
    )
    table = hour_of_week(frame_of(sessions), tz=tz)
    assert table.shape == (7, 24)
    assert {key: count for key, count in table.stack().items() if count} == expected


@given(script=SCRIPTS, tz=st.sampled_from(ZONES), take=st.sampled_from([lambda events: events, turns]))
def test_measures_by_hour_of_week(script: list[Any], tz: str, take: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    events = frame_of(sessions_of(script))
    table = turns(events)
    local = table["asked_at"].fillna(table["replied_at"]).dt.tz_convert(tz)
    table = table.assign(weekday=local.dt.day_name(), hour=local.dt.hour).dropna(subset="weekday")
    by_hour = table.groupby(["weekday", "hour"])
    latency = table[table["status"] == "answered"].groupby(["weekday", "hour"])["latency_s"]
    expected = {
        "turns": by_hour.size(),
        "failed": by_hour["status"].agg(lambda status: (status == "failed").sum()),
        "failed_share": by_hour["status"].agg(lambda status: (status == "failed").mean()),
        "p95": latency.quantile(0.95).dropna(),
        "mean": latency.mean().dropna(),
    }
    for value, numbers in expected.items():
        actual = hour_of_week(take(events), value=value, tz=tz).stack().dropna()
        assert actual[actual != 0].to_dict() == pytest.approx(numbers[numbers != 0].to_dict()), value


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([*EXAMPLES, "error", None])), max_size=20))
def test_failures_of_every_kind(outcomes: list[tuple[str, str | None]]) -> None:
    """Each turn of each session ends in one way or another, None in a reply."""
    sessions: Sessions = defaultdict(list)
    for n, (name, kind) in enumerate(outcomes):
        text = EXAMPLES.get(kind or "", "Something went wrong")
        end = ("runtime_done", {"text": "!"}) if kind is None else ("runtime_error", {"message": text})
        for step, (kind, content, author) in enumerate([("message", {"text": "?"}, "user"), (*end, "agent")]):
            at = (START + timedelta(minutes=n, seconds=step)).isoformat()
            event = {"id": first_id_at(START + timedelta(minutes=n, seconds=step)), "type": kind, "content": content}
            sessions[name].append({**event, "author": {"type": author}, "created_at": at})
    table = failures(frame_of(sessions))
    failed = [(n, name, kind) for n, (name, kind) in enumerate(outcomes) if kind is not None]
    assert dict(zip(table["kind"], table["turns"], strict=True)) == Counter(kind for _, _, kind in failed)
    assert table["turns"].is_monotonic_decreasing
    for row in table.to_dict("records"):
        mine = [(n, name) for n, name, kind in failed if kind == row["kind"]]
        assert row["sessions"] == len({name for _, name in mine})
        assert row["share"] == pytest.approx(len(mine) / len(outcomes))
        first, last = (START + timedelta(minutes=mine[end][0], seconds=1) for end in (0, -1))
        assert (row["first_at"], row["last_at"]) == (first, last)
        assert (row["cause"], row["advice"]) == FAILURE_KINDS[row["kind"]]
        assert row["example"] == EXAMPLES.get(row["kind"], "Something went wrong")


@pytest.mark.parametrize("name", ["session", "opens", "replies_", "fails", "created_at", "at"])
def test_a_column_to_count_by_may_have_any_name(name: str) -> None:
    frame = frame_of(sessions_of([(0, 0, 1), (1, 0, 1), (1, 3, 1)]))
    table = activity(frame.assign(**{name: "same"}) if name not in frame else frame, "1D", by=name)
    assert table["events"].sum() == 3
    if name not in frame:
        assert table[["messages", "replies", "sessions"]].values.tolist() == [[2, 1, 2]]


def test_filling_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.frames.analysis.activity.MAX_FILLED_ROWS", 9)
    frame = frame_of(sessions_of([(0, 0, 1), (1, 0, 4000), (0, 0, 9000)]))
    assert len(activity(frame, "1h", by="session_id", fill=False)) == 3
    with pytest.raises(
        ValueError, match=r"2 values of session_id in each of \d+ periods of '1h' make more than 9 rows"
    ):
        activity(frame, "1h", by="session_id")

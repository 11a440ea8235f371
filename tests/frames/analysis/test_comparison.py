"""Comparisons of spans against plain Python, and their rate of false alarms."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.span import first_id_at
from agentbook.frames.analysis.clusters import Sample, holm, p_value, score_of_counts, score_of_stat
from agentbook.frames.analysis.comparison import COUNTS, compare_groups, compare_periods
from agentbook.frames.analysis.turns import turns
from agentbook.frames.history.history import History
from agentbook.frames.parse.frame import FrameBuilder, to_frame

from .test_timing import events_of

START = datetime(2026, 10, 24, 22, tzinfo=UTC)


TURNS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(0, 3 * 86_400),
        st.integers(1, 300),
        st.sampled_from(["answer", "fail", "none"]),
    ),
    max_size=16,
    unique_by=lambda turn: turn[:2],
)


@given(turned=TURNS, by=st.sampled_from([None, "session_id"]))
def test_compare_periods_is_what_plain_python_counts(turned: list[Any], by: str | None) -> None:
    """Turns of some sessions over three days; the last two days are compared."""
    day, questions, log = 86_400, {}, []
    # One turn after another in each session, so that a reply is its own question's.
    for name, at, took, end in sorted(turned):
        start = max([at, *(other["end"] + 1 for other in log if other["name"] == name)])
        log.append({"name": name, "start": start, "end": start + took, "how": end})
    pages: dict[str, list[dict[str, Any]]] = {name: [] for name in "abcd"}
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
        names = [row[by]] if by else list("abcd")
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
                    "latency_p50_s": statistics.median(times) if times else math.nan,
                    "values": {
                        "events": by_session((n, 1) for n, _ in events),
                        "sessions": by_session((n, 1) for n in {n for n, _ in events}),
                        "turns": by_session((turn["name"], 1) for turn in mine),
                        "answered": by_session((turn["name"], 1) for turn in mine if turn["how"] == "answer"),
                        "failed": by_session((turn["name"], 1) for turn in mine if turn["how"] == "fail"),
                        "failed_share": by_session((turn["name"], turn["how"] == "fail") for turn in mine),
                        "latency_p50_s": by_session(
                            (turn["name"], turn["end"] - turn["start"]) for turn in mine if turn["how"] == "answer"
                        ),
                    },
                }
            )  # fmt: skip
        before, after = (side[row["metric"]] for side in sides)
        expected = [before, after, after - before, after / before if before else math.nan]
        actual = [row[name] for name in ("before", "after", "change", "ratio")]
        assert actual == pytest.approx(expected, nan_ok=True), row["metric"]
        z = score(row["metric"], *sides)
        if row["metric"] in COUNTS and not math.isnan(z):  # the days may show less, never more
            assert min(0, z) - 1e-9 <= row["z"] <= max(0, z) + 1e-9, row["metric"]
        else:
            assert row["z"] == pytest.approx(z, nan_ok=True), row["metric"]


def by_session(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def score(metric: str, before: dict[str, Any], after: dict[str, Any]) -> float:
    """The change in standard errors, with sessions as units."""
    sides = before["values"][metric], after["values"][metric]
    everything = [value for side in sides for values in side.values() for value in values]
    is_count = metric not in ("failed_share", "latency_p50_s")
    if is_count:
        sizes, expected = [1.0, 1.0], 0.0
    else:
        if min(map(len, sides)) < 2:
            return math.nan
        if metric == "latency_p50_s":
            limit = statistics.median(everything)
            sides = tuple({name: [float(v > limit) for v in values] for name, values in side.items()} for side in sides)
            everything = [value for side in sides for values in side.values() for value in values]
        sizes, expected = [float(len(side)) for side in sides], statistics.mean(everything)
    weights = [1.0 if is_count else 1 / sum(map(len, side.values())) for side in sides]
    means = [weight * sum(map(sum, side.values())) for side, weight in zip(sides, weights, strict=True)]
    residuals = [{name: sum(value - expected for value in values) for name, values in side.items()} for side in sides]
    square = sum(r * r for side in residuals for r in side.values()) / sum(sizes)
    variance = square * sum(size * weight**2 for size, weight in zip(sizes, weights, strict=True))
    shared = 2 * math.prod(weights) * sum(residuals[0][name] * residuals[1].get(name, 0) for name in residuals[0])
    variance = max(variance - shared, variance / 10)
    return (means[1] - means[0]) / math.sqrt(variance) if variance > 0 else math.nan


# -- two spans

DAYS = pd.date_range("2026-10-01", periods=28, tz="UTC")


def history(slower: dict[str, float], sessions: int = 40, seed: int = 1) -> pd.DataFrame:
    """Turns of agents over four weeks; the latency of some changes after two."""
    draw = np.random.default_rng(seed)
    rows = []
    for agent in "abcd":
        for number in range(sessions):
            day = draw.integers(28)
            own = draw.normal(0, 0.6)
            for turn in range(1, 2 + draw.poisson(3)):
                factor = slower.get(agent, 1.0) if day >= 14 else 1.0
                latency = factor * math.exp(1 + own + draw.normal(0, 0.4))
                at = DAYS[day] + pd.Timedelta(hours=8, minutes=3 * turn)
                status = "failed" if draw.random() < 0.1 else "answered"
                rows.append((f"{agent}{number}", turn, agent, at, at + pd.Timedelta(seconds=latency), latency, status))
    names = ["session_id", "turn", "agent", "asked_at", "replied_at", "latency_s", "status"]
    return pd.DataFrame(rows, columns=names)


A, B = ("2026-10-01", "2026-10-15"), ("2026-10-15", "2026-10-29")


def test_which_agents_got_slower_is_one_call() -> None:
    table = compare_periods(history({"b": 2.5, "d": 0.4}), a=A, b=B, by="agent", metric="latency")
    assert table["agent"].to_list()[0] == "b"
    assert table["agent"].to_list()[-1] == "d"
    assert table["significant"].to_list() == [True, False, False, True]
    assert table["ratio"][0] == pytest.approx(2.5, rel=0.3)
    assert table["p_holm"].to_numpy() == pytest.approx(holm(table["p"].to_numpy()))
    assert set(table["metric"]) == {"latency_p50_s"}
    worst = compare_periods(history({"b": 2.5}), a=A, b=B, by="agent", metric="latency", stat="mean")
    assert worst["agent"][0] == "b"
    assert set(worst["metric"]) == {"latency_mean_s"}


def test_events_and_turns_and_period_agree() -> None:
    frame = events_of({name: [n * 3600.0 + 7 * len(name) for n in range(50)] for name in ("a", "bb", "ccc")}, "message")
    frame["author_type"] = "user"
    as_of = START + timedelta(days=2)
    spans = [(START + timedelta(days=n), START + timedelta(days=n + 1)) for n in (0, 1)]
    by_period = compare_periods(frame, period="1D", as_of=as_of)
    by_spans = compare_periods(frame, a=spans[0], b=spans[1])
    of_turns = compare_periods(turns(frame), a=spans[0], b=spans[1])
    pd.testing.assert_frame_equal(by_spans, by_period)
    pd.testing.assert_frame_equal(of_turns, by_spans)


def test_counts_of_spans_of_different_lengths_are_compared_by_rate() -> None:
    table = compare_periods(history({}), a=("2026-10-01", "2026-10-08"), b=("2026-10-08", "2026-10-29"))
    turns_row = table.set_index("metric").loc["turns"]
    assert turns_row["change"] == turns_row["after"] - 3 * turns_row["before"]
    assert turns_row["ratio"] == turns_row["after"] / (3 * turns_row["before"])
    assert not turns_row["significant"]


def test_sessions_can_count_once_each() -> None:
    table = history({})
    # One session of many slow turns.
    noisy = pd.DataFrame([{**table.iloc[0].to_dict(), "session_id": "long", "turn": n, "latency_s": 500.0,
                           "status": "answered", "asked_at": DAYS[20]} for n in range(400)])  # fmt: skip
    both = pd.concat([table, noisy], ignore_index=True)
    by_turns = compare_periods(both, a=A, b=B, metric="latency").iloc[0]
    by_sessions = compare_periods(both, a=A, b=B, metric="latency", unit="sessions").iloc[0]
    assert by_turns["ratio"] > 20
    assert by_sessions["ratio"] < 1.5
    assert not by_turns["significant"], "it is still one session"
    assert by_sessions["n"] == by_turns["n"]


def test_groups_beyond_top_are_compared_together() -> None:
    table = history({}, sessions=10)
    table = pd.concat([table, table[table["agent"] == "c"].assign(session_id="more")], ignore_index=True)
    result = compare_periods(table, a=A, b=B, by="agent", top=1, metric="turns")
    assert set(result["agent"]) == {"c", "other"}
    assert result["n"].sum() == len(table)


def test_a_group_that_only_one_span_has_is_listed() -> None:
    table = history({})
    table = table[(table["agent"] != "a") | (table["asked_at"] >= DAYS[14])]
    row = compare_periods(table, a=A, b=B, by="agent", metric="latency").set_index("agent").loc["a"]
    assert math.isnan(row["before"])
    assert math.isnan(row["p"])
    assert not row["significant"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": A}, "b must be a start and an end, as in b="),
        ({"a": "2026-10-01", "b": B}, "a must be a start and an end, as in a="),
        ({"a": B, "b": A}, "a must be the earlier span.*swap a= and b="),
        ({"a": A, "b": ("2026-10-10", "2026-10-29")}, "a and b must not overlap"),
        ({"a": A[::-1], "b": B}, "the start of a must be before the end of a"),
        ({"a": ("2026-10-01", "2026-10-01"), "b": B}, "the start of a must be before the end of a"),
        ({"a": A, "b": ("2027-10-15", "2027-10-29")}, "no data in b .*they span 2026-10-01 .* Choose a span within"),
        ({"a": A, "b": B, "metric": "speed"}, "no metric 'speed': choose from events, sessions"),
        ({"a": A, "b": B, "metric": "answer"}, r"no metric 'answer' \(did you mean 'answered'\?\)"),
        ({"a": A, "b": B, "stat": "p500"}, "has no stat 'p500'"),
        ({"a": A, "b": B, "unit": "events"}, "unit='turns' or unit='sessions'"),
        ({"a": A, "b": B, "by": "team"}, "cannot group by 'team'"),
    ],
)  # fmt: skip
def test_spans_that_make_no_sense_are_explained(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_periods(history({}, sessions=5), **arguments)


def test_what_was_not_loaded_is_not_compared_as_if_nothing_had_happened() -> None:
    day = 86_400.0
    events = events_of({"a": [100.0, 5 * day], "b": [3 * day]})
    end = START + timedelta(days=6)
    part = History(events).where(since=START + timedelta(days=1), until=end)
    for data in (part, part.events):
        assert compare_periods(data, period="60h").equals(compare_periods(data, period="60h", as_of=end))
        with pytest.raises(ValueError, match="were loaded only from 2026-10-25 22:00 to 2026-10-30 22:00 UTC"):
            compare_periods(data, period="3D", as_of=end)
    with pytest.raises(ValueError, match="were loaded only"):
        compare_periods(part, period="1D", as_of=end + timedelta(days=1))


def test_a_span_that_has_not_ended_is_compared_as_far_as_it_goes() -> None:
    day = timedelta(days=1)
    events = events_of({str(n): [n * 86_400.0 / 4] for n in range(48)})  # four sessions a day
    events.attrs["agentbook"]["loaded_at"] = (START + 10 * day).isoformat()
    table = compare_periods(events, a=(START, START + 7 * day), b=(START + 7 * day, START + 14 * day), metric="events")
    assert table.attrs["agentbook"]["periods"]["after"][1] == str(START + 10 * day)
    assert table.loc[0, ["before", "after", "change"]].tolist() == [28.0, 12.0, 0.0]


def test_an_empty_history_has_no_spans() -> None:
    with pytest.raises(ValueError, match=r"no data in a .*there are none at all"):
        compare_periods(to_frame("events", []), a=A, b=B)


# -- noise


def clustered(draw: Any, sessions: int, first: int, spread: float = 0.8) -> tuple[Any, Any]:
    """Log-normal values of sessions, whose values resemble each other."""
    lengths = 1 + draw.geometric(0.25, sessions)
    session = np.repeat(np.arange(first, first + sessions), lengths)
    return session, np.exp(draw.normal(0, spread, sessions)[session - first] + draw.normal(0, 0.6, len(session)))


@pytest.mark.parametrize(
    ("stat", "counts", "shared"),
    [("p50", (25, 25), 0), ("p50", (8, 80), 0), ("p95", (60, 60), 0), ("mean", (25, 25), 0), ("p50", (30, 30), 15)],
)
def test_the_rate_of_false_alarms_is_near_five_percent(stat: str, counts: tuple[int, int], shared: int) -> None:
    """Nothing changes; turns of a session resemble each other (see `clusters`)."""
    draw, rounds = np.random.default_rng(7), 200
    alarms = naive = 0
    for _ in range(rounds):
        session, value = clustered(draw, sum(counts) - shared, 0)
        # Some sessions have turns in both spans.
        is_after = session >= counts[0]
        in_both = (session >= counts[0] - shared) & (session < counts[0])
        is_after |= in_both & (draw.random(len(session)) < 0.5)
        before, after = (Sample(session[side], value[side]) for side in (~is_after, is_after))
        alarms += p_value(score_of_stat(before, after, stat)) < 0.05
        independent = [Sample(np.arange(len(v)) + 10_000 * n, v) for n, v in enumerate((before.value, after.value))]
        naive += p_value(score_of_stat(*independent, stat)) < 0.05
    assert 0.015 <= alarms / rounds <= 0.085
    assert naive > 2 * alarms or shared, "turns taken for independent raise several times as many"


@pytest.mark.parametrize("waves", [None, 20.0, 2.0])
def test_the_rate_of_false_alarms_of_counts(waves: float | None) -> None:
    """Sessions arrive independently, or more on some days than on others."""
    draw, rounds, lengths = np.random.default_rng(8), 200, (14, 28)
    alarms = 0
    for _ in range(rounds):
        sides, blocks = [], []
        for first, days in zip((0, 10_000), lengths, strict=True):
            mean = np.full(days, 5.0) if waves is None else draw.gamma(waves, 5.0 / waves, days)
            session, _ = clustered(draw, draw.poisson(mean).sum(), first)
            sides.append(Sample(session, np.ones(len(session))))
            day = np.sort(draw.choice(days, len(np.unique(session)), p=mean / mean.sum()))[session - first]
            blocks.append(np.bincount(day * 14 // days, minlength=14))
        alarms += p_value(score_of_counts(sides[0], sides[1], lengths, np.array(blocks))) < 0.05
    assert alarms / rounds <= 0.08


def test_groups_are_compared_as_their_sessions_say() -> None:
    """The labels of sessions are shuffled: a difference is chance."""
    draw, rounds = np.random.default_rng(11), 60
    alarms = {"latency_p50_s": 0, "failed_share": 0, "turns": 0}
    for _ in range(rounds):
        session, value = clustered(draw, 60, 0)
        at = pd.Timestamp("2026-10-01", tz="UTC") + pd.to_timedelta(session * 3600 + np.arange(len(session)), unit="s")
        table = pd.DataFrame(
            {
                "session_id": session.astype(str),
                "asked_at": at,
                "replied_at": at,
                "status": np.where(draw.random(len(session)) < 0.2, "failed", "answered"),
                "latency_s": value,
                "turn": np.arange(len(session)),
                "version": draw.choice(["1", "2"], 60)[session],
            }
        )
        found = compare_groups(table, by="version", metric=[*alarms]).set_index("metric")
        for name in alarms:
            alarms[name] += bool(found.loc[name, "p"] < 0.05)
    assert max(alarms.values()) / rounds <= 0.13
    slower = table.assign(latency_s=table["latency_s"] * np.where(table["version"] == "2", 3, 1))
    found = compare_groups(slower, by="version", metric="latency")
    assert found.loc[0, "significant"]
    first, second = found.loc[0, ["a", "b"]]
    assert first < second
    third = slower.assign(version=slower["version"].where(slower.index % 3 > 0, "3"))
    rest = compare_groups(third, by="version", groups="1", metric="turns")
    assert rest.loc[0, ["a", "b"]].to_list() == [(third["version"] == "1").sum(), (third["version"] != "1").sum()]


def of_people(seed: int, *, by_person: bool) -> pd.DataFrame:
    """240 sessions of 30 people, who differ, with a version by person or by session."""
    draw = np.random.default_rng(seed)
    person = np.repeat(np.arange(30), 8)
    passed = draw.random(240) < 1 / (1 + np.exp(-0.8 - draw.normal(0, 1.5, 30)[person]))
    at = pd.Timestamp("2026-10-01", tz="UTC") + pd.to_timedelta(draw.random(240) * 28, unit="D")
    version = np.where(by_person, draw.integers(0, 2, 30)[person], draw.integers(0, 2, 240)).astype(str)
    sessions = pd.DataFrame({"session_id": [f"s{n}" for n in range(240)], "first_at": at, "initiator_type": "user"})
    return sessions.assign(initiator_id=person.astype(str), passed=passed, version=version)


def test_sessions_of_a_person_are_not_independent() -> None:
    alarms = dict.fromkeys([("people", True), ("people", False), ("sessions", True)], 0)
    for seed in range(100):
        for units, by_person in alarms:
            table = of_people(seed, by_person=by_person)
            table = table.drop(columns=["initiator_id"] if units == "sessions" else [])
            alarms[units, by_person] += compare_groups(table, by="version", metric="passed").loc[0, "p"] < 0.05
    assert max(alarms["people", True], alarms["people", False]) <= 10
    assert alarms["sessions", True] > 15, "as if they were independent, they raise several times as many"


def test_a_table_of_sessions_is_compared_as_their_turns_are() -> None:
    sessions = of_people(1, by_person=False)
    twice = pd.concat([sessions, sessions[::2]], ignore_index=True)
    table = twice.assign(turn=1, asked_at=twice["first_at"], replied_at=pd.NaT, status="answered", latency_s=1.0)
    spans = {"a": ("2026-10-01", "2026-10-15"), "b": ("2026-10-15", "2026-10-29"), "metric": "passed"}
    found = compare_periods(sessions, by="version", **spans)
    expected = compare_periods(table, by="version", unit="sessions", **spans)
    pd.testing.assert_frame_equal(found.drop(columns="n"), expected.drop(columns="n"))
    assert set(compare_groups(sessions, by="version")["metric"]) == {"sessions", "passed"}
    with pytest.raises(ValueError, match="choose from sessions, passed"):
        compare_periods(sessions, metric="latency")
    with pytest.raises(ValueError, match="created_at"):
        compare_periods(sessions.drop(columns="first_at"))
    at_once = compare_groups(sessions.assign(first_at=sessions["first_at"][0]), by="version", metric="sessions")
    assert at_once.loc[0, ["a", "b"]].sum() == 240


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"by": "agnt"}, "agent"),
        ({"by": "agent"}, "groups"),
        ({"by": "agent", "groups": ("a", "x")}, "'x'"),
        ({"by": "agent", "groups": ("a", "a")}, "both"),
        ({"by": "agent", "groups": ("a", "b", "c")}, "3"),
        ({"by": "one"}, "'all'"),
        ({"by": "one", "groups": "all"}, "'all'"),
    ],
)
def test_groups_that_cannot_be_compared(options: dict[str, Any], named: str) -> None:
    at = pd.to_datetime(["2026-10-01", "2026-10-02", "2026-10-03"], utc=True)
    table = pd.DataFrame({"session_id": list("xyz"), "asked_at": at, "replied_at": at, "latency_s": 1.0})
    table = table.assign(turn=1, status="answered", agent=list("abc"), one="all")
    with pytest.raises(ValueError, match=named):
        compare_groups(table, **options)


def test_a_change_is_noticed() -> None:
    draw, rounds = np.random.default_rng(9), 100
    alarms = 0
    for _ in range(rounds):
        (session, value), (others, values) = clustered(draw, 40, 0), clustered(draw, 40, 1000)
        alarms += p_value(score_of_stat(Sample(session, value), Sample(others, 2 * values), "p50")) < 0.05
    assert alarms / rounds > 0.8

"""Arguments of the analyses: lengths of time, times, group columns and time zones."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.load.session_ids import session_ids
from agentbook.frames.parse import to_frame
from frames.plot.test_plot import events_of
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.mark.parametrize("number", [7, 7.0, True, np.int64(7), np.float32(7), np.True_])
def test_a_number_is_no_length_of_time_and_no_instant(number: Any, tmp_path: Path) -> None:
    events, store = to_frame("events", []), ab.Store(tmp_path)
    lengths = {
        "period": lambda: ab.compare_periods(events, period=number),
        "longer_than": lambda: ab.timing(events, "gaps", longer_than=number),
        "unanswered_after": lambda: ab.turns(events, unanswered_after=number),
    }
    for name, call in lengths.items():
        with pytest.raises(ValueError, match=rf"^{name} must be a length .* a number has no unit, write '7D'\.$"):
            call()
    client = ab.Client("http://127.0.0.1:1/v1")
    instants = {
        "as_of": lambda: ab.turns(events, as_of=number),
        "as_of ": lambda: ab.credential_report(to_frame("credentials", []), as_of=number),
        "since": lambda: store.events(since=number),
        "until": lambda: store.events(until=number),
        "since ": lambda: ab.load_events(client, ["s"], since=number),
    }
    for name, call in instants.items():
        with pytest.raises(ValueError, match=rf"^{name.strip()} must be a time such as .* a number has no unit"):
            call()


GROUPED: dict[str, Any] = {
    "activity": lambda by: ab.activity(events_of(), by=by),
    "failures": lambda by: ab.failures(events_of(), by=by),
    "latency": lambda by: ab.latency(events_of(), by=by),
    "compare_periods": lambda by: ab.compare_periods(events_of(), by=by),
    "credential_summary": lambda by: ab.credential_summary(to_frame("credentials", []), by=by),
    "plot.latency": lambda by: ab.plot.latency(events_of(), by=by),
}


@pytest.mark.parametrize("name", GROUPED)
def test_what_is_no_name_of_a_column_is_not_grouped_by(name: str) -> None:
    for by in (5, [5], pd.Series(["a"]), {"a": 1}, to_frame("events", [])):
        with pytest.raises(ValueError, match=rf"^{name} groups by columns of its frame: by= must be a column's name"):
            GROUPED[name](by)
    if name in ("credential_summary", "plot.latency"):
        with pytest.raises(
            ValueError, match=rf"^{name} groups by one column: by= must be its name, not \['session_id'\]"
        ):
            GROUPED[name](["session_id"])


def test_a_summary_of_credentials_is_not_by_what_it_counts() -> None:
    for by in ("duplicates", "never_updated"):
        with pytest.raises(ValueError, match=f"credential_summary has a column '{by}' of its own"):
            GROUPED["credential_summary"](by)


@pytest.mark.parametrize("call", [ab.credential_report, ab.credential_summary, ab.plot.credentials])
def test_no_credentials_at_all_are_said_to_be_no_frame(call: Any) -> None:
    with pytest.raises(TypeError, match="needs a DataFrame, not a NoneType"):
        call(None)


def test_a_frame_with_a_column_twice_is_refused_by_its_name() -> None:
    events, credentials = events_of(), to_frame("credentials", [])
    for call, frame, twice in (
        (ab.turns, events, "created_at"),
        (ab.activity, events, "id"),
        (ab.credential_report, credentials, "id"),
    ):
        doubled = pd.concat([frame, frame[[twice]]], axis=1)
        with pytest.raises(ValueError, match=f"^{call.__name__} needs columns .* has '{twice}' more than once"):
            call(doubled)


def test_periods_are_compared_by_the_events_own_column() -> None:
    events, when = events_of(8), {"as_of": "2030-01-01", "period": "3000D"}
    half = events["session_id"].map({"s0": "A", "s1": "B", "s2": "B"})
    expected = ab.compare_periods(events.assign(team=half), by="team", **when)
    assert expected.query("metric == 'turns'")["after"].gt(0).all()
    for name in ("author_type", "status", "turn", "failure", "latency_s"):
        actual = ab.compare_periods(events.assign(**{name: half}), by=name, **when)
        pd.testing.assert_frame_equal(actual.rename(columns={name: "team"}), expected)
    by_id = ab.compare_periods(events, by="id", **when).query("metric == 'turns'")
    assert by_id["after"].sum() == len(ab.turns(events)), "a turn is its first event's"


def test_quantiles_may_come_one_by_one() -> None:
    turns = ab.turns(events_of())
    pd.testing.assert_frame_equal(
        ab.latency(turns, quantiles=(q for q in (0.5, 0.9))), ab.latency(turns, quantiles=[0.5, 0.9])
    )


ZONED: dict[str, Any] = {
    "activity": lambda tz: ab.activity(events_of(), "1D", tz=tz),
    "hour_of_week": lambda tz: ab.hour_of_week(events_of(), tz=tz),
    "latency": lambda tz: ab.latency(events_of(), freq="1D", tz=tz),
    "concurrency": lambda tz: ab.timing(events_of(), freq="1D", tz=tz),
    "plot.latency": lambda tz: ab.plot.latency(events_of(), tz=tz).data,
    "plot.activity_heatmap": lambda tz: ab.plot.activity_heatmap(events_of(), tz=tz).data,
}


@pytest.mark.parametrize("name", ZONED)
def test_a_time_zone_may_be_an_object_that_has_a_name(name: str) -> None:
    call = ZONED[name]
    zone = UTC if name == "activity" else ZoneInfo("Asia/Tokyo")
    actual, expected = call(zone), call(str(zone))
    assert actual.attrs == expected.attrs
    pd.testing.assert_frame_equal(actual, expected)
    with pytest.raises(ValueError, match=r"^tz must be an IANA name such as 'Europe/Berlin' or 'UTC'"):
        call(timezone(timedelta(hours=2)))
    with pytest.raises(ValueError, match="Unknown time zone 'Mars'"):
        call("Mars")


def test_ids_of_sessions_come_in_many_shapes() -> None:
    first, second = (f"019a0b1c-0000-7000-8000-00000000000{n}" for n in "ab")
    frame = pd.DataFrame({"id": [first, second], "workspace_id": "w", "full_name": None})
    events = pd.DataFrame({"id": ["e1", "e2"], "session_id": [first, second]})
    assert session_ids(None, pd.Series([first, None, second])) == [first, second], "as a column with nulls"
    assert session_ids(None, frame.iloc[1]) == session_ids(None, events.iloc[1]) == [second]
    assert session_ids(None, [frame.iloc[1], first, events.iloc[0]]) == [second, first]
    assert session_ids(None, next(frame.itertuples())) == [first]
    assert session_ids(None, UUID(first)) == session_ids(None, [UUID(first)]) == [first]
    address = f"https://host/v1/sessions/{first.upper()}/events"
    assert session_ids(None, [first.upper(), first, address, "S1", "s1"]) == [first, "S1", "s1"], (
        "only UUIDs are the same"
    )
    assert session_ids(None, frame.assign(id=[first, first.upper()])) == [first]
    with pytest.raises(TypeError, match=r"^sessions, item 1: Expected an id, a name or a record, not None"):
        session_ids(None, [first, None])


def test_a_session_in_upper_case_is_read_once(tmp_path: Path) -> None:
    session = "019a0b1c-0000-7000-8000-00000000000a"
    platform = HttpPlatform({session: [event_id(n, n) for n in range(21)]})
    assert len(ab.load_events(platform.client(), [session, session.upper()])) == 21
    store = ab.Store(tmp_path)
    store.sync(platform.client(), session)
    assert len(store.events(session.upper())) == 21


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (
            ab.AsyncClient("http://127.0.0.1:1/v1"),
            r"not an AsyncClient: .* `await asyncio.to_thread\(%s, ab.connect\(\), ",
        ),
        (None, r"not None: pass the Client that ab\.connect\(\) returns first\."),
        ("s", r"not a str: pass the Client that ab\.connect\(\) returns first\."),
    ],
)
def test_what_is_no_client_is_said_before_anything_is_read(client: Any, message: str, tmp_path: Path) -> None:
    calls = {
        "ab.load_events": ab.load_events,
        "ab.dask.load_events": ab.dask.load_events,
        "store.sync": ab.Store(tmp_path).sync,
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name} needs a Client, {message.replace('%s', name)}"):
            call(client, ["s"])

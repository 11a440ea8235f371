"""What people write for ``since=``, ``until=`` and ``tz=``, and what it means."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.span import Span, first_id_at, parse_instant, parse_length, parse_span, zone
from frames.accounts import Account
from support.fake_platform.core import event_id

NOW = datetime(2026, 10, 8, 12, tzinfo=UTC)
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-10-03", "2026-10-03T00:00Z"),
        (date(2026, 10, 3), "2026-10-03T00:00Z"),
        (np.datetime64("2026-10-03"), "2026-10-03T00:00Z"),
        ("2026-10-03T08:00", "2026-10-03T08:00Z"),
        (datetime(2026, 10, 3, 8), "2026-10-03T08:00Z"),
        (pd.Timestamp("2026-10-03 08:00"), "2026-10-03T08:00Z"),
        ("2026-10-03T08:00+02:00", "2026-10-03T06:00Z"),
        (pd.Timestamp("2026-10-03T08:00", tz="Asia/Tokyo"), "2026-10-02T23:00Z"),
        (datetime(2026, 10, 3, tzinfo=UTC), "2026-10-03T00:00Z"),
        ("7d", "2026-10-01T12:00Z"),
        (" 1.5 hours", "2026-10-08T10:30Z"),
        ("1d12h", "2026-10-07T00:00Z"),
        (timedelta(hours=12), "2026-10-08T00:00Z"),
        (pd.Timedelta("1D"), "2026-10-07T12:00Z"),
        (np.timedelta64(1, "D"), "2026-10-07T12:00Z"),
        (pd.Timedelta("1D").to_numpy(), "2026-10-07T12:00Z"),
    ],
)
def test_an_end_is_an_instant_a_date_a_clock_time_or_a_length(value: Any, expected: str) -> None:
    assert parse_span(value, now=NOW) == Span(datetime.fromisoformat(expected))
    assert parse_span(None, value, now=NOW).until == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    ("value", "tz", "expected"),
    [
        ("2026-10-03", "Asia/Tokyo", "2026-10-02T15:00Z"),
        ("2026-10-03 09:00", ZoneInfo("Europe/Berlin"), "2026-10-03T07:00Z"),
        ("2026-10-03T09:00Z", "Europe/Berlin", "2026-10-03T09:00Z"),
        ("2022-03-27", "Asia/Beirut", "2022-03-26T22:00Z"),  # a midnight that was skipped
        ("2026-10-25 02:30", "Europe/Berlin", "2026-10-25T00:30Z"),  # a time that comes twice
    ],
)
def test_what_has_no_zone_is_local_to_tz(value: Any, tz: Any, expected: str) -> None:
    assert parse_instant(value, "since", tz) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "value",
    ["soon", "", "30 days ago", "7", "7x", "7M", 5, 5.0, float("nan"), True, np.int64(5), np.True_, np.timedelta64(7),
     pd.NaT, np.datetime64("NaT"), [1], pd.Series([1]), {}, b"7d", "\ud83d", "9" * 400 + "d", "-1d", timedelta(-1)],
    ids=lambda value: ascii(value)[:20],
)  # fmt: skip
def test_what_is_no_time_gets_one_sentence(value: Any) -> None:
    for parse in (lambda: parse_span(value), lambda: parse_span(None, value), lambda: parse_length(value, "until")):
        with pytest.raises(ValueError, match=r"^(since|until) must be a (time|length of time) such as ") as raised:
            parse()
        assert len(str(raised.value)) < 500
        is_number = isinstance(value, int | float | np.integer | np.bool_ | np.timedelta64) and value == value
        assert ("a number has no unit" in str(raised.value)) >= is_number


def test_ends_that_are_exchanged_are_named() -> None:
    for ends in (("2026-10-08", "2026-10-01"), ("1h", "2h"), ("2026-10-01", "2026-10-01")):
        with pytest.raises(ValueError, match="since must be before until"):
            parse_span(*ends, now=NOW)
    with pytest.raises(ValueError, match="the start must be before the end"):
        parse_span("2026-10-08", "2026-10-01", names=("the start", "the end"))


def test_times_that_no_clock_shows_are_refused() -> None:
    for value, tz in (("0001-01-01", "Asia/Tokyo"), ("9999-12-31 23:00", "America/New_York")):
        with pytest.raises(ValueError, match="since must be in the years 1 to 9999"):
            parse_span(value, tz=tz)
    with pytest.raises(ValueError, match="since goes back"):
        parse_span("999999d")


@pytest.mark.parametrize("tz", ["Asia/Bombai", "../etc/passwd", "", "Europe/Berlin\x00", 3])
def test_a_zone_is_an_iana_name(tz: Any) -> None:
    with pytest.raises(ValueError, match=r"time zone|IANA"):
        zone(tz)
    if tz:
        with pytest.raises(ValueError, match=r"time zone|IANA"):
            parse_span("2026-10-01", tz=tz)


@given(st.text(max_size=20) | st.dates() | st.datetimes() | st.timedeltas())
def test_whatever_is_passed_is_read_or_refused(value: Any) -> None:
    with contextlib.suppress(ValueError):
        since = parse_span(value, now=NOW).since
        assert since is not None
        assert since.utcoffset() == timedelta(0)


# -- the functions that read events ------------------------------------------------


def test_events_of_a_session_are_those_of_the_span() -> None:
    """In pages of every size, by every way through the list."""
    platform = Account({"s1": [event_id(hour * HOUR_MS, hour) for hour in range(10)]})
    client = platform.client()
    since, until = (pd.Timestamp(platform.moment(hour * HOUR_MS)) for hour in (2, 6))
    expected = [event_id(hour * HOUR_MS, hour) for hour in range(2, 6)]
    listing = client.sessions.events("s1", since=since, until=until)
    assert [event["id"] for event in listing] == listing.to_pandas()["id"].to_list() == expected
    assert (len(listing), listing[3]["id"], [event["id"] for event in listing[1:3]]) == (4, expected[3], expected[1:3])
    with pytest.raises(IndexError):
        listing[4]
    assert expected[-1] in listing._repr_html_()
    assert event_id(6 * HOUR_MS, 6) not in listing._repr_html_()
    assert [event["id"] for event in client.sessions.events("s1", since=since, until=until, limit=2)] == expected[:2]
    assert ab.load_events(client, ["s1"], since=since, until=until)["id"].to_list() == expected
    assert ab.load_events(client, ["s1"], until=until)["id"].to_list()[-4:] == expected
    assert client.sessions.events("s1", until="2000-01-01").to_pandas().empty
    with pytest.raises(ab.InvalidInput, match="until= needs sort_by='id'"):
        client.sessions.events("s1", until=until, sort_by="-id")


def test_a_length_of_time_counts_back_from_now_for_every_load() -> None:
    hours_ago = [datetime.now(UTC) - timedelta(hours=hours) for hours in (5, 3, 1)]
    platform = Account({"s1": [first_id_at(moment) for moment in hours_ago]})
    client = platform.client()
    assert len(client.sessions.events("s1", since="4h")) == 2
    assert len(ab.load_events(client, ["s1"], since="4h", until="2h")) == 1

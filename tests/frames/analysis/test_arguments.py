"""Arguments mean the same in all analyses and charts, and wrong ones are named."""

from __future__ import annotations

import inspect
import warnings
from datetime import UTC, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.errors import EmptyWarning
from agentbook.frames.analysis.arguments import keep_top, period_range
from agentbook.frames.analysis.turns import REQUIRED
from agentbook.frames.dask import without_categories
from agentbook.frames.parse.frame import to_frame
from frames.analyses import OF_EVENTS, same
from frames.plot.test_plot import credentials_of, events_of
from frames.test_tabular import loaded, public_functions
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.fixture(scope="module")
def loaded_and_stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same events, from a platform and from a store."""
    platform = HttpPlatform({f"s{n}": [event_id(86_400_000 * d + 9000 * k + n, 10 * n + k) for d in range(2) for k in range(4)]
                       for n in range(3)})  # fmt: skip
    client, store = platform.client(), ab.Store(tmp_path_factory.mktemp("store"))
    store.sync(client, list(platform.sessions))
    return ab.load_events(client, list(platform.sessions)), store.events()


def data_for(function: str) -> pd.DataFrame:
    if "credential" in function:
        return credentials_of(9)
    return loaded("contexts") if function == "context_status" else events_of()


# -- every analysis


@pytest.mark.parametrize("name", OF_EVENTS)
def test_an_analysis_takes_events_of_any_origin_and_names_a_column_that_is_wrong(
    name: str, loaded_and_stored: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    analysis, (frame, stored) = OF_EVENTS[name], loaded_and_stored
    expected = analysis(frame)
    assert len(expected) or name == "failures"
    same(analysis(stored), expected)
    same(without_categories(analysis(without_categories(frame))), without_categories(expected))
    for other in (frame.sample(frac=1, random_state=1), pd.concat([frame, frame])):
        assert len(analysis(other)) == len(expected), "neither order nor repeats count"
    for column in REQUIRED:
        with pytest.raises(ValueError, match=rf"^\w+ needs the column '{column}'"):
            analysis(to_frame("events", []).drop(columns=column))
    at = frame["created_at"]
    for wrong in (at.astype("str"), at.dt.tz_localize(None)):
        with pytest.raises(
            ValueError, match=r"^\w+ needs the column 'created_at' as instants with a time zone, not as"
        ):
            analysis(frame.assign(created_at=wrong))
    same(analysis(frame.assign(created_at=at.dt.tz_convert("Asia/Tokyo"))), expected)
    assert list(analysis(frame.assign(created_at=None))) == list(expected), (
        "no instants at all are none, not wrong ones"
    )


@pytest.mark.parametrize("function", public_functions())
def test_a_span_a_group_or_a_zone_that_makes_no_sense_is_named(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    takes = inspect.signature(call).parameters
    if "since" in takes:
        with pytest.raises(ValueError, match="since must be before until"):
            call(data, since="2026-10-08", until="2026-10-01")
        with pytest.warns(
            EmptyWarning, match=r"none of \d+ rows lies in the span .* They are from 2026-10-0"
        ) as caught:
            call(data, until="2001-01-01")
        assert caught[0].filename == __file__, "the warning points at the caller's line"
    if "by" in takes:
        with pytest.raises(
            ValueError, match=rf"^{function} cannot group by 'colour', which is not a column.*_id|integ"
        ):
            call(data, by="colour")
        for by in (5, [5], pd.Series(["a"]), {"a": 1}):
            with pytest.raises(ValueError, match=rf"^{function} (groups|cannot group) by "):
                call(data, by=by)
    if "top" in takes:
        alone = ("credential_summary", "plot.credentials", "plot.authors", "plot.paths")
        named = {} if function in alone else {"by": "workspace_id"}
        with pytest.raises(ValueError, match="keeps the top= largest groups: a whole number of 1 or more"):
            call(data, **named, top=0)
    if "tz" in takes:
        for tz, message in ((timezone(timedelta(hours=2)), "tz must be an IANA name"), ("Mars", "Unknown time zone")):
            with pytest.raises(ValueError, match=message):
                call(data, tz=tz)


EMPTY = {
    "credential_report": "credentials.list",
    "credential_summary": "credentials.list",
    "context_status": "contexts",
}
EMPTY |= dict.fromkeys(("activity", "session_summary", "hour_of_week"), "ab.load_history")


@pytest.mark.parametrize("function", EMPTY)
def test_an_empty_frame_is_said_to_be_empty(function: str) -> None:
    call, data = public_functions()[function], data_for(function)
    with pytest.warns(EmptyWarning, match=rf"the frame has no rows.*{EMPTY[function]}\("):
        empty = call(data.iloc[:0])
    assert list(empty.columns) == list(call(data).columns)


def test_dask_meets_empty_frames_in_silence() -> None:
    pytest.importorskip("dask")
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyWarning)
        assert len(ab.dask.meta_of(ab.session_summary)) == 0


# -- columns and values


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda turns: ab.session_summary(turns), r"it has asked_at, author, .*\)\. ab\.load_events\("),
        (lambda turns: ab.session_summary(pd.DataFrame()), r"the frame has none\. ab\.load_events\("),
        (lambda turns: ab.latency(turns[["status"]]), r"it has status\)\. ab\.load_events\("),
        (lambda turns: ab.latency(turns.drop(columns="latency_s")), "latency needs the column 'latency_s'"),
        (lambda turns: ab.timing(turns.drop(columns="replied_at")), "timing needs the column 'replied_at'"),
        (lambda turns: ab.failures(turns.drop(columns="failure")), "failures needs the column 'failure'"),
        (lambda turns: ab.credential_report(turns), r"\)\. client\.credentials\.list\(account\)\.to_pandas\(\) makes a frame"),
        (lambda turns: ab.credential_findings(turns), r"\)\. ab\.credential_report\(credentials\) makes a frame"),
        (lambda turns: ab.credential_summary(REPORT.drop(columns="pool")), "needs the column 'pool'"),
        (lambda turns: ab.credential_findings(REPORT.drop(columns="findings")), "needs the column 'findings'"),
        (lambda turns: ab.context_status(loaded("contexts").drop(columns="published_by_id")), "column 'published_by_id'"),
        (lambda turns: ab.credential_report(NONE, candidates=turns[["turn"]]), r"\(candidates\) needs the column 'id'"),
    ],
)  # fmt: skip
def test_a_missing_column_is_named_with_the_call_that_makes_it(call: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        call(ab.turns(to_frame("events", [])))


NONE = to_frame("credentials", [])
REPORT = ab.credential_report(credentials_of(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda frame: ab.turns(frame, unanswered_after="soon"), "unanswered_after must be a length of time"),
        (lambda frame: ab.turns(frame, as_of="soon"), "as_of must be a time such as"),
        (lambda frame: ab.activity(events_of(), since="1h", until="2h"), "since must be before until"),
        (lambda frame: ab.activity(frame, since="soon"), "since must be a time such as"),
        *(
            (lambda frame, freq=freq: ab.activity(frame, freq), f"{freq!r} is not a period")
            for freq in ("fortnight", "0h", "-1h", "B", "2W", "")
        ),
        (lambda frame: ab.activity(events_of(), "1ms"), "choose a longer period"),
        (lambda frame: ab.timing(frame, "gaps", longer_than="soon"), "longer_than must be a length of time"),
        (lambda frame: ab.timing(frame, "idle", longer_than="-1D"), "longer_than must be a length of time"),
        (lambda frame: ab.timing(frame, "pauses"), "no what='pauses'"),
        (lambda frame: ab.timing(frame, "gaps", freq="1h"), "no freq= for 'gaps'"),
        (lambda frame: ab.compare_periods(frame, period="0D"), "period must be longer than zero"),
        (lambda frame: ab.compare_periods(frame, period="-1D"), "period must be a length of time"),
        (lambda frame: ab.activity(frame.assign(events=1), by=["type", "events"]), "has a column 'events' of its own"),
        (
            lambda frame: ab.failures(ab.turns(frame).assign(kind=1), by="kind"),
            "failures has a column 'kind' of its own",
        ),
        (lambda frame: ab.latency(ab.turns(frame).assign(n=1), by="n"), "latency has a column 'n' of its own"),
        (lambda frame: ab.compare_periods(frame.assign(z=1), by="z"), "compare_periods has a column 'z' of its own"),
        (lambda frame: ab.credential_summary(NONE, by="duplicates"), "has a column 'duplicates' of its own"),
        (
            lambda frame: ab.credential_summary(NONE, by=["pool"]),
            r"groups by one column: by= must be its name, not \['p",
        ),
        (lambda frame: ab.credential_report(NONE, as_of="soon"), "as_of must be a time such as"),
        (lambda frame: ab.turns(pd.concat([frame, frame[["created_at"]]], axis=1)), "'created_at' more than once"),
        (lambda frame: ab.activity(pd.concat([frame, frame[["id"]]], axis=1)), "has 'id' more than once"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(to_frame("events", []))


@pytest.mark.parametrize("number", [7, 7.0, True, np.int64(7), np.True_])
def test_a_number_is_no_length_of_time_and_no_instant(number: Any) -> None:
    events = to_frame("events", [])
    calls = {
        "period must be a length": lambda: ab.compare_periods(events, period=number),
        "longer_than must be a length": lambda: ab.timing(events, "gaps", longer_than=number),
        "unanswered_after must be a length": lambda: ab.turns(events, unanswered_after=number),
        "as_of must be a time": lambda: ab.turns(events, as_of=number),
        "since must be a time": lambda: ab.load_events(ab.Client("http://127.0.0.1:1/v1"), ["s"], since=number),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{message} .* a number has no unit"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: ab.latency(table, freq="1D", tz="Europe/Berlin"), "not all within the years 1 to 9999 in 'Eur"),
        (
            lambda table: ab.latency(
                table.assign(asked_at=pd.Timestamp("0001-01-01", tz="UTC").as_unit("us")), freq="1h", tz="America/Lima"
            ),
            "not all within the years 1 to 9999 in 'America/Lima'",
        ),
        (lambda table: ab.hour_of_week(table, value="turns", tz="Europe/Berlin"), "not all within the years 1 to 9999"),
        (lambda table: period_range(*table["asked_at"], "1ns", "UTC"), "span [0-9,]+ periods of '1ns'"),
        (lambda table: ab.latency(table, quantiles=[50]), "between 0 and 1"),
        (lambda table: ab.prompt_latency(table, bins="a"), "needs bins= as a number, or as two or more ascending"),
        (lambda table: ab.prompt_latency(table, bins=None), "needs bins= as a number, or as two or more ascending"),
    ],
)
def test_centuries_and_bins_get_a_sentence_too(call: Any, message: str) -> None:
    moments = pd.Series(["1970-01-01T00:00:00", "9999-12-31T23:30:00"], dtype="datetime64[us]").dt.tz_localize("UTC")
    table = pd.DataFrame({
        "session_id": "s", "turn": [0, 1], "asked_at": moments, "replied_at": moments, "latency_s": 0.0,
        "status": "answered", "prompt_chars": [1, 2],
    })  # fmt: skip
    with pytest.raises(ValueError, match=message):
        call(table)


def test_nulls_and_nan_in_a_frame_are_no_values() -> None:
    asked_at = pd.to_datetime(["2026-10-03T08:00Z", None, "2026-10-03T08:00Z", "2026-10-03T08:00Z"])
    table = pd.DataFrame(
        {
            "session_id": "s", "turn": [1, 2, 3, 4], "status": ["answered", "answered", None, "failed"], "asked_at": asked_at,
            "replied_at": pd.to_datetime(["2026-10-03T08:00:02Z", "2026-10-03T08:00:02Z", None, None]),
            "latency_s": [2.0, np.nan, np.nan, np.nan], "failure": None, "failure_message": None,
        }
    )  # fmt: skip
    assert ab.latency(table)[["n", "mean_s"]].to_numpy().tolist() == [[1, 2.0]]
    steps = ab.timing(table)
    assert (steps["in_flight"].to_list(), steps.attrs["agentbook"]["endless"]) == ([1, 0], 3)
    assert ab.failures(table)[["turns", "share"]].to_numpy().tolist() == [[1, 0.25]]
    quantiles = (q for q in (0.5, 0.9))
    pd.testing.assert_frame_equal(ab.latency(table, quantiles=quantiles), ab.latency(table, quantiles=[0.5, 0.9]))


# -- spans and zones


def test_a_span_includes_its_begin_and_not_its_end() -> None:
    events = events_of()
    begin, end = events["created_at"].iloc[5], events["created_at"].iloc[20]
    inside = events[(events["created_at"] >= begin) & (events["created_at"] < end)]
    table = ab.activity(events, since=begin, until=end)
    same(table, ab.activity(inside))
    assert table.attrs["agentbook"]["since"] == begin.isoformat()
    same(ab.hour_of_week(events, since=begin, until=end), ab.hour_of_week(inside))
    assert len(ab.activity(events, since="30d")) == len(ab.activity(events)), "before the frame was loaded"


def test_a_turn_belongs_to_the_span_of_its_question() -> None:
    events = events_of()
    times = ab.turns(events)["asked_at"].dropna().sort_values()
    begin = times.iloc[4] + pd.Timedelta("1s")  # between a question and its reply
    summary = ab.session_summary(events, since=begin)
    assert summary["turns"].sum() == (ab.turns(events)["asked_at"] >= begin).sum()
    assert (summary["first_at"] >= begin).all()
    with pytest.warns(EmptyWarning):
        assert ab.session_summary(events, since="2100-01-01").empty


ZONED: dict[str, Any] = {
    "activity": lambda tz: ab.activity(events_of(), "1D", tz=tz),
    "latency": lambda tz: ab.latency(events_of(), freq="1D", tz=tz),
    "plot.latency": lambda tz: ab.plot.latency(events_of(), tz=tz).data,
}


@pytest.mark.parametrize("name", ZONED)
def test_a_time_zone_may_be_an_object_that_has_a_name(name: str) -> None:
    zone = UTC if name == "activity" else ZoneInfo("Asia/Tokyo")
    actual, expected = ZONED[name](zone), ZONED[name](str(zone))
    assert actual.attrs == expected.attrs
    pd.testing.assert_frame_equal(actual, expected)


# -- groups


def test_an_index_may_be_named_like_a_column() -> None:
    table = ab.turns(to_frame("events", [b'{"items": [{"id": "e1", "session_id": "s", "author": {"type": "user"}}]}']))
    indexed = table.set_index("session_id", drop=False)
    for analysis in (ab.latency, ab.timing, ab.failures):
        expected = analysis(table, by="session_id")
        same(analysis(indexed, by="session_id"), expected)
        same(analysis(table.set_index(["turn", "session_id"], drop=False), by="session_id"), expected)
    assert indexed.index.name == "session_id"


def test_the_smallest_groups_are_counted_together() -> None:
    events = events_of(10, sessions=4)
    events = events[~((events["session_id"] == "s3") & (events.index % 2 == 0))]
    whole, table = (ab.activity(events, "1D", by="workspace_id", top=top) for top in (None, 2))
    assert set(table["workspace_id"]) == {"w0", "w1", "other"}
    assert table["events"].sum() == whole["events"].sum()
    other = table[table["workspace_id"] == "other"]
    assert other["sessions"].tolist() == [2]
    same(ab.activity(events, "1D", by="workspace_id", top=4), whole)


def test_groups_of_null_and_of_several_columns_are_kept_too() -> None:
    frame = pd.DataFrame({"a": ["x", "x", None, None, "y"], "n": pd.array([1, 1, 2, 2, 3], dtype="Int64")})
    top = keep_top(frame, ["a", "n"], 2, caller="f")
    assert top["a"].fillna("?").to_list() == ["x", "x", "?", "?", "other"]
    assert top["n"].to_list() == ["1", "1", "2", "2", "other"]
    with pytest.raises(ValueError, match="f has no groups to choose the top 3 of: add by="):
        keep_top(frame, [], 3, caller="f")
    for wrong in (-1, 2.5, "3", True):
        with pytest.raises(ValueError, match="a whole number of 1 or more"):
            keep_top(frame, ["a"], wrong, caller="f")  # type: ignore[arg-type]


def test_a_column_of_lists_is_no_group() -> None:
    report = ab.credential_report(credentials_of(3), to_frame("workspaces", [b'{"items": [{"id": "w"}]}']))
    with pytest.raises(ValueError, match=r"cannot group by 'open_in', a column of lists.* frame\.explode\('open_in'\)"):
        ab.credential_summary(report, by="open_in")


def test_contexts_are_counted_by_more_than_their_status() -> None:
    contexts = pd.concat([loaded("contexts").assign(id=str(n), workspace_id=f"w{n % 3}") for n in range(7)])
    table = ab.context_status(contexts, by="workspace_id", top=1)
    assert table[["workspace_id", "contexts"]].to_numpy().tolist() == [["other", 4], ["w0", 3]]


def test_periods_are_compared_by_the_events_own_column() -> None:
    events, when = events_of(8), {"as_of": "2030-01-01", "period": "3000D"}
    half = events["session_id"].map({"s0": "A", "s1": "B", "s2": "B"})
    expected = ab.compare_periods(events.assign(team=half), by="team", **when)
    assert expected.query("metric == 'turns'")["after"].gt(0).all()
    for name in ("author_type", "status", "latency_s"):
        actual = ab.compare_periods(events.assign(**{name: half}), by=name, **when)
        pd.testing.assert_frame_equal(actual.rename(columns={name: "team"}), expected)
    by_id = ab.compare_periods(events, by="id", **when).query("metric == 'turns'")
    assert by_id["after"].sum() == len(ab.turns(events)), "a turn is its first event's"

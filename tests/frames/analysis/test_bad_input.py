"""Bad input becomes a load problem or an error that names the field.

Each module's own tests hold the details; `test_bad_disks` tests disks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.analysis.arguments import period_range
from agentbook.frames.analysis.turns import REQUIRED
from agentbook.frames.dask import without_categories
from agentbook.frames.parse.frame import FrameBuilder, to_frame
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

AS_OF = "2030-01-01"
OF_EVENTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "turns": lambda frame: ab.turns(frame, as_of=AS_OF),
    "session_summary": lambda frame: ab.session_summary(frame, as_of=AS_OF),
    "activity": ab.activity,
    "hour_of_week": ab.hour_of_week,
    "failures": lambda frame: ab.failures(frame, as_of=AS_OF),
    "latency": ab.latency,
    "concurrency": ab.timing,
    "activity_gaps": lambda frame: ab.timing(frame, "gaps", longer_than="10s"),
    "idle_sessions": lambda frame: ab.timing(frame, "idle", as_of=AS_OF),
    "compare_periods": lambda frame: ab.compare_periods(frame, as_of=AS_OF, period="2000D"),
}


@pytest.fixture(scope="module")
def loaded_and_stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same events, from a platform and from a store."""
    platform = HttpPlatform({f"s{n}": [event_id(86_400_000 * d + 9000 * k + n, 10 * n + k) for d in range(2) for k in range(4)]
                       for n in range(3)})  # fmt: skip
    client, store = platform.client(), ab.Store(tmp_path_factory.mktemp("store"))
    store.sync(client, list(platform.sessions))
    return ab.load_events(client, list(platform.sessions)), store.events()


def same(actual: pd.DataFrame, expected: pd.DataFrame) -> None:
    actual, expected = actual.copy(), expected.copy()
    actual.attrs, expected.attrs = {}, {}
    pd.testing.assert_frame_equal(actual, expected)


# -- frames


@pytest.mark.parametrize("name", OF_EVENTS)
def test_an_analysis_takes_loaded_stored_and_plain_frames_alike(
    name: str, loaded_and_stored: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    analysis, (loaded, stored) = OF_EVENTS[name], loaded_and_stored
    expected = analysis(loaded)
    assert len(expected) or name == "failures"
    same(analysis(stored), expected)
    same(without_categories(analysis(without_categories(loaded))), without_categories(expected))
    for other in (loaded.sample(frac=1, random_state=1), pd.concat([loaded, loaded])):
        assert len(analysis(other)) == len(expected), "neither order nor repeats count"


@pytest.mark.parametrize("name", OF_EVENTS)
def test_an_analysis_says_which_column_is_missing(name: str) -> None:
    for column in REQUIRED:
        with pytest.raises(ValueError, match=rf"^\w+ needs the column '{column}'"):
            OF_EVENTS[name](to_frame("events", []).drop(columns=column))


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda turns: ab.session_summary(turns), r"it has asked_at, author, .*\)\. ab\.load_events\("),
        (lambda turns: ab.session_summary(pd.DataFrame()), r"the frame has none\. ab\.load_events\("),
        (lambda turns: ab.latency(turns[["status"]]), r"it has status\)\. ab\.load_events\("),
        (lambda turns: ab.credential_report(turns), r"\)\. client\.credentials\.list\(account\)\.to_pandas\(\) makes a frame"),
        (lambda turns: ab.credential_findings(turns), r"\)\. ab\.credential_report\(credentials\) makes a frame"),
    ],
)  # fmt: skip
def test_a_frame_of_another_kind_is_told_which_call_makes_the_right_one(call: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        call(ab.turns(to_frame("events", [])))


@pytest.mark.parametrize(
    ("analysis", "column"),
    [
        *((ab.failures, name) for name in ("failure", "failure_message", "replied_at", "session_id")),
        *((ab.latency, name) for name in ("latency_s",)),
        *((ab.timing, name) for name in ("replied_at",)),
    ],
)
def test_an_analysis_of_turns_says_so_too(analysis: Any, column: str) -> None:
    table = ab.turns(to_frame("events", [])).drop(columns=column)
    with pytest.raises(ValueError, match=f"{analysis.__name__} needs the column '{column}'"):
        analysis(table)


@pytest.mark.parametrize("name", OF_EVENTS)
def test_an_analysis_says_which_column_holds_no_instants(
    name: str, loaded_and_stored: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    frame = loaded_and_stored[0]
    at, analysis = frame["created_at"], OF_EVENTS[name]
    mixed = pd.Series(
        [moment.tz_convert("Asia/Tokyo") if n % 2 else moment for n, moment in enumerate(at)], dtype=object
    )
    for wrong in (at.astype("str"), at.dt.tz_localize(None), mixed):
        with pytest.raises(
            ValueError, match=r"^\w+ needs the column 'created_at' as instants with a time zone, not as "
        ):
            analysis(frame.assign(created_at=wrong))
    same(analysis(frame.assign(created_at=at.dt.tz_convert("Asia/Tokyo"))), analysis(frame))
    none = analysis(frame.assign(created_at=None))
    assert list(none.columns) == list(analysis(frame).columns), "no instants at all are none, not wrong ones"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda frame: ab.turns(frame, unanswered_after="soon"), "unanswered_after must be a length of time"),
        (lambda frame: ab.turns(frame, as_of="soon"), "as_of must be a time such as"),
        (lambda frame: ab.timing(frame, "gaps", longer_than="soon"), "longer_than must be a length of time"),
        (lambda frame: ab.timing(frame, "idle", longer_than="-1D"), "longer_than must be a length of time"),
        (lambda frame: ab.timing(frame, "pauses"), "no what='pauses'"),
        (lambda frame: ab.timing(frame, "gaps", freq="1h"), "no freq= for 'gaps'"),
        (lambda frame: ab.compare_periods(frame, period="0D"), "period must be longer than zero"),
        (lambda frame: ab.compare_periods(frame, period="-1D"), "period must be a length of time"),
        (
            lambda frame: ab.activity(frame.assign(events=1), by=["type", "events"]),
            "activity has a column 'events' of its own",
        ),
        (
            lambda frame: ab.failures(ab.turns(frame).assign(kind=1), by="kind"),
            "failures has a column 'kind' of its own",
        ),
        (lambda frame: ab.latency(ab.turns(frame).assign(n=1), by="n"), "latency has a column 'n' of its own"),
        (lambda frame: ab.compare_periods(frame.assign(z=1), by="z"), "compare_periods has a column 'z' of its own"),
        (lambda frame: ab.credential_report(to_frame("credentials", []), as_of="soon"), "as_of must be a time such as"),
        (
            lambda frame: ab.credential_report(to_frame("credentials", []), candidates=frame[["type"]]),
            r"credential_report \(candidates\) needs the column 'id'",
        ),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(to_frame("events", []))


def test_an_index_may_be_named_like_a_column() -> None:
    table = ab.turns(to_frame("events", [b'{"items": [{"id": "e1", "session_id": "s", "author": {"type": "user"}}]}']))
    indexed = table.set_index("session_id", drop=False)
    for analysis in (ab.latency, ab.timing, ab.failures):
        expected = analysis(table, by="session_id")
        same(analysis(indexed, by="session_id"), expected)
        same(analysis(table.set_index(["turn", "session_id"], drop=False), by="session_id"), expected)
    assert indexed.index.name == "session_id"


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


@pytest.mark.parametrize("name", OF_EVENTS)
def test_what_is_no_frame_is_said_to_be_none(name: str) -> None:
    with pytest.raises(TypeError, match="needs a DataFrame, not a list"):
        OF_EVENTS[name]([])  # type: ignore[arg-type]


def test_problems_are_those_of_a_loaded_frame() -> None:
    for wrong in (None, HttpPlatform({"s0": []}).client().sessions.events("s0"), [1]):
        with pytest.raises(
            TypeError, match=r"load_problems needs the DataFrame that was loaded, not a \w+: ab\.load_events"
        ):
            ab.load_problems(wrong)  # type: ignore[arg-type]


def test_the_analyses_of_credentials_and_contexts_say_so_too() -> None:
    report = ab.credential_report(to_frame("credentials", []))
    for call, frame, column in (
        (ab.credential_summary, report, "pool"),
        (ab.credential_findings, report, "findings"),
        (ab.context_status, to_frame("contexts", []), "published_by_id"),
    ):
        with pytest.raises(ValueError, match=f"needs the column '{column}'"):
            call(frame.drop(columns=column))


def test_every_bad_item_is_a_row_or_a_problem() -> None:
    good = {"id": event_id(1, 1), "type": "note", "created_at": "2026-10-03T08:15:00Z"}
    items = [
        good,
        "malformed",
        {},
        {**good, "id": event_id(2, 2), "type": ["wrong"], "created_at": 7},
        {**good, "id": event_id(3, 3), "created_at": "2026-10-03T10:15:00"},
        {**good, "id": event_id(4, 4), "created_at": "2026-10-03T10:15:00+02:00"},
        good,
    ]
    body = json.dumps({"items": items}).replace('"malformed"', "NaN")
    frame = to_frame("events", [body.encode()], context={"session_id": "s"})
    assert len(frame) == len(items)
    problems = ab.load_problems(frame)
    locations = set(zip(problems["row"].fillna(-1), problems["field"], strict=True))
    assert locations >= {(1, "$item"), (2, "id"), (3, "type"), (3, "created_at"), (4, "created_at")}
    assert problems["problem"].ne("").all()
    assert frame["created_at"].dropna().dt.hour.to_list() == [8, 10, 8, 8], "every zone is UTC"
    assert json.loads(frame["extra"][3]) == {"type": ["wrong"], "created_at": 7}
    with pytest.warns(UserWarning, match="2 of 7 rows"):
        table, activity = ab.turns(frame), ab.activity(frame)
    assert table.attrs["agentbook"]["dropped"] == 3, "two without an id, one that came twice"
    assert activity.attrs["agentbook"]["undated"] == 1


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


# -- secrets

SECRET = "5up3rs3cret-value"
CREDENTIAL = {
    "id": "c1", "integration": "github", "owner_id": "o", "params": {"token": SECRET}, "extra_data": {"x": SECRET},
    "config_params": {"y": [SECRET]}, "webhook_enabled": True, "webhook_url": f"https://u:{SECRET}@h.example/{SECRET}",
}  # fmt: skip


def test_no_secret_in_errors_of_a_load_that_stops_half_way() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.params.get("offset"):
            return httpx.Response(400, json={"status": 400, "error": "InvalidInput", "message": "no"})
        items = [{**CREDENTIAL, "id": f"c{n}"} for n in range(500)]
        return httpx.Response(200, json={"items": items, "pagination": {"total_count": 900, "has_more": True}})

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.raises(ab.PartialLoad) as raised:
        client.credentials.list("acme").to_pandas()
    error = raised.value
    with pd.option_context("display.max_columns", None, "display.max_colwidth", None):
        shown = repr(error) + str(error) + repr(vars(error)) + error.partial_frame.to_csv()
    assert len(error.partial_frame) == 500
    assert SECRET not in shown
    with pytest.raises(ValueError) as missing:
        ab.credential_report(error.partial_frame.drop(columns="params"))
    assert SECRET not in str(missing.value)


def test_a_report_of_a_revealed_frame_reveals_nothing() -> None:
    revealed = to_frame("credentials", [json.dumps({"items": [CREDENTIAL]}).encode()], reveal=True)
    assert SECRET in revealed.to_csv()
    report = ab.credential_report(revealed)
    shown = report.to_csv() + ab.credential_findings(report).to_csv() + ab.credential_summary(report).to_csv()
    assert SECRET not in shown + json.dumps(report.attrs)
    assert report["webhook_host"].to_list() == ["h.example"]


def test_revealing_warns_in_a_notebook_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    FrameBuilder("credentials", reveal=True)  # warnings are errors here: none came

    class Shell:
        kernel = object()

    class IPython:
        @staticmethod
        def get_ipython() -> Shell:
            return Shell()

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    with pytest.warns(UserWarning, match="clear its outputs before you share"):
        FrameBuilder("credentials", reveal=True)
    FrameBuilder("credentials")
    FrameBuilder("events", reveal=True)

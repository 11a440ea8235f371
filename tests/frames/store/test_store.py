"""The local store: what is new is fetched once, whenever it became visible, and may be
read in many ways.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.parse.frame import FrameBuilder
from agentbook.frames.store import sync as syncing
from agentbook.frames.store.cursors import next_cursor, split_at_overlap
from agentbook.frames.store.manifest import SessionCursor
from agentbook.frames.store.storage import LocalStorage, StoreBusy, StoreError, open_storage
from agentbook.frames.store.store import Store
from frames.stored import DAY, everything, plain_rows, three_days
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.fixture
def platform() -> HttpPlatform:
    return three_days()


def test_a_store_in_the_home_directory_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    store = Store("~/events")
    store.sync(HttpPlatform({"s": [event_id(1, 1)]}).client(), "s")
    assert Path(store.path) == tmp_path / "events", "who opens the path, such as DuckDB, knows no ~"
    assert (tmp_path / "events" / "manifest.json").exists()


def test_a_store_holds_what_load_events_gives(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path / "store")
    report = store.sync(client, list(platform.sessions))
    loaded = ab.load_events(client, list(platform.sessions))
    assert (report.events, report.late, report.sessions, report.failed) == (60, 0, 5, {})
    pd.testing.assert_frame_equal(store.events(), loaded)
    pd.testing.assert_frame_equal(store.turns(as_of="2030-01-01"), ab.turns(loaded, as_of="2030-01-01"))
    assert plain_rows(tmp_path / "store") == everything(platform)
    assert len(store.verify()) == 0
    assert store.events().attrs["agentbook"]["complete"] is True
    assert "60 events of 5 sessions" in repr(store)


def test_a_second_sync_fetches_only_what_is_new_and_what_was_late(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    last = int(platform.ids("s1")[-1].replace("-", "")[:12], 16) - platform.millisecond(0)
    platform.add("s1", event_id(last - 4000, 90), event_id(last + 1, 91))
    platform.queries.clear()
    report = store.sync(client)
    assert (report.events, report.late, report.requests) == (2, 1, 5)
    assert all(query.get("from_id") in everything(platform) for query in platform.queries), "real cursors only"
    assert store.events()["id"].tolist() == [event for n in range(5) for event in platform.ids(f"s{n}")]
    assert store.sync(client).events == 0
    assert len(store.verify()) == 0


def test_what_came_later_than_the_overlap_is_found_by_a_greater_one_or_by_a_full_sync(
    platform: HttpPlatform, tmp_path: Path
) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    platform.add("s0", event_id(5, 80), event_id(DAY + 150, 81))
    assert store.sync(client).events == 0
    assert store.sync(client, overlap_s=2 * 86_400).late == 1
    assert store.sync(client, full=True).late == 1
    assert store.events("s0")["id"].tolist() == platform.ids("s0")
    assert store.sync(client, full=True).events == 0


def test_events_can_be_asked_for_by_session_time_and_column(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    some = store.events(
        ["s1", "s3"], since=platform.moment(DAY), until=platform.moment(2 * DAY), columns=["id", "text"]
    )
    start, end = event_id(DAY, 0), event_id(2 * DAY, 0)
    assert some["id"].tolist() == [event for n in (1, 3) for event in platform.ids(f"s{n}") if start <= event < end]
    assert list(some.columns) == ["id", "text"]
    assert len(store.events(columns=["type"])) == 60
    with pytest.raises(ValueError, match="no column 'typ'"):
        store.events(columns=["typ"])


def test_what_is_asked_for_may_be_said_in_many_ways(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    since = platform.moment(DAY)
    expected = store.events(since=since)["id"].tolist()
    assert 0 < len(expected) < len(everything(platform))
    for instant in (since.isoformat(), since.replace(tzinfo=None), pd.Timestamp(since).tz_convert("Asia/Tokyo")):
        assert store.events(since=instant)["id"].tolist() == expected
    assert store.events(since=since.date(), until="2100-01-01").shape == store.events(since=str(since.date())).shape
    assert store.events(columns="type").columns.tolist() == ["type"]
    assert store.events(columns=["id", "type", "id"]).columns.tolist() == ["id", "type"]
    for call, message in (
        (lambda: store.events(since="soon"), "since must be a time such as"),
        (lambda: store.events(until=pd.NaT), "until must be a time such as"),
        (lambda: store.events([{"id": "w", "full_name": "acme~lab"}]), "pass sessions instead of 'acme~lab'"),
        (lambda: store.sync(platform.client(), overlap_s=float("inf")), "overlap_s must be a number of seconds"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_an_empty_store_is_an_empty_frame(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert len(store.events()) == 0
    assert len(store.turns()) == 0
    assert len(store.verify()) == 0
    assert list(store.events().columns) == list(ab.load_events(HttpPlatform({}).client(), []).columns)


def test_sql_sees_the_events(platform: HttpPlatform, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'agentbook[duckdb]'")
    store = Store(tmp_path)
    assert store.query("SELECT count(*) AS n FROM events")["n"].tolist() == [0]
    store.sync(platform.client(), list(platform.sessions))
    counts = store.query(
        "SELECT session_id, count(*) AS n FROM events WHERE type = $kind GROUP BY 1 ORDER BY 1", kind="message"
    )
    assert counts["session_id"].tolist() == [f"s{n}" for n in range(5)]
    assert counts["n"].tolist() == [6] * 5
    assert str(store.query('SELECT min("at") AS first FROM events')["first"][0].tz) == "UTC"


def test_without_duckdb_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"agentbook\[duckdb\]"):
        Store(tmp_path).query("SELECT 1")


def test_compacting_changes_no_row(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path, groups=2)
    for n in range(5):
        store.sync(client, f"s{n}")
    before = store.events()
    counts = store.compact()
    assert counts[0] > counts[1] == 6
    pd.testing.assert_frame_equal(store.events(), before)
    assert plain_rows(tmp_path) == everything(platform)
    assert store.compact() == (6, 6)
    assert len(store.verify()) == 0
    assert store.sync(client).events == 0


def sync_in_pieces(store: Store, platform: HttpPlatform, data: st.DataObject) -> None:
    """A sync in small pages and commits that may be interrupted
    at a request.
    """
    stops = data.draw(st.none() | st.integers(1, 8))
    requests = itertools.count(1)

    def answer(request: httpx.Request) -> httpx.Response:
        if next(requests) == stops:
            raise KeyboardInterrupt
        return platform.respond(request)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(HttpPlatform, "page_limit", data.draw(st.integers(1, 5)))
        patch.setattr(syncing, "COMMIT_ROWS", data.draw(st.integers(1, 9)))
        store.sync(client, ["a", "b"], full=data.draw(st.booleans()))


@settings(max_examples=20)
@given(data=st.data())
def test_however_syncs_and_late_commits_interleave_each_event_is_there_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store")
    platform = HttpPlatform({"a": [], "b": []}, known_cursors_only=data.draw(st.booleans()))
    held: list[tuple[str, str]] = []
    now = 0
    store = Store(path, groups=data.draw(st.integers(1, 3)))
    for n in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.sampled_from([0, 1, 700, 3000, DAY]))
        # An event that is written late comes before anything 5 s younger is.
        for session, late in [
            event for event in held if int(event[1].replace("-", "")[:12], 16) < platform.millisecond(now - 4900)
        ]:
            platform.add(session, late)
            held.remove((session, late))
        session, event = data.draw(st.sampled_from(["a", "b"])), event_id(now, n)
        if data.draw(st.booleans()):
            held.append((session, event))
        else:
            platform.add(session, event)
        match data.draw(st.sampled_from(["nothing", "sync", "sync in pieces", "sync one", "compact"])):
            case "sync":
                store.sync(platform.client(), ["a", "b"])
            case "sync in pieces":
                sync_in_pieces(store, platform, data)
            case "sync one":
                store.sync(platform.client(), [data.draw(st.sampled_from(["a", "b"]))])
            case "compact":
                store.compact()
    for session, late in held:
        platform.add(session, late)
    store.sync(platform.client(), ["a", "b"])
    assert store.events()["id"].tolist() == platform.ids("a") + platform.ids("b")
    assert plain_rows(path) == everything(platform)
    assert len(store.verify()) == 0


def test_a_store_may_lie_anywhere_fsspec_goes(platform: HttpPlatform, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    client, store = platform.client(), Store("memory://anywhere/store", groups=2)
    for session in platform.sessions:
        store.sync(client, session)
    assert store.compact()[1] == 6
    assert store.sync(client).events == 0
    assert sorted(store.events()["id"]) == everything(platform)
    assert len(store.verify()) == 0
    with open_storage("memory://anywhere/store").lock(0), pytest.raises(StoreBusy, match="process"):
        store.sync(client, wait_s=0)
    assert isinstance(open_storage(f"file://{tmp_path}"), LocalStorage)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store("nosuchprotocol://x")


def test_a_sync_commits_as_it_goes(platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "COMMIT_ROWS", 12)
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    assert json.loads((tmp_path / "manifest.json").read_bytes())["generation"] == 6
    assert isinstance(store.events()["at"].dtype, pd.DatetimeTZDtype)
    assert pa.types.is_dictionary(ds.dataset(tmp_path / "events").schema.field("type").type)


@given(
    times=st.lists(st.integers(0, 30_000), min_size=1, max_size=40),
    overlap_s=st.floats(0, 40),
    drafts=st.lists(st.integers(0, 39), max_size=3),
)
@example(times=[0, 5_000, 10_000], overlap_s=5.0, drafts=[])
def test_the_cursor_taken_from_columns_is_that_of_the_list_of_ids(
    times: list[int], overlap_s: float, drafts: list[int]
) -> None:
    ids = sorted(event_id(at, n) for n, at in enumerate(times))
    ids = [f"zz-draft-{n}" if n in drafts else event for n, event in enumerate(ids)]
    builder = FrameBuilder("events", {"session_id": "s"})
    builder.add(json.dumps({"items": [{"id": event} for event in ids]}).encode())
    table, overlap_ms = builder.to_arrow(), int(overlap_s * 1000)
    split = split_at_overlap(sorted(ids, key=str.lower), overlap_ms, "the beginning")
    assert next_cursor(table, "the beginning", [], overlap_ms) == SessionCursor(*split)

"""The local store: what is new is fetched once, whenever it became visible, and may be
read in many ways.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.store import files
from agentbook.frames.store import sync as syncing
from agentbook.frames.store.files import StoreBusy, StoreError
from agentbook.frames.store.store import Store
from frames.accounts import Account, busy_account
from frames.stored import DAY, everything, plain_rows, three_days
from support.clients import client_of
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform
from support.s3 import bucket as bucket


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


def test_what_came_later_than_the_overlap_is_found_by_a_greater_one_or_by_a_full_sync(
    platform: HttpPlatform, tmp_path: Path
) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    platform.add("s0", event_id(5, 80), event_id(DAY + 150, 81))
    assert store.sync(client).events == 0
    assert store.sync(client, full=True).late == 2
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
        (lambda: store.events(since="2026-11-02", until="2026-11-01"), "since must be before until"),
        (lambda: store.events(until=pd.NaT), "until must be a time such as"),
        (lambda: store.events([{"id": "w", "full_name": "acme~lab"}]), "pass sessions instead of 'acme~lab'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_sql_sees_the_events(platform: HttpPlatform, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'agentbook[duckdb]'")
    store = Store(tmp_path)
    with pytest.warns(ab.errors.EmptyWarning, match="check the path"):
        assert store.query("SELECT count(*) AS n FROM events")["n"].tolist() == [0]
    store.sync(platform.client(), list(platform.sessions))
    counts = store.query(
        "SELECT session_id, count(*) AS n FROM events WHERE type = $kind GROUP BY 1 ORDER BY 1", kind="message"
    )
    assert counts["session_id"].tolist() == [f"s{n}" for n in range(5)]
    assert counts["n"].tolist() == [6] * 5
    assert str(store.query('SELECT min("at") AS first FROM events')["first"][0].tz) == "UTC"


def test_sql_touches_no_other_file(platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'agentbook[duckdb]'")
    monkeypatch.chdir(tmp_path)
    Path(".tmp").mkdir()  # DuckDB's own, for what exceeds the memory
    for name in ("other.csv", ".tmp/private.csv"):
        Path(name).write_text("secret\n42\n")
    store = Store(tmp_path / "store")
    store.sync(platform.client(), "s1")
    for sql in (
        "COPY events TO '{folder}/copy.csv'",
        "SELECT * FROM events; COPY (SELECT 1) TO '{folder}/copy.parquet'",
        "SELECT 1; SELECT 2",
        "SELECT 1) ; COPY (SELECT 1) TO '.tmp/copy.csv'; FROM (SELECT 2",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '.tmp/copy.csv'",
        "COPY (PIVOT events ON type) TO '.tmp/copy.csv'",
        "ATTACH '.tmp/other.db'",
        "SELECT * FROM read_csv('.tmp/private.csv')",
        "SELECT * FROM glob('.tmp/*')",
        "CREATE TABLE copy AS SELECT 1",
        "",
        "EXPORT DATABASE '{folder}/export'",
        "ATTACH '{folder}/other.db'",
        "SET log_query_path = '{folder}/queries.log'",
        "CALL enable_logging(storage = 'file', storage_path = '{folder}/logs')",
        "PRAGMA enable_profiling = 'json'",
        "SELECT * FROM '{folder}/other.csv'",
        "SELECT * FROM read_csv('{folder}/other.csv')",
        "SELECT * FROM read_text('{folder}/other.csv')",
        "SELECT * FROM glob('{folder}/*')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
    ):
        with pytest.raises(duckdb.Error):
            store.query(sql.format(folder=tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {".tmp", "other.csv", "store"}
    assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["private.csv"]
    assert len(store.query("PIVOT events ON type USING count(*)")) > 0
    assert store.query("SELECT count(*) AS n FROM events")["n"][0] > 0


def test_without_duckdb_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match="pip install duckdb"):
        Store(tmp_path).query("SELECT 1")


def test_compacting_changes_no_row(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    for n in range(5):
        store.sync(client, f"s{n}")
    before = store.events()
    assert store.compact() == (5, 1)
    pd.testing.assert_frame_equal(store.events(), before)
    assert plain_rows(tmp_path) == everything(platform)
    assert store.compact() == (1, 1)
    assert store.sync(client).events == 0


def test_many_syncs_leave_few_files(tmp_path: Path) -> None:
    platform, store = HttpPlatform({"s": []}), Store(tmp_path)
    for n in range(40):
        platform.add("s", event_id(10_000 * n, n))
        store.sync(platform.client(), "s")
        assert len(list((tmp_path / "events").iterdir())) <= files.MAX_SMALL
    assert store.events()["id"].tolist() == platform.ids("s")


def sync_in_pieces(store: Store, platform: HttpPlatform, data: st.DataObject) -> None:
    """A sync in small pages and commits, which may be interrupted at a request."""
    stops = data.draw(st.none() | st.integers(1, 8))
    requests = itertools.count(1)

    def answer(request: httpx.Request) -> httpx.Response:
        if next(requests) == stops:
            raise KeyboardInterrupt
        return platform.respond(request)

    client = client_of(answer)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(HttpPlatform, "page_limit", data.draw(st.integers(1, 5)))
        patch.setattr(syncing, "COMMIT_ROWS", data.draw(st.integers(1, 9)))
        store.sync(client, ["a", "b"], full=data.draw(st.booleans()))


@given(data=st.data())
def test_however_syncs_and_late_commits_interleave_each_event_is_there_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store")
    platform = HttpPlatform({"a": [], "b": []}, known_cursors_only=data.draw(st.booleans()))
    held: list[tuple[str, str]] = []
    now = 0
    store = Store(path)
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


def test_a_store_may_lie_in_a_bucket(bucket: str, platform: HttpPlatform) -> None:
    client, store = platform.client(), Store(f"{bucket}/store")
    for session in platform.sessions:
        store.sync(client, session)
    assert store.compact() == (5, 1)
    assert store.sync(client).events == 0
    again = Store(f"{bucket}/store")
    assert sorted(again.events()["id"]) == everything(platform)
    assert again.query("SELECT count(*) AS n FROM events")["n"].item() == 60
    with pytest.raises(StoreError, match=r"no-bucket.*cannot be written"):
        Store("s3://no-bucket/store").sync(client, "s0")


def test_a_store_may_be_named_by_an_address(platform: HttpPlatform, tmp_path: Path) -> None:
    local, client = Store(f"file://{tmp_path}/local"), platform.client()
    local.sync(client, "s0")
    assert Store(tmp_path / "local").sessions == ["s0"]
    with pytest.raises(StoreError, match="cannot be opened"):
        Store("nosuchprotocol://x")


def test_a_second_writer_of_a_store_without_locks_is_noticed(bucket: str, platform: HttpPlatform) -> None:
    path = f"{bucket}/busy"

    def meanwhile(request: httpx.Request) -> httpx.Response:
        if not Store(path).sessions:
            Store(path).sync(platform.client(), "s1")
        return platform.respond(request)

    client = client_of(meanwhile)
    with pytest.raises(StoreBusy, match="Sync again"):
        Store(path).sync(client, "s0")
    assert Store(path).events()["id"].tolist() == platform.ids("s1")
    assert Store(path).sync(client, "s0").events == 12


def test_a_sync_commits_as_it_goes(platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "COMMIT_ROWS", 12)
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    assert json.loads((tmp_path / "manifest.json").read_bytes())["generation"] == 6
    assert isinstance(store.events()["at"].dtype, pd.DatetimeTZDtype)
    assert pa.types.is_dictionary(ds.dataset(tmp_path / "events").schema.field("type").type)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
def test_only_the_owner_can_read_what_is_stored(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.sync(platform.client(), list(platform.sessions))
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "store").rglob("*")} == {0}


# -- stores of earlier versions ----------------------------------------------------

STORE_0_2 = Path(__file__).parent / "store_of_0_2"  # as agentbook 0.2 wrote it


def account_of_0_2() -> Account:
    """The platform from which the store was synced, three times."""
    platform = busy_account()
    platform.add("alone", event_id(5, 5))
    platform.say("s1", 30)
    return platform


def test_a_store_of_the_last_release_is_read_and_synced(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    shutil.copytree(STORE_0_2, folder)
    # One of its files as in a store of 0.1, which 0.2 took over with its names.
    file = min(folder.glob("events/*"))
    taken_over = f"events/day=2026-10-03/group=5/part-{file.name}"
    (folder / taken_over).parent.mkdir(parents=True)
    file.rename(folder / taken_over)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f"events/{file.name}", taken_over))
    platform, store = account_of_0_2(), Store(folder)
    assert sorted(store.events()["id"]) == everything(platform)
    assert (store.history().account, len(store.history().turns)) == ("acme", 8)
    platform.say("s2", 40)
    report = store.sync(platform.client())
    assert (report.events, report.sessions, report.unchanged) == (2, 7, 5)
    assert store.compact() == (4, 1)
    assert store.sync(platform.client(), full=True).events == 0
    assert sorted(store.events()["id"]) == everything(platform) == plain_rows(tmp_path / "store")

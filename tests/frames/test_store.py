"""The local store: what is new is fetched once, whatever happens meanwhile, and what is wrong is said with the file's name."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames import fetch
from agentbook.frames.load import FrameBuilder
from agentbook.frames.pace import Pace
from agentbook.frames.store import sync as syncing
from agentbook.frames.store.manifest import Cursor, Manifest
from agentbook.frames.store.place import LOCK, Local, StoreBusy, StoreError, place_of
from agentbook.frames.store.store import Store
from frames.platform import FakeEvents, event_id

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


@pytest.fixture
def platform() -> FakeEvents:
    return FakeEvents(
        {
            f"s{n}": [event_id(n + DAY * day + 100 * k, 10 * n + k) for day in range(3) for k in range(4)]
            for n in range(5)
        }
    )


def plain_rows(path: Path) -> list[str]:
    """What a reader that knows nothing of agentbook sees."""
    return sorted(ds.dataset(path / "events", partitioning="hive").to_table()["id"].to_pylist())


def everything(platform: FakeEvents) -> list[str]:
    return sorted(one for ids in platform.sessions.values() for one in ids)


def test_a_store_holds_what_load_events_gives(platform: FakeEvents, tmp_path: Path) -> None:
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


def test_a_second_sync_fetches_only_what_is_new_and_what_was_late(platform: FakeEvents, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    last = int(platform.ids("s1")[-1].replace("-", "")[:12], 16) - platform.millisecond(0)
    platform.add("s1", event_id(last - 4000, 90), event_id(last + 1, 91))
    platform.queries.clear()
    report = store.sync(client)
    assert (report.events, report.late, report.requests) == (2, 1, 5)
    assert all(query.get("from_id") in everything(platform) for query in platform.queries), "real cursors only"
    assert store.events()["id"].tolist() == [one for n in range(5) for one in platform.ids(f"s{n}")]
    assert store.sync(client).events == 0
    assert len(store.verify()) == 0


def test_what_came_later_than_the_overlap_is_found_by_a_greater_one_or_by_a_full_sync(
    platform: FakeEvents, tmp_path: Path
) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    platform.add("s0", event_id(5, 80), event_id(DAY + 150, 81))
    assert store.sync(client).events == 0
    assert store.sync(client, overlap_s=2 * 86_400).late == 1
    assert store.sync(client, full=True).late == 1
    assert store.events("s0")["id"].tolist() == platform.ids("s0")
    assert store.sync(client, full=True).events == 0


def test_events_can_be_asked_for_by_session_time_and_column(platform: FakeEvents, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    some = store.events(
        ["s1", "s3"], since=platform.moment(DAY), until=platform.moment(2 * DAY), columns=["id", "text"]
    )
    start, end = event_id(DAY, 0), event_id(2 * DAY, 0)
    assert some["id"].tolist() == [one for n in (1, 3) for one in platform.ids(f"s{n}") if start <= one < end]
    assert list(some.columns) == ["id", "text"]
    assert len(store.events(columns=["type"])) == 60
    with pytest.raises(ValueError, match="no column 'typ'"):
        store.events(columns=["typ"])


def test_what_is_asked_for_may_be_said_in_many_ways(platform: FakeEvents, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    since = platform.moment(DAY)
    wanted = store.events(since=since)["id"].tolist()
    assert 0 < len(wanted) < len(everything(platform))
    for one in (since.isoformat(), since.replace(tzinfo=None), pd.Timestamp(since).tz_convert("Asia/Tokyo")):
        assert store.events(since=one)["id"].tolist() == wanted
    assert store.events(since=since.date(), until="2100-01-01").shape == store.events(since=str(since.date())).shape
    assert store.events(columns="type").columns.tolist() == ["type"]
    assert store.events(columns=["id", "type", "id"]).columns.tolist() == ["id", "type"]
    for call, said in (
        (lambda: store.events(since="soon"), "since must be a time such as"),
        (lambda: store.events(until=pd.NaT), "until must be a time such as"),
        (lambda: store.events([{"id": "w", "full_name": "acme~lab"}]), "name sessions, not 'acme~lab'"),
        (lambda: store.sync(platform.client(), overlap_s=float("inf")), "overlap_s must be a number of seconds"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_an_empty_store_is_an_empty_frame(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert len(store.events()) == 0
    assert len(store.turns()) == 0
    assert len(store.verify()) == 0
    assert list(store.events().columns) == list(ab.load_events(FakeEvents({}).client(), []).columns)


def test_sql_sees_the_events(platform: FakeEvents, tmp_path: Path) -> None:
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


def test_compacting_changes_no_row(platform: FakeEvents, tmp_path: Path) -> None:
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


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_session_that_cannot_be_read_is_named_and_the_others_are_kept(platform: FakeEvents, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    with pytest.raises(ab.PartialLoad) as raised:
        store.sync(client, ["s0", "gone"])
    assert set(raised.value.problems) == {"gone"}
    assert "The store has what has arrived; error.resume() reads what is missing." in str(raised.value)
    assert store.events()["id"].tolist() == platform.ids("s0")
    assert store.events().attrs["agentbook"]["complete"] is False
    assert store.sync(client, ["gone"], errors="keep").failed.keys() == {"gone"}
    platform.add("gone", event_id(1, 1))
    assert raised.value.resume().events == 1
    assert store.events().attrs["agentbook"]["complete"] is True


def test_malformed_items_and_strangers_are_problems_not_rows_lost_silently(tmp_path: Path) -> None:
    good = {"id": event_id(1, 1), "type": "note", "created_at": "2026-10-03T08:15:00Z"}
    items = [good, {"id": event_id(2, 2), "session_id": "other"}, {**good, "id": event_id(3, 3), "type": 5}, 7, good]
    body = json.dumps({"items": items, "pagination": {"has_more": False}}).encode()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    store = Store(tmp_path)
    report = store.sync(ab.Client("http://h/v1", http_client=httpx.Client(transport=transport)), "s")
    said = set(report.problems["problem"].str.split(":").str[0])
    assert {"an event of a session that was not asked for", "the item is not an object"} <= said
    assert report.problem_count == len(report.problems)
    assert report.problems["session_id"].eq("s").all()
    kept = store.events()
    assert sorted(kept["id"].dropna()) == [event_id(1, 1), event_id(3, 3)]
    assert kept["extra"].notna().sum() == 1
    nameless = report.problems[report.problems["problem"].str.startswith("not stored")]
    assert json.loads(json.loads(nameless["raw"].item())["extra"]) == {"$item": 7}
    assert len(store.verify()) == 0


def test_a_full_disk_names_the_file_and_leaves_the_store_as_it_was(
    platform: FakeEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, ["s0"])
    before = (tmp_path / "manifest.json").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"events.day=.*cannot be written: the disk is full"):
            store.sync(client, list(platform.sessions))
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert plain_rows(tmp_path) == platform.ids("s0")
    assert not list(tmp_path.rglob(".writing-*"))
    assert store.sync(client, list(platform.sessions)).events == 48


def test_a_newer_a_damaged_and_an_unreadable_store_say_which_file(platform: FakeEvents, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    manifest = tmp_path / "manifest.json"
    text = manifest.read_text()
    for wrong, said in ((text.replace('"format":1', '"format":99'), "newer agentbook"), ("{", "no manifest"),
                        ('{"format":1,"parts":5}', "damaged")):  # fmt: skip
        manifest.write_text(wrong)
        with pytest.raises(StoreError, match=said) as raised:
            Store(tmp_path)
        assert str(manifest) in str(raised.value)
        with pytest.raises(StoreError, match=said):
            store.sync(platform.client(), ["s0"])
        assert plain_rows(tmp_path) == platform.ids("s0")
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read"):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file").sync(platform.client(), ["s0"])


def test_damage_is_found_and_mended(platform: FakeEvents, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    files = sorted((tmp_path / "events").rglob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:-20])
    files[1].unlink()
    stray = files[2].with_name("part-" + "0" * 32 + ".parquet")
    stray.write_bytes(b"")
    found = store.verify()
    assert {problem.split(":")[0].split(" ")[0] for problem in found["problem"]} == {"damaged", "missing", "left"}
    with pytest.raises(StoreError, match=r"verify"):
        store.events()
    store.verify(repair=True)
    assert len(store.verify()) == 0
    assert not stray.exists()
    store.sync(client)
    assert sorted(store.events()["id"]) == everything(platform)
    assert len(store.verify()) == 0


def store_rows(file: Path, data: bytes, store: Store) -> pd.DataFrame:
    file.write_bytes(data)
    return store.events()


def test_a_damaged_file_is_named_by_whatever_reads_it(platform: FakeEvents, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="query needs DuckDB")
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    file = min((tmp_path / "events").rglob("*.parquet"))
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:150] + b"12345678" + whole[158:]):
        file.write_bytes(damage)
        for read in (
            store.events,
            lambda: store.query("SELECT * FROM events"),
            lambda: store.to_dask().compute(scheduler="sync"),
        ):
            with pytest.raises(StoreError, match=f"{file.name} is damaged: {len(damage):,} bytes"):
                read()
    # A changed byte in the data is told by its page's checksum, even where what it makes can be decoded.
    wanted, footer = store_rows(file, whole, store), len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(5, footer, 13):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with contextlib.suppress(StoreError):
            assert store.events().equals(wanted), f"byte {at} of {footer}"
    file.unlink()
    file.mkdir()
    found = store.verify()
    assert found["file"].tolist() == [file.relative_to(tmp_path).as_posix()]
    assert "cannot be read: Is a directory" in found["problem"][0]
    file.rmdir()
    store.verify(repair=True)
    store.sync(platform.client())
    assert sorted(store.events()["id"]) == everything(platform)


def test_events_of_two_platforms_do_not_mix(platform: FakeEvents, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    with pytest.raises(ValueError, match="use another path"):
        store.sync(ab.Client("http://elsewhere/v1"), ["s0"])


def test_a_second_sync_waits_or_says_who_is_at_it(platform: FakeEvents, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store._place.locked(0):
        with pytest.raises(StoreBusy, match=f"process {os.getpid()}"):
            store.sync(platform.client(), ["s0"], wait_s=0)
        waiting = threading.Thread(target=store.sync, args=(platform.client(), ["s0"]), kwargs={"wait_s": 20})
        waiting.start()
    waiting.join(60)
    assert store.events()["id"].tolist() == platform.ids("s0")


KILLED = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[1])
    from agentbook.frames.store import place, store, sync
    from frames.platform import FakeEvents, event_id
    sync.COMMIT_ROWS = 20
    steps, real_replace, real_fsync = [0], os.replace, os.fsync
    def step(real):
        def counted(*args, **options):
            steps[0] += 1
            if steps[0] == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)
        return counted
    place.Path.replace = step(place.Path.replace)
    place.Path.unlink = step(place.Path.unlink)
    os.fsync = step(os.fsync)
    platform = FakeEvents({f"s{n}": [event_id(n + 86_400_000 * d, d) for d in range(6)] for n in range(8)})
    one = store.Store(sys.argv[2], groups=2)
    one.sync(platform.client(), [f"s{n}" for n in range(8)])
    one.compact()
    print(steps[0])
"""


def killed_at(path: Path, step: int) -> subprocess.CompletedProcess[str]:
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", textwrap.dedent(KILLED), tests, str(path), str(step)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
def test_killed_at_any_step_the_next_sync_makes_it_whole(tmp_path: Path) -> None:
    steps = int(killed_at(tmp_path / "whole", 0).stdout)
    assert steps > 40
    platform = FakeEvents({f"s{n}": [event_id(n + DAY * d, d) for d in range(6)] for n in range(8)})
    for step in {1, 2, 3, steps - 1, steps, *range(5, steps, max(steps // 10, 1))}:
        path = tmp_path / str(step)
        assert killed_at(path, step).returncode == -signal.SIGKILL
        store = Store(path)
        seen = store.events()["id"]
        assert seen.is_unique
        assert set(seen) <= set(everything(platform))
        store.sync(platform.client(), list(platform.sessions))
        assert sorted(store.events()["id"]) == everything(platform) == plain_rows(path)
        assert len(store.verify()) == 0


def sync_in_pieces(store: Store, platform: FakeEvents, data: st.DataObject) -> None:
    """A sync in small pages and commits, over some connections, that may be interrupted at a request."""
    stops = data.draw(st.none() | st.integers(1, 8))
    asked = itertools.count(1)

    def answer(request: httpx.Request) -> httpx.Response:
        if next(asked) == stops:
            raise KeyboardInterrupt
        return platform._answer(request)

    client = ab.Client("http://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    connections = data.draw(st.integers(1, 3))
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(fetch, "MAX_PAGE", data.draw(st.integers(1, 5)))
        patch.setattr(fetch, "_WORTH", 2)
        patch.setattr(Pace, "target", property(lambda self: connections))
        patch.setattr(syncing, "COMMIT_ROWS", data.draw(st.integers(1, 9)))
        store.sync(client, ["a", "b"], full=data.draw(st.booleans()))


@settings(max_examples=40)
@given(data=st.data())
def test_however_syncs_and_late_commits_interleave_each_event_is_there_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store")
    platform = FakeEvents({"a": [], "b": []}, known_cursors_only=data.draw(st.booleans()))
    held: list[tuple[str, str]] = []
    now = 0
    store = Store(path, groups=data.draw(st.integers(1, 3)))
    for n in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.sampled_from([0, 1, 700, 3000, DAY]))
        # An event that is written late comes before anything 5 s younger is.
        for session, late in [
            one for one in held if int(one[1].replace("-", "")[:12], 16) < platform.millisecond(now - 4900)
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


def test_two_processes_may_sync_at_once(platform: FakeEvents, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=Store(tmp_path).sync, args=(platform.client(), list(platform.sessions)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert plain_rows(tmp_path) == everything(platform)


def test_a_lock_in_a_remote_place_is_renewed_and_its_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of("memory://a-renewed-lock")

    def lock() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(place.read(LOCK) or b"{}")
        return found

    def until(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    monkeypatch.setattr("agentbook.frames.store.place.STALE_S", 0.05)
    with place.locked(0):
        first = lock()
        until(lambda: lock()["at"] > first["at"])
        place.write("a", b"while it is held")
        taken = {"holder": "somebody else", "at": time.time()}

        def refused() -> bool:
            try:
                if lock() != taken:  # a renewal was under way
                    place.write(LOCK, json.dumps(taken).encode())
                place.write("b", b"")
            except StoreBusy as error:
                return "somebody else" in str(error)
            return False

        until(refused)
        assert place.read("a") == b"while it is held"
    assert lock() == taken, "the other's lock is left alone"
    place.write(LOCK, b"torn")
    with place.locked(0):
        assert lock()["holder"].startswith("process")
    assert place.read(LOCK) is None


def test_a_store_may_lie_anywhere_fsspec_goes(platform: FakeEvents, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    client, store = platform.client(), Store("memory://anywhere/store", groups=2)
    for session in platform.sessions:
        store.sync(client, session)
    assert store.compact()[1] == 6
    assert store.sync(client).events == 0
    assert sorted(store.events()["id"]) == everything(platform)
    assert len(store.verify()) == 0
    with store._place.locked(0), pytest.raises(StoreBusy, match="process"):
        store.sync(client, wait_s=0)
    assert isinstance(place_of(f"file://{tmp_path}"), Local)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store("nosuchprotocol://x")


def test_a_sync_commits_as_it_goes(platform: FakeEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "COMMIT_ROWS", 12)
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    assert store._manifest().generation == 6
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
    ids = [f"zz-draft-{n}" if n in drafts else one for n, one in enumerate(ids)]
    builder = FrameBuilder("events", {"session_id": "s"})
    builder.add(json.dumps({"items": [{"id": one} for one in ids]}).encode())
    place = place_of("memory://nowhere")
    sync = syncing.Sync(place, Manifest(), FakeEvents({}).client(), overlap_s, False)
    sync._begun = {"s": "the beginning"}
    window = syncing._window(sorted(ids, key=str.lower), int(overlap_s * 1000), "the beginning")
    assert sync._cursor("s", builder.to_arrow(), []) == Cursor(*window)

"""A store keeps a whole history, and what is new costs a page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pytest

import agentbook as ab
from agentbook.frames.history import catalog
from agentbook.frames.history.load import history_of
from agentbook.frames.store import store as stores
from agentbook.frames.store.files import StoreError
from agentbook.frames.store.query import Limits, run_sql
from agentbook.frames.store.store import Store
from frames.accounts import Account, busy_account
from support.clients import client_of
from support.fake_platform.core import event_id

NOTHING_NEW = {
    "openapi.yaml": 1,  # once per client
    "accounts/acme/workspaces": 1,
    "workspaces/lab/sessions": 1,
    "workspaces/desk/sessions": 1,
    "agents": 1,
    "accounts/acme/credentials": 1,
}


@pytest.fixture
def platform() -> Account:
    return busy_account()


@pytest.fixture
def duckdb() -> Any:
    return pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'agentbook[duckdb]'")


@pytest.fixture
def store(platform: Account, tmp_path: Path) -> Store:
    """A store that has just been synced."""
    store = Store(tmp_path / "store")
    report = store.sync(platform.client(), account="acme")
    assert (report.events, report.sessions, report.unchanged) == (12, 6, 0)
    platform.paths.clear()
    return store


def test_a_history_of_a_store_is_that_of_the_platform(platform: Account, store: Store) -> None:
    loaded, stored = ab.load_history(platform.client(), "acme"), Store(store.path).history()
    assert stored.account == "acme"
    assert stored.complete
    for name in ("workspaces", "sessions", "agents", "credentials", "events", "turns"):
        ours, theirs = getattr(stored, name), getattr(loaded, name)
        order = [key for key in ("session_id", "id", "turn") if key in ours]
        pd.testing.assert_frame_equal(
            ours.sort_values(order, ignore_index=True), theirs.sort_values(order, ignore_index=True)
        )
    assert set(stored.turns["agent"]) == {"helper"}
    assert set(stored.turns["workspace"]) == {"acme~lab", "acme~desk"}


def test_nothing_new_takes_one_page_per_workspace(platform: Account, store: Store) -> None:
    report = store.sync(platform.client())
    assert dict(platform.paths) == NOTHING_NEW
    assert (report.events, report.sessions, report.unchanged) == (0, 6, 6)
    assert report.requests == 5


def test_only_a_session_that_changed_is_read(platform: Account, store: Store) -> None:
    platform.say("s1", 30)
    platform.say("fresh", 31, workspace="lab")
    assert store.sync(platform.client()).events == 4
    assert platform.event_requests() == {"s1": 1, "fresh": 1}
    assert store.history().turns["status"].tolist() == ["answered"] * 8
    platform.paths.clear()
    store.sync(platform.client())
    assert platform.event_requests() == {}


@pytest.mark.parametrize("reason", ["more changes than are asked for", "not sorted", "a session is gone", "no totals"])
def test_a_list_whose_latest_changes_do_not_tell_all_is_read_whole(
    platform: Account, store: Store, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "more changes than are asked for":
        monkeypatch.setattr(catalog, "WINDOW", 2)
        for name in ("s0", "s2", "s4"):
            platform.say(name, 40)
    elif reason == "not sorted":
        monkeypatch.setattr(catalog, "WINDOW", 2)
        platform.sorts = False
        platform.say("s4", 40)
    elif reason == "a session is gone":
        monkeypatch.setattr(catalog, "WINDOW", 1)
        platform.workspaces = {**platform.workspaces, "lab": ["s2", "s4"]}
        platform.say("s4", 40)
    else:
        platform.totals = False
        platform.say("s4", 40)
    store.sync(platform.client())
    sessions = store.history().sessions
    assert sorted(sessions.loc[sessions["workspace_id"] == "lab", "id"]) == sorted(platform.workspaces["lab"])
    everything = sorted(event for ids in platform.sessions.values() for event in ids)
    assert sorted(store.events()["id"]) == everything


def test_changes_beyond_a_window_are_merged_with_what_is_known(
    platform: Account, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "WINDOW", 2)
    platform.say("s4", 40)
    store.sync(platform.client())
    assert platform.paths["workspaces/lab/sessions"] == 1, "s4 and an older one that did not change"
    assert sorted(store.history().sessions["id"]) == [f"s{n}" for n in range(6)]


def test_a_session_that_changed_just_now_is_read_once_more(
    platform: Account, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform may show a change before its events."""
    platform.say("s1", 60)
    just_then = platform.millisecond(60 * 60_000 + 2000) / 1000
    monkeypatch.setattr("agentbook.frames.store.sync.time.time", lambda: just_then)
    assert store.sync(platform.client()).events == 2
    platform.paths.clear()
    platform.add("s1", event_id(60 * 60_000 + 900, 77))  # written late; `updated_at` stays
    monkeypatch.setattr("agentbook.frames.store.sync.time.time", lambda: just_then + 3600)
    assert store.sync(platform.client()).late == 1
    assert platform.event_requests() == {"s1": 1}
    platform.paths.clear()
    store.sync(platform.client())
    assert platform.event_requests() == {}


def test_a_list_that_does_not_show_replies_is_not_trusted(tmp_path: Path) -> None:
    """Here `updated_at` is the time of the latest question."""
    platform, store = busy_account(), Store(tmp_path / "other")
    questions = {name: moment - 1000 - 60_000 for name, moment in (platform.updated or {}).items()}
    platform.updated = questions
    store.sync(platform.client(), account="acme")
    platform.add("s0", event_id(90 * 60_000, 90))
    assert store.sync(platform.client()).events == 1
    assert store.sync(platform.client()).unchanged == 0
    platform.say("s1", 100)  # one that fits does not restore the trust
    assert store.sync(platform.client()).events == 2
    assert store.sync(platform.client()).unchanged == 0


def test_an_open_question_is_read_again_until_replies_are_known_to_show(tmp_path: Path) -> None:
    platform, store = Account({}), Store(tmp_path / "other")
    platform.agents = []
    platform.add("s0", event_id(0, 0))
    platform.updated, platform.workspaces = {"s0": 0}, {"lab": ["s0"]}
    store.sync(platform.client(), account="acme")
    platform.add("s0", event_id(60_000, 1))  # the reply; nothing shows it
    assert store.sync(platform.client()).events == 1


def test_without_updated_at_each_session_is_read(platform: Account, tmp_path: Path) -> None:
    platform.updated = None
    store = Store(tmp_path / "other")
    store.sync(platform.client(), account="acme")
    platform.paths.clear()
    assert store.sync(platform.client()).unchanged == 0
    assert len(platform.event_requests()) == 6


def test_a_full_sync_reads_everything_again(platform: Account, store: Store) -> None:
    platform.add("s0", event_id(0, 99))
    assert store.sync(platform.client()).events == 0
    assert store.sync(platform.client(), full=True).late == 1


def test_a_full_sync_learns_what_was_edited(platform: Account, store: Store) -> None:
    edited = [platform.ids("s0")[1], platform.ids("s2")[0]]
    for session in ("s0", "s2"):
        for event in platform.histories[session]:
            if event["id"] in edited:  # nothing in a list shows it
                event |= {"content": {"text": "corrected"}, "updated_at": "2027-01-01T00:00:00Z"}
    before = store.events().set_index("id")
    assert store.sync(platform.client()).changed == 0
    report = store.sync(platform.client(), full=True)
    assert (report.events, report.changed, report.removed) == (0, 2, 0)
    after = store.events().set_index("id")
    assert after.loc[edited, "text"].tolist() == ["corrected"] * 2
    pd.testing.assert_frame_equal(after.drop(edited), before.drop(edited))
    assert "corrected" in store.query("SELECT text FROM events")["text"].tolist()
    files = sorted(Path(store.path).rglob("*.parquet"))
    assert store.sync(platform.client(), full=True).changed == 0
    assert sorted(Path(store.path).rglob("*.parquet")) == files, "nothing is written for what is the same"


def test_a_full_sync_removes_sessions_that_were_deleted(platform: Account, store: Store) -> None:
    [gone, *kept] = platform.workspaces["lab"]
    platform.workspaces["lab"] = kept
    store.sync(platform.client())  # reads the list and keeps the session
    assert gone in store.sessions
    platform.listed = ["lab"]  # a workspace that cannot be seen may still have its sessions
    assert store.sync(platform.client(), full=True).removed == 0
    platform.listed = None
    assert store.sync(platform.client(), kept, full=True).removed == 0, "only these were asked for"
    assert store.sync(platform.client(), full=True).removed == 1
    assert gone not in {*store.sessions, *store.events()["session_id"], *store.history().sessions["id"]}
    assert store.history().complete
    assert store.sync(platform.client(), full=True).removed == 0


def test_a_new_store_gets_all_that_the_credential_sees(platform: Account, tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert store.sync(platform.client()).events == 12
    assert store.history().account is None
    platform.paths.clear()
    assert store.sync(platform.client()).unchanged == 6
    assert platform.event_requests() == {}


def test_lists_of_sessions_show_what_changed_too(platform: Account, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path / "other")
    assert store.sync(client, client.sessions.list("lab")).events == 6
    platform.paths.clear()
    assert store.sync(client, client.sessions.list("lab")).unchanged == 3
    assert store.sync(client, workspace="lab").unchanged == 3
    assert platform.event_requests() == {}
    platform.say("later", 50, workspace="lab")
    assert store.sync(client).events == 2, "a workspace that was synced is stored up to date"
    assert platform.event_requests() == {"later": 1}


def test_sessions_synced_by_their_ids_have_no_names(platform: Account, store: Store) -> None:
    platform.add("alone", event_id(5, 5))
    store.sync(platform.client(), "alone")
    history = store.history()
    assert "alone" in set(history.sessions["id"])
    assert "1 sessions were synced without their lists" in history.missing["names"]
    platform.paths.clear()
    store.sync(platform.client())
    assert platform.event_requests() == {"alone": 1}


def test_one_kind_of_source_is_passed(platform: Account, store: Store) -> None:
    with pytest.raises(ValueError, match=r"Pass sessions, or workspace= .* or account="):
        store.sync(platform.client(), "s1", account="acme")


def test_a_span_of_a_stored_history(platform: Account, store: Store) -> None:
    history = store.history(since=platform.moment(3 * 60_000))
    assert sorted(set(history.events["session_id"])) == ["s3", "s4", "s5"]
    with pytest.raises(ValueError, match="since must be before until"):
        store.history(since="1d", until="2d")


def test_events_of_a_store_carry_the_names_of_its_history(store: Store) -> None:
    names = ["workspace", "agent", "session", "initiator", "workspace_id", "agent_id", "agent_version"]
    named, history = store.events(), store.history()
    pd.testing.assert_frame_equal(named[names], history.events[names])
    assert store.events(columns=["agent", "id"]).to_numpy().tolist() == named[["agent", "id"]].to_numpy().tolist()
    assert ab.latency(store.turns(), by="workspace")["n"].to_list() == [3, 3]
    with pytest.raises(ValueError, match=r"no column 'agnt'.* agent, "):
        store.events(columns="agnt")
    pytest.importorskip("dask", reason="Dask is not installed: pip install 'agentbook[dask]'")
    lazy = store.to_dask()
    assert lazy.columns.to_list() == named.columns.to_list()
    turns = ab.dask.apply(lazy, ab.turns, as_of="2030-01-01").compute(scheduler="sync")
    assert ab.latency(turns, by="agent")["n"].to_list() == [6]


# -- SQL ---------------------------------------------------------------------------


def test_sql_sees_the_history_and_the_frames_that_are_passed(store: Store, duckdb: Any) -> None:
    teams = pd.DataFrame({"workspace": ["acme~lab"], "team": ["blue"]})
    sql = """
        SELECT team, count(*) AS turns, $factor * median(latency_s) AS latency FROM Turns JOIN teams USING (workspace)
        GROUP BY team
    """
    assert store.query(sql, teams=teams, factor=2).values.tolist() == [["blue", 3, 2.0]]
    counts = {
        name: store.query(f"SELECT count(*) AS n FROM {name}")["n"][0]
        for name in ("events", "turns", "sessions", "agents", "workspaces", "credentials")
    }
    assert counts == {"events": 12, "turns": 6, "sessions": 6, "agents": 1, "workspaces": 2, "credentials": 0}
    with pytest.raises(ValueError, match="has a table 'Turns' of its own"):
        store.query(sql, Turns=teams)


def test_sql_sees_no_variable_that_was_not_passed(store: Store, duckdb: Any) -> None:
    secrets = pd.DataFrame({"key": ["k"]})
    assert "secrets" in locals()
    assert len(secrets) == 1
    for name in ("secrets", "source", "frames"):  # of this function, and of the store's own
        with pytest.raises(duckdb.CatalogException, match=f"{name} does not exist"):
            store.query(f"SELECT * FROM {name}")


@pytest.mark.parametrize("sql", ["SHOW TABLES", "SELECT table_name AS name FROM information_schema.tables"])
def test_a_query_lists_all_tables(store: Store, sql: str, duckdb: Any) -> None:
    names = {"events", "turns", "sessions", "agents", "workspaces", "credentials", "labels"}
    assert set(store.query(sql)["name"]) == names


def test_a_query_that_only_mentions_tables_makes_none_of_them(duckdb: Any) -> None:

    def made() -> pd.DataFrame:
        raise AssertionError("it computes turns from all events")

    table = run_sql(
        pa.table({"text": ["all tables"]}), "SELECT count(*) AS tables FROM events", {}, {"turns": made}, Limits()
    )
    assert table.to_pylist() == [{"tables": 1}]


def test_a_query_ends_at_its_limits(duckdb: Any) -> None:
    events = pa.table({"n": [*range(10)]})
    assert run_sql(events, "FROM events ORDER BY n", {}, {}, Limits(rows=3)).num_rows == 3
    endless = "SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b"
    stop = threading.Event()
    waiting = threading.Timer(0.2, stop.set)
    waiting.start()
    with pytest.raises(duckdb.InterruptException, match="stopped"):
        run_sql(events, endless, {}, {}, Limits(stop=stop))
    for timeout_s in (0.0001, 0.2):  # the first is over before the query has begun
        with pytest.raises(duckdb.InterruptException, match="given up"):
            run_sql(events, endless, {}, {}, Limits(timeout_s))
    large = "SELECT count(*) FROM (SELECT DISTINCT repeat('a', 100) || range FROM range(1_000_000))"
    with pytest.raises(duckdb.OutOfMemoryException, match="fewer rows"):
        run_sql(events, large, {}, {}, Limits(memory="50MB"))


def test_a_query_that_cannot_run_is_told_why(store: Store, duckdb: Any) -> None:
    with pytest.raises(duckdb.CatalogException) as raised:
        store.query("SELECT * FROM turn JOIN teams USING (workspace)", teams=pd.DataFrame({"workspace": ["w"]}))
    assert "events, turns, sessions, agents, workspaces, credentials, labels, teams" in str(raised.value)
    with pytest.raises(duckdb.CatalogException) as raised:
        store.query('SELECT * FROM "our things"')
    assert "did you mean" not in str(raised.value).lower()


@pytest.mark.parametrize(("sql", "values"), [("SELECT $x", {"x": 5, "y": 1}), ("SELECT $x + $y", {"x": 5})])
def test_the_values_of_a_query_must_be_those_that_it_names(
    store: Store, sql: str, values: dict[str, Any], duckdb: Any
) -> None:
    with pytest.raises(duckdb.Error, match="y"):
        store.query(sql, **values)
    assert store.query("SELECT $X + 1 AS n, '$y' AS y", x=5)["n"].tolist() == [6]


def test_a_query_without_sql_shows_how_to_write_it(store: Store) -> None:
    with pytest.raises(TypeError, match=r"store\.query: missing a required argument: 'sql'\. Write store\.query\("):
        store.query(x=5)  # type: ignore[call-arg]


# -- what goes wrong ---------------------------------------------------------------


def test_a_list_that_cannot_be_read_changes_nothing(platform: Account, store: Store) -> None:
    before = store.history()
    with pytest.raises(ab.NotFound):
        store.sync(platform.client(), account="stranger")
    assert repr(store.history()) == repr(before)


def test_an_interrupted_sync_keeps_what_came(platform: Account, tmp_path: Path) -> None:
    respond, others = platform.respond, threading.Semaphore(0)

    def answer(request: httpx.Request) -> httpx.Response:
        if "s3/events" in request.url.path:
            assert all(others.acquire(timeout=60) for _ in range(2))
            raise KeyboardInterrupt
        if request.url.path.endswith("/events"):
            others.release()
        return respond(request)

    store = Store(tmp_path / "other")
    client = client_of(answer)
    with pytest.raises(KeyboardInterrupt):
        store.sync(client, account="acme")
    stored = store.history()
    assert 0 < len(stored.events) < 12
    assert len(stored.sessions) == 6
    assert store.sync(platform.client()).events == 12 - len(stored.events)


def test_what_a_killed_sync_leaves_is_removed(platform: Account, store: Store) -> None:
    folder, name = Path(store.path), f".{'0' * 32}.part"
    leftovers = [
        folder / name,
        folder / f".writing-{'0' * 32}",
        folder / "tables" / name,
        folder / "tables" / f"agents-{'1' * 32}.parquet",
    ]
    others = [
        folder / "notes.txt",
        folder / "exports" / name,
        folder / "events" / "january.parquet",
        folder / "events" / "day=2026-01-01" / "part-0.parquet",
        folder / "tables" / "customers-2026.parquet",
    ]
    for path in [*leftovers, *others]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    store.sync(platform.client())
    assert not any(path.exists() for path in leftovers)
    assert all(path.exists() for path in others)
    (folder / "manifest.json").unlink()
    with pytest.raises(StoreError, match=r"(events|tables)/.+\.parquet"):
        store.sync(platform.client())


def test_a_damaged_table_is_named(platform: Account, store: Store) -> None:
    [path] = (Path(store.path) / "tables").glob("sessions-*")
    path.write_bytes(b"not what was written")
    for read in (store.history, lambda: store.sync(platform.client())):
        with pytest.raises(StoreError, match=rf"{path.name}.*sync again"):
            read()


def test_queries_of_one_state_of_the_store_compute_its_turns_once(
    platform: Account, store: Store, monkeypatch: pytest.MonkeyPatch, duckdb: Any
) -> None:
    computed = []

    def counted(*args: Any) -> Any:
        computed.append(args)
        return history_of(*args)

    monkeypatch.setattr(stores, "history_of", counted)
    for _ in range(3):
        assert store.query("SELECT count(*) AS n FROM turns")["n"].tolist() == [6]
    assert len(computed) == 1
    store.sync(platform.client())
    assert store.query("SELECT count(*) AS n FROM turns")["n"].tolist() == [6]
    assert len(computed) == 2

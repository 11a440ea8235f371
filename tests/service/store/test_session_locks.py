"""Two processes' stores on one PostgreSQL: ids, locks, and lost connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from agentbook.service import ids
from agentbook.service.clock import Clock
from agentbook.service.store import Published, Store, Transaction, events
from agentbook.service.store.pipeline import PipelinedTransaction, Statement
from agentbook.service.store.session_locks import LockedMinter
from agentbook.service.turns import event_json
from service.databases import Cluster, database_url, give_back

pytestmark = pytest.mark.anyio

_SPEND = (
    "INSERT INTO spending (scope, spender_id, month, tokens) VALUES ('AGENT', ?, '2026-11', 1) "
    "ON CONFLICT (scope, spender_id, month) DO UPDATE SET tokens = spending.tokens + excluded.tokens"
)
_TERMINATE_WAITING = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE wait_event = 'advisory' AND datname = current_database()"
)


class Shifted(Clock):
    def __init__(self, by_ms: int) -> None:
        self.by_ms = by_ms

    def milliseconds(self) -> int:
        return super().milliseconds() + self.by_ms


@pytest.fixture
def stores(cluster: Cluster, tmp_path: Path) -> Iterator[list[Store]]:
    """Those of two processes whose clocks are two seconds apart."""
    url = database_url(cluster.url, tmp_path)
    made = [Store(tmp_path, url, clock=Shifted(by_ms)) for by_ms in (0, 2000)]
    yield made
    for store in made:
        store.close()
    give_back(tmp_path)


def say(tx: Transaction, session: str) -> Published:
    author = {"type": "user", "id": "u", "name": "u"}
    encode = partial(event_json.message, text="x", task_id="t", author=author)
    return events.append(tx, session, "message", "t", lambda id_, at: encode(id=id_, created_at=at))


async def test_no_id_becomes_visible_after_a_greater_one(stores: list[Store]) -> None:
    seen: list[str] = []
    finished = asyncio.Event()

    async def follow() -> None:
        while True:
            is_last = finished.is_set()
            page, _ = await stores[0].read(lambda db: events.after(db, "s", seen[-1] if seen else ""))
            seen.extend(event.id for event in page)
            if is_last and not page:
                return

    async def write(store: Store) -> list[Published]:
        return [await store.write(lambda tx: say(tx, "s"), sessions=["s"]) for _ in range(10)]

    follower = asyncio.create_task(follow())
    batches = await asyncio.gather(*(write(store) for store in stores * 8))
    finished.set()
    await follower
    stored = sorted((event for batch in batches for event in batch), key=lambda event: event.id)
    assert [event.id for event in stored] == seen
    assert [event.previous for event in stored] == ["", *seen[:-1]]


async def test_writers_of_random_sessions_never_wait_in_a_circle(stores: list[Store]) -> None:
    sessions, agents = [f"s{n}" for n in range(12)], [f"a{n}" for n in range(4)]

    async def write(store: Store, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(6):
            touched = rng.sample(sessions, 3)
            spenders = rng.sample(agents, 3)

            def work(tx: Transaction, touched: list[str] = touched, spenders: list[str] = spenders) -> None:
                for session in touched:
                    say(tx, session)
                for agent in spenders:
                    tx.defer((agent,), _SPEND, (agent,))

            await store.write(work, sessions=touched if rng.random() < 0.9 else None)

    await asyncio.gather(*(write(stores[n % 2], n) for n in range(64)))
    count, tokens = stores[0].read_now(
        lambda db: db.exec_driver_sql("SELECT (SELECT count(*) FROM events), (SELECT sum(tokens) FROM spending)").one()
    )
    assert (count, tokens) == (64 * 6 * 3, 64 * 6 * 3)


async def test_a_write_to_a_session_waits_for_no_other_session(stores: list[Store]) -> None:
    held, on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(tx: Transaction) -> None:
        say(tx, "a")
        loop.call_soon_threadsafe(held.set)
        asyncio.run_coroutine_threadsafe(on.wait(), loop).result(30)

    holding = asyncio.create_task(stores[0].write(hold, sessions=["a"]))
    await held.wait()
    await stores[1].write(lambda tx: say(tx, "b"), sessions=["b"])
    same, anything = (
        asyncio.create_task(stores[1].write(lambda tx: say(tx, "a"), sessions=["a"])),
        asyncio.create_task(asyncio.to_thread(stores[1].write_now, lambda tx: say(tx, "c"))),
    )
    done, _ = await asyncio.wait({same, anything}, timeout=0.2)
    assert done == set()
    on.set()
    await asyncio.gather(holding, same, anything)


async def test_a_write_whose_connection_is_lost_is_done_once(stores: list[Store]) -> None:
    """The connection ends while the write waits for its lock."""
    store = stores[0]
    with psycopg.connect(**store.connection_parameters()) as other:
        other.execute("SELECT pg_advisory_xact_lock(7233173)")
        writing = asyncio.create_task(store.write(lambda tx: say(tx, "s"), sessions=["s"]))
        with psycopg.connect(**store.connection_parameters(), autocommit=True) as killer:
            while not killer.execute(_TERMINATE_WAITING).fetchall():
                await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert not writing.done()
    event = await writing
    stored, _ = await store.read(lambda db: events.after(db, "s", ""))
    assert [stored_event.id for stored_event in stored] == [event.id]


@pytest.mark.parametrize("sessions", [["s"], None], ids=["sessions", "anything"])
async def test_a_write_whose_commit_is_not_answered_is_not_done_again(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch, sessions: list[str] | None
) -> None:
    """The server committed, and its answer is lost."""
    commit = PipelinedTransaction.commit
    lost: list[str] = []

    def commit_and_hear_nothing(transaction: PipelinedTransaction, statements: Iterable[Statement]) -> None:
        commit(transaction, statements)
        if not lost:
            lost.append(transaction.id)
            transaction.connection.invalidate()
            raise DBAPIError(None, None, Exception("lost on the way"), connection_invalidated=True)

    monkeypatch.setattr(PipelinedTransaction, "commit", commit_and_hear_nothing)
    event = await stores[0].write(lambda tx: say(tx, "s"), sessions=sessions)
    assert len(lost) == 1
    stored, _ = await stores[0].read(lambda db: events.after(db, "s", ""))
    assert [stored_event.id for stored_event in stored] == [event.id]


@pytest.mark.parametrize("sessions", [["s"], None], ids=["sessions", "anything"])
async def test_a_write_whose_commit_did_not_happen_is_done_again_if_it_may(
    stores: list[Store], sessions: list[str] | None
) -> None:
    """The connection ends while the last statements wait for another transaction."""
    store = stores[0]

    def work(tx: Transaction) -> None:
        tx.defer(("a",), _SPEND, ("a",))

    with psycopg.connect(**store.connection_parameters()) as other:
        other.execute(_SPEND.replace("?", "%s"), ("a",))
        writing = asyncio.create_task(store.write(work, sessions=sessions))
        with psycopg.connect(**store.connection_parameters(), autocommit=True) as killer:
            while not killer.execute(_TERMINATE_WAITING.replace("'advisory'", "'transactionid'")).fetchall():
                await asyncio.sleep(0.005)
    if sessions is None:
        with pytest.raises(DBAPIError):
            await writing
    else:
        await writing
    tokens = store.read_now(lambda db: db.exec_driver_sql("SELECT tokens FROM spending").scalar())
    assert tokens == (1 if sessions is None else 2)


class Jumping(Clock):
    def __init__(self, times: list[int]) -> None:
        self.times = times

    def milliseconds(self) -> int:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


@given(
    st.lists(st.integers(1_700_000_000_000, 1_700_000_000_003), min_size=1),
    st.integers(1, 50),
    st.none() | st.tuples(st.integers(-5, 100_000), st.sampled_from([0, 1, 4094, 4095])),
)
def test_ids_of_a_session_grow_whatever_the_clocks_do(
    times: list[int], count: int, newest: tuple[int, int] | None
) -> None:
    before = None if newest is None else ids.id_at(1_700_000_000_000 + newest[0], newest[1])
    minter = LockedMinter(Jumping(times), {})
    minted = []
    for _ in range(count):
        id_, at = minter.new_event_id("s", lambda: before)
        assert ids.instant_of_ms(ids.milliseconds_of(id_)) == at
        assert minter.previous == (minted[-1] if minted else before or "")
        minted.append(id_)
    assert minted == sorted(set(minted))
    assert before is None or minted[0] > before

"""Batches of writes on PostgreSQL: their statements, and what fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from sqlalchemy.exc import DBAPIError

from agentbook.service.auth import Principal
from agentbook.service.store import Published, Store, Transaction, events
from agentbook.service.turns import event_json
from agentbook.service.turns.queue import PendingTurn, SharedTurnQueue
from agentbook.service.turns.records import accept
from service.databases import Cluster, database_url, give_back
from service.wire_trace import WireTrace

pytestmark = pytest.mark.anyio


class Counted:
    """A store, and what its writer sends."""

    def __init__(self, store: Store, trace: Path) -> None:
        self.store = store
        self.wire = WireTrace(store, trace)

    async def write_together(self, *works: object, sessions: list[str]) -> list[object]:
        """Have the works run in one batch: they wait while another write runs.

        The commit of that is the first that is sent.
        """
        running, go = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold(_tx: Transaction) -> None:
            loop.call_soon_threadsafe(running.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)

        holding = asyncio.create_task(self.store.write(hold, sessions=[]))
        await running.wait()
        self.wire.clear()
        writing = asyncio.gather(
            *(self.store.write(work, sessions=sessions) for work in works),  # type: ignore[arg-type]
            return_exceptions=True,
        )
        await asyncio.sleep(0)  # all of them are queued
        go.set()
        await holding
        return await writing

    def events(self, session: str) -> list[str]:
        sql = "SELECT id FROM events WHERE session_id = %s ORDER BY id"
        return list(self.store.read_now(lambda db: db.exec_driver_sql(sql, (session,)).scalars().all()))


@pytest.fixture
def counted(cluster: Cluster, tmp_path: Path) -> Iterator[Counted]:
    store = Store(tmp_path, database_url(cluster.url, tmp_path))
    made = Counted(store, tmp_path / "trace")
    yield made
    store.close()
    made.wire.close()
    give_back(tmp_path)


def say(tx: Transaction, session: str = "s", text: str = "x") -> str:
    author = {"type": "user", "id": "u", "name": "u"}
    encode = partial(event_json.message, text=text, task_id="t", author=author)
    return events.append(tx, session, "message", "t", lambda id_, at: encode(id=id_, created_at=at)).id


async def test_a_batch_takes_two_journeys_as_one_write_does(counted: Counted) -> None:
    counts = []
    for number in (1, 50):
        session = f"of-{number}"
        ids = await counted.write_together(*[partial(say, session=session)] * number, sessions=[session])
        counts.append((counted.wire.journeys - 1, counted.wire.statements - 1))
        assert counted.events(session) == ids
    assert counts == [(2, 5)] * 2, "the begin, the locks and the newest ids; the rows and the commit"


async def test_a_write_that_fails_among_others_fails_alone(counted: Counted) -> None:
    def fail(tx: Transaction) -> None:
        say(tx, text="never")
        raise LookupError("on purpose")

    first, failed, second = await counted.write_together(say, fail, say, sessions=["s"])
    assert isinstance(failed, LookupError)
    assert counted.events("s") == [first, second]


async def test_a_row_that_the_database_refuses_is_one_writes_failure(counted: Counted) -> None:
    def refused(tx: Transaction) -> Published:
        return events.append(tx, "s", "message", "t", lambda _id, _at: "a NUL: \0")

    first, failed, second = await counted.write_together(say, refused, say, sessions=["s"])
    assert isinstance(failed, DBAPIError)
    assert counted.events("s") == [first, second]


async def test_rows_that_are_inserted_together_keep_every_character(counted: Counted) -> None:
    texts = ["", "NULL", '"{\\}",', "\x1f", "\x00", "\n\t", "é", "\U0001f642", "%s ?"]
    await counted.write_together(*(partial(say, text=text) for text in texts), sessions=["s"])
    stored, _ = counted.store.read_now(lambda db: events.after(db, "s", ""))
    assert [msgspec.json.decode(event.json_text)["content"]["text"] for event in stored] == texts


async def test_a_row_with_the_separator_of_rows_is_inserted_alone(counted: Counted) -> None:
    def append(tx: Transaction, wire: str) -> Published:
        return events.append(tx, "s", "message", "t", lambda _id, _at: wire)

    wires = ["1", "2\x1f3", "4\x1f5"]
    await counted.write_together(*(partial(append, wire=wire) for wire in wires), sessions=["s"])
    stored, _ = counted.store.read_now(lambda db: events.after(db, "s", ""))
    assert [event.json_text for event in stored] == wires


async def test_rows_that_would_be_long_together_are_inserted_in_parts(counted: Counted) -> None:
    long = partial(say, text="x" * 1_500_000)
    ids = await counted.write_together(*[long] * 4, sessions=["s"])
    assert (counted.wire.journeys - 1, counted.wire.statements - 1) == (3, 6), "rows twice"
    assert counted.events("s") == ids


async def test_a_turn_is_taken_along_with_the_message_of_the_same_batch(counted: Counted) -> None:
    started: list[PendingTurn] = []
    queue = SharedTurnQueue(started.append, "this")
    asker = Principal("apiKey", "k", "k", "a", "a", "user", frozenset())
    ask = partial(accept, queue=queue, session_id="s", principal=asker, goes_on=True)
    await counted.store.write(lambda tx: ask(tx, text="first"), sessions=["s"])

    def end(tx: Transaction) -> None:
        assert queue.remove(tx, started[0], goes_on=True)

    await counted.write_together(lambda tx: ask(tx, text="second"), end, sessions=["s"])
    second = queue.next("s")
    assert second is not None
    assert second.text == "second"
    assert started[1:] == []

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from agentbook.service import ids
from agentbook.service.ids import Clock
from agentbook.service.store import Published, Store, Transaction, event_json, events
from agentbook.service.store.tables import meta
from agentbook.service.store.writer import EventIdGenerator
from service.databases import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path)
    yield made
    made.close()


def put(name: str) -> object:
    def work(tx: Transaction) -> str:
        tx.db.execute(insert(meta), {"name": name, "value": "x"})
        return name

    return work


def names(store: Store) -> set[str]:
    return set(store.read_now(lambda db: db.execute(select(meta.c.name)).scalars().all()))


def say(tx: Transaction, session: str, text: str) -> Published:
    author = {"type": "user", "id": "u", "name": "u"}

    def write(id_: str, at: str) -> str:
        return event_json.message(id=id_, text=text, task_id="t", created_at=at, author=author)

    return events.append(tx, session, "message", "t", write)


async def test_many_parallel_writes_all_succeed(store: Store) -> None:
    done = await asyncio.gather(*(store.write(put(f"n{i}")) for i in range(300)))
    assert done == [f"n{i}" for i in range(300)]
    assert names(store) >= set(done)


async def test_however_many_ask_whether_the_store_is_sound_it_writes_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, check_now = [], store._check_now
    monkeypatch.setattr(store, "_check_now", lambda length: (written.append(length), check_now(length)))
    await asyncio.gather(*(store.check() for _ in range(50)))
    await store.check()
    assert written == [0]


async def test_a_failing_write_is_rolled_back_alone(store: Store) -> None:
    def half(tx: Transaction) -> None:
        tx.db.execute(insert(meta), {"name": "half", "value": "x"})
        raise LookupError("on purpose")

    works = [put("a"), half, put("b"), half, put("c")]
    results = await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)
    assert [type(r).__name__ for r in results] == ["str", "LookupError", "str", "LookupError", "str"]
    with pytest.raises(LookupError, match="on purpose"):
        await store.write(half)  # alone in its commit
    assert names(store) >= {"a", "b", "c"}
    assert "half" not in names(store)


async def test_events_and_hooks_come_after_a_commit_only(store: Store) -> None:
    calls: list[object] = []
    store.on_events.append(lambda events_: calls.append([event.id for event in events_]))

    def good(tx: Transaction) -> str:
        event = say(tx, "s", "hello")
        tx.after_commit(lambda: calls.append("hook"))
        return event.id

    def bad(tx: Transaction) -> None:
        say(tx, "s", "never")
        tx.after_commit(lambda: calls.append("never"))
        raise LookupError

    first, _, second = await asyncio.gather(
        store.write(good), store.write(bad), store.write(good), return_exceptions=True
    )
    flat = [id_ for entry in calls if isinstance(entry, list) for id_ in entry]
    assert flat == [first, second]
    assert calls.count("hook") == 2
    assert "never" not in calls
    stored, _ = store.read_now(lambda db: events.after(db, "s", ""))
    assert [event.id for event in stored] == [first, second]


async def test_no_id_becomes_visible_after_a_greater_one(store: Store) -> None:
    """A reader with a cursor, beside 40 writers on one session, misses nothing."""
    seen: list[str] = []
    finished = asyncio.Event()

    async def follow() -> None:
        while True:
            last = finished.is_set()
            page, _ = await store.read(lambda db: events.after(db, "s", seen[-1] if seen else ""))
            seen.extend(event.id for event in page)
            if last and not page:
                return
            await asyncio.sleep(0)

    async def write() -> list[str]:
        return [(await store.write(lambda tx: say(tx, "s", "x"))).id for _ in range(10)]

    follower = asyncio.create_task(follow())
    batches = await asyncio.gather(*(write() for _ in range(40)))
    finished.set()
    await follower
    assert sorted(id_ for batch in batches for id_ in batch) == seen


class Jumping(Clock):
    def __init__(self, times: list[int]) -> None:
        self.times = times

    def milliseconds(self) -> int:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


@given(st.lists(st.integers(1_000_000_000_000, 1_000_000_000_050), min_size=1), st.integers(1, 200))
def test_ids_only_ever_grow_whatever_the_clock_does(times: list[int], count: int) -> None:
    event_ids = EventIdGenerator(Jumping(times))
    minted = [event_ids.new_event_id() for _ in range(count)]
    assert [id_ for id_, _ in minted] == sorted({id_ for id_, _ in minted})
    assert all(ids.instant_of_ms(ids.milliseconds_of(id_)) == at for id_, at in minted)


def test_more_ids_than_fit_in_one_millisecond() -> None:
    event_ids = EventIdGenerator(Jumping([1_700_000_000_000]))
    minted = [event_ids.new_event_id()[0] for _ in range(10_000)]
    assert minted == sorted(set(minted))


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "of an earlier version"])
async def test_a_store_written_under_a_clock_that_was_ahead_is_continued(
    tmp_path: Path, noted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_700_000_000_000
    with closing(open_store(tmp_path, Jumping([now + 100_000]))) as ahead:
        newest = await ahead.write(lambda tx: say(tx, "s", "x"))
        if not noted:
            ahead.write_now(lambda tx: tx.db.exec_driver_sql("DELETE FROM meta WHERE name = 'newest_event'"))
    assert not caplog.records
    with closing(open_store(tmp_path, Jumping([now]))) as store:
        later = [await store.write(lambda tx: say(tx, "s", "y")) for _ in range(2)]
    assert [newest.id, *(event.id for event in later)] == sorted({newest.id, *(event.id for event in later)})
    assert {json.loads(event.json_text)["created_at"] for event in later} == {ids.instant_of_ms(now)}
    assert len(caplog.records) == 1

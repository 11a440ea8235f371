"""The number of events before an id, of sessions that grow while they are listed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from agentbook.service.store import Store, Transaction, event_ranks, events
from agentbook.service.turns import event_json
from service.databases import open_store
from service.world import on_sqlite

AUTHOR = {"type": "user", "id": "u", "name": "u"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(event_ranks, "STEP", 10)
    monkeypatch.setattr(events, "STEP", 10)
    store = open_store(tmp_path)
    yield store
    store.close()


def add(store: Store, count: int) -> list[str]:
    def fill(tx: Transaction) -> list[str]:
        return [
            events.append(
                tx,
                "s",
                "message",
                "t",
                lambda id_, at: event_json.message(id=id_, text="x", task_id="t", created_at=at, author=AUTHOR),
            ).id
            for _ in range(count)
        ]

    return store.write_now(fill)


def test_a_session_that_grows_is_counted_on_from_what_is_known(store: Store) -> None:
    ranks = event_ranks.EventRanks()
    ids: list[str] = []
    for count in (0, 5, 30, 1, 19, 120):
        ids += add(store, count)
        assert store.read_now(lambda db: ranks.total(db, "s")) == len(ids)
    assert ranks.marks("s") == tuple(ids[9:-11:10])
    for n in (0, 8, 9, 10, 60, len(ids) - 1):
        assert store.read_now(lambda db, n=n: ranks.rank(db, "s", ids[n])) == n + 1
    assert store.read_now(lambda db: ranks.rank(db, "s", "0")) == 0


def test_a_brief_read_gives_up_and_continues_where_it_stopped(store: Store) -> None:
    ranks = event_ranks.EventRanks()
    add(store, 250)
    totals = [store.read_now(lambda db: ranks.total(db, "s", brief=True)) for _ in range(3)]
    assert totals == [None, None, 250]


@on_sqlite("PostgreSQL has no state that outlives a statement")
def test_an_older_state_is_not_counted_by_newer_marks(store: Store) -> None:
    ranks = event_ranks.EventRanks()
    add(store, 25)

    def count_twice(db: Any) -> tuple[int | None, int | None]:
        before = ranks.total(db, "s")  # begins the state that this connection sees
        add(store, 100)
        store.read_now(lambda newer: ranks.total(newer, "s"))
        return before, ranks.total(db, "s")

    with store.engine.connect() as db:
        assert count_twice(db) == (25, 25)
    assert store.read_now(lambda db: ranks.total(db, "s")) == 125


def test_listing_a_long_session_reads_few_rows_of_the_index(store: Store) -> None:
    ranks = event_ranks.EventRanks()
    add(store, 500)
    store.read_now(lambda db: ranks.total(db, "s"))
    offsets: list[int] = []

    def record(_connection: object, _cursor: object, sql: str, parameters: tuple[Any, ...], *_: object) -> None:
        offsets.append(parameters[-1] if "OFFSET" in sql else 0)

    event.listen(store.engine, "before_cursor_execute", record)
    try:
        for sort_by in ("id", "-id"):
            for offset in (200, 437, 499, 500, 1 << 62):
                request = events.PageRequest("s", sort_by, limit=5, offset=offset)
                store.read_now(lambda db, request=request: events.small_page(db, request, ranks))
    finally:
        event.remove(store.engine, "before_cursor_execute", record)
    assert max(offsets) <= 20


@pytest.mark.parametrize("sort_by", ["type", "-task_id"])
def test_no_session_is_sorted_for_a_page_beyond_its_end(
    store: Store, sort_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, 30)
    request = events.PageRequest("s", sort_by, limit=5, offset=30)
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    page = store.read_now(lambda db: events.page(db, request, event_ranks.EventRanks()))
    assert (page.ids, page.total) == ([], 30)
    assert not any("IS NULL" in sql for sql in statements)

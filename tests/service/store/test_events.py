from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from agentbook.service.store import Store, Transaction, event_ranks, events
from agentbook.service.store.event_ranks import EventRanks
from agentbook.service.turns import event_json
from service.databases import open_store
from service.world import on_sqlite

COUNT = 23
AUTHOR = {"type": "user", "id": "u", "name": "u"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, list[str]]]:
    """A store with two sessions whose events alternate; the ids of the first one's."""
    store = open_store(Path(tmp_path_factory.mktemp("store")))

    def fill(tx: Transaction) -> list[str]:
        made = []
        for number in range(COUNT):
            for session in ("s", "other"):
                added = events.append(
                    tx,
                    session,
                    "message",
                    "t",
                    lambda id_, at, n=number: event_json.message(
                        id=id_, text=str(n), task_id="t", created_at=at, author=AUTHOR
                    ),
                )
                if session == "s":
                    made.append(added.id)
        return made

    yield store, store.write_now(fill)
    store.close()


@given(
    st.one_of(st.none(), st.integers(0, COUNT - 1)),
    st.booleans(),
    st.integers(0, COUNT + 5),
    st.one_of(st.integers(0, COUNT + 5), st.just((1 << 63) - 1)),
)
def test_a_page_is_what_slicing_a_list_gives(
    filled: tuple[Store, list[str]], cursor: int | None, newest_first: bool, limit: int, offset: int
) -> None:
    store, made = filled
    from_id = None if cursor is None else made[cursor]
    request = events.PageRequest("s", "-id" if newest_first else "id", from_id, limit, offset)
    page = store.read_now(lambda db: events.page(db, request, EventRanks()))
    assert store.read_now(lambda db: events.small_page(db, request, EventRanks())) == page
    expected = [id_ for id_ in made if from_id is None or id_ > from_id]
    assert page.total == len(expected)
    if newest_first:
        expected.reverse()
    assert page.json_texts is not None
    assert page.ids == expected[offset : offset + limit]
    assert page.sizes == [len(text) for text in page.json_texts]
    assert [msgspec.json.decode(text)["id"] for text in page.json_texts] == page.ids


@given(
    cursor=st.none() | st.integers(0, COUNT - 1),
    newest_first=st.booleans(),
    limit=st.integers(0, COUNT + 5),
    offset=st.integers(0, COUNT + 5) | st.just((1 << 63) - 1),
    listed_before=st.booleans(),
)
def test_a_page_is_the_same_where_ranks_are_remembered(
    filled: tuple[Store, list[str]],
    cursor: int | None,
    newest_first: bool,
    limit: int,
    offset: int,
    listed_before: bool,
) -> None:
    store, made = filled
    from_id = None if cursor is None else made[cursor]
    request = events.PageRequest("s", "-id" if newest_first else "id", from_id, limit, offset)
    expected = store.read_now(lambda db: events.page(db, request, EventRanks()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "STEP", 4)
        patch.setattr(event_ranks, "STEP", 4)
        ranks = event_ranks.EventRanks()
        if listed_before:
            store.read_now(lambda db: ranks.total(db, "s"))
        assert store.read_now(lambda db: events.page(db, request, ranks)) == expected
        assert store.read_now(lambda db: events.small_page(db, request, ranks)) == expected


@on_sqlite("a question about it")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, size_bytes FROM events WHERE session_id = 's' AND id > '0' ORDER BY id DESC LIMIT 100",
        "SELECT count(*) FROM events WHERE session_id = 's'",
        "SELECT max(id) FROM events WHERE session_id = 's'",
    ],
)
def test_no_text_is_read_to_list_events(filled: tuple[Store, list[str]], sql: str) -> None:
    """In the order of the table, SQLite reads each text to the end: 0.4 ms for 1 MB."""
    store, _ = filled
    plan = store.read_now(lambda db: db.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}").all())
    assert "USING COVERING INDEX events_by_size" in plan[0][3]


@on_sqlite("a question about it")
def test_no_text_is_read_to_see_that_a_page_is_long(
    filled: tuple[Store, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loop: a hundred readers of long pages would hold up all others."""
    monkeypatch.setattr(events, "SMALL_PAGE", 0)
    store, _ = filled
    executed: list[tuple[str, tuple[object, ...]]] = []

    def record(_connection: object, _cursor: object, sql: str, parameters: tuple[object, ...], *_: object) -> None:
        executed.append((sql, parameters))

    event.listen(store.engine, "before_cursor_execute", record)
    try:
        assert store.read_now(lambda db: events.small_page(db, events.PageRequest("s"), EventRanks())) is None
    finally:
        event.remove(store.engine, "before_cursor_execute", record)
    plans = [
        store.read_now(lambda db, each=each: db.exec_driver_sql(f"EXPLAIN QUERY PLAN {each[0]}", each[1]).all())
        for each in executed
    ]
    assert plans
    read = [step[3] for plan in plans for step in plan if " events " in step[3]]
    assert read
    assert all("USING COVERING INDEX events_by_size" in step for step in read), read


def test_a_session_without_events(filled: tuple[Store, list[str]]) -> None:
    store, _ = filled
    page = store.read_now(lambda db: events.page(db, events.PageRequest("none"), EventRanks()))
    assert (page.json_texts, page.total) == ([], 0)
    assert store.read_now(lambda db: events.newest_id(db, "none")) is None
    assert store.read_now(lambda db: events.after(db, "none", "")) == ([], True)


def test_texts_before_an_event(filled: tuple[Store, list[str]]) -> None:
    store, made = filled
    texts = store.read_now(lambda db: events.texts_before(db, "s", made[5], 3))
    assert texts == [("message", "2"), ("message", "3"), ("message", "4")]

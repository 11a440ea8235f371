from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.store import Store, Transaction, event_json, events
from service.databases import open_store

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
    from_id = "" if cursor is None else made[cursor]
    request = events.PageRequest("s", "-id" if newest_first else "id", from_id, limit, offset)
    json_texts, total = store.read_now(lambda db: events.page(db, request))
    expected = [id_ for id_ in made if id_ > from_id]
    assert total == len(expected)
    if newest_first:
        expected.reverse()
    assert [msgspec.json.decode(text)["id"] for text in json_texts] == expected[offset : offset + limit]


def test_a_session_without_events(filled: tuple[Store, list[str]]) -> None:
    store, _ = filled
    assert store.read_now(lambda db: events.page(db, events.PageRequest("none"))) == ([], 0)
    assert store.read_now(lambda db: events.newest_id(db, "none")) is None
    assert store.read_now(lambda db: events.after(db, "none", "")) == ([], True)

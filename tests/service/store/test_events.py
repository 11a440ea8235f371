from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbook.service.store import Store, Transaction, events
from agentbook.service.turns import event_json
from service.databases import open_store

pytestmark = pytest.mark.dependencies

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
                event = events.append(
                    tx,
                    session,
                    "message",
                    "t",
                    lambda id_, at, n=number: event_json.message(
                        id=id_, text=str(n), task_id="t", created_at=at, author=AUTHOR
                    ),
                )
                if session == "s":
                    made.append(event.id)
        return made

    yield store, store.write_now(fill)
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    page = store.read_now(
        lambda db: events.page(
            db, "s", from_id=from_id, sort_by="-id" if newest_first else "id", limit=limit, offset=offset
        )
    )
    expected = [id_ for id_ in made if from_id is None or id_ > from_id]
    assert page.total == len(expected)
    if newest_first:
        expected.reverse()
    assert page.wires is not None
    assert page.ids == expected[offset : offset + limit]
    assert [msgspec.json.decode(text)["id"] for text in page.wires] == page.ids


def test_a_session_without_events(filled: tuple[Store, list[str]]) -> None:
    store, _ = filled
    page = store.read_now(lambda db: events.page(db, "none", from_id=None, sort_by="-id", limit=20, offset=0))
    assert (page.wires, page.total) == ([], 0)
    assert store.read_now(lambda db: events.newest_id(db, "none")) is None
    assert store.read_now(lambda db: events.after(db, "none", "")) == ([], True)


def test_texts_before_an_event(filled: tuple[Store, list[str]]) -> None:
    store, made = filled
    texts = store.read_now(lambda db: events.texts_before(db, "s", made[5], 3))
    assert texts == [("message", "2"), ("message", "3"), ("message", "4")]

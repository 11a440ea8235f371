"""The next page of a list paged by id, requested before the page at hand is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.calls import Call, Reply
from agentbook.api.endpoints.sessions import events
from agentbook.api.page import Page
from agentbook.api.pagination import Pagination
from support.fake_platform.core import event_id

IDS = [event_id(1000 * n, n) for n in range(9)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['{"id": "x"}', "},{", '"}]', "{}"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text() | st.just("id"), values, max_size=3),
    max_leaves=12,
)


def read(items: list[Any], *, more: bool = True, **options: Any) -> Page:
    body = json.dumps({"items": items, "pagination": {"total_count": 9, "has_more": more}}, **options)
    return Page.read_envelope(Reply(200, {}, body.encode()))


def page(first: int, end: int, *, more: bool = True) -> Page:
    return read([{"id": each, "content": {"id": "another"}} for each in IDS[first:end]], more=more)


def cursor_of(call: Call[Page] | None) -> Any:
    assert call is not None
    return call.query["from_id"]


@given(
    items=st.lists(st.dictionaries(st.text() | st.just("id"), VALUES, max_size=4), max_size=4),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]),
    ascii_only=st.booleans(),
)
def test_the_id_of_the_last_item_is_read_alone(
    items: list[dict[str, Any]], separators: tuple[str, str], ascii_only: bool
) -> None:
    last_id = items[-1].get("id") if items else None
    expected = last_id if isinstance(last_id, str) else None
    assert read(items, separators=separators, ensure_ascii=ascii_only).last_id() == expected


def test_an_id_that_would_take_long_to_find_is_not_looked_for() -> None:
    assert read([{"id": IDS[0], "content": {"many": [{}] * 100}}]).last_id() is None
    assert Page.read_envelope(Reply(200, {}, b'{"pagination": {}, "items": [{"id": "a"}]}')).last_id() is None


def test_the_next_page_is_requested_before_the_one_at_hand_is_added() -> None:
    pagination = Pagination(events("s"))
    pagination.next_call()
    assert pagination.next_call() is None
    first, second = page(0, 3), page(3, 6)
    assert pagination.expect(first)
    assert cursor_of(pagination.next_call()) == IDS[2]
    assert pagination.next_call() is None, "one page ahead, however many arrive"
    assert pagination.expect(second) is False, "the first has to be added before"
    assert pagination.add(first) is None
    assert pagination.next_call() is None
    assert pagination.add(second) is None
    assert cursor_of(pagination.next_call()) == IDS[5]
    assert pagination.add(page(6, 9, more=False)) is None
    assert (pagination.done, pagination.items, pagination.problems) == (True, 9, [])


def test_a_page_that_was_requested_after_another_id_than_the_last_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    pagination = Pagination(events("s"))
    pagination.next_call()
    first = page(0, 3)
    with monkeypatch.context() as patch:
        patch.setattr(Page, "last_id", lambda self: IDS[1])
        assert pagination.expect(first)
    pagination.next_call()
    pagination.add(first)
    assert pagination.add(page(2, 5)) == [False] * 3
    assert cursor_of(pagination.next_call()) == IDS[2]
    pagination.add(page(3, 9, more=False))
    assert (pagination.done, pagination.items, pagination.problems) == (True, 9, [])


@pytest.mark.parametrize(
    "arrived",
    [
        pytest.param(page(3, 6, more=False), id="the list ends"),
        pytest.param(page(3, 8), id="the range ends"),
        pytest.param(page(1, 3), id="the platform ignores from_id"),
        pytest.param(read([{"id": "draft-1"}]), id="no persisted event"),
        pytest.param(read([]), id="no event"),
    ],
)
def test_no_page_is_expected_where_none_follows_for_certain(arrived: Page) -> None:
    pagination = Pagination(events("s", from_id=IDS[2]), end=IDS[7])
    pagination.next_call()
    assert pagination.expect(arrived) is False
    assert pagination.next_call() is None


def test_a_pass_that_is_resumed_expects_nothing() -> None:
    pagination = Pagination(events("s"))
    pagination.next_call()
    pagination.expect(page(0, 3))
    pagination.resume()
    assert pagination.position is None
    assert pagination.next_call() is not None
    assert pagination.next_call() is None

"""Replies beyond the specification: unknown fields, nulls, unexpected types."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.events.turns import TurnLog

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
names = (
    st.sampled_from(["id", "name", "owner", "params", "content", "author", "type", "created_at", "items", "token"])
    | st.text()
)
items = st.dictionaries(names, values, max_size=6)


def client_of(answer: Any) -> ab.Client:
    def platform(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=msgspec.json.encode(answer))

    return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(platform)))


@given(items)
def test_an_entity_comes_back_as_it_was_sent(entity: dict[str, Any]) -> None:
    record = client_of(entity).agents.get("a")
    assert record == entity
    assert isinstance(repr(record), str)
    assert record._repr_html_().startswith('<table class="tex2jax_ignore mathjax_ignore">')
    assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == entity
    for name in record:
        if name.isidentifier() and not hasattr(dict, name) and not name.startswith("_"):
            assert getattr(record, name) == entity[name]


@given(
    st.lists(items | scalars, max_size=5), st.dictionaries(names | st.just("total_count"), values, max_size=3) | scalars
)
def test_a_list_of_anything_is_read_whole(sent: list[Any], pagination: Any) -> None:
    if isinstance(pagination, dict):
        pagination = {name: value for name, value in pagination.items() if name not in ("total_count", "has_more")}
        pagination |= {"total_count": len(sent), "has_more": False}
    else:
        pagination = {"total_count": len(sent), "has_more": False, "limit": pagination}
    ids = [item["id"] for item in sent if isinstance(item, dict) and item.get("id") and isinstance(item["id"], str)]
    if len(ids) != len(set(ids)):
        return  # an id that comes twice is another test's: the list is read again, and said to be incomplete
    records = list(client_of({"items": sent, "pagination": pagination}).agents.list())
    assert records == [item if isinstance(item, dict) else {"value": item} for item in sent]


@given(st.lists(items, max_size=8))
def test_any_events_make_turns(events: list[dict[str, Any]]) -> None:
    log = TurnLog("s")
    for n, event in enumerate(events):
        log.feed(event)
        log.feed({**event, "id": f"0199a0b2-0000-7000-8000-{n:012x}"})
    assert all(turn.status in ("open", "answered", "failed") for turn in log.turns)
    assert isinstance(repr(log.turns), str)


@pytest.mark.parametrize("answer", [{}, {"id": None}, {"id": ""}, {"id": 7}, [], "s1"])
def test_a_session_nobody_could_go_on_with_may_have_been_started(answer: Any) -> None:
    with pytest.raises(ab.OutcomeUnknown, match=r"a session without an id.*It may have been applied"):
        client_of(answer).sessions.start("w", agent_id="a", prompt="Hello")

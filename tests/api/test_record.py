"""Lists, single records and the answers of writes accept the same texts."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.record import TOO_DEEP, UNREADABLE, Record, read_value
from agentbook.events.turns import TurnLog
from support import clients


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


TEXTS = [
    (b'"plain"', "plain"),
    (b"NaN", None),
    (b"[-Infinity, Infinity, 1]", [None, None, 1]),
    (rb'"NaN \\ud800"', r"NaN \ud800"),
    (rb'"half \ud83d of \ude00 one \ud83d\ude00"', "half ? of ? one 😀"),
    (rb'{"\ud800": 1}', {"?": 1}),
    (b'"\xff"', "\ufffd"),
    (b"1e400", float("inf")),
    (b"123456789012345678901234567890", 123456789012345678901234567890),
    (b"9" * 5000, float("inf")),
    (b'{"a": 1, "a": 2}', {"a": 2}),
]


def client_of(body: bytes, status: int = 200) -> ab.Client:
    return clients.client_of(lambda request: httpx.Response(status, content=body))


def page_of(*items: bytes) -> bytes:
    pagination = b'{"total_count":%d,"limit":1000,"offset":0,"has_more":false}' % len(items)
    return b'{"items":[%b],"pagination":%b}' % (b",".join(items), pagination)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("text", "value"), TEXTS)
def test_a_record_a_list_and_a_write_have_the_same_values(text: bytes, value: Any, mark: bytes) -> None:
    item, expected = b'{"id":"1","name":"one","x":%b}' % text, {"id": "1", "name": "one", "x": value}
    assert client_of(mark + item).agents.get("1") == expected
    assert client_of(mark + item, 201).agents.create("one") == expected
    assert client_of(mark + item).agents.update("1", is_pinned=True) == expected
    client = client_of(mark + page_of(b'{"id":"0"}', item, b'{"id":"2"}'))
    assert list(client.agents.list()) == [{"id": "0"}, expected, {"id": "2"}]
    frame = client.agents.list().to_pandas()
    assert frame["id"].tolist() == ["0", "1", "2"]
    assert read_value(frame["extra"][1].encode()) == {"x": value}


def depth(value: Any) -> int:
    levels = 0
    while isinstance(value, (dict, list)):
        value = value["a"] if isinstance(value, dict) else value[0]
        levels += 1
    assert value == TOO_DEEP
    return levels


# From 3.12 on, Python reads 1,000 levels as they are.
@pytest.mark.parametrize("levels", [20_000] if sys.version_info >= (3, 12) else [1_000, 20_000])
@pytest.mark.parametrize("value", [deep, lambda levels: b"[" * levels + b"]" * levels])
def test_a_value_that_is_nested_too_deeply_hides_only_itself(levels: int, value: Any) -> None:
    item = b'{"id":"2","x":%b,"name":"two"}' % value(levels)
    record = client_of(item).agents.get("2")
    assert (record["name"], depth(record["x"])) == ("two", 199)
    assert repr(record)
    client = client_of(page_of(b'{"id":"1","name":"one"}', item, b'{"id":"3","name":"three"}'))
    assert list(client.agents.list())[1] == record
    frame = client.agents.list().to_pandas()
    assert frame["name"].tolist() == ["one", "two", "three"]
    assert read_value(frame["extra"][1].encode()) == {"x": record["x"]}


@pytest.mark.parametrize("text", [b"", b"<html>", b'{"a": nan}', b'{"a": 1', b'"\x01"', b'{"a": 01}', b"NaNs"])
def test_what_is_no_json_stays_unreadable(text: bytes) -> None:
    with pytest.raises(UNREADABLE):
        read_value(text)


@pytest.mark.parametrize(
    "start", [b'{"items":[{"name":"' + b'"\\' * 9, b"[", b'[{"a":', b'"\\u', b"-NaN ", b"NaN", b"-", b"\\", b'"', b"}]"]
)
def test_a_text_without_end_is_refused_in_linear_time(start: bytes) -> None:
    def seconds(count: int) -> float:
        begun = time.process_time()
        with pytest.raises(UNREADABLE):
            read_value(start * count)
        return time.process_time() - begun

    assert seconds(400_000 // len(start)) < 40 * max(seconds(40_000 // len(start)), 0.01)


@pytest.mark.parametrize("value", [b"None", b"007", b"'one'", b"[1,]", b"{a: 1}", b'"\x01"', rb'"\x"'])
def test_what_is_not_json_is_an_error_of_a_list_and_of_a_record(value: bytes) -> None:
    item = b'{"id":"1","secret":"hush-hush","x":%b}' % value
    for read in (
        lambda: client_of(item).agents.get("1"),
        lambda: list(client_of(page_of(b'{"id":"0"}', item)).agents.list()),
        lambda: client_of(page_of(b'{"id":"0"}', item)).agents.list().to_pandas(),
    ):
        with pytest.raises(ab.ApiError, match="not the JSON") as raised:
            read()
        assert "hush" not in str(raised.value)


FIELDS = {"name": "a", "content": {"text": "x"}, "turns": [{"text": "y"}]}


def of_a_list() -> Record:
    return next(iter(client_of(page_of(json.dumps(FIELDS).encode())).agents.list()))


@pytest.mark.parametrize("made", [lambda: Record(FIELDS), of_a_list])
def test_a_field_is_the_same_by_item_and_by_attribute(made: Callable[[], Record]) -> None:
    record = made()
    with pytest.raises(AttributeError, match="record\\['name'\\]"):
        record.name = "b"
    record.content["text"] = "z"
    record["author"] = {"id": "1"}
    assert record["content"] is record.content is record.get("content")
    assert (record["content"].text, record["turns"][0].text, record.author.id, record.name) == ("z", "y", "1", "a")
    for copied in (pickle.loads(pickle.dumps(record)), copy.deepcopy(record)):
        assert (copied, copied.turns[0].text) == (record, "y")


@pytest.mark.parametrize(
    "value",
    [
        lambda record: record["content"],
        lambda record: record.content,
        lambda record: record.get("content"),
        lambda record: record.pop("content"),
        lambda record: record.setdefault("content", {}),
        lambda record: dict(record.items())["content"],
        lambda record: list(record.values())[1],
        lambda record: record.copy()["content"],
        lambda record: (record | {"name": "b"})["content"],
        lambda record: copy.copy(record).content,
        lambda record: pickle.loads(pickle.dumps(record))["content"],
    ],
)
def test_the_values_of_a_listed_record_are_records_whatever_is_asked_first(value: Callable[[Record], Record]) -> None:
    assert value(of_a_list()).text == "x"


# -- replies beyond the specification --------------------------------------------------


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


@given(items)
def test_an_entity_comes_back_as_it_was_sent(entity: dict[str, Any]) -> None:
    record = client_of(msgspec.json.encode(entity)).agents.get("a")
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
    records = list(client_of(msgspec.json.encode({"items": sent, "pagination": pagination})).agents.list())
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
        client_of(msgspec.json.encode(answer)).sessions.start("w", agent_id="a", prompt="Hello")

"""Arguments that are no cursor, no time or no type are refused at once, with advice."""

from __future__ import annotations

from typing import Any

import pytest

import agentbook as ab
from agentbook.events.reader import type_names

ADDRESS = "http://127.0.0.1:9/v1"  # nothing is sent


@pytest.mark.parametrize(
    ("argument", "value", "advice"),
    [
        ("from_id", "draft-5-0199a0b2-0000-7000-8000-000000000000", "ids of drafts are not cursors.*last_id"),
        ("from_id", "", "from_id must be the id of a persisted event"),
        ("from_id", "0199a0b2-0000-7000-8000-00000000000g", "from_id must be"),
        ("from_id", "x" * 10_000, "from_id must be.{200,500}$"),
        ("from_id", 5, "not 5"),
        ("since", "yesterday", "since must be a time such as .*, not 'yesterday'"),
        ("since", 1_790_000_000, "since must be a time"),
    ],
)
def test_a_cursor_that_is_none_is_refused_before_anything_is_sent(argument: str, value: Any, advice: str) -> None:
    options: Any = {argument: value}
    with ab.Client(ADDRESS) as client:
        for call in (client.sessions.stream, client.asynchronous().sessions.stream, client.sessions.events):
            with pytest.raises(ab.InvalidInput, match=advice) as raised:
                call("s", **options)
            assert isinstance(raised.value, ValueError)
            assert (raised.value.status, raised.value.request_id) == (400, None)
            assert str(raised.value).startswith(str(raised.value.operation))


@pytest.mark.parametrize(("argument", "value"), [("limit", -1), ("limit", 1.5), ("offset", -1), ("offset", "2")])
def test_a_number_of_items_that_is_none_is_refused(argument: str, value: Any) -> None:
    options: Any = {argument: value}
    with ab.Client(ADDRESS) as client, pytest.raises(ab.InvalidInput, match=f"{argument} must be a whole number"):
        client.sessions.events("s", **options)


@pytest.mark.anyio
def test_types_may_be_one_text() -> None:
    assert type_names("message, runtime_done") == ["message", "runtime_done"]
    assert type_names(["message", "runtime_done"]) == ["message", "runtime_done"]
    assert type_names(None) is type_names([]) is None
    with (
        ab.Client(ADDRESS) as client,
        pytest.raises(ab.InvalidInput, match="types must be names of event types, not 3"),
    ):
        client.sessions.stream("s", types=["message", 3])  # type: ignore[list-item]

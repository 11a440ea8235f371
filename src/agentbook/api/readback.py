"""Reading back a named create whose reply was lost, to see whether it was applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from .calls import Call, Reply
from .record import Record

# How far the platform's clock may differ from ours. An entity that is older than the
# call by more than this is not the one created.
CLOCK_SKEW_S = 5.0


def create_read_back(
    operation: str, path: str, sent: Mapping[str, Any], *, query: Mapping[str, Any] | None = None
) -> Callable[[float], Call[Record | None]]:
    """A function of the start time: a call that returns the created entity, or None.

    Parameters
    ----------
    operation, path, query
        Where to read: the entity itself, or a list that contains it.
    sent
        The body of the create. Only an entity that agrees with all of it is returned.
    """

    def read_back(started_at: float) -> Call[Record | None]:
        def read(reply: Reply) -> Record | None:
            data = msgspec.json.decode(reply.body)
            items = data["items"] if isinstance(data, dict) and "items" in data else [data]
            return next((Record(item) for item in items if _is_created(item, sent, started_at)), None)

        return Call(operation, "GET", path, read, query or {})

    return read_back


def _is_created(item: Any, sent: Mapping[str, Any], started_at: float) -> bool:
    if not isinstance(item, Mapping):
        return False
    try:
        created = datetime.fromisoformat(item["created_at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return False
    # owner_id may have been sent as a name; all other fields must have the values sent.
    same = all(item.get(name, value) == value for name, value in sent.items() if name != "owner_id")
    return same and item.get("name") == sent["name"] and created >= started_at - CLOCK_SKEW_S

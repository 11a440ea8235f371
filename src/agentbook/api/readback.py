"""Named creates that can be checked: after a lost reply, read the entity and see whether it is the one that was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from .calls import Call, Reply
from .record import Record

# How far the platform's clock may be from ours. An entity older than the call by more than this is somebody else's.
CLOCK_SKEW_S = 5.0


def create_read_back(
    operation: str, path: str, sent: Mapping[str, Any], *, query: Mapping[str, Any] | None = None
) -> Callable[[float], Call[Record | None]]:
    """How to read back a create: given when it began, a call that gives what it created, or None.

    Parameters
    ----------
    operation, path, query
        Where to read: the entity itself, or a list that holds it.
    sent
        The body of the create. Only an entity that agrees with all of it counts.
    """

    def begun(at: float) -> Call[Record | None]:
        def read(reply: Reply) -> Record | None:
            data = msgspec.json.decode(reply.body)
            items = data["items"] if isinstance(data, dict) and "items" in data else [data]
            return next((Record(item) for item in items if _is_ours(item, sent, at)), None)

        return Call(operation, "GET", path, read, query or {})

    return begun


def _is_ours(item: Any, sent: Mapping[str, Any], began_at: float) -> bool:
    if not isinstance(item, Mapping):
        return False
    try:
        created = datetime.fromisoformat(item["created_at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return False
    # owner_id may have been sent as a name; every other field that comes back must be what was sent.
    same = all(item.get(name, value) == value for name, value in sent.items() if name != "owner_id")
    return same and item.get("name") == sent["name"] and created >= began_at - CLOCK_SKEW_S

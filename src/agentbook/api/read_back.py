"""Finds the entity that a create made whose reply was lost.

Someone else may create an entity with the same name at the same time. So an entity is
returned only if it agrees with everything that was sent, is not older than the call,
and was created by the same key, where the specification says whom the platform records.
If there are two, there is no telling which is ours. Specification: "Errors", retry
rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .calls import Attempt, Call, Reply
from .json import read_value
from .record import Record


def create_read_back(
    operation: str,
    path: str,
    sent: Mapping[str, Any],
    *,
    query: Mapping[str, Any] | None = None,
    records_key: bool = False,
) -> Callable[[Attempt], Call[Record | None]]:
    """The `Call.read_back` of a named create: finds what was created, or None.

    Parameters
    ----------
    operation, path, query
        Where to read: the entity itself, or a list that contains it.
    sent
        The body of the create.
    records_key
        Whether the platform records the key as the ``creator_id`` of what it creates.
    """

    def read_back(attempt: Attempt) -> Call[Record | None]:
        def read(reply: Reply) -> Record | None:
            data = read_value(reply.body)
            items = data["items"] if isinstance(data, dict) and "items" in data else [data]
            earliest = _platform_time(attempt, reply)
            creator_id = attempt.key_id if records_key else None
            created = [item for item in items if _is_created(item, sent, earliest, creator_id)]
            return Record(created[0]) if len(created) == 1 else None

        return Call(operation, "GET", path, read, query or {})

    return read_back


def _platform_time(attempt: Attempt, reply: Reply) -> float:
    """When the call started by the platform's clock, at the earliest, in whole seconds.

    The ``Date`` header is in whole seconds, and the platform's times may be too.
    Without such a header, our own clock counts.
    """
    try:
        ahead = parsedate_to_datetime(reply.headers["date"]).timestamp() - attempt.clock()
    except (KeyError, TypeError, ValueError):
        ahead = 0.0
    return math.floor(attempt.started_at + ahead)


def _is_created(item: Any, sent: Mapping[str, Any], earliest: float, creator_id: str | None) -> bool:
    if not isinstance(item, Mapping):
        return False
    try:
        created_at = datetime.fromisoformat(item["created_at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return False
    same = all(item.get(name, value) == value for name, value in sent.items() if name != "owner_id")
    ours = creator_id is None or item.get("creator_id", creator_id) == creator_id
    return (
        same
        and ours
        and item.get("name") == sent["name"]
        and _is_owned_by(item, sent.get("owner_id"))
        and created_at >= earliest
    )


def _is_owned_by(item: Mapping[str, Any], owner: str | None) -> bool:
    """Whether an account, by id or name, owns an entity. True if neither is known."""
    full_name = item.get("full_name")
    owners = {item.get("owner_id"), full_name.partition("~")[0] if isinstance(full_name, str) else None} - {None}
    return owner is None or not owners or owner in owners

"""Event ids.

Persisted events have UUIDs of version 7: they sort by time, and their first 48 bits are
the millisecond of their creation. Draft events have ids of another form, which cannot
be cursors. Specification: "Resources and their fields", Session event; "Events", rule
2.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .calls import ref
from .errors import invalid_argument

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_V7 = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}")


def is_persisted(event_id: object) -> bool:
    """Whether an id belongs to a persisted event, and so can be a cursor.

    Examples
    --------
    >>> is_persisted("0199a0b2-0000-7000-8000-000000000000"), is_persisted("draft-1")
    (True, False)
    """
    return isinstance(event_id, str) and _V7.fullmatch(event_id) is not None


def milliseconds_of(event_id: str) -> int:
    """The time of a persisted id, in milliseconds since the epoch (UTC)."""
    return int(event_id.replace("-", "")[:12], 16)


def first_id_of(milliseconds: int) -> str:
    """The smallest UUIDv7 of a millisecond, counted from the epoch.

    Examples
    --------
    >>> first_id_of(1)
    '00000000-0001-7000-8000-000000000000'
    """
    clipped = min(max(milliseconds, 0), (1 << 48) - 1)
    return str(uuid.UUID(int=(clipped << 80) | (0x7 << 76) | (0b10 << 62)))


def first_id_at(moment: datetime | str, operation: str = "sessions.events") -> str:
    """The smallest UUIDv7 of an instant; as ``from_id``, it means "since then".

    `moment` may be ISO 8601 text. A naive time is taken as UTC.

    Raises
    ------
    InvalidInput
        If `moment` is not a time; the message names `operation`.

    Examples
    --------
    >>> first_id_at("2026-11-01T00:00:00Z")
    '01a19467-e800-7000-8000-000000000000'
    """
    try:
        time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return first_id_of(int(aware.timestamp() * 1000))
    except (ValueError, OverflowError, AttributeError, TypeError):
        raise invalid_argument(
            operation, f"since must be a time such as 2026-11-01T00:00:00Z, not {moment!r}."
        ) from None


def check_cursor(from_id: Any, operation: str = "sessions.events") -> str | None:
    """`from_id`, or the id of the event that it is, if it can be a cursor.

    Raises
    ------
    InvalidInput
        If it is not the id of a persisted event; the message names `operation`.

    Examples
    --------
    >>> check_cursor("0199a0b2-0000-7000-8000-000000000000")
    '0199a0b2-0000-7000-8000-000000000000'
    >>> check_cursor("draft-5-t1")
    Traceback (most recent call last):
    ...
    agentbook.api.errors.InvalidInput: sessions.events: from_id must be the id ...
    """
    if isinstance(from_id, Mapping | uuid.UUID):
        from_id = ref(from_id)
    if from_id is None or (isinstance(from_id, str) and _UUID.fullmatch(from_id)):
        return from_id
    raise invalid_argument(
        operation,
        f"from_id must be the id of a persisted event, not {_shortened(from_id)}: ids of drafts are not cursors. Pass "
        "the id of an event of the list, the last_id of a stream, or since= with a time.",
    )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"

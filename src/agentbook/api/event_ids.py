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
from datetime import datetime
from typing import Any

from .calls import ref
from .errors import invalid_argument
from .span import parse_span

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


def first_id_at(moment: datetime) -> str:
    """The smallest UUIDv7 of an instant; as ``from_id``, it means "since then".

    Examples
    --------
    >>> first_id_at(datetime.fromisoformat("2026-11-01T00:00Z"))
    '01a19467-e800-7000-8000-000000000000'
    """
    return first_id_of(int(moment.timestamp() * 1000))


def last_id_before(moment: datetime) -> str:
    """The greatest UUIDv7 before the millisecond of an instant.

    Examples
    --------
    >>> last_id_before(datetime.fromisoformat("2026-11-01T00:00Z"))
    '01a19467-e7ff-7fff-bfff-ffffffffffff'
    """
    milliseconds = min(max(int(moment.timestamp() * 1000), 1), 1 << 48) - 1
    return str(uuid.UUID(int=(milliseconds << 80) | (0x7FFF << 64) | 0xBFFF_FFFF_FFFF_FFFF))


def id_span(operation: str, since: Any, until: Any = None) -> tuple[str | None, str | None]:
    """The id after which a span begins, and the greatest one in it; None for an end.

    Raises
    ------
    InvalidInput
        If an end is not a time; the message names `operation`.
    """
    try:
        span = parse_span(since, until)
    except ValueError as error:
        raise invalid_argument(operation, str(error)) from None
    return (
        None if span.since is None else first_id_at(span.since),
        None if span.until is None else last_id_before(span.until),
    )


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

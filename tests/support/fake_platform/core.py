"""The parts of every fake platform: event ids, events, and the pages of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

START_MS = 1_790_000_000_000

Event = dict[str, Any]


def event_id(milliseconds: int, n: int) -> str:
    """The UUIDv7 of event `n`, `milliseconds` after `START_MS`."""
    digits = f"{START_MS + milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{n:012x}"


def list_page(items: Iterable[Event], query: Mapping[str, str]) -> dict[str, Any]:
    """The page of a list that a query asks for (specification: "Pagination (list
    envelope)").

    Parameters
    ----------
    items : iterable of dict
        Every item, oldest first.
    query : mapping
        ``from_id``, ``sort_by``, ``offset`` and ``limit``, as text.
    """
    rows = [item for item in items if item["id"] > query.get("from_id", "")]
    if query.get("sort_by", "-id") == "-id":
        rows.reverse()
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", 20))
    page = rows[offset : offset + limit]
    has_more = offset + len(page) < len(rows)
    return {
        "items": page,
        "pagination": {"total_count": len(rows), "limit": limit, "offset": offset, "has_more": has_more},
    }


class FakePlatform:
    """Sessions of events in memory: `histories` holds those of each session, oldest
    first.
    """

    def __init__(self) -> None:
        self.histories: dict[str, list[Event]] = {}

    def insert(self, session_id: str, *events: Event) -> None:
        """Make events visible in the session's list."""
        history = self.histories.setdefault(session_id, [])
        history.extend(events)
        history.sort(key=lambda event: str(event["id"]))

"""Whether a session can be left out of a sync, because a list shows it as unchanged.

The specification does not say when a session's ``updated_at`` changes. So observation
decides: a platform is trusted only if its sessions changed with their latest replies,
and never again once an event came later than its session's change.

Specification: "Resources and their fields", Session.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from .manifest import Manifest, SessionCursor
from .sources import Sources

_SAME_US = 100_000  # between a reply and the change of its session in the same transaction


class Freshness:
    """What the lists of a sync tell about its sessions.

    Parameters
    ----------
    manifest : Manifest
    sources : Sources
    overlap_ms : int
        How long after a change its events may arrive, in milliseconds.
    full : bool
        True trusts no list.
    """

    def __init__(self, manifest: Manifest, sources: Sources, overlap_ms: int, full: bool) -> None:
        self._manifest = manifest
        self._sources = sources
        self._overlap_us = overlap_ms * 1000
        self._full = full
        self._closed: set[str] = set()  # sessions whose latest event is not a question

    def is_current(self, session: str) -> bool:
        """Whether a session has not changed since it was read."""
        cursor, updated_us = self._manifest.sessions.get(session), self._sources.updated_us[session]
        if cursor is None or updated_us is None or cursor.updated_us != updated_us:
            return False
        if self._full or cursor.reload or self._manifest.shows_replies is False:
            return False
        # It is read once more when the change is old enough, but not before.
        return cursor.settled or not self._is_settled(updated_us)

    def _is_settled(self, updated_us: int) -> bool:
        listed_at = self._sources.listed_at
        return listed_at is not None and listed_at * 1e6 - updated_us > self._overlap_us

    @functools.cached_property
    def _latest_us(self) -> int:
        """The latest change that the lists show."""
        return max((moment for moment in self._sources.updated_us.values() if moment is not None), default=0)

    def learn(self, session: str, rows: Any) -> None:
        """Compare a session's latest new event with what its list shows."""
        latest = rows.slice(rows.num_rows - 1)
        last_us = latest["at"].cast(pa.int64())[0].as_py()
        author, updated_us = latest["author_type"][0].as_py(), self._sources.updated_us[session]
        is_question = author is not None and author != "agent"
        if is_question:
            self._closed.discard(session)
        else:
            self._closed.add(session)
        if updated_us is None or last_us is None:
            return
        # Another session changed later: the list is not older than this event.
        if updated_us + self._overlap_us < last_us <= self._latest_us:
            self._manifest.shows_replies = False
        elif self._manifest.shows_replies is None and not is_question and updated_us >= last_us - _SAME_US:
            self._manifest.shows_replies = True

    def mark(self, session: str, cursor: SessionCursor) -> SessionCursor:
        """The cursor of a session that was read, including what its list showed."""
        updated_us = self._sources.updated_us[session]
        trusted = self._manifest.shows_replies or (self._manifest.shows_replies is None and session in self._closed)
        if updated_us is None or not trusted:
            updated_us = None
        is_settled = updated_us is not None and self._is_settled(updated_us)
        is_listed = cursor.listed or session in self._sources.listed
        return replace(cursor, updated_us=updated_us, settled=is_settled, listed=is_listed)


__all__ = ["Freshness"]

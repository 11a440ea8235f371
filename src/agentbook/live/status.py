"""What a watch is doing, and the line that says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..frames.analysis.periods import local_text

State = Literal["watching", "rate limited", "offline", "stopped"]
_SIGNS: dict[State, str] = {"watching": "●", "stopped": "■"}


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """What a watch is doing.

    Attributes
    ----------
    state : str
        ``watching``; ``rate limited`` and ``offline`` while it tries again; or
        ``stopped``.
    reason : str
        Why it is rate limited, offline or stopped. While it is watching, which sessions
        the platform refuses; else empty.
    since : datetime
        When this state began, in UTC.
    tz : str
        The time zone in which `line` shows it, as an IANA name.

    Examples
    --------
    >>> from datetime import UTC
    >>> noon = datetime(2026, 10, 3, 12, tzinfo=UTC)
    >>> WatchStatus("offline", "no reply", noon).line
    '○ offline since 2026-10-03 12:00:00 UTC, trying again: no reply'
    """

    state: State
    reason: str
    since: datetime
    tz: str = "UTC"

    @property
    def line(self) -> str:
        """The status in a line."""
        retries = "" if self.state in _SIGNS else ", trying again"
        reason = f": {self.reason}" if self.reason else ""
        since = local_text(self.since, self.tz, "%Y-%m-%d %H:%M:%S")
        return f"{_SIGNS.get(self.state, '○')} {self.state} since {since}{retries}{reason}"


__all__ = ["State", "WatchStatus"]

"""The frames of a history, as seen by code that only reads them."""

from __future__ import annotations

from typing import Protocol

import pandas as pd

RESTRICTED = (
    "An account key never sees workspaces that are restricted to their members. They are part of this history only if "
    "the credential is a member's."
)


class Frames(Protocol):
    """What findings and reports read from a `History`."""

    since: pd.Timestamp | None
    until: pd.Timestamp | None
    tz: str
    workspaces: pd.DataFrame
    agents: pd.DataFrame
    credentials: pd.DataFrame
    sessions: pd.DataFrame
    events: pd.DataFrame
    missing: dict[str, str]

    @property
    def turns(self) -> pd.DataFrame:
        """One row per turn."""
        ...

    @property
    def credential_report(self) -> pd.DataFrame:
        """One row per credential."""
        ...

    @property
    def title(self) -> str:
        """The account and the span, in words."""
        ...

    @property
    def hint(self) -> str:
        """What to do if there are no events; empty if there are some."""
        ...


def count_text(count: int, name: str) -> str:
    """A number of rows, and what they are.

    Examples
    --------
    >>> count_text(1, "workspaces"), count_text(1200, "events")
    ('1 workspace', '1,200 events')
    """
    return f"{count:,} {name.removesuffix('s') if count == 1 else name}"

"""What a writer of demo data reports back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What was written.

    Attributes
    ----------
    account_id, account_name : str
        The account that a local key acts as.
    users, workspaces, agents : mapping of str to str
        Name to id, of all accounts.
    counts : mapping of str to int
        Rows by noun: sessions, events, credentials, contexts ...
    first_at, last_at : str or None
        When the first and the last session began, as the wire writes instants.
    """

    account_id: str
    account_name: str
    users: Mapping[str, str]
    workspaces: Mapping[str, str]
    agents: Mapping[str, str]
    counts: Mapping[str, int]
    first_at: str | None
    last_at: str | None

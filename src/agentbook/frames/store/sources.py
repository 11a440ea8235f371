"""The sessions that a sync reads, and when each last changed, if a list shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from ...api.calls import ListCall, ref
from ...api.connection import Connection
from ...api.endpoints import sessions as sessions_endpoint
from ...api.pagination import warn_incomplete
from ...api.span import Span
from ..history.catalog import Catalog, CatalogLoad
from ..history.load import sessions_within
from ..load.loader import ListsLoad, Steps
from ..load.progress import Progress
from ..load.session_ids import session_ids
from ..parse.ids import normalize
from .manifest import Manifest


class Sources:
    """The sessions of a sync: those of accounts, workspaces and lists, and others.

    Parameters
    ----------
    catalogs : mapping of str to CatalogLoad
        Of the accounts.
    lists : mapping of str to ListCall
        Lists of sessions.
    sessions : list of str
        Further sessions, by their ids.
    workspaces : list of str
        Those of `lists` that are workspaces the store keeps up to date.
    span : Span
        Sessions that cannot have an event in it are left out.

    Attributes
    ----------
    updated_us : dict
        Each session's ``updated_at`` in microseconds since 1970; None if no list shows
        it. Filled by `steps`, like the other attributes.
    listed : set of str
        Sessions of workspaces that the store keeps up to date.
    listed_at : float or None
        When the first list was requested, in seconds since 1970.
    read : dict
        The catalogs that were read.
    """

    def __init__(
        self,
        catalogs: Mapping[str, CatalogLoad] | None = None,
        lists: Mapping[str, ListCall] | None = None,
        sessions: list[str] | None = None,
        workspaces: list[str] | None = None,
        span: Span = Span(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self._catalogs = dict(catalogs or {})
        self._lists = ListsLoad("sessions", lists or {})
        self._lists_of_workspaces = [key for key in lists or {} if key in (workspaces or [])]
        self._other_lists = [key for key in lists or {} if key not in self._lists_of_workspaces]
        self._sessions = sessions or []
        self._span = span
        self.workspaces = workspaces or []
        self.updated_us: dict[str, int | None] = {}
        self.listed: set[str] = set()
        self.listed_at: float | None = None
        self.read: dict[str, Catalog] = {}

    @classmethod
    def of(
        cls, client: Connection, manifest: Manifest, known: Callable[[str], Catalog], *,
        sessions: Any, workspace: Any, account: Any,
    ) -> Sources:  # fmt: skip
        """The sources of a sync by its arguments; by default, those of the store."""
        if sum(argument is not None for argument in (sessions, workspace, account)) > 1:
            raise ValueError("Pass sessions, or workspace= for those of a workspace, or account= for a whole history.")

        def catalog(key: str) -> CatalogLoad:
            stored = known(key) if key in manifest.histories else None
            return CatalogLoad(client, key or None, known=stored)

        if account is not None:
            return cls({ref(account): catalog(ref(account))})
        if workspace is not None:
            return cls(lists=_lists_of([ref(workspace)]), workspaces=[ref(workspace)])
        if sessions is not None:
            list_call = getattr(sessions, "list_call", None)  # of a `Listing`: shows when each session changed
            if isinstance(list_call, ListCall) and list_call.resource == "sessions":
                return cls(lists={"": list_call})
            return cls(sessions=session_ids(client, sessions))
        # A first sync that was killed has left only cursors: those of a whole history,
        # or of the sessions it was asked for.
        if manifest.synced_at is None and all(cursor.listed for cursor in manifest.sessions.values()):
            return cls({"": catalog("")})
        others = [session for session, cursor in manifest.sessions.items() if not cursor.listed]
        catalogs = {key: catalog(key) for key in manifest.histories}
        return cls(catalogs, _lists_of(manifest.workspaces), others, list(manifest.workspaces))

    @property
    def requests(self) -> int:
        """Requests that were answered."""
        return self._lists.requests + sum(load.requests for load in self._catalogs.values())

    def steps(self, bar: Progress) -> Steps[None]:
        """Read the lists; raises the error of one that cannot be read."""
        for key, load in self._catalogs.items():
            self.read[key] = yield from load.steps(bar)
            self._add(self.read[key].sessions, is_stored=True)
        yield from self._lists.steps(bar)
        for key in [*self._lists_of_workspaces, *self._other_lists]:
            if problem := self._lists.problem_of(key):
                warn_incomplete("sessions.list", problem)
        self._add(self._lists.frame(self._lists_of_workspaces), is_stored=True)
        self._add(self._lists.frame(self._other_lists), is_stored=False)
        for session in self._sessions:
            self.updated_us.setdefault(session, None)
        moments = [self._lists.started_at, *(load.listed_at for load in self._catalogs.values())]
        self.listed_at = min((moment for moment in moments if moment is not None), default=None)

    def _add(self, frame: pd.DataFrame, *, is_stored: bool) -> None:
        rows = frame[frame["id"].isin(sessions_within(frame, self._span))]
        ids = [normalize(session) for session in rows["id"]]
        moments = zip(rows["updated_at"].astype("int64").tolist(), rows["updated_at"].notna(), strict=True)
        self.updated_us.update(zip(ids, (moment if is_known else None for moment, is_known in moments), strict=True))
        if is_stored:
            self.listed.update(ids)


def _lists_of(workspaces: list[str]) -> dict[str, ListCall]:
    return {name: sessions_endpoint.list_(name) for name in workspaces}


__all__ = ["Sources"]

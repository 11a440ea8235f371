"""A history in memory that can be brought up to date."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from ..api.connection import Connection
from ..api.errors import Forbidden, NotFound
from ..api.event_ids import first_id_at
from ..api.span import Span
from ..frames.history.catalog import RESOURCES, Catalog, CatalogLoad
from ..frames.history.history import History
from ..frames.history.load import LEAD, history_of
from ..frames.load.loader import Steps
from ..frames.load.progress import Progress
from ..frames.plot.style import count_text
from ..frames.store.manifest import Manifest
from ..frames.store.memory import EventsInMemory
from ..frames.store.sources import Sources
from ..frames.store.sync import Sync

_KEY = ""  # of the only catalog
_OVERLAP_S = 5.0
_REFUSALS = (Forbidden, NotFound)  # of single sessions: the history names them
_REQUEST = re.compile(r" \(request [^)]*\)")  # in the text of an error; each refusal has an id of its own


class HistoryFeed:
    """What a watch knows, and how it fetches what is new.

    Parameters
    ----------
    client : Connection
    account : str or None
        As for `load_history`.
    workspaces : sequence of str or None
        Only these; None for all.
    span : Span
    tz : str or None
        The time zone of the history.
    """

    def __init__(
        self,
        client: Connection,
        account: str | None,
        workspaces: Sequence[str] | None,
        span: Span,
        tz: str | None = None,
    ) -> None:
        self._client = client
        self._account = account
        self._workspaces = workspaces
        self._span, self._tz = span, tz
        self._manifest = Manifest()
        self._refused: dict[str, int | None] = {}  # sessions, with their `updated_us` of then
        self._memory = EventsInMemory(self._manifest)
        self._begin = None if span.since is None else first_id_at(span.since - LEAD)

    def steps(self, bar: Progress, *, details: bool) -> Steps[bool]:
        """Read what is new; returns whether anything was.

        Parameters
        ----------
        bar : Progress
        details : bool
            True also reads the workspaces, agents and credentials again.

        Raises the error of a list or a session that cannot be read now. What has
        arrived is kept. A session that is refused raises nothing: it is in `refusal`,
        and is requested again once its list shows that it has changed.
        """
        before = self._memory.catalogs.get(_KEY)
        load = CatalogLoad(self._client, self._account, self._workspaces, known=before, details=details)
        failed = dict(self._manifest.failed)
        sources = Sources({_KEY: load}, span=self._span)
        sync = Sync(
            self._client, self._manifest, sources, self._memory,
            stored_ids=self._memory.ids_of, overlap_s=_OVERLAP_S, begin=self._begin, refused=self._refused,
        )  # fmt: skip
        yield from sync.steps(bar)
        refused = {session for session, error in sync.errors.items() if isinstance(error, _REFUSALS)}
        self._refused.update((session, sources.updated_us[session]) for session in refused)
        known = self._manifest.failed.keys() & sources.updated_us.keys()
        self._refused = {session: moment for session, moment in self._refused.items() if session in known}
        for session, error in sync.errors.items():
            if session not in refused:
                raise error
        changed = before is None or not _is_same(before, self._memory.catalogs[_KEY])
        return changed or sync.report.events > 0 or _reasons(failed) != _reasons(self._manifest.failed)

    @property
    def refusal(self) -> str:
        """How many sessions the platform refuses, and why the first; empty if none."""
        if not self._refused:
            return ""
        reasons = _reasons({session: self._manifest.failed[session] for session in self._refused})
        return f"{count_text(len(reasons), 'session')} cannot be read: {next(iter(reasons.values()))}"

    def history(self) -> History:
        """The history as currently known."""
        return history_of(self._memory.catalogs[_KEY], self._memory.events(), self._account, self._span, self._tz)


def _is_same(before: Catalog, after: Catalog) -> bool:
    frames: list[tuple[pd.DataFrame, pd.DataFrame]] = [
        (getattr(before, name), getattr(after, name)) for name in RESOURCES
    ]
    return _reasons(before.missing) == _reasons(after.missing) and all(a is b or a.equals(b) for a, b in frames)


def _reasons(missing: Mapping[str, str]) -> dict[str, str]:
    """What is missing and why, the same for each request that was refused for it."""
    return {name: _REQUEST.sub("", reason) for name, reason in missing.items()}


__all__ = ["HistoryFeed"]

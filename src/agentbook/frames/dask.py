"""Sessions' events as Dask DataFrames: for what is larger than memory, or for more than one process.

A partition holds whole sessions, so every analysis of agentbook that works session by session gives the same under `apply`
as on one frame. What travels in the task graph is the platform's address, session ids and a *reference* to the credential
(``env:NAME`` or ``file:PATH``), never the credential. The gate that waits out the rate limit belongs to a process: each
worker has its own, so several workers may be refused several times before all of them wait.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..api.connection import Connection
from .analysis.validate import instant_of
from .load.events import load_events as load_here
from .load.session_ids import require_client, session_ids
from .parse.frame import to_frame
from .parse.schemas import STR

if TYPE_CHECKING:
    from .store.store import Store

CREDENTIALS = "env:AGENTBOOK_API_KEY"
_MOST_PARTITIONS = 64

# Clients by address and credential: those made here for this process, one each.
_clients: dict[tuple[str, str], Connection] = {}
# The caller's own, so that threads of its process need no reference to be resolved.
_given: weakref.WeakValueDictionary[str, Connection] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def load_events(
    client: Connection,
    sessions: Any = None,
    *,
    workspace: Any = None,
    since: datetime | str | None = None,
    partitions: int | None = None,
    credentials: str = CREDENTIALS,
) -> Any:
    """The events of many sessions as a Dask DataFrame; the workers read them.

    Parameters
    ----------
    client : Client
        Its address is what the workers use; its credential stays here.
    sessions, workspace, since
        As for `agentbook.load_events`.
    partitions : int, optional
        How many; None: one for 50 sessions, at most 64. No session is in two.
    credentials : str
        Where a worker in another process finds the API key ``id:secret``: ``env:NAME``, a variable of its environment
        (default ``env:AGENTBOOK_API_KEY``), or ``file:PATH``, a file it can read. Threads of this process use `client`.

    Returns
    -------
    dask.dataframe.DataFrame
        Columns as `agentbook.load_events`, categories as text, which partitions can share; by partition in the order of
        `sessions`.

    Raises
    ------
    ImportError
        Dask is not installed; it comes with ``pip install 'agentbook[dask]'``.
    ValueError
        `credentials` is no reference (the message does not repeat it), or `partitions` or `since` makes no sense.

    Notes
    -----
    Each worker process keeps a rate gate of its own. Specification: "Events", rule 1; "Errors", retry rules.

    Examples
    --------
    >>> import agentbook as ab
    >>> events = ab.dask.load_events(client, client.sessions.list("acme~support", limit=3))
    >>> ab.dask.apply(events, ab.session_summary, as_of="2026-11-01").compute()["session_id"].nunique()
    3
    """
    frames = _dask()
    require_client(client, "ab.dask.load_events")
    if not credentials.startswith(("env:", "file:")):
        raise ValueError(
            "credentials must be a reference, env:NAME or file:PATH: the key itself would be in the task graph."
        )
    if partitions is not None and partitions < 1:
        raise ValueError(f"partitions must be 1 or more, not {partitions!r}.")
    since = None if since is None else instant_of(since, "since")
    ids = session_ids(client, sessions, workspace)
    count = min(partitions or min(-(-len(ids) // 50), _MOST_PARTITIONS), len(ids)) or 1
    chunks = [ids[len(ids) * n // count : len(ids) * (n + 1) // count] for n in range(count)]
    identity = client.auth.identity if client.auth is not None else "anonymous"
    _given[f"{client.base_url} {identity}"] = client
    return _from_map(
        frames, _load, chunks, base_url=client.base_url, identity=identity, credentials=credentials,
        limits=(client.timeout_s, client.deadline_s), since=since, label="agentbook-events",
    )  # fmt: skip


def from_store(store: Store) -> Any:
    """As `Store.to_dask`: a store's events as a Dask DataFrame, one partition for each group of sessions."""
    return _from_map(_dask(), _read, list(range(store.groups)), path=store.path, label="agentbook-store")


def _from_map(frames: Any, function: Callable[..., pd.DataFrame], parts: Sequence[Any], **options: Any) -> Any:
    import dask.config

    # Dask's own conversion would make a third kind of text column, with another missing value than pandas' default.
    with dask.config.set({"dataframe.convert-string": False}):
        return frames.from_map(function, parts, meta=meta_of_events(), enforce_metadata=False, **options)


def apply(events: Any, analysis: Callable[..., pd.DataFrame], **options: Any) -> Any:
    """An analysis of agentbook on every partition.

    Parameters
    ----------
    events : dask.dataframe.DataFrame
        As `load_events` or `Store.to_dask` give it: whole sessions in each partition.
    analysis : callable
        From a frame of events to a frame, session by session: `turns`, `session_summary`, `activity_gaps`, `idle_sessions`, or
        your own. Those that count over all sessions (`activity`, `failures`, `latency`, `concurrency`, `compare_periods`) give
        their tables partition by partition; apply them to the computed turns instead, or with ``by="session_id"``.
    **options
        For `analysis`. Where it takes ``as_of``, give it: partitions are loaded at different instants.

    Returns
    -------
    dask.dataframe.DataFrame
        The columns of `analysis`, categories as text.

    Raises
    ------
    ImportError
        Dask is not installed; it comes with ``pip install 'agentbook[dask]'``.
    ValueError
        What the analysis raises: of its options here, of the events when the frame is computed.

    Notes
    -----
    Specification: "Events", as the analysis reads them.

    Examples
    --------
    >>> len(apply(store.to_dask(), ab.session_summary, as_of="2026-11-01").compute())
    3
    """
    _dask()
    meta = plain(meta_of(analysis, **options))
    return events.map_partitions(_analyse, analysis=analysis, options=options, meta=meta, enforce_metadata=False)


def meta_of(analysis: Callable[..., pd.DataFrame], **options: Any) -> pd.DataFrame:
    """An empty frame with the columns and dtypes of what an analysis makes of a partition, for ``map_partitions``.

    Parameters
    ----------
    analysis : callable
        Any analysis of agentbook that takes events, or your own.
    **options
        For `analysis`, the same as for the call.

    Returns
    -------
    DataFrame
        Without rows; columns and dtypes as the analysis itself gives them: `apply` has its categories as text.

    Raises
    ------
    ValueError
        What the analysis raises of its options.

    Notes
    -----
    Specification: "Events", as the analysis reads them.

    Examples
    --------
    >>> import agentbook as ab
    >>> str(meta_of(ab.turns).dtypes["status"])
    'category'
    >>> turns = store.to_dask().map_partitions(ab.turns, as_of="2026-11-01", meta=meta_of(ab.turns))
    >>> turns.npartitions
    8
    """
    return analysis(meta_of_events(), **options)


def meta_of_events() -> pd.DataFrame:
    """An empty frame with the columns and dtypes of a partition.

    Returns
    -------
    DataFrame
        Without rows; columns and dtypes as `agentbook.load_events` gives them, categories as text.

    Notes
    -----
    Specification: "Resources and their fields", Session event.

    Examples
    --------
    >>> str(meta_of_events().dtypes["type"])
    'str'
    """
    return plain(to_frame("events", []))


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its categories as text: the categories of two partitions need not be the same."""
    texts = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    changed = frame.astype(dict.fromkeys(texts, STR))
    changed.attrs = frame.attrs
    return changed


def client_of(base_url: str, identity: str, credentials: str, limits: Sequence[float]) -> Connection:
    """The client of this process for a platform: the caller's own, else one made from the reference."""
    with _lock:
        client = _given.get(f"{base_url} {identity}") or _clients.get((base_url, credentials))
        if client is None:
            key = None if identity == "anonymous" else _resolved(credentials)
            client = Connection(base_url, credentials=key, timeout_s=limits[0], deadline_s=limits[1])
            if client.auth is not None and client.auth.identity != identity:
                raise ValueError(f"{credentials} on this worker is the key of another identity than the caller's.")
            _clients[base_url, credentials] = client
        return client


def _resolved(reference: str) -> str:
    kind, _, name = reference.partition(":")
    advice = "Set it where the workers start, or name another reference with credentials=."
    if kind == "env":
        if not os.environ.get(name):
            raise RuntimeError(f"A worker needs the API key in its environment's {name}, and it is not set. {advice}")
        return os.environ[name]
    try:
        return Path(name).read_text().strip()
    except OSError as error:
        raise RuntimeError(f"A worker needs the API key in {name}: {error.strerror}. {advice}") from None


def _load(
    chunk: list[str], *, base_url: str, identity: str, credentials: str, limits: Sequence[float], since: datetime | None
) -> pd.DataFrame:
    if not chunk:
        return meta_of_events()
    return plain(load_here(client_of(base_url, identity, credentials, limits), chunk, since=since))


def _read(group: int, *, path: str) -> pd.DataFrame:
    from .store.store import Store

    return plain(Store(path).events_of_group(group))


def _analyse(frame: pd.DataFrame, *, analysis: Callable[..., pd.DataFrame], options: dict[str, Any]) -> pd.DataFrame:
    return plain(analysis(frame, **options))


def _dask() -> Any:
    try:
        import dask.dataframe
    except ImportError:
        raise ImportError("This needs Dask: pip install 'agentbook[dask]'.") from None
    return dask.dataframe


__all__ = ["apply", "from_store", "load_events", "meta_of", "meta_of_events"]

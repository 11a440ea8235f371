"""Sessions' events as Dask DataFrames: larger than memory, or on several processes.

A partition holds whole sessions, so every analysis that works per session gives the
same result under `apply` as on one frame. The task graph holds the platform's address,
session ids and a *reference* to the credential (``env:NAME`` or ``file:PATH``), never
the credential itself. Each process counts its own rate limit, so the platform may
refuse each worker once before all of them wait.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .._masking import Hidden
from ..api.connection import Connection
from ..api.errors import EmptyWarning
from ..api.span import Span, parse_span
from .load.events import load_events as load_in_process
from .load.session_ids import require_client, session_ids
from .parse.frame import to_frame
from .parse.schemas import STR

__all__ = ["apply", "load_events", "meta_of", "meta_of_events"]

CREDENTIALS = "env:AGENTBOOK_API_KEY"
SESSIONS_PER_PARTITION = 50
MAX_PARTITIONS = 64

# One connection per address and credential, made in this process.
_connections: dict[tuple[str, str], Connection] = {}
# The callers' own connections, so that threads of the same process need not resolve the
# reference.
_callers: weakref.WeakValueDictionary[str, Connection] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def __dir__() -> list[str]:
    return __all__


def load_events(
    client: Connection,
    sessions: Any = None,
    *,
    workspace: Any = None,
    since: Any = None,
    until: Any = None,
    partitions: int | None = None,
    credentials: str = CREDENTIALS,
) -> Any:
    """The events of many sessions as a Dask DataFrame; the workers load them.

    Parameters
    ----------
    client : Client
        The workers use its address; its credential stays in this process.
    sessions, workspace, since, until
        As for `agentbook.load_events`.
    partitions : int, optional
        Number of partitions; None makes one per 50 sessions, at most 64. A session is
        never split.
    credentials : str
        Where a worker in another process finds the API key ``id:secret``: ``env:NAME``
        for an environment variable (default ``env:AGENTBOOK_API_KEY``), or
        ``file:PATH`` for a file. Threads of this process use `client`.

    Returns
    -------
    dask.dataframe.DataFrame
        The columns of `agentbook.load_events`, with categories as text, in the order of
        `sessions` within a partition and across partitions.

    Raises
    ------
    ImportError
        If Dask is not installed: ``pip install 'dask[dataframe,distributed]'``.
    ValueError
        If `credentials` is not a reference (the message does not repeat it), or if
        `partitions`, `since` or `until` is invalid.

    Notes
    -----
    Each worker process counts its own rate limit. Specification: "Events", rule 1;
    "Errors", retry rules.

    Examples
    --------
    >>> import agentbook as ab
    >>> sessions = client.sessions.list("acme~support", limit=3)
    >>> events = ab.dask.load_events(client, sessions)
    >>> table = ab.dask.apply(events, ab.session_summary, as_of="2026-11-01")
    >>> table.compute()["session_id"].nunique()
    3
    """
    import_dask()
    require_client(client, "ab.dask.load_events")
    if not credentials.startswith(("env:", "file:")):
        raise ValueError(
            "credentials must be a reference, env:NAME or file:PATH: the key itself would be in the task graph."
        )
    if partitions is not None and partitions < 1:
        raise ValueError(f"partitions must be 1 or more, not {partitions!r}.")
    span = parse_span(since, until)
    ids = session_ids(client, sessions, workspace)
    default_count = min(-(-len(ids) // SESSIONS_PER_PARTITION), MAX_PARTITIONS)
    count = min(partitions or default_count, len(ids)) or 1
    chunks = [ids[len(ids) * n // count : len(ids) * (n + 1) // count] for n in range(count)]
    identity = client.auth.identity if client.auth is not None else "anonymous"
    _callers[f"{client.base_url} {identity}"] = client
    return from_map(
        _load, chunks, base_url=client.base_url, identity=identity, credentials=credentials,
        limits=(client.timeout_s, client.deadline_s), span=span, label="agentbook-events",
    )  # fmt: skip


def apply(events: Any, analysis: Callable[..., pd.DataFrame], **options: Any) -> Any:
    """Apply an analysis to every partition.

    Parameters
    ----------
    events : dask.dataframe.DataFrame
        From `load_events` or `Store.to_dask`: each partition holds whole sessions.
    analysis : callable
        Takes a frame of events and returns a frame, session by session: `turns`,
        `session_summary`, or your own. Analyses that
        count over all sessions (`activity`, `failures`, `latency`, `timing`,
        `compare_periods`) return a table per partition. Apply them to the computed
        turns instead, or with ``by="session_id"``.
    **options
        Options of `analysis`. Pass ``as_of`` if it takes one: partitions are loaded at
        different times.

    Returns
    -------
    dask.dataframe.DataFrame
        The columns of `analysis`, with categories as text.

    Raises
    ------
    ImportError
        If Dask is not installed: ``pip install 'dask[dataframe,distributed]'``.
    ValueError
        Whatever the analysis raises: for its options right away, for the events when
        the result is computed.

    Notes
    -----
    Specification: "Events", as read by the analysis.

    Examples
    --------
    >>> table = apply(store.to_dask(), ab.session_summary, as_of="2026-11-01")
    >>> len(table.compute())
    3
    """
    import_dask()
    meta = without_categories(meta_of(analysis, **options))
    return events.map_partitions(_analyse, analysis=analysis, options=options, meta=meta, enforce_metadata=False)


def meta_of(analysis: Callable[..., pd.DataFrame], **options: Any) -> pd.DataFrame:
    """An empty frame with the columns and dtypes that an analysis returns.

    Pass it to ``map_partitions`` as ``meta``.

    Parameters
    ----------
    analysis : callable
        Any analysis that takes events, or your own.
    **options
        Options of `analysis`, the same as for the call.

    Returns
    -------
    DataFrame
        The columns of `analysis`, without rows. Categories stay categories; `apply`
        converts them to text.

    Raises
    ------
    ValueError
        Whatever the analysis raises for its options.

    Notes
    -----
    Specification: "Events", as read by the analysis.

    Examples
    --------
    >>> import agentbook as ab
    >>> str(meta_of(ab.turns).dtypes["status"])
    'category'
    >>> turns = store.to_dask().map_partitions(
    ...     ab.turns, as_of="2026-11-01", meta=meta_of(ab.turns))
    >>> turns.npartitions
    3
    """
    return _analyse_any(meta_of_events(), analysis, options)


def connection_of(base_url: str, identity: str, credentials: str, limits: Sequence[float]) -> Connection:
    """This process's connection to a platform.

    The caller's own if there is one, else one made from the reference.
    """
    with _lock:
        connection = _callers.get(f"{base_url} {identity}") or _connections.get((base_url, credentials))
        if connection is None:
            key = None if identity == "anonymous" else Hidden(_resolve(credentials))
            # The caller's connection has this address already, so it is allowed.
            connection = Connection(
                base_url, credentials=key, timeout_s=limits[0], deadline_s=limits[1], allow_http=True
            )
            if connection.auth is not None and connection.auth.identity != identity:
                raise ValueError(f"{credentials} on this worker is the key of another identity than the caller's.")
            _connections[base_url, credentials] = connection
        return connection


def _resolve(reference: str) -> str:
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
    chunk: list[str], *, base_url: str, identity: str, credentials: str, limits: Sequence[float], span: Span
) -> pd.DataFrame:
    if not chunk:
        return meta_of_events()
    connection = connection_of(base_url, identity, credentials, limits)
    return without_categories(load_in_process(connection, chunk, since=span.since, until=span.until))


def _analyse(frame: pd.DataFrame, *, analysis: Callable[..., pd.DataFrame], options: dict[str, Any]) -> pd.DataFrame:
    return without_categories(_analyse_any(frame, analysis, options))


def _analyse_any(frame: pd.DataFrame, analysis: Callable[..., pd.DataFrame], options: dict[str, Any]) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyWarning)  # a partition may well be empty
        return analysis(frame, **options)


def import_dask() -> Any:
    """The module `dask.dataframe`, or an `ImportError` that says how to install it."""
    try:
        import dask.dataframe
    except ImportError:
        raise ImportError("This needs Dask: pip install 'dask[dataframe,distributed]'.") from None
    return dask.dataframe


def from_map(
    function: Callable[..., pd.DataFrame], parts: Sequence[Any], *, meta: pd.DataFrame | None = None, **options: Any
) -> Any:
    """A Dask DataFrame of events, one partition for each of `parts`."""
    frames = import_dask()
    import dask.config

    # Dask would convert texts to a third kind of column, whose missing value differs
    # from that of pandas' default.
    with dask.config.set({"dataframe.convert-string": False}):
        meta = meta_of_events() if meta is None else meta
        return frames.from_map(function, parts, meta=meta, enforce_metadata=False, **options)


def meta_of_events() -> pd.DataFrame:
    """An empty frame with the columns and dtypes of a partition.

    Returns
    -------
    DataFrame
        Without rows. Columns and dtypes are those of `agentbook.load_events`, with
        categories as text.

    Notes
    -----
    Specification: "Resources and their fields", Session event.

    Examples
    --------
    >>> str(meta_of_events().dtypes["type"])
    'str'
    """
    return without_categories(to_frame("events", []))


def without_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with categories as text, because they may differ between partitions."""
    columns = {}
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            categories = dtype.categories.astype(STR).array
            # `astype` would make an object of each value.
            columns[str(name)] = pd.Series(
                categories.take(frame[name].cat.codes.to_numpy(), allow_fill=True), frame.index
            )
    return frame.assign(**columns)

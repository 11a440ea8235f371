"""`load_events`: the events of many sessions in one frame."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from ...api.connection import Connection
from ...api.endpoints import sessions as endpoint
from ...api.errors import AgentbookError, InsufficientScope, PartialLoad
from ...api.span import Span, parse_span
from ..tabular import of_client
from .loader import MAX_CONCURRENCY, Loader, Progress
from .session_ids import require_client, session_ids

OPERATION = "load_events"
RESUME = "error.resume() loads what is missing"


def load_events(
    client: Connection,
    sessions: Any = None,
    *,
    workspace: Any = None,
    since: Any = None,
    until: Any = None,
    progress: bool | None = None,
    errors: Literal["raise", "keep"] = "raise",
    concurrency: int = MAX_CONCURRENCY,
) -> pd.DataFrame:
    """The persisted events of many sessions as one DataFrame.

    Parameters
    ----------
    client : Client
    sessions : str, Record, DataFrame or iterable, optional
        Session ids, addresses (URLs) or records, a `Listing` of sessions, workspace
        records, a frame of sessions or workspaces, or a frame with a column
        ``session_id`` (such as ``ab.session_log.sessions()``). Repeated ids are loaded
        once.
    workspace : str or Record, optional
        All sessions of this workspace instead, if the platform lists them.
    since, until : str, datetime, date or timedelta, optional
        Only events from `since` on and before `until`, by the millisecond in their ids:
        instants; dates and times without a zone, which are UTC; or lengths of time
        before now, such as ``"7d"``. None leaves an end open.
    progress : bool, optional
        True shows a bar with rows and rate.
    errors : {"raise", "keep"}
        What to do about sessions that cannot be read: raise `PartialLoad`, or return
        what has arrived, marked as incomplete. Then
        ``attrs["agentbook"]["failed_sessions"]`` names the sessions that lack events.
    concurrency : int
        Maximum number of requests at the same time; default 24. The pages of a long
        session are requested at the same time too.

    Returns
    -------
    pandas.DataFrame
        One row per event, in the order of `sessions` and by id within each. The columns
        are those of ``client.sessions.events(...).to_pandas()``. ``attrs["agentbook"]``
        names the sessions that failed, and in ``problems`` the events that arrived
        twice or out of order, or belong to another session.

    Raises
    ------
    PartialLoad
        Some sessions could not be read, or the load was interrupted. `partial_frame`
        has the rows that had arrived, `problems` names the sessions that are
        incomplete, and `resume()` loads only what is missing.
    NotOffered
        A workspace was passed, and this platform does not list sessions.
    TypeError
        `client` is not a `Client`.
    ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions; "Events", rule 1.

    Examples
    --------
    >>> events = load_events(client, client.sessions.list("acme~support", limit=3))
    >>> events.attrs["agentbook"]["complete"], events["session_id"].nunique()
    (True, 3)
    """
    require_client(client, "ab.load_events")
    check_load(errors, concurrency)
    load = EventsLoad(client, session_ids(client, sessions, workspace), parse_span(since, until), progress, concurrency)
    return load.run(errors)


def check_load(errors: str, concurrency: int = 1) -> None:
    """Raise a `ValueError` if a load has no such `errors` or `concurrency`."""
    if errors not in ("raise", "keep"):
        raise ValueError(f"errors must be 'raise' or 'keep', not {errors!r}.")
    if concurrency < 1:
        raise ValueError(f"concurrency must be 1 or more, not {concurrency!r}.")


class EventsLoad:
    """A load of many sessions that can stop and resume."""

    def __init__(
        self, client: Connection, sessions: list[str], span: Span, progress: bool | None, concurrency: int
    ) -> None:
        self._client = client
        self._progress = progress
        self._sessions = sessions
        self._parameters = {"sessions": len(sessions), "since": None, "until": None, **span.details()}
        calls = {session: endpoint.events(session, since=span.since, until=span.until) for session in sessions}
        self._loader = Loader("events", calls, concurrency, strict=True)

    def run(self, errors: str, bar: Progress | None = None, resume: Callable[[], Any] | None = None) -> pd.DataFrame:
        """Load what is missing, and count rows in `bar` if there is one.

        `resume` is that of a `PartialLoad`; by default, it runs this load again.
        """
        interrupt: KeyboardInterrupt | None = None
        try:
            own = Progress(self._progress) if bar is None else contextlib.nullcontext(bar)
            with own as shown, contextlib.suppress(AgentbookError):
                self._loader.load(self._client._run, shown)
        except KeyboardInterrupt as stopped:
            interrupt = stopped
        problems = self._loader.unfinished
        frame = self._loader.frame(
            keep=bool(problems or interrupt),
            operation=OPERATION,
            parameters=self._parameters,
            failed_sessions=problems,
            **of_client(self._client.session_url),
        )
        if interrupt is None and (not problems or errors == "keep"):
            return frame
        advice = advice_on([self._loader.loads[session].error for session in problems])
        resume = resume or (lambda: self.run(errors))
        raise partial_load(OPERATION, problems, len(self._sessions), frame, resume, advice) from interrupt


def advice_on(errors: Sequence[BaseException | None]) -> str:
    """What to do about a load that stopped with these errors, None for an interrupt.

    Where the key lacks a scope, resuming would fail the same way.

    Examples
    --------
    >>> refusal = InsufficientScope("sessions.events: no")
    >>> refusal.missing_scope = "agents:read"
    >>> advice_on([refusal])
    'the key needs the scope agents:read: load again with a key that has it'
    >>> advice_on([None])
    'error.resume() loads what is missing'
    """
    refusals = [error for error in errors if isinstance(error, InsufficientScope)]
    if not refusals:
        return RESUME
    scopes = " and ".join(sorted({error.missing_scope for error in refusals if error.missing_scope}))
    advice = f"the key needs {f'the scope {scopes}' if scopes else 'another scope'}: load again with a key that has it"
    return advice if len(refusals) == len(errors) else f"for {len(refusals)} of them {advice}. For the others {RESUME}"


def partial_load(
    operation: str,
    problems: Mapping[str, str],
    session_count: int,
    frame: pd.DataFrame | None,
    resume: Callable[[], Any],
    advice: str = RESUME,
) -> PartialLoad:
    """The error for a load of many sessions, some of which are incomplete.

    If there is no frame, the rows that arrived are in a store. `advice` says what to
    do, without a final full stop.
    """
    names = ", ".join(list(problems)[:3]) + (", …" if len(problems) > 3 else "")
    first = next(iter(problems.values()), "interrupted").rstrip(".")
    return PartialLoad(
        f"{operation}: {len(problems)} of {session_count} sessions are incomplete ({names}): {first}"
        f"{'' if first.endswith('?') else '.'} "
        f"{'The store' if frame is None else 'error.partial_frame'} has the rows that arrived; {advice}.",
        operation=operation,
        partial_frame=frame,
        problems=problems,
        _resume=resume,
    )

"""Sessions: start, read, follow up.

Specification: "Endpoints", Workspaces and sessions; "Events".
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..calls import UNSET, Call, ListCall, Reply, acknowledgement, code_for, drop_unset, optional_ref, path, record, ref
from ..discovery import offered, offered_fields
from ..errors import invalid_argument
from ..record import Record
from ..span import check_cursor, id_span

START = "/workspaces/{}/sessions"


def start(workspace: Any, *, agent_id: Any, prompt: str, agent_version_id: Any = UNSET) -> Call[Record]:
    """Start a chat: the agent begins on `prompt` at once.

    Parameters
    ----------
    workspace : str or Record
        Id or ``<owner>~<name>``, of a workspace the key's account owns.
    agent_id : str or Record
        The agent, by id or name.
    prompt : str
        The first message.
    agent_version_id : str or Record, optional
        The version that answers, which may be a draft, if the platform's openapi.yaml
        offers that. Default: the newest committed one.

    Returns
    -------
    Record
        The session; its id is the top-level ``id``.

    Raises
    ------
    InsufficientScope
        Without ``sessions:write``.
    NotOffered
        If `agent_version_id` is passed and the platform has no such field.
    NotFound, Forbidden, InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions; "Authentication", rule 9.

    Examples
    --------
    >>> chat = client.sessions.start(
    ...     "acme~playground", agent_id="acme~guide", prompt="What is a turn?")
    >>> client.sessions.ask(chat, "And an event?").status
    'answered'
    """
    body = {"session_type": "chat", "agent_id": ref(agent_id), "initial_prompt": prompt}
    shows = f"where the platform lists sessions, {code_for('sessions.list', workspace)}"
    call = Call("sessions.start", "POST", path("workspaces", workspace, "sessions"), _started, body=body, check=shows)
    return offered_fields(call, START, drop_unset(agent_version_id=optional_ref(agent_version_id)))


def _started(reply: Reply) -> Record:
    session = record(reply)
    if not isinstance(session.get("id"), str) or not session["id"]:
        raise msgspec.ValidationError("a session without an id")  # it could be neither read nor continued
    return session


def events(
    session_id: Any,
    *,
    from_id: Any = None,
    since: Any = None,
    until: Any = None,
    sort_by: str = "id",
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """The persisted events of a session.

    Parameters
    ----------
    session_id : str or Record
    from_id : str or Record, optional
        An event, or its id: only events with a greater id.
    since, until : str, datetime, date or timedelta, optional
        Only events from `since` on and before `until`, by the millisecond in their ids:
        instants; dates and times without a zone, which are UTC; or lengths of time
        before now, such as ``"7d"``. `until` needs the order by ``id``.
    sort_by : str
        ``id`` (the default here): oldest first, read by cursor, so that events added
        meanwhile do not shift the pages. The platform's own default is ``-id``, newest
        first.
    limit : int, optional
        At most this many events; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of event records.

    Raises
    ------
    NotFound
        If there is no such session, or this credential cannot see it.
    InsufficientScope
        Without ``workspaces:read``, or ``agents:read`` if the session ran an agent.
    InvalidInput

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions; "Events", rules 1 and 2.

    Examples
    --------
    >>> client.sessions.events(session).first().type
    'message'
    """
    begin, end = id_span("sessions.events", since, until)
    from_id = begin if from_id is None else check_cursor(from_id)
    if end is not None and sort_by != "id":
        raise invalid_argument("sessions.events", f"until= needs sort_by='id', not {sort_by!r}: leave one of them out.")
    session = ref(session_id)
    call = Call(
        "sessions.events", "GET", path("sessions", session, "events"), record, {"from_id": from_id, "sort_by": sort_by}
    )
    keyset = sort_by == "id" and offset == 0
    return ListCall(call, "events", limit=limit, offset=offset, keyset=keyset, end=end, context={"session_id": session})


def send(session_id: Any, text: str, *, mode: str = "text", agent_id: Any = UNSET) -> Call[Record]:
    """Post a follow-up message, to a chat that this key started.

    Parameters
    ----------
    session_id : str or Record
    text : str
    mode : str
        ``text`` is the only value that the specification names.
    agent_id : str or Record, optional
        The agent that answers. The platform ignores it for an API key.

    Returns
    -------
    Record
        What the platform answered. On most platforms, the message event.

    Raises
    ------
    NotFound
        If this key did not start the session.
    InsufficientScope, InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions; "Authentication", rule 9.

    Examples
    --------
    >>> message = client.sessions.send(session, "And in October?")
    """
    where, shows = path("sessions", session_id, "events"), code_for("sessions.events", session_id)
    body = drop_unset(content=text, mode=mode, agent_id=optional_ref(agent_id))
    return Call("sessions.send", "POST", where, acknowledgement, body=body, check=shows)


def get(session_id: Any) -> Call[Record]:
    """One session, if the platform's openapi.yaml offers it.

    Parameters
    ----------
    session_id : str or Record

    Returns
    -------
    Record

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    NotFound, InsufficientScope

    Notes
    -----
    Specification: "Endpoints", gaps in this part.

    Examples
    --------
    >>> client.sessions.get(session).id == session.id
    True
    """
    return offered(Call("sessions.get", "GET", path("sessions", session_id), record), "/sessions/{}")


def list_(workspace: Any, *, sort_by: str | None = None, limit: int | None = None, offset: int = 0) -> ListCall:
    """A workspace's sessions, if the platform's openapi.yaml offers the list.

    Parameters
    ----------
    workspace : str or Record
        Id or ``<owner>~<name>``.
    sort_by : str, optional
        Column name; a leading ``-`` means descending.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    NotFound, InsufficientScope

    Notes
    -----
    Specification: "Endpoints", gaps in this part.

    Examples
    --------
    >>> len(client.sessions.list("acme~support", limit=3))
    3
    """
    call = Call("sessions.list", "GET", path("workspaces", workspace, "sessions"), record, {"sort_by": sort_by})
    return ListCall(offered(call, START), "sessions", limit=limit, offset=offset)

"""The sessions this user started, in a small local file.

The specification shows no list of sessions. `start` and `note` record a session;
nothing else does. Each line is one JSON object, written in one go, so several notebooks
can write at the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api.calls import ref
from ..api.connection import Connection
from ..api.endpoints import sessions as endpoint
from ..api.errors import AgentbookError
from ..api.record import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["note", "path", "sessions", "start"]

PATH_VARIABLE = "AGENTBOOK_SESSION_LOG"
COLUMNS = ("session_id", "base_url", "workspace_id", "agent_id", "name", "started_at")


def __dir__() -> list[str]:
    return __all__


def path() -> Path:
    """The path of the session log.

    ``AGENTBOOK_SESSION_LOG`` if it is set, else ``sessions.jsonl`` in this user's
    directory for application data.

    Notes
    -----
    Specification: "Endpoints", gaps in this part: not every credential can list
    sessions.
    """
    if value := os.environ.get(PATH_VARIABLE):
        return Path(value).expanduser()
    from platformdirs import user_data_path

    return user_data_path("agentbook") / "sessions.jsonl"


def start(client: Connection, workspace: Any, *, agent_id: Any, prompt: str) -> Record:
    """Start a session like ``client.sessions.start``, and note it.

    The prompt is not written to the log.

    Parameters
    ----------
    client : Client
    workspace : str or Record
        The workspace: id or ``<owner>~<name>``.
    agent_id : str or Record
        The agent: id or name.
    prompt : str
        The first message.

    Returns
    -------
    Record
        The session.

    Raises
    ------
    ApiError, ConnectionFailed, OutcomeUnknown
        As ``client.sessions.start`` does; nothing is noted then.
    AgentbookError
        If the log cannot be written; the message names the session.

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions.

    Examples
    --------
    >>> started = start(
    ...     client, "acme~playground", agent_id="acme~guide", prompt="Hello")
    >>> started.id in set(sessions(client)["session_id"])
    True
    """
    session = client._run(endpoint.start(workspace, agent_id=agent_id, prompt=prompt))
    note(client, session, agent_id=ref(agent_id))
    return session


def note(client: Connection, session: Any, *, agent_id: str | None = None) -> None:
    """Note a session, so that `sessions` lists it.

    Parameters
    ----------
    client : Client
        A client of the session's platform.
    session : str or Record
        An id; or a record, whose name and workspace are noted too.
    agent_id : str, optional
        The agent with which it was started.

    Raises
    ------
    AgentbookError
        If the log cannot be written; the message names the session.

    Notes
    -----
    Specification: "Endpoints", gaps in this part: not every credential can list
    sessions.

    Examples
    --------
    >>> note(client, session)
    >>> session.id in set(sessions(client)["session_id"])
    True
    """
    record = session if isinstance(session, Mapping) else {}
    line = {
        "session_id": ref(session),
        "base_url": client.base_url,
        "workspace_id": record.get("workspace_id"),
        "agent_id": agent_id or record.get("agent_id"),
        "name": record.get("name"),
        "started_at": record.get("created_at") or datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Also starts with a newline, so that a line cut short by a full disk does
            # not swallow this one.
            os.write(handle, b"\n" + json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)
    except OSError as error:
        raise AgentbookError(
            f"The session log {file} cannot be written ({error.strerror or error}), so the session {line['session_id']} "
            f"is not recorded. Set {PATH_VARIABLE} to a file that can be written."
        ) from error


def sessions(client: Connection | None = None) -> pd.DataFrame:
    """The noted sessions, the latest last.

    `load_events` and `Store.sync` accept the frame as their sessions.

    Parameters
    ----------
    client : Client, optional
        Only sessions on its platform; None for all.

    Returns
    -------
    DataFrame
        ============ =================== =============================================
        column       dtype               meaning
        ============ =================== =============================================
        session_id   str                 the session
        base_url     str                 address of the platform
        workspace_id str                 its workspace, if known
        agent_id     str                 the agent with which it was started, as passed
        name         str                 its name
        started_at   datetime64[us, UTC] when it was started, or noted
        ============ =================== =============================================

        ``attrs["agentbook"]["problems"]`` lists unreadable lines.

    Raises
    ------
    AgentbookError
        If the log exists and cannot be read.

    Notes
    -----
    Specification: "Endpoints", gaps in this part: not every credential can list
    sessions.

    Examples
    --------
    >>> note(client, session)
    >>> events = ab.load_events(client, sessions(client))
    """
    import pandas as pd

    from .parse.schemas import STR

    records: dict[tuple[str, str], dict[str, Any]] = {}
    problems = []
    for number, text in enumerate(_lines(), 1):
        try:
            record = json.loads(text)
            key = (str(record["base_url"]), str(record["session_id"]))
        except (ValueError, KeyError, TypeError):
            problem = f"line {number} of {path()} is not a session"
            problems.append({"row": number, "field": "", "problem": problem, "raw": text[:200]})
            continue
        if client is None or key[0] == client.base_url:
            records.setdefault(key, record)
    frame = pd.DataFrame([{name: record.get(name) for name in COLUMNS} for record in records.values()], columns=COLUMNS)
    frame = frame.astype(dict.fromkeys(COLUMNS[:-1], STR))
    started_at = pd.to_datetime(frame["started_at"], utc=True, errors="coerce", format="ISO8601")
    frame["started_at"] = started_at.astype("datetime64[us, UTC]")
    frame.attrs["agentbook"] = {
        "operation": "session_log.sessions", "problems": problems, "problem_count": len(problems)
    }  # fmt: skip
    return frame


def _lines() -> list[str]:
    file = path()
    try:
        return [line for line in file.read_text("utf-8", "replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AgentbookError(
            f"The session log {file} cannot be read ({error.strerror or error}). "
            f"Set {PATH_VARIABLE} to a file that can be read."
        ) from error

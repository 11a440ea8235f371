"""The sessions this user started: a small local file, since the specification shows no list of sessions.

A session enters it where `start` or `note` is called; nothing is noted behind anybody's back. Each line is one JSON object,
written in one go, so several notebooks may write at once.
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

PLACE = "AGENTBOOK_LEDGER"
COLUMNS = ("session_id", "base_url", "workspace_id", "agent_id", "name", "started_at")


def path() -> Path:
    """The ledger's file: ``AGENTBOOK_LEDGER``, else one in this user's place for application data.

    Notes
    -----
    Specification: "Endpoints", gaps in this part: sessions are not listed to everybody.
    """
    given = os.environ.get(PLACE)
    if given:
        return Path(given).expanduser()
    from platformdirs import user_data_path

    return user_data_path("agentbook") / "sessions.jsonl"


def start(client: Connection, workspace: Any, *, agent_id: Any, prompt: str) -> Record:
    """Start a session as ``client.sessions.start`` does, and note it. The prompt is not written down.

    Parameters
    ----------
    client : Client
    workspace : str or Record
        Where; id or ``<owner>~<name>``.
    agent_id : str or Record
        With whom; id or name.
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
        The ledger cannot be written; the message names it.

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions.

    Examples
    --------
    >>> started = start(client, "acme~playground", agent_id="acme~guide", prompt="Hello")
    >>> started.id in set(sessions(client)["session_id"])
    True
    """
    session = client.run(endpoint.start(workspace, agent_id=agent_id, prompt=prompt))
    note(client, session, agent_id=ref(agent_id))
    return session


def note(client: Connection, session: Any, *, agent_id: str | None = None) -> None:
    """Note a session, so that `sessions` lists it.

    Parameters
    ----------
    client : Client
        On its platform.
    session : str or Record
        An id, or a record, which says more.
    agent_id : str, optional
        The agent it was started with.

    Raises
    ------
    AgentbookError
        The file cannot be written; the message names it.

    Notes
    -----
    The API does not list sessions to everybody, hence a list of one's own. Specification: "Endpoints", gaps in this part.

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
            # It begins with a line end too: a line that a full disk cut short must not swallow this one.
            os.write(handle, b"\n" + json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)
    except OSError as error:
        raise AgentbookError(
            f"The ledger {file} cannot be written ({error.strerror or error}); the session is {line['session_id']}. "
            f"Set {PLACE} to a file that can be."
        ) from error


def sessions(client: Connection | None = None) -> pd.DataFrame:
    """The sessions noted, the newest last; `load_events` and `Store.sync` take the frame as it is.

    Parameters
    ----------
    client : Client, optional
        Only those on its platform; None for all.

    Returns
    -------
    DataFrame
        ============ ==================== =====================================================
        column       dtype                meaning
        ============ ==================== =====================================================
        session_id   str                  the session
        base_url     str                  the platform's address
        workspace_id str                  its workspace, where known
        agent_id     str                  the agent it was started with, as it was given
        name         str                  its name
        started_at   datetime64[us, UTC]  when it was started, or noted
        ============ ==================== =====================================================

        ``attrs["agentbook"]["problems"]`` names lines that cannot be read.

    Raises
    ------
    AgentbookError
        The file is there and cannot be read.

    Notes
    -----
    Specification: "Endpoints", gaps in this part: sessions are not listed to everybody.

    Examples
    --------
    >>> note(client, session)
    >>> events = ab.load_events(client, sessions(client))
    """
    import pandas as pd

    from .parse.schemas import STR

    found: dict[tuple[str, str], dict[str, Any]] = {}
    problems = []
    for number, text in enumerate(_lines(), 1):
        try:
            line = json.loads(text)
            key = (str(line["base_url"]), str(line["session_id"]))
        except (ValueError, KeyError, TypeError):
            problems.append(
                {"row": number, "field": "", "problem": f"line {number} of {path()} is no session", "raw": text[:200]}
            )
            continue
        if client is None or key[0] == client.base_url:
            found.setdefault(key, line)
    frame = pd.DataFrame([{name: line.get(name) for name in COLUMNS} for line in found.values()], columns=list(COLUMNS))
    frame = frame.astype(dict.fromkeys(COLUMNS[:-1], STR))
    instants = pd.to_datetime(frame["started_at"], utc=True, errors="coerce", format="ISO8601")
    frame["started_at"] = instants.astype("datetime64[us, UTC]")
    frame.attrs["agentbook"] = {"operation": "ledger.sessions", "problems": problems, "problem_count": len(problems)}
    return frame


def _lines() -> list[str]:
    file = path()
    try:
        return [line for line in file.read_text("utf-8", "replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AgentbookError(f"The ledger {file} cannot be read ({error.strerror or error}).") from error


__all__ = ["note", "path", "sessions", "start"]

"""Which sessions are meant: by id, address, record, frame, listing or workspace."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd

from ...api.calls import ref
from ...api.connection import AsyncConnection, Connection
from ...api.endpoints import sessions as endpoint

_PATH = re.compile(r"(?:^|/)sessions/([^/]+)")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def require_client(client: Any, what: str) -> None:
    """Raise a `TypeError` that says what to pass, unless it is a client that reads by itself, in threads."""
    if isinstance(client, Connection):
        return
    if isinstance(client, AsyncConnection):
        hint = f"in async code too pass a Client, as in `await asyncio.to_thread({what}, ab.connect(), ...)`"
    else:
        hint = "pass the Client that ab.connect() gives first"
    raise TypeError(f"{what} needs a Client, not {_article(type(client).__name__)}: {hint}.")


def _article(name: str) -> str:
    return "None" if name == "NoneType" else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def session_ids(client: Connection | None, sessions: Any = None, workspace: Any = None) -> list[str]:
    """The ids of the sessions that are meant, each once, in order; UUIDs, which are the same in any case, in lower case.

    Parameters
    ----------
    client : Client or None
        Asked for a workspace's sessions.
    sessions : str, UUID, Record, DataFrame, Series or iterable, optional
        Ids, addresses that name a session (``https://host/v1/sessions/<id>/events``, ``wss://`` ones too), session
        records, workspace records (all of its sessions), a frame of sessions, of workspaces, or of anything with a column
        ``session_id``; a row of one; or a mixture of ids, addresses, records and rows.
    workspace : str or Record, optional
        All sessions of this workspace, by id or ``<owner>~<name>``, instead of `sessions`.

    Raises
    ------
    NotOffered
        A workspace was given and the platform does not list sessions.
    TypeError, ValueError

    Examples
    --------
    >>> session_ids(None, ["s1", "https://host/v1/sessions/s2/events?limit=5", {"id": "s1"}])
    ['s1', 's2']
    """
    if (sessions is None) == (workspace is None):
        raise ValueError("Give sessions, or a workspace= to take all sessions of; not both, not neither.")
    if workspace is not None and client is not None:
        sessions = client.records(endpoint.list_(workspace))
    found: dict[str, None] = {}
    for place, one in enumerate(_each(sessions)):
        session = _row(one)
        if _is_workspace(session):
            if client is None:
                raise ValueError(
                    f"What is read here does not say its workspace: name sessions, not {session['full_name']!r}."
                )
            found.update(dict.fromkeys(_plain(record["id"]) for record in client.records(endpoint.list_(session))))
        else:
            try:
                found[_id(session)] = None
            except TypeError as error:
                raise TypeError(f"sessions, item {place}: {error}") from None
    return list(found)


def _each(sessions: Any) -> Iterable[Any]:
    columns = getattr(sessions, "columns", None)
    if columns is not None:
        name = next((name for name in ("session_id", "id") if name in columns), None)
        if name is None:
            raise ValueError(
                f"A frame of sessions needs a column session_id or id; it has {', '.join(map(str, columns))}."
            )
        if name == "id" and "full_name" in columns and "workspace_id" not in columns:  # a frame of workspaces
            rows: list[dict[str, Any]] = sessions[["id", "full_name"]].dropna(subset="id").to_dict("records")
            return rows
        ids: list[str] = sessions[name].dropna().astype(str).drop_duplicates().tolist()
        return ids
    sessions = _row(sessions)
    if isinstance(sessions, (str, Mapping, uuid.UUID)):
        return [sessions]
    if isinstance(sessions, pd.Series):
        values: list[Any] = sessions.dropna().tolist()
        return values
    if not isinstance(sessions, Iterable):
        raise TypeError(f"sessions must be ids, addresses, records or a frame of them, not {type(sessions).__name__}.")
    return sessions


def _row(entity: Any) -> Any:
    """A row of a frame of sessions, workspaces or events as a record; anything else as it is."""
    if isinstance(entity, tuple) and hasattr(entity, "_asdict"):
        record = entity._asdict()
    elif isinstance(entity, pd.Series) and not {"session_id", "id"}.isdisjoint(entity.index):
        record = entity.to_dict()
    else:
        return entity
    return {**record, "id": record.get("session_id", record.get("id"))}


def _is_workspace(entity: Any) -> bool:
    # Only a workspace has a full name; every session knows its workspace.
    return isinstance(entity, Mapping) and "full_name" in entity and "workspace_id" not in entity


def _id(session: Any) -> str:
    text = ref(session)
    if "://" not in text:
        return _plain(text)
    found = _PATH.search(urlsplit(text).path)
    if found is None:
        raise ValueError(f"{text!r} is no address of a session: its path has no sessions/<id>.")
    return _plain(unquote(found[1]))


def _plain(session: str) -> str:
    return session.lower() if _UUID.fullmatch(session) else session

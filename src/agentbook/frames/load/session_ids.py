"""The sessions that a caller names: by id, address, record, frame or workspace."""

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
from ...api.pagination import Passes
from ...api.span import normalize

_PATH = re.compile(r"(?:^|/)sessions/([^/]+)")


def require_client(client: Any, function: str) -> None:
    """Raise a `TypeError` that says what to pass, unless `client` can be used."""
    if isinstance(client, Connection):
        return
    if isinstance(client, AsyncConnection):
        hint = f"in async code too pass a Client, as in `await asyncio.to_thread({function}, ab.connect(), ...)`"
    else:
        hint = "pass the Client that ab.connect() returns first"
    name = type(client).__name__
    passed = "None" if client is None else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise TypeError(f"{function} needs a Client, not {passed}: {hint}.")


def session_ids(client: Connection | None, sessions: Any = None, workspace: Any = None) -> list[str]:
    """The ids of the sessions that a caller names, each once, in order.

    UUIDs, whose case does not matter, are returned in lower case.

    Parameters
    ----------
    client : Client or None
        Lists the sessions of workspaces.
    sessions : str, UUID, Record, DataFrame, Series or iterable, optional
        Ids, addresses that name a session (``https://host/v1/sessions/<id>/events``,
        also ``wss://``), session records, workspace records (all of its sessions), a
        frame of sessions, of workspaces, or of anything with a column ``session_id``; a
        row of one; or a mixture of ids, addresses, records and rows.
    workspace : str or Record, optional
        All sessions of this workspace, by id or ``<owner>~<name>``, instead of
        `sessions`.

    Raises
    ------
    NotOffered
        A workspace was passed and the platform does not list sessions.
    TypeError, ValueError

    Examples
    --------
    >>> url = "https://host/v1/sessions/s2/events?limit=5"
    >>> session_ids(None, ["s1", url, {"id": "s1"}])
    ['s1', 's2']
    """
    if (sessions is None) == (workspace is None):
        raise ValueError("Pass either sessions, or workspace= for all sessions of a workspace.")
    if workspace is not None and client is not None:
        sessions = client._records(Passes(endpoint.list_(workspace)))
    ids: dict[str, None] = {}
    for position, item in enumerate(_items(sessions)):
        entity = _record_of_row(item)
        if _is_workspace(entity):
            if client is None:
                raise ValueError(
                    "Workspaces cannot be selected here, because events do not name theirs: pass sessions instead of "
                    f"{entity['full_name']!r}."
                )
            listed = client._records(Passes(endpoint.list_(entity)))
            ids.update(dict.fromkeys(normalize(record["id"]) for record in listed))
        else:
            try:
                ids[_session_id(entity, has_workspaces=client is not None)] = None
            except TypeError as error:
                raise TypeError(f"sessions, item {position}: {error}") from None
    return list(ids)


def _items(sessions: Any) -> Iterable[Any]:
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
    sessions = _record_of_row(sessions)
    if isinstance(sessions, (str, Mapping, uuid.UUID)):
        return [sessions]
    if isinstance(sessions, pd.Series):
        values: list[Any] = sessions.dropna().tolist()
        return values
    if not isinstance(sessions, Iterable):
        raise TypeError(f"sessions must be ids, addresses, records or a frame of them, not {type(sessions).__name__}.")
    return sessions


def _record_of_row(entity: Any) -> Any:
    """A row of a frame of sessions, workspaces or events as a record; anything else as
    is.
    """
    if isinstance(entity, tuple) and hasattr(entity, "_asdict"):
        record = entity._asdict()
    elif isinstance(entity, pd.Series) and not {"session_id", "id"}.isdisjoint(entity.index):
        record = entity.to_dict()
    else:
        return entity
    return {**record, "id": record.get("session_id", record.get("id"))}


def _is_workspace(entity: Any) -> bool:
    # Only a workspace has a full name; every session names its workspace.
    return isinstance(entity, Mapping) and "full_name" in entity and "workspace_id" not in entity


def _session_id(session: Any, has_workspaces: bool) -> str:
    text = ref(session)
    if "://" not in text:
        if "~" in text:
            advice = f"pass workspace={text!r} instead" if has_workspaces else "pass sessions instead"
            raise ValueError(f"{text!r} names a workspace, not a session: {advice}.")
        return normalize(text)
    match = _PATH.search(urlsplit(text).path)
    if match is None:
        raise ValueError(f"{text!r} is not the address of a session: its path has no sessions/<id>.")
    return normalize(unquote(match[1]))

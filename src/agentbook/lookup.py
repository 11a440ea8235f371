"""Identify workspaces, agents and sessions by record, frame row, id or name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .api.calls import ref
from .api.errors import NotFound

if TYPE_CHECKING:
    from .client import AsyncClient

NAME_FIELDS = ("name", "full_name")


def name_of(entity: Any) -> str:
    """A display name, if one is known; empty for a bare id.

    Examples
    --------
    >>> name_of({"id": "a1", "name": "guide"}), name_of("guide")
    ('guide', 'guide')
    >>> name_of("0199a0b2-0000-7000-8000-000000000000")
    ''
    """
    if entity is None or isinstance(entity, str):
        return "" if entity is None or is_uuid(entity) else entity
    # A frame's row also has `get`, and its attribute `name` is its index label.
    names = [entity.get(field) if hasattr(entity, "get") else getattr(entity, field, None) for field in NAME_FIELDS]
    return next((name for name in names if isinstance(name, str) and name), "")


def agent_list(agents: Any) -> list[Any]:
    """Several agents as a list; for a frame, each row's id and name.

    Raises
    ------
    TypeError
        If `agents` is not a collection.
    ValueError
        If a frame has no column ``id``.

    Examples
    --------
    >>> agent_list(name for name in ("guide", "scribe")), agent_list("guide")
    (['guide', 'scribe'], ['guide'])
    """
    if hasattr(agents, "columns") and hasattr(agents, "to_dict"):
        if "id" not in agents.columns:
            columns = ", ".join(map(str, agents.columns)) or "none"
            raise ValueError(
                "A frame of agents needs a column 'id', as client.agents.list().to_pandas() has. "
                f"Its columns: {columns}."
            )
        agents = [
            {name: row[name] for name in ("id", *NAME_FIELDS) if name in row} for row in agents.to_dict("records")
        ]
    if isinstance(agents, str | Mapping):
        return [agents]
    if not isinstance(agents, Iterable):
        raise TypeError(
            f'Agents must be a list of ids, names or records such as ["guide", "echo"], not {type(agents).__name__}.'
        )
    return list(agents)


async def get_agent(client: AsyncClient, agent: Any) -> Mapping[str, Any]:
    """An agent's record; at least ``id``, and ``name`` if it is known.

    A name or id is read from the platform. A record or frame row costs no request.

    Raises
    ------
    NotFound
        If this key can see no agent with that name.
    """
    if not isinstance(agent, str):
        return agent if isinstance(agent, Mapping) else {"id": ref(agent), "name": name_of(agent)}
    try:
        return await client.agents.get(agent)
    except NotFound as error:
        # A key that may only chat can use a private agent by its id without reading it.
        if not is_uuid(agent):
            raise NotFound(f"Agent {agent!r}: {error}", **vars(error)) from None
        return {"id": agent}


def is_uuid(text: str) -> bool:
    """Whether `text` is an id of the platform rather than a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

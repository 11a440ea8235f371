"""What a caller may name a workspace, an agent or a session by: a record of the API, a frame's row, an id, a name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import NotFound

if TYPE_CHECKING:
    from ...client import AsyncClient

NAMES = ("name", "full_name")


def name_of(entity: Any) -> str:
    """A name to show, as far as it is known; empty for a bare id.

    Examples
    --------
    >>> name_of({"id": "a1", "name": "guide"}), name_of("guide"), name_of("0199a0b2-0000-7000-8000-000000000000")
    ('guide', 'guide', '')
    """
    if entity is None or isinstance(entity, str):
        return "" if entity is None or is_uuid(entity) else entity
    # A frame's row has get, too; and its attribute `name` is where it stands in the frame.
    found = [entity.get(field) if hasattr(entity, "get") else getattr(entity, field, None) for field in NAMES]
    return next((name for name in found if isinstance(name, str) and name), "")


def each_of(agents: Any) -> list[Any]:
    """Several agents as a list, however a caller holds them; of a frame each row's id and name.

    Raises
    ------
    TypeError
        If these are not several.
    ValueError
        If a frame has no column ``id``.

    Examples
    --------
    >>> each_of(name for name in ("guide", "analyst")), each_of("guide")
    (['guide', 'analyst'], ['guide'])
    """
    if hasattr(agents, "columns") and hasattr(agents, "to_dict"):
        if "id" not in agents.columns:
            has = ", ".join(map(str, agents.columns)) or "none"
            raise ValueError(
                f"A frame of agents needs a column 'id', as client.agents.list().to_pandas() has; it has {has}."
            )
        agents = [{name: row[name] for name in ("id", *NAMES) if name in row} for row in agents.to_dict("records")]
    if isinstance(agents, str | Mapping):
        return [agents]
    if not isinstance(agents, Iterable):
        raise TypeError(
            f'Several agents must be a list of ids, names or records, not {type(agents).__name__}: ["guide", "echo"].'
        )
    return list(agents)


async def find_agent(client: AsyncClient, agent: Any) -> tuple[str, str]:
    """Id and name of an agent, asked of the platform where only one of them is known.

    Raises
    ------
    NotFound
        If there is none of that name for this key.
    """
    if not isinstance(agent, str):
        return ref(agent), name_of(agent)
    try:
        record = await client.agents.get(agent)
    except NotFound:
        # A key that may only chat can start a private agent by its id without being able to read it.
        if not is_uuid(agent):
            raise
        return agent, ""
    return ref(record), name_of(record)


def is_uuid(text: str) -> bool:
    """Whether this is an id of the platform rather than a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

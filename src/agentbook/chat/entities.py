"""What a caller may name a workspace, an agent or a session by: a record of the API, an id, a name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..api.calls import ref
from ..api.errors import NotFound

if TYPE_CHECKING:
    from ..api.client import AsyncClient


def name_of(entity: Any) -> str:
    """A name to show, as far as it is known; empty for a bare id.

    Examples
    --------
    >>> name_of({"id": "a1", "name": "guide"}), name_of("guide"), name_of("0199a0b2-0000-7000-8000-000000000000")
    ('guide', 'guide', '')
    """
    if isinstance(entity, Mapping):
        return str(entity.get("name") or entity.get("full_name") or "")
    return "" if entity is None or is_uuid(str(entity)) else str(entity)


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

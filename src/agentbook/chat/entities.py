"""What a caller may name a workspace, an agent or a session by: a record of the API, an id, a name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any


def id_of(entity: Any) -> str:
    """The id of a record, or the id itself."""
    return str(entity["id"]) if isinstance(entity, Mapping) else str(entity)


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


def is_uuid(text: str) -> bool:
    """Whether this is an id of the platform rather than a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

"""The versions of an agent, as the platform stores them.

The specification does not show the fields of a version, so they are read by the names
that configure-llm uses. A missing field is None; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..api.errors import ApiError
from .variant import SETTINGS

if TYPE_CHECKING:
    from ..client import AsyncClient

DRAFT = "EPHEMERAL"
MAX_VERSIONS = 200  # more than a person would read
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent.

    Attributes
    ----------
    id, number, type, summary : str or None
        `type` is ``COMMITTED``, ``EPHEMERAL`` or another word of the platform.
    created_at : datetime or None
    settings : dict
        Those of system_prompt, description, tools, platform_tools, mode, model,
        temperature, max_tokens and top_p that this credential may read.
    """

    id: str | None = None
    number: str | None = None
    type: str | None = None
    summary: str | None = None
    created_at: datetime | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def system_prompt(self) -> str | None:
        """The prompt; None if this credential may not read it."""
        return self.settings.get("system_prompt")

    @property
    def label(self) -> str:
        """Its number, or the end of its id if it has none."""
        return self.number or (f"…{self.id[-8:]}" if self.id else "unnamed")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Version:
        """The version in a record of the platform.

        Examples
        --------
        >>> record = {"id": "v1", "version_number": "1.2.0", "acme_tools": ["now"]}
        >>> version = Version.from_record(record)
        >>> version.label, version.settings
        ('1.2.0', {'platform_tools': ['now']})
        """
        settings = {name: record[name] for name in SETTINGS if record.get(name) is not None}
        if "platform_tools" not in settings:  # on the wire its name carries the platform's brand
            branded = [value for name, value in record.items() if name.endswith("_tools") and isinstance(value, list)]
            if len(branded) == 1:
                settings["platform_tools"] = branded[0]
        number = next((record[name] for name in ("version_number", "version", "number") if record.get(name)), None)
        return cls(
            id=_text(record.get("id")),
            number=_text(number),
            type=_text(record.get("type")),
            summary=_text(record.get("summary")),
            created_at=_parse_time(record.get("created_at")),
            settings=settings,
        )

    def __repr__(self) -> str:
        return f"Version({self.label!r}, {self.summary or 'no summary'!r})"


async def read_versions(client: AsyncClient, agent: Any) -> list[Version] | None:
    """The versions of an agent, newest first; None if this key cannot read them."""
    try:
        records = [record async for record in client.agents.versions(agent, limit=MAX_VERSIONS)]
        if len(records) == MAX_VERSIONS:  # many drafts must not hide the version the agent runs on
            known_ids = {record.get("id") for record in records}
            older = client.agents.versions(agent, type="COMMITTED", limit=MAX_VERSIONS)
            records += [record async for record in older if record.get("id") not in known_ids]
    except ApiError as error:
        if error.status not in (401, 403, 404, 405):
            raise
        return None
    # Ids are ordered by time, so they tell which of two versions with the same time is
    # newer.
    return sorted(map(Version.from_record, records), key=_age, reverse=True)


def committed(versions: Sequence[Version] | None) -> list[Version]:
    """The versions that turns may run on: all but the ephemeral ones."""
    return [version for version in versions or () if version.type != DRAFT]


def next_number(versions: Sequence[Version] | None) -> str | None:
    """The version number after the greatest one; None if none can be read.

    Examples
    --------
    >>> next_number([Version(number="1.2.9"), Version(number="1.10.0")])
    '1.10.1'
    """
    texts = [version.number or "" for version in versions or ()]
    numbers = [list(map(int, text.split("."))) for text in texts if _NUMBER.fullmatch(text)]
    if not numbers:
        return None
    *head, last = max(numbers)
    return ".".join(map(str, [*head, last + 1]))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _parse_time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None


def _age(version: Version) -> tuple[float, str]:
    return version.created_at.timestamp() if version.created_at else 0.0, version.id or ""

"""What an agent's versions say: the history of its configuration, as far as the platform lets it be read.

The specification does not show the fields of a version. Names are taken by what configure-llm calls them; what is not there is
None, and nothing is made up from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...api.errors import ApiError
from .variant import SETTINGS

if TYPE_CHECKING:
    from ...client import AsyncClient

_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)
MOST = 200  # versions read; more than a person would leaf through


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent.

    Attributes
    ----------
    id, number, type, summary : str or None
        `type` is ``COMMITTED``, ``EPHEMERAL`` or what else the platform says.
    created_at : datetime or None
    settings : dict
        Those of system_prompt, description, tools, platform_tools and mode that could be read.
    """

    id: str | None = None
    number: str | None = None
    type: str | None = None
    summary: str | None = None
    created_at: datetime | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def system_prompt(self) -> str | None:
        """The prompt; None where this credential may not read it."""
        return self.settings.get("system_prompt")

    @property
    def label(self) -> str:
        """Its number, or the end of its id where it has none."""
        return self.number or (f"…{self.id[-8:]}" if self.id else "unnamed")

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Version:
        """A version record of the platform.

        Examples
        --------
        >>> version = Version.of({"id": "v1", "version_number": "1.2.0", "system_prompt": "Be brief.", "acme_tools": ["now"]})
        >>> version.label, version.settings
        ('1.2.0', {'system_prompt': 'Be brief.', 'platform_tools': ['now']})
        """
        found = {name: record[name] for name in SETTINGS if record.get(name) is not None}
        if "platform_tools" not in found:  # on the wire its name carries the platform's brand
            branded = [value for name, value in record.items() if name.endswith("_tools") and isinstance(value, list)]
            if len(branded) == 1:
                found["platform_tools"] = branded[0]
        number = next((record[name] for name in ("version_number", "version", "number") if record.get(name)), None)
        return cls(
            id=_text(record.get("id")),
            number=_text(number),
            type=_text(record.get("type")),
            summary=_text(record.get("summary")),
            created_at=_moment(record.get("created_at")),
            settings=found,
        )

    def __repr__(self) -> str:
        return f"Version({self.label!r}, {self.summary or 'no summary'!r})"


async def read_versions(client: AsyncClient, agent: Any) -> list[Version] | None:
    """An agent's versions, newest first; None where this credential may not read them or the platform has no such list."""
    try:
        records = [record async for record in client.agents.versions(agent, limit=MOST)]
    except ApiError as error:
        if error.status not in (401, 403, 404, 405):
            raise
        return None
    found = [Version.of(record) for record in records]
    # Ids are time-ordered; where two versions have one instant, theirs tell which was later.
    return sorted(found, key=lambda version: (_seconds(version.created_at), version.id or ""), reverse=True)


def committed(versions: Sequence[Version] | None) -> list[Version]:
    """Those that turns run on: all but the ephemeral ones."""
    return [version for version in versions or () if version.type != "EPHEMERAL"]


def number_after(versions: Sequence[Version] | None) -> str | None:
    """The version number after the greatest there is; None where none can be read, so that the platform chooses.

    Examples
    --------
    >>> number_after([Version(number="1.2.9"), Version(number="1.10.0"), Version(number="draft")])
    '1.10.1'
    """
    said = [version.number or "" for version in versions or ()]
    numbers = [list(map(int, number.split("."))) for number in said if _NUMBER.fullmatch(number)]
    if not numbers:
        return None
    *head, last = max(numbers)
    return ".".join(map(str, [*head, last + 1]))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0

"""The configurations of an agent, proposed by a person or stored by the platform.

A `Variant` is a proposal with a name. A `Version` is one entry of the agent's history.
The specification does not show the fields of a version, so they are read by the names
that configure-llm has for them. A field that is missing is None; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import ApiError
from ..text import check_text

if TYPE_CHECKING:
    from ...client import AsyncClient

MODES = ("one-shot", "multi-turn")
SETTINGS = ("system_prompt", "description", "tools", "platform_tools", "mode")
MAX_VERSIONS = 200  # more than a person reads
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration to try out.

    A setting that is None stays as the agent has it if the platform lets it be read;
    otherwise the platform's default applies. A variant without any setting is the agent
    as it is: it is asked, and never configured.

    Attributes
    ----------
    name : str
        Its label in tables and charts.
    system_prompt, description : str or None
    tools : tuple of dict or None
        Each ``{"integration": str, "tools": [str, ...]}``.
    platform_tools : tuple of str or None
        Built-in tools the agent may call.
    mode : {"one-shot", "multi-turn"} or None
    version : str or None
        The version number to commit. None uses the number after the agent's newest.
    agent : str or None
        Id or name of the agent to configure; None for the lab's. Variants on different
        agents run at the same time.

    Raises
    ------
    TypeError
        If a text is not a string (such as a Path), or `platform_tools` is a single
        string.
    ValueError
        If the name or the prompt is empty, a text is not valid Unicode, or the mode or
        a tool is not one of those described above.

    Notes
    -----
    Specification: "Endpoints", configure-llm body.

    Examples
    --------
    >>> Variant("brief", system_prompt="Answer in one sentence.")
    Variant('brief', system_prompt='Answer in one sentence.')
    >>> Variant("now").configures
    False
    """

    name: str
    system_prompt: str | None = None
    description: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    platform_tools: Sequence[str] | None = None
    mode: str | None = None
    version: str | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError("A variant needs a name: tables and charts use it as the label.")
        owner = f"of variant {self.name!r}"
        if self.system_prompt is not None and not check_text(self.system_prompt, f"The system prompt {owner}").strip():
            raise ValueError(f"The system prompt {owner} is empty. Leave it out to keep the agent's own prompt.")
        if self.description is not None:
            check_text(self.description, f"The description {owner}")
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"The mode {owner} must be one of {', '.join(MODES)}, or None, not {self.mode!r}.")
        if self.tools is not None:
            object.__setattr__(self, "tools", tuple(_tool(self.name, tool) for tool in self.tools))
        if self.platform_tools is not None:
            if isinstance(self.platform_tools, str):
                raise TypeError(f"platform_tools {owner} must be a list of names, not a single string.")
            object.__setattr__(self, "platform_tools", tuple(map(str, self.platform_tools)))
        if self.agent is not None:
            object.__setattr__(self, "agent", ref(self.agent))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it changes, without name, version number and agent."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def configures(self) -> bool:
        """Whether it changes the agent's configuration."""
        return bool(self.settings)

    @property
    def prompt_label(self) -> str:
        """Its prompt, or words for the prompt it uses instead."""
        return self.system_prompt or ("the agent's own prompt" if self.configures else "the agent as it is")

    def as_data(self) -> dict[str, Any]:
        """The variant as plain data, ready for JSON."""
        data = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Variant:
        """The variant that `as_data` wrote; unknown names are ignored.

        Parameters
        ----------
        data : mapping
            Names and values of the attributes.

        Raises
        ------
        TypeError
            If there is no name.

        Examples
        --------
        >>> Variant.from_data(Variant("brief", system_prompt="Be brief.").as_data())
        Variant('brief', system_prompt='Be brief.')
        """
        known = {attribute.name for attribute in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})

    def __repr__(self) -> str:
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)[1:]}
        arguments = "".join(f", {name}={_shorten(value)!r}" for name, value in values.items() if value is not None)
        return f"Variant({self.name!r}{arguments})"


def _tool(variant: str, tool: Any) -> dict[str, Any]:
    try:
        return {"integration": str(tool["integration"]), "tools": [str(name) for name in tool["tools"]]}
    except (KeyError, TypeError):
        raise ValueError(
            f"A tool of variant {variant!r} must look like "
            f'{{"integration": "orders", "tools": ["find_order"]}}, not {tool!r}.'
        ) from None


def _shorten(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return line if len(line) <= 60 else line[:59] + "…"


# Configurations as text, as people type them


def parse_variant(fields: Mapping[str, str], default_name: str) -> Variant:
    """The variant in a form's fields; an empty field stays as the agent has it.

    Raises
    ------
    ValueError
        If a field cannot be read.
    """
    values = {field: text.strip() or None for field, text in fields.items()}
    return Variant(
        values["name"] or default_name,
        system_prompt=values["system_prompt"],
        description=values["description"],
        tools=parse_tools(fields["tools"]),
        platform_tools=_names(fields["platform_tools"]) or None,
        mode=values["mode"],
        version=values["version"],
    )


def format_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the fields that `parse_variant` reads."""
    mode = settings.get("mode")
    return {
        "system_prompt": str(settings.get("system_prompt") or ""),
        "description": str(settings.get("description") or ""),
        "tools": format_tools(settings.get("tools") or ()),
        "platform_tools": ", ".join(map(str, settings.get("platform_tools") or ())),
        "mode": mode if mode in MODES else "",
    }


def parse_tools(text: str) -> list[dict[str, Any]] | None:
    r"""Tools from text with one integration per line; None if there is no line.

    Raises
    ------
    ValueError
        If a line does not look like ``orders: find_order, track_parcel``.

    Examples
    --------
    >>> parse_tools("orders: find_order, track_parcel")
    [{'integration': 'orders', 'tools': ['find_order', 'track_parcel']}]
    """
    tools = []
    for line in filter(None, map(str.strip, text.splitlines())):
        integration, colon, names = line.partition(":")
        if not colon or not integration.strip():
            raise ValueError(f"Tools: “{line}” should look like “orders: find_order, track_parcel”.")
        tools.append({"integration": integration.strip(), "tools": _names(names)})
    return tools or None


def format_tools(tools: Iterable[Mapping[str, Any]]) -> str:
    """Tools as the text that `parse_tools` reads."""
    return "\n".join(f"{tool.get('integration')}: {', '.join(map(str, tool.get('tools') or ()))}" for tool in tools)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


# Versions


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent.

    Attributes
    ----------
    id, number, type, summary : str or None
        `type` is ``COMMITTED``, ``EPHEMERAL`` or another word of the platform.
    created_at : datetime or None
    settings : dict
        Those of system_prompt, description, tools, platform_tools and mode that this
        credential may read.
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
    except ApiError as error:
        if error.status not in (401, 403, 404, 405):
            raise
        return None
    # Ids are ordered by time: they tell which of two versions of the same instant is
    # newer.
    return sorted(map(Version.from_record, records), key=_age, reverse=True)


def committed(versions: Sequence[Version] | None) -> list[Version]:
    """The versions that turns may run on: all but the ephemeral ones."""
    return [version for version in versions or () if version.type != "EPHEMERAL"]


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

"""A variant: one configuration of an agent, under a name, and the same configuration as the platform tells it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...api.calls import ref
from ..text import sendable

MODES = ("one-shot", "multi-turn")


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration to try out.

    What is None stays as the agent has it, where the platform lets that be read; else it is the platform's default. A variant in
    which all is None is the agent as it is: it is asked, and never configured.

    Attributes
    ----------
    name : str
        What it is called in tables and charts.
    system_prompt, description : str or None
    tools : tuple of dict or None
        Each ``{"integration": str, "tools": [str, ...]}``.
    platform_tools : tuple of str or None
        Built-in tools the agent may call.
    mode : {"one-shot", "multi-turn"} or None
    version : str or None
        The version number to commit it under; None for the one after the agent's newest.
    agent : str or None
        Id or name of the agent that carries it; None for the lab's. Variants on agents of their own run side by side.

    Raises
    ------
    TypeError
        If a text in it is none, such as a Path; or if `platform_tools` is one text.
    ValueError
        If it has no name, its prompt is empty or no valid Unicode, or a mode or a tool is none.

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
            raise ValueError("A variant needs a name: it is what tables and charts call it.")
        whose = f"of variant {self.name!r}"
        if self.system_prompt is not None and not sendable(self.system_prompt, f"The system prompt {whose}").strip():
            raise ValueError(f"The system prompt {whose} is empty. Leave it out to keep the agent's own prompt.")
        if self.description is not None:
            sendable(self.description, f"The description {whose}")
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(
                f"The mode of variant {self.name!r} must be one of {', '.join(MODES)}, or None, not {self.mode!r}."
            )
        if self.tools is not None:
            object.__setattr__(self, "tools", tuple(_tool(self.name, tool) for tool in self.tools))
        if self.platform_tools is not None:
            if isinstance(self.platform_tools, str):
                raise TypeError(f"platform_tools of variant {self.name!r} must be a list of names, not one text.")
            object.__setattr__(self, "platform_tools", tuple(map(str, self.platform_tools)))
        if self.agent is not None:
            object.__setattr__(self, "agent", ref(self.agent))

    @property
    def settings(self) -> dict[str, Any]:
        """What it sets, without its name, number and agent; what is None left out."""
        chosen = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def configures(self) -> bool:
        """Whether running it means to configure the agent; without, the agent is asked as it is."""
        return bool(self.settings)

    def as_data(self) -> dict[str, Any]:
        """It as plain data, ready for JSON."""
        data = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Variant:
        """The variant that `as_data` told; what it does not know is passed over.

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
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})

    def __repr__(self) -> str:
        said = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        given = "".join(f", {name}={_short(value)!r}" for name, value in said.items() if value is not None)
        return f"Variant({self.name!r}{given})"


SETTINGS = ("system_prompt", "description", "tools", "platform_tools", "mode")


def _tool(variant: str, tool: Any) -> dict[str, Any]:
    try:
        return {"integration": str(tool["integration"]), "tools": [str(name) for name in tool["tools"]]}
    except (KeyError, TypeError):
        raise ValueError(
            f'A tool of variant {variant!r} must look like {{"integration": "orders", "tools": ["find_order"]}}, not {tool!r}.'
        ) from None


def _short(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return line if len(line) <= 60 else line[:59] + "…"

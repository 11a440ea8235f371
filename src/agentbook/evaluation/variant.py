"""A variant: a named configuration of an agent that a person proposes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .._text import check_text, clip
from ..api.calls import ref
from .template import fill, names_in

MODES = ("one-shot", "multi-turn")
# Not in the specification's configure-llm: sent if the platform offers them.
PARAMETERS = ("model", "temperature", "max_tokens", "top_p")
ROLES = ("user", "assistant")
SETTINGS = ("system_prompt", "description", "tools", "platform_tools", "mode", *PARAMETERS)


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration to try out.

    A setting that is None stays as the agent has it if the platform lets it be read;
    otherwise the platform's default applies. A variant without any setting is the agent
    as it is, and is never configured.

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
    model : str or None
        The language model, if the platform offers several: see `client.agents.models`.
    temperature, top_p : float or None
        Numbers from 0 to 2, and from 0 to 1.
    max_tokens : int or None
        At most this many tokens in an answer.
    messages : tuple of dict or None
        Examples for the agent, each ``{"role": "user" or "assistant", "content": str}``
        and in turns. The platform takes none, so they are sent with the system prompt.

    Raises
    ------
    TypeError
        If a text is not a string (such as a Path), or `platform_tools` is a single
        string.
    ValueError
        If the name or the prompt is empty, a text is not valid Unicode, the mode or a
        tool is not one of those described above, or a number is out of its range.

    Notes
    -----
    Specification: "Endpoints", configure-llm body.

    Examples
    --------
    >>> Variant("brief", system_prompt="Answer in one sentence.")
    Variant('brief', system_prompt='Answer in one sentence.')
    >>> Variant("now").configures
    False
    >>> Variant("cold", "Be brief.", model="llama3.2", temperature=0).settings
    {'system_prompt': 'Be brief.', 'model': 'llama3.2', 'temperature': 0}
    """

    name: str
    system_prompt: str | None = None
    description: str | None = None
    tools: Iterable[Mapping[str, Any]] | None = None
    platform_tools: Iterable[str] | None = None
    mode: str | None = None
    version: str | None = None
    agent: Any = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    messages: Iterable[Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError("A variant needs a name: tables and charts use it as the label.")
        owner = f"of variant {self.name!r}"
        _check_parameters(self, owner)
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
        if self.messages is not None:
            object.__setattr__(self, "messages", _messages(self.messages, owner))
            if self.system_prompt is None:
                raise ValueError(f"The messages {owner} are sent with a system prompt, and it has none: write one.")

    @property
    def instructions(self) -> str | None:
        """What is sent as the system prompt: it, and the examples."""
        if not self.messages or self.system_prompt is None:
            return self.system_prompt
        shown = (f"<{each['role']}>\n{each['content']}\n</{each['role']}>" for each in self.messages)
        return "\n\n".join([self.system_prompt, "Examples of how to answer:", *shown])

    @property
    def names(self) -> list[str]:
        """The names in braces in its texts."""
        return names_in(f"{self.instructions or ''}\n{self.description or ''}")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it changes, without name, version number and agent."""
        values = {**{name: getattr(self, name) for name in SETTINGS}, "system_prompt": self.instructions}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def configures(self) -> bool:
        """Whether it changes the agent's configuration."""
        return bool(self.settings)

    def filled(self, row: Mapping[str, Any]) -> Variant:
        """The variant with a row's values in place of the names in braces.

        Parameters
        ----------
        row : mapping of str to object
            Values by column.

        Raises
        ------
        ValueError
            If a name in the prompt or the description has no column.

        Examples
        --------
        >>> Variant("a", "You know {{topic}}.").filled({"topic": "tides"}).system_prompt
        'You know tides.'
        """
        owner = f"of variant {self.name!r}"
        changes: dict[str, Any] = {
            name: fill(text, row, f"The {name.replace('_', ' ')} {owner}")
            for name in ("system_prompt", "description")
            if (text := getattr(self, name)) is not None
        }
        if self.messages is not None:
            changes["messages"] = [
                {**each, "content": fill(each["content"], row, f"A message {owner}")} for each in self.messages
            ]
        made = replace(self, **changes) if changes else self
        return self if made == self else made

    @property
    def prompt_label(self) -> str:
        """Its prompt, or words for the prompt it uses instead."""
        return self.system_prompt or ("the agent's own prompt" if self.configures else "the agent as it is")

    def as_data(self) -> dict[str, Any]:
        """What it sets, as plain data, without its name.

        Returns
        -------
        dict
            Only the settings that are not None, as JSON and YAML can hold them.

        Examples
        --------
        >>> Variant("brief", system_prompt="Be brief.").as_data()
        {'system_prompt': 'Be brief.'}
        """
        values = {each: getattr(self, each) for each in FIELDS}
        plain = {each: list(value) if isinstance(value, tuple) else value for each, value in values.items()}
        return {each: value for each, value in plain.items() if value is not None}

    def __repr__(self) -> str:
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)[1:]}
        arguments = "".join(
            f", {name}={clip(value, 60) if isinstance(value, str) else value!r}"
            for name, value in values.items()
            if value is not None
        )
        return f"Variant({self.name!r}{arguments})"


# What a variant may set, in the order in which files have it.
FIELDS = ("system_prompt", "messages", *(each.name for each in fields(Variant)[2:-1]))

# Parameter -> its type, its range, and how to say it.
_RANGES: dict[str, tuple[type, float, float, str]] = {
    "temperature": (float, 0, 2, "a number from 0 to 2"),
    "max_tokens": (int, 1, 1_000_000, "a whole number from 1 to 1000000"),
    "top_p": (float, 0, 1, "a number from 0 to 1"),
}


def _check_parameters(variant: Variant, owner: str) -> None:
    if variant.model is not None and not check_text(variant.model, f"The model {owner}").strip():
        raise ValueError(f"The model {owner} is empty. Leave it out to keep the agent's own.")
    for name, (kind, low, high, meaning) in _RANGES.items():
        value = getattr(variant, name)
        if value is None:
            continue
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        if not (is_number and low <= value <= high):
            raise ValueError(f"{name} {owner} must be {meaning}, or None, not {value!r}.")


def _tool(variant: str, tool: Any) -> dict[str, Any]:
    try:
        return {"integration": str(tool["integration"]), "tools": [str(name) for name in tool["tools"]]}
    except (KeyError, TypeError):
        raise ValueError(
            f"A tool of variant {variant!r} must look like "
            f'{{"integration": "orders", "tools": ["find_order"]}}, not {tool!r}.'
        ) from None


def _messages(messages: Any, owner: str) -> tuple[dict[str, str], ...]:
    made = tuple(dict(each) if isinstance(each, Mapping) else each for each in messages)
    expected = [ROLES[number % 2] for number in range(len(made))]
    if not made or len(made) % 2 or any(
        not isinstance(each, dict) or each.keys() != {"role", "content"} or each["role"] != role
        or not isinstance(each["content"], str) or not each["content"].strip()
        for each, role in zip(made, expected, strict=True)
    ):  # fmt: skip
        raise ValueError(
            f'The messages {owner} are examples in turns, {{"role": "user", "content": "…"}} and then '
            f'{{"role": "assistant", "content": "…"}}, not {clip(repr(list(made)), 200)}.'
        )
    return made


def same_settings(old: Variant, new: Variant) -> bool:
    """Whether two variants ask the same agent in the same way, whatever their names.

    Examples
    --------
    >>> same_settings(Variant("a", "Be kind."), Variant("b", "Be kind.", version="2"))
    True
    """
    return replace(old, name=new.name, version=new.version) == new


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
        model=values.get("model"),
        **{name: _number(name, text) for name in _RANGES if (text := values.get(name))},
    )


def _number(name: str, text: str) -> Any:
    kind, _, _, meaning = _RANGES[name]
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} must be {meaning}, or empty, not “{text}”.") from None


def format_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the fields that `parse_variant` reads."""
    mode = settings.get("mode")
    return {
        "system_prompt": str(settings.get("system_prompt") or ""),
        "description": str(settings.get("description") or ""),
        "tools": format_tools(settings.get("tools") or ()),
        "platform_tools": ", ".join(map(str, settings.get("platform_tools") or ())),
        "mode": mode if mode in MODES else "",
        **{name: "" if settings.get(name) is None else str(settings[name]) for name in PARAMETERS},
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

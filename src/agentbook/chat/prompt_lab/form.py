"""What a person types: one variant, the inputs and the checks; from widgets to values and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ipywidgets as widgets

from ..html.render import visible
from ..widgets.view import Parts, answer_while_busy, button
from . import html
from .checks import Check, read_checks
from .inputs import lines
from .variant import Variant

AS_IT_IS = "as the agent has it"
# A text area has one input a line; a line break within an input is shown as this sign.
BREAK = "⏎"
_NAMED = re.compile(r"(?P<name>[^:/{]{1,60}):\s+(?P<what>.+)", re.DOTALL)


def field(made: Any, *classes: str) -> Any:
    """A control with its label above it, heard while a cell is running."""
    for name in ("ab-field", *classes):
        made.add_class(name)
    made.style.description_width = "initial"
    answer_while_busy(made)
    return made


def text(label: str, placeholder: str = "", *classes: str) -> Any:
    # Without continuous updates its value comes in one message, ahead of the click on a button.
    return field(widgets.Text(description=label, placeholder=placeholder, continuous_update=False), *classes)


def area(label: str, rows: int, placeholder: str = "") -> Any:
    return field(widgets.Textarea(description=label, placeholder=placeholder, rows=rows, continuous_update=False))


class VariantForm:
    """The form of one variant.

    Attributes
    ----------
    widget : Widget
    prompt : Textarea
    """

    def __init__(self, parts: Parts, add: Callable[[], None], apply: Callable[[], None], status: Any) -> None:
        self.name = text("Name of the variant", "such as: brief", "ab-grow")
        self.prompt = area("System prompt", 7, "You are …")
        self.description = text("Description", "what the agent is for")
        self.tools = area("Tools, one integration a line", 2, "such as: orders: find_order, track_parcel")
        self.platform_tools = text("Platform tools", "such as: calculator, now", "ab-grow")
        self.mode = field(
            widgets.Dropdown(description="Mode", options=[(AS_IT_IS, ""), "one-shot", "multi-turn"]), "ab-grow"
        )
        self.version = text("Version number", "the next one", "ab-grow")
        self.add = button("Add as variant", "ab-other", "Keep it to be tried out; nothing is sent yet", add)
        self.apply = button(
            "Apply to the agent", "ab-main", "Commit it as a new version of the agent (one configure-llm call)", apply
        )
        rows = [
            parts.row([self.name, self.version], "ab-lab-row"),
            self.prompt,
            self.description,
            self.tools,
            parts.row([self.platform_tools, self.mode], "ab-lab-row"),
            parts.row([self.apply, self.add], "ab-lab-row"),
            status,
        ]
        self.widget = parts.box([parts.html(html.title("Variant")), *rows], "ab-lab-side")

    def read(self, name: str) -> Variant:
        """What was typed, as a variant; a field left empty stays as the agent has it.

        Raises
        ------
        ValueError
            If something cannot be read, with what to type instead.
        """
        return Variant(
            self.name.value.strip() or name,
            system_prompt=self.prompt.value.strip() or None,
            description=self.description.value.strip() or None,
            tools=read_tools(self.tools.value),
            platform_tools=_names(self.platform_tools.value) or None,
            mode=self.mode.value or None,
            version=self.version.value.strip() or None,
        )

    def fill(self, settings: Mapping[str, Any]) -> None:
        """Put a configuration into the form, ready to be changed."""
        self.prompt.value = str(settings.get("system_prompt") or "")
        self.description.value = str(settings.get("description") or "")
        self.tools.value = write_tools(settings.get("tools") or ())
        self.platform_tools.value = ", ".join(map(str, settings.get("platform_tools") or ()))
        mode = settings.get("mode")
        self.mode.value = mode if mode in ("one-shot", "multi-turn") else ""


def read_tools(typed: str) -> list[dict[str, Any]] | None:
    r"""Tools of integrations, as typed; None where nothing was.

    Examples
    --------
    >>> read_tools("orders: find_order, track_parcel\nmail: send")
    [{'integration': 'orders', 'tools': ['find_order', 'track_parcel']}, {'integration': 'mail', 'tools': ['send']}]
    """
    found = []
    for line in filter(None, map(str.strip, typed.splitlines())):
        integration, colon, names = line.partition(":")
        if not colon or not integration.strip():
            raise ValueError(f"Tools: “{line}” should look like “orders: find_order, track_parcel”.")
        found.append({"integration": integration.strip(), "tools": _names(names)})
    return found or None


def write_tools(tools: Iterable[Mapping[str, Any]]) -> str:
    """Tools as `read_tools` reads them."""
    return "\n".join(f"{tool.get('integration')}: {', '.join(map(str, tool.get('tools') or ()))}" for tool in tools)


def _names(typed: str) -> list[str]:
    return [name for part in typed.split(",") if (name := part.strip())]


def read_typed_checks(typed: str, others: Iterable[Check]) -> dict[str, Check]:
    r"""Checks as typed, one a line, behind those that cannot be typed.

    A line is a text that must be in the reply, a pattern between slashes, or a JSON schema; with ``name:`` before it, if it is
    to have one.

    Raises
    ------
    ValueError
        If a line is neither.

    Examples
    --------
    >>> checks = read_typed_checks("Source\ndigits: /\\d+/\n", [])
    >>> [(check.name, check.kind) for check in checks.values()]
    [('contains Source', 'contains'), ('digits', 'regex')]
    """
    made: list[Check] = list(others)
    for line in filter(None, map(str.strip, typed.splitlines())):
        named = _NAMED.fullmatch(line)
        name, said = (named["name"].strip(), named["what"].strip()) if named else ("", line)
        what: Any = said
        try:
            if len(said) > 2 and said[0] == said[-1] == "/":
                what = re.compile(said[1:-1])
            elif said.startswith("{"):
                what = json.loads(said)
            made += read_checks({name: what} if name else [what]).values()
        except (ValueError, re.error) as error:
            raise ValueError(f"Checks: “{line}” cannot be read: {error}") from error
    return read_checks(made)


def read_typed_inputs(typed: str) -> list[str]:
    """Inputs as typed, one a line."""
    return list(dict.fromkeys(line.replace(BREAK, "\n") for line in lines(typed)))


def write_inputs(inputs: Iterable[str]) -> str:
    """Inputs as `read_typed_inputs` reads them."""
    return "\n".join(line.replace("\n", BREAK) for line in inputs)


def tick(label: str, on: bool) -> Any:
    """A checkbox whose label shows what it says, hidden characters written out."""
    made = widgets.Checkbox(value=on, description=visible(label), indent=False)
    made.add_class("ab-tick")
    answer_while_busy(made)
    return made

"""The upper half of the form: the fields of one variant, and the prompts to start from.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from ..html.sanitize import visible
from ..widgets.parts import Parts, answer_while_busy, button
from . import html

UNCHANGED = "as the agent has it"
THE_FORM = "the form"


def field(widget: Any, *classes: str) -> Any:
    """A control with its label above it, which also works while a cell is running."""
    for name in ("ab-field", *classes):
        widget.add_class(name)
    widget.style.description_width = "initial"
    answer_while_busy(widget)
    return widget


def text_field(label: str, placeholder: str = "", *classes: str) -> Any:
    """A field of one line."""
    # Without continuous updates its value comes in one message, ahead of the click on a
    # button.
    return field(widgets.Text(description=label, placeholder=placeholder, continuous_update=False), *classes)


def text_area(label: str, rows: int, placeholder: str = "") -> Any:
    """A field of several lines."""
    return field(widgets.Textarea(description=label, placeholder=placeholder, rows=rows, continuous_update=False))


def checkbox(label: str, value: bool) -> Any:
    """A checkbox; hidden characters of its label are written out."""
    box = widgets.Checkbox(value=value, description=visible(label), indent=False)
    box.add_class("ab-tick")
    answer_while_busy(box)
    return box


class VariantForm:
    """The fields of one variant.

    Attributes
    ----------
    widget : Widget
    prompt : Textarea
    """

    def __init__(self, parts: Parts, on_add: Callable[[], None], on_apply: Callable[[], None], status: Any) -> None:
        self.name = text_field("Name of the variant", "such as: brief", "ab-grow")
        self.prompt = text_area("System prompt", 7, "You are …")
        self.description = text_field("Description", "the purpose of the agent")
        self.tools = text_area("Tools, one integration per line", 2, "such as: orders: find_order, track_parcel")
        self.platform_tools = text_field("Platform tools", "such as: calculator, now", "ab-grow")
        modes = [(UNCHANGED, ""), "one-shot", "multi-turn"]
        self.mode = field(widgets.Dropdown(description="Mode", options=modes), "ab-grow")
        self.version = text_field("Version number", "the next one", "ab-grow")
        self.add = button("Add as variant", "ab-other", "Keep it for a run; nothing is sent yet", on_add)
        self.apply = button(
            "Apply to the agent",
            "ab-main",
            "Commit it as a new version of the agent (one configure-llm call)",
            on_apply,
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
        self._settings = {
            "system_prompt": self.prompt,
            "description": self.description,
            "tools": self.tools,
            "platform_tools": self.platform_tools,
            "mode": self.mode,
        }

    def read(self) -> dict[str, str]:
        """The text of each field."""
        boxes = {"name": self.name, "version": self.version, **self._settings}
        return {name: box.value for name, box in boxes.items()}

    def fill(self, settings: Mapping[str, str]) -> None:
        """Put a configuration into the fields."""
        for name, box in self._settings.items():
            box.value = settings[name]


class PromptChooser:
    """The version history, the prompts to start from, and a comparison of two.

    Attributes
    ----------
    widget : Widget
    """

    def __init__(self, parts: Parts, on_use: Callable[[], None], on_compare: Callable[[Any], None]) -> None:
        self._prompts: Mapping[str, str] = {}
        self._defaults: dict[Any, str] = {}  # the choice in each dropdown that no person has made
        self.history = parts.html()
        self.start = field(widgets.Dropdown(description="Start from", options=[("…", "")]), "ab-grow")
        self.use = button("Copy to the form", "ab-other", "Fill the form with this prompt and its settings", on_use)
        self.old = field(widgets.Dropdown(description="Compare", options=[("…", "")]), "ab-grow")
        self.new = field(widgets.Dropdown(description="with", options=[(THE_FORM, THE_FORM)]), "ab-grow")
        self.diff = parts.html()
        for box in (self.old, self.new):
            box.observe(on_compare, "value")
        self.widget = parts.box(
            [
                parts.html(html.title("Versions")), self.history,
                parts.row([self.start, self.use], "ab-lab-row"),
                parts.row([self.old, self.new], "ab-lab-row"), self.diff,
            ],
            "ab-lab-side",
        )  # fmt: skip

    def draw_choices(self, history: str, prompts: Mapping[str, str], current: str) -> None:
        """Draw the history and the dropdowns.

        Parameters
        ----------
        history : str
            Safe HTML.
        prompts : mapping of str to str
            Prompts by label.
        current : str
            Label of the prompt that the agent runs on; empty if it is not known.
        """
        self.history.value = history
        self._prompts = prompts
        labels = list(prompts)
        default = current if current in prompts else next(iter(labels), "")
        self._choose(self.start, labels, default)
        self._choose(self.old, labels, default)
        self._choose(self.new, [THE_FORM, *labels], THE_FORM)

    def _choose(self, box: Any, labels: list[str], default: str) -> None:
        """Set the options of a dropdown; a person's choice stays if it still exists."""
        options = tuple((label, label) for label in labels) or (("none yet", ""),)
        choice = box.value if box.value in labels and box.value != self._defaults.get(box) else default
        if tuple(box.options) != options:
            box.options = options
        if choice == default:
            choice = self._defaults[box] = default if default in labels else options[0][1]
        box.value = choice

    def draw_diff(self, typed: str) -> None:
        """Draw the comparison of the chosen prompts; `typed` is the form's."""
        old = self._prompts.get(self.old.value)
        new = typed if self.new.value == THE_FORM else self._prompts.get(self.new.value)
        self.diff.value = html.difference(old, new, self.old.value, self.new.value)

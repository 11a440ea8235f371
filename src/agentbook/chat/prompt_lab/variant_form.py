"""The upper half of the form: the fields of one variant, and the prompts to start from.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from ..widgets.parts import Parts, button, show
from . import html
from .fields import Confirmation, Fold, combobox, field, text_area, text_field

UNCHANGED = "as the agent has it"
THE_FORM = "the form"
ADD, SAVE = "Add as variant", "Save changes"


class VariantForm:
    """The fields of one variant.

    Attributes
    ----------
    widget : Widget
    prompt : Textarea
    confirmation : Confirmation
        Asks before the agent is changed permanently.
    """

    def __init__(
        self,
        parts: Parts,
        on_add: Callable[[], None],
        on_apply: Callable[[], None],
        on_confirm: Callable[[], None],
        on_cancel: Callable[[], None],
        status: Any,
    ) -> None:
        self.name = text_field("Name of the variant", "such as: brief")
        self.prompt = text_area("System prompt", 7, "You are …")
        self.description = text_field("Description", "the purpose of the agent")
        self.tools = text_area("Tools, one integration per line", 2, "such as: orders: find_order, track_parcel")
        self.platform_tools = text_field("Platform tools", "such as: calculator, now", "ab-grow")
        modes = [(UNCHANGED, ""), ("one-shot", "one-shot"), ("multi-turn", "multi-turn")]
        self.mode = field(widgets.Dropdown(description="Mode", options=modes), "ab-grow")
        self.version = text_field("Version number", "the next one", "ab-grow")
        # A combobox: a platform that lists no models may still know the one typed.
        self.model = combobox("Model", UNCHANGED, "ab-grow")
        self.temperature = text_field("Temperature", "0 to 2", "ab-narrow")
        self.max_tokens = text_field("Max tokens", "of a reply", "ab-narrow")
        self.top_p = text_field("Top p", "0 to 1", "ab-narrow")
        self.add = button(ADD, "ab-main", "Add it to the next run; nothing is sent yet", on_add)
        self.cancel = button("Stop editing", "ab-other", "Leave the variant as it is", on_cancel)
        show(self.cancel, False)
        self.apply = button(
            "Apply to the agent",
            "ab-other",
            "Commit it as a new version of the agent (one configure-llm call)",
            on_apply,
        )
        self.confirmation = Confirmation(parts, "Apply", "Commit the new version now", on_confirm)
        self.more = Fold(
            parts,
            "More settings",
            "Description, tools, mode and version number",
            [
                self.description,
                self.tools,
                parts.row([self.platform_tools, self.mode, self.version], "ab-lab-row"),
            ],
        )
        rows = [
            self.name,
            self.prompt,
            parts.row([self.model, self.temperature, self.max_tokens, self.top_p], "ab-lab-row"),
            self.more.widget,
            parts.row([self.add, self.cancel, self.apply], "ab-lab-row"),
            self.confirmation.widget,
            status,
        ]
        self.widget = parts.box([parts.html(html.title("Variant")), *rows], "ab-lab-side")
        self._settings = {
            "system_prompt": self.prompt,
            "description": self.description,
            "tools": self.tools,
            "platform_tools": self.platform_tools,
            "mode": self.mode,
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "top_p": self.top_p,
        }

    def read(self) -> dict[str, str]:
        """The text of each field."""
        boxes = {"name": self.name, "version": self.version, **self._settings}
        return {name: box.value for name, box in boxes.items()}

    def draw_models(self, names: Sequence[str]) -> None:
        """Offer the models that the platform lists."""
        self.model.options = tuple(names)

    def draw_editing(self, editing: bool) -> None:
        """Show whether the fields are those of an existing variant."""
        self.add.description = SAVE if editing else ADD
        show(self.cancel, editing)

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
        rows = [parts.row([self.start, self.use], "ab-lab-row"), parts.row([self.old, self.new], "ab-lab-row")]
        self._choices = parts.box([*rows, self.diff], "ab-lab-folded")
        self.widget = parts.box([parts.html(html.title("Versions")), self.history, self._choices], "ab-lab-side")
        show(self._choices, False)

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
        show(self._choices, bool(prompts))
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

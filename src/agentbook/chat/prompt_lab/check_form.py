"""The fields of the form that add a check, and the checks added with them.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ipywidgets as widgets

from ..html.sanitize import plain
from ..widgets.parts import Parts, button, close_all, show
from .fields import Fold, combobox, field, text_area, text_field

OnName = Callable[[str], None]


class CheckForm:
    """A kind of check with its fields, and the list of checks.

    Parameters
    ----------
    parts : Parts
    kinds : mapping of str to (str, mapping of str to str)
        The kinds: their label, and the labels of their fields by name.
    on_add : callable
    on_edit, on_remove : callable
        Receive the name of a check.
    status : Widget
        The status line.

    Attributes
    ----------
    widget : Widget
    """

    def __init__(
        self,
        parts: Parts,
        kinds: Mapping[str, tuple[str, Mapping[str, str]]],
        on_add: Callable[[], None],
        on_edit: OnName,
        on_remove: OnName,
        status: Any,
    ) -> None:
        self._parts, self._kinds = parts, kinds
        self._actions = {"Edit": on_edit, "Remove": on_remove}
        self._rows: dict[str, tuple[str, Any]] = {}  # by name: the label, and the widget
        self.kind = field(
            widgets.Dropdown(
                description="A reply passes if it", options=[(label, kind) for kind, (label, _) in kinds.items()]
            )
        )
        self.name = text_field("Name of the check", "such as: polite")
        self.fields: dict[str, Any] = {
            "value": text_area("Value", 3),
            "agent": combobox("Judge", "an agent, such as: acme~judge"),
            "function": combobox("Function", "its name"),
            "min": text_field("At least", "", "ab-narrow"),
            "max": text_field("At most", "", "ab-narrow"),
            "unit": field(widgets.Dropdown(description="Unit", options=["words", "characters"]), "ab-grow"),
            "max_s": text_field("Seconds", "such as: 5", "ab-narrow"),
            "max_cost": text_field("Cost", "such as: 0.01", "ab-narrow"),
            "threshold": text_field("Score", "0 to 1", "ab-narrow"),
            "prompt": text_area("Prompt", 6),
        }
        self.add = button("Add the check", "ab-other", "Apply it to the existing replies; nothing is sent", on_add)
        self._list = parts.box([], "ab-lab-checks")
        small = ("min", "max", "unit", "max_s", "max_cost", "threshold")
        wide = [each for name, each in self.fields.items() if name not in small]
        self.fold = Fold(
            parts,
            "Add a check of another kind",
            "JSON schema, length, latency, an expected answer, a judge or a function",
            [
                self.kind,
                *wide,
                parts.row([self.fields[name] for name in small], "ab-lab-row"),
                parts.row([self.name, self.add], "ab-lab-row"),
            ],
        )
        self.widget = parts.box([self._list, self.fold.widget, status])
        self.draw_kind()

    def read(self) -> tuple[str, dict[str, str]]:
        """The kind of check, and the text of its fields."""
        kind = self.kind.value
        names = self._kinds[kind][1]
        return kind, {"name": self.name.value, **{name: self.fields[name].value for name in names}}

    def fill(self, kind: str, texts: Mapping[str, str]) -> None:
        """Put a check into the fields."""
        self.kind.value = kind
        self.name.value = texts.get("name", "")
        for name, box in self.fields.items():
            if name in texts:
                box.value = texts[name]
        self.draw_kind()

    def clear(self) -> None:
        """Empty the fields that belong to one check."""
        self.name.value = self.fields["value"].value = ""

    def draw_kind(self) -> None:
        """Show the fields of the chosen kind."""
        labels = self._kinds[self.kind.value][1]
        for name, box in self.fields.items():
            show(box, name in labels)
            box.description = labels.get(name, box.description)

    def offer(self, name: str, choices: Sequence[str]) -> None:
        """Offer choices in a field; others may be typed."""
        self.fields[name].options = tuple(choices)

    def draw(self, labels: Mapping[str, str]) -> None:
        """Draw a row for each check that is not typed as a line."""
        if {name: label for name, (label, _) in self._rows.items()} == dict(labels):
            return
        before = self._list.children
        self._rows = {name: self._row(name, label) for name, label in labels.items()}
        self._list.children = tuple(row for _, row in self._rows.values())
        for unused in set(before) - set(self._list.children):
            close_all(unused)

    def _row(self, name: str, label: str) -> tuple[str, Any]:
        before, row = self._rows.get(name, ("", None))
        if row is not None and before == label:
            return label, row
        words = self._parts.html(f"<span>{plain(label)}</span>", "ab-lab-check")
        buttons = [
            button(word, "ab-small", f"{word} the check {name}", partial(act, name))
            for word, act in self._actions.items()
        ]
        return label, self._parts.row([words, *buttons], "ab-lab-variant")

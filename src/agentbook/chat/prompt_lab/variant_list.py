"""The variants in the form: a checkbox each, and buttons to edit, copy and remove them.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..widgets.parts import Parts, button, close_all
from .fields import Confirmation, checkbox

NO_VARIANT = '<div class="ab-foot">No variant yet: type a prompt and press “Add as variant”.</div>'
OnName = Callable[[str], None]


class VariantList:
    """The variants of the lab, one per row.

    Parameters
    ----------
    parts : Parts
    on_edit, on_duplicate, on_remove, on_confirm : callable
        Receive the name of a variant. `on_confirm` is called after `ask_to_remove`.

    Attributes
    ----------
    widget : Widget
    ticks : dict of str to Checkbox
        One per variant, by name: whether a run asks it.
    confirmation : Confirmation
        Asks before replies are removed.
    """

    def __init__(
        self, parts: Parts, on_edit: OnName, on_duplicate: OnName, on_remove: OnName, on_confirm: OnName
    ) -> None:
        self._parts = parts
        self._actions = {
            "Edit": ("Change the text, the settings or the name of", on_edit),
            "Duplicate": ("Make an editable copy of", on_duplicate),
            "Remove": ("Remove", on_remove),
        }
        self.ticks: dict[str, Any] = {}
        self._rows: dict[str, Any] = {}
        self._enabled = True
        self._to_remove = ""
        self._list = parts.box([parts.html(NO_VARIANT)], "ab-ticks")
        self.confirmation = Confirmation(
            parts, "Remove variant", "Remove it with its replies", lambda: on_confirm(self._to_remove)
        )
        self.widget = parts.box([self._list, self.confirmation.widget])

    def ask_to_remove(self, name: str, question: str) -> None:
        """Ask before a variant with replies is removed."""
        self._to_remove = name
        self.confirmation.ask(question)

    def enable(self, enabled: bool) -> None:
        """Enable or disable the buttons."""
        if enabled != self._enabled:
            self._enabled = enabled
            for row in self._rows.values():
                self._enable_row(row)

    def draw(self, labels: Mapping[str, str]) -> None:
        """Draw a row per variant; a checkbox that a person has cleared stays so."""
        for name, label in labels.items():
            if name in self.ticks:
                self.ticks[name].description = label
            else:
                self._add_row(name, label)
        rows = tuple(self._rows[name] for name in labels) or (self._parts.html(NO_VARIANT),)
        before = self._list.children
        if labels and before == rows:
            return
        self._list.children = rows
        self.ticks = {name: self.ticks[name] for name in labels}
        self._rows = {name: self._rows[name] for name in labels}
        for unused in set(before) - set(rows):
            close_all(unused)

    def _add_row(self, name: str, label: str) -> None:
        tick = checkbox(label, True)
        buttons = [
            button(word, "ab-small", f"{tooltip} {name}", partial(act, name))
            for word, (tooltip, act) in self._actions.items()
        ]
        row = self._parts.row([tick, *buttons], "ab-lab-variant")
        self.ticks[name], self._rows[name] = tick, row
        self._enable_row(row)

    def _enable_row(self, row: Any) -> None:
        for each in row.children[1:]:
            each.disabled = not self._enabled

"""The earlier runs in the form: two chosen runs, what changed, and Open.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from ..widgets.parts import Parts, button, show
from . import html
from .fields import Confirmation, field


class RunsView:
    """The widgets of the earlier runs.

    Parameters
    ----------
    parts : Parts
    on_choose, on_open, on_confirm : callable
    status : Widget
        The status line.

    Attributes
    ----------
    widget : Widget
    run, before : Dropdown
        The id of the run, and of the run it is compared with.
    confirmation : Confirmation
        Asks before a run replaces the current content.
    """

    def __init__(
        self,
        parts: Parts,
        on_choose: Callable[..., None],
        on_open: Callable[[], None],
        on_confirm: Callable[[], None],
        status: Any,
    ) -> None:
        self.run = field(widgets.Dropdown(description="Run", options=[("none yet", "")]), "ab-grow")
        self.before = field(widgets.Dropdown(description="Compared with", options=[("none yet", "")]), "ab-grow")
        self._defaults = {self.run: "", self.before: ""}  # choices that no person has made
        self.open = button("Open", "ab-other", "Show its variants, inputs, checks and replies here", on_open)
        self.confirmation = Confirmation(parts, "Open the run", "Replace what is here", on_confirm)
        self.changes = parts.html()
        for box in (self.run, self.before):
            box.observe(on_choose, "value")
        self.widget = parts.box(
            [
                parts.html(html.title("Earlier runs")),
                parts.row([self.run, self.before, self.open], "ab-lab-row"),
                self.confirmation.widget,
                self.changes,
                status,
            ],
            "ab-lab-part",
            "ab-lab-runs",
        )
        show(self.widget, False)

    def draw(self, labels: Mapping[str, str], run: str, before: str) -> None:
        """Draw the choices: labels by id, and the ids to begin with."""
        show(self.widget, bool(labels))
        options = tuple((label, each) for each, label in labels.items()) or (("none yet", ""),)
        for box, default in ((self.run, run), (self.before, before)):
            choice = box.value if box.value in labels and box.value != self._defaults[box] else default
            if tuple(box.options) != options:
                box.options = options
            self._defaults[box] = default
            if choice in labels:
                box.value = choice

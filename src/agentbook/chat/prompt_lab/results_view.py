"""The results in the form: summary, chart, winner, the table of replies, and a file.

These widgets know nothing of the lab: they take and return text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from ..widgets.parts import Parts, button, show
from . import html
from .fields import Confirmation, field, text_field


class ResultsView:
    """The widgets of the results.

    Parameters
    ----------
    parts : Parts
    table : Widget
        The table of the replies.
    on_apply, on_confirm, on_undo, on_save, on_load, on_confirm_load : callable
    winner_status, file_status : Widget
        Status lines.

    Attributes
    ----------
    widget : Widget
    confirmation : Confirmation
        Asks before the winner is applied.
    replacing : Confirmation
        Asks before a file replaces the current content.
    """

    def __init__(
        self,
        parts: Parts,
        table: Any,
        on_apply: Callable[[], None],
        on_confirm: Callable[[], None],
        on_undo: Callable[[], None],
        on_save: Callable[[], None],
        on_load: Callable[[], None],
        on_confirm_load: Callable[[], None],
        winner_status: Any,
        file_status: Any,
    ) -> None:
        self.regressions = parts.html()
        self.summary, self.image, self.table = parts.html(), parts.html(), table
        self.winner = field(widgets.Dropdown(description="Winner", options=[("none yet", "")]), "ab-grow")
        self._default = ""  # the winner that no person has chosen
        self.apply = button("Apply the winner", "ab-other", "Commit it as a new version of the agent", on_apply)
        self.undo = button("Undo", "ab-other", "Restore the agent's earlier configuration", on_undo)
        self.confirmation = Confirmation(parts, "Apply it", "Commit the new version now", on_confirm)
        self.path = text_field("File: .json with the replies, .yaml for agentbook eval", "", "ab-grow")
        self.path.value = "prompt-lab.json"
        self.save = button("Save", "ab-other", "Write variants, inputs and checks to this file", on_save)
        self.load = button("Load", "ab-other", "Read variants, inputs, checks and replies from this file", on_load)
        self.replacing = Confirmation(parts, "Replace", "Read the file now", on_confirm_load)
        self._winning = parts.box(
            [
                parts.row([self.winner, self.apply, self.undo], "ab-lab-row"),
                self.confirmation.widget,
                winner_status,
            ],
            "ab-lab-winner",
        )
        file_row = parts.row([self.path, self.save, self.load], "ab-lab-row")
        body = [self.regressions, self.summary, self.image, self._winning, table]
        body += [file_row, self.replacing.widget, file_status]
        self.widget = parts.box(
            [parts.box([parts.html(html.title("Results")), *body], "ab-lab-results")], "ab-lab-part"
        )
        show(self._winning, False)

    def draw(self, summary: str, chart: str, winners: Sequence[str], leader: str) -> None:
        """Draw what depends on all replies.

        Parameters
        ----------
        summary, chart : str
            Safe HTML; empty if there are no replies.
        winners : sequence of str
            Names of the variants that can be applied.
        leader : str
            The one with the highest pass rate; empty if there is none.
        """
        self.summary.value = summary or '<div class="ab-foot">No replies yet.</div>'
        self.image.value = chart
        show(self._winning, bool(summary and winners))
        options = tuple((name, name) for name in winners) or (("none yet", ""),)
        chosen = self.winner.value
        if tuple(self.winner.options) != options:
            self.winner.options = options
        if chosen in winners and chosen != self._default:
            self.winner.value = chosen
        elif winners:
            self._default = self.winner.value = leader if leader in winners else winners[0]

    def draw_waiting(self) -> None:
        """Say that the first replies are on their way."""
        self.summary.value = '<div class="ab-foot">The summary follows when the run has ended.</div>'

    def draw_buttons(self, *, busy: bool, can_undo: bool) -> None:
        """Draw which buttons can be pressed."""
        for each in (self.apply, self.undo, self.save, self.load):
            each.disabled = busy
        show(self.undo, can_undo)

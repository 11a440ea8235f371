"""What came of it, in the lab's form: the summary, its chart, the replies side by side, and the file they are saved to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..widgets.view import Parts, button
from . import html
from .form import text

if TYPE_CHECKING:
    from .prompt_lab import PromptLab

MOST_ROWS = 100  # inputs drawn; all of them are in `lab.results`


class Replies:
    """The results of a lab.

    Attributes
    ----------
    widget : Widget
    chart : str
        The chart as safe HTML; empty until there is one.
    """

    def __init__(self, parts: Parts, save: Callable[[], None], status: Any) -> None:
        self._parts = parts
        self._rows: dict[str, Any] = {}
        self.chart = ""
        self.summary, self.picture, self.rows = parts.html(), parts.html(), parts.box([])
        self.more = parts.html()
        self.path = text("File", "", "ab-grow")
        self.path.value = "prompt-lab.json"
        self.save = button("Save", "ab-other", "Write variants, inputs, checks and replies into this file", save)
        inner = parts.box(
            [
                parts.html(html.title("Results")), self.summary, self.picture, self.rows, self.more,
                parts.row([self.path, self.save], "ab-lab-row"),
                status,
            ]
        )  # fmt: skip
        self.widget = parts.box([inner], "ab-lab-part")

    def draw(self, lab: PromptLab, changed: set[str] | None, *, running: bool) -> None:
        """Bring it up to date; `changed` are the inputs whose row is to be drawn, None for all."""
        answers = lab.answers
        texts = list(dict.fromkeys(answer.input for answer in answers))
        if changed is None or changed:
            # The figures want all answers; while a run goes on they come with the chart, at its end.
            if not running:
                self.summary.value = html.summary(lab) or '<div class="ab-foot">No replies yet.</div>'
            self.picture.value = self.chart
            found = html.by_cell(answers)
            for said in texts[:MOST_ROWS]:
                if said not in self._rows:
                    self._rows[said] = self._parts.html("", "ab-result")
                elif changed is not None and said not in changed:
                    continue
                self._rows[said].value = html.result(said, lab.variants, found, list(lab.checks))
        for gone in set(self._rows) - set(texts):
            self._rows.pop(gone).close()
        rows = tuple(self._rows[said] for said in texts[:MOST_ROWS])
        if rows != self.rows.children:
            self.rows.children = rows
        rest = len(texts) - len(rows)
        self.more.value = f'<div class="ab-foot">{rest} more inputs are in lab.results.</div>' if rest > 0 else ""

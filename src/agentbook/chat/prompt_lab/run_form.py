"""The lower half of the form: what to run, how far it is, and the results.

These widgets know nothing of the lab: they take and return text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from ..html.sanitize import plain
from ..widgets.parts import Parts, button, show
from . import html
from .variant_form import checkbox, field, text_area, text_field

MAX_ROWS = 100  # inputs drawn; `lab.results` has all of them
NO_VARIANT = '<div class="ab-foot">No variant yet: type a prompt and press “Add as variant”.</div>'


class RunForm:
    """Inputs, checks and selected variants, Run and Stop, and the progress bar.

    Attributes
    ----------
    widget : Widget
    ticks : dict of str to Checkbox
        One per variant, by name.
    """

    def __init__(self, parts: Parts, on_run: Callable[[], None], on_stop: Callable[[], None], status: Any) -> None:
        self._parts = parts
        self.ticks: dict[str, Any] = {}
        self._filled: dict[Any, str] = {}  # the text that `fill` last put into each box
        self.variants = parts.box([], "ab-ticks")
        self.inputs = text_area("Test inputs, one per line", 6, "Type or paste, one question per line")
        self.checks = text_area("Checks of the reply, one per line", 3, "such as:\nSource\nshort enough: /^.{1,300}$/")
        self.others = parts.html()
        self.concurrency = field(widgets.BoundedIntText(4, min=1, max=64, description="Parallel requests"), "ab-number")
        self.repeats = field(widgets.BoundedIntText(1, min=1, max=100, description="Repeats"), "ab-number")
        self.retry = checkbox("Retry failed questions", False)
        self.run = button("Run", "ab-main", "Ask every selected variant every input it has not answered yet", on_run)
        self.stop = button("Stop", "ab-stop", "Stop listening; the replies so far are kept (Esc)", on_stop)
        self.bar = widgets.IntProgress(0, min=0, max=1, layout=widgets.Layout(width="auto"))
        self.bar.add_class("ab-lab-bar")
        input_side = parts.box([parts.html(html.title("Test inputs")), self.inputs], "ab-lab-side")
        check_side = parts.box(
            [parts.html(html.title("Variants to run")), self.variants, self.checks, self.others], "ab-lab-side"
        )
        row = parts.row([self.concurrency, self.repeats, self.run, self.stop, self.retry], "ab-lab-row")
        self.widget = parts.box(
            [parts.row([input_side, check_side], "ab-lab-top"), row, self.bar, status], "ab-lab-part", "ab-lab-run"
        )

    def fill(self, inputs: str, checks: str) -> None:
        """Show the inputs and checks of the lab; text that a person has typed stays."""
        for box, text in ((self.inputs, inputs), (self.checks, checks)):
            before = self._filled.get(box, "")
            self._filled[box] = text
            if text != before == box.value:
                box.value = text

    def read_variants(self) -> list[str]:
        """The names of the selected variants.

        Raises
        ------
        ValueError
            If there is none.
        """
        names = [name for name, box in self.ticks.items() if box.value]
        if not names:
            raise ValueError("No variant is selected: add one, or select one above.")
        return names

    def read_options(self) -> dict[str, Any]:
        """The options of the run."""
        return {
            "concurrency": self.concurrency.value,
            "repeats": self.repeats.value,
            "retry_failed": self.retry.value,
        }

    def draw_ticks(self, labels: Mapping[str, str], other_checks: Sequence[str]) -> None:
        """Draw a checkbox per variant, and the names of checks that cannot be typed."""
        self.others.value = (
            f'<div class="ab-foot">From code: {plain(", ".join(other_checks))}</div>' if other_checks else ""
        )
        if list(labels) == list(self.ticks) and self.variants.children:
            return
        for removed in set(self.ticks) - set(labels):
            self.ticks.pop(removed).close()
        self.ticks = {name: self.ticks.get(name) or checkbox(label, True) for name, label in labels.items()}
        before = self.variants.children
        self.variants.children = tuple(self.ticks.values()) or (self._parts.html(NO_VARIANT),)
        for unused in set(before) - set(self.variants.children):
            unused.close()

    def draw_bar(self, progress: tuple[int, int] | None) -> None:
        """Draw how many of how many questions are done; None hides the bar."""
        show(self.bar, progress is not None)
        if progress is not None:
            done, total = progress
            self.bar.max, self.bar.value = max(1, total), done


class ResultsView:
    """The summary, its chart, the replies side by side, and the file to save to.

    Attributes
    ----------
    widget : Widget
    chart : str
        The chart as safe HTML; empty until there is one.
    """

    def __init__(self, parts: Parts, on_save: Callable[[], None], status: Any) -> None:
        self._parts = parts
        self._rows: dict[str, Any] = {}
        self.chart = ""
        self.summary, self.image, self.rows = parts.html(), parts.html(), parts.box([])
        self.more = parts.html()
        self.path = text_field("File", "", "ab-grow")
        self.path.value = "prompt-lab.json"
        self.save = button("Save", "ab-other", "Write variants, inputs, checks and replies to this file", on_save)
        inner = parts.box(
            [
                parts.html(html.title("Results")), self.summary, self.image, self.rows, self.more,
                parts.row([self.path, self.save], "ab-lab-row"),
                status,
            ]
        )  # fmt: skip
        self.widget = parts.box([inner], "ab-lab-part")

    def draw_summary(self, summary: str) -> None:
        """Draw the summary; empty if there are no replies."""
        self.summary.value = summary or '<div class="ab-foot">No replies yet.</div>'

    def draw_rows(self, inputs: Sequence[str], changed: set[str] | None, render: Callable[[str], str]) -> None:
        """Draw the rows and the chart.

        Parameters
        ----------
        inputs : sequence of str
            All inputs, in order.
        changed : set of str or None
            The inputs whose row is to be drawn; None for all.
        render : callable
            Returns the row of an input as safe HTML.
        """
        shown = inputs[:MAX_ROWS]
        if changed is None or changed:
            self.image.value = self.chart
            for text in shown:
                if text not in self._rows:
                    self._rows[text] = self._parts.html("", "ab-result")
                elif changed is not None and text not in changed:
                    continue
                self._rows[text].value = render(text)
        for removed in set(self._rows) - set(inputs):
            self._rows.pop(removed).close()
        rows = tuple(self._rows[text] for text in shown)
        if rows != self.rows.children:
            self.rows.children = rows
        rest = len(inputs) - len(rows)
        self.more.value = f'<div class="ab-foot">{rest} more inputs are in lab.results.</div>' if rest > 0 else ""

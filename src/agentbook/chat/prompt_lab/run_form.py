"""The lower half of the form: what to run, and its progress.

These widgets know nothing of the lab: they take and return text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from ..html.sanitize import plain
from ..widgets.parts import Parts, answer_while_busy, button, show
from . import html
from .fields import Confirmation, Fold, checkbox, field, text_area, text_field
from .variant_list import VariantList


class RunForm:
    """Inputs, checks and selected variants, Run and Stop, and the progress bar.

    Attributes
    ----------
    widget : Widget
    confirmation : Confirmation
        Asks before a run that cannot restore the agent.
    """

    def __init__(
        self,
        parts: Parts,
        variants: VariantList,
        checks: Any,
        on_run: Callable[[], None],
        on_confirm: Callable[[], None],
        on_stop: Callable[[], None],
        on_upload: Callable[[Any], None],
        status: Any,
    ) -> None:
        self._filled: dict[Any, str] = {}  # the text that `fill` last put into each box
        self._variants = variants
        self.inputs = text_area("Test inputs, one per line", 6, "Type or paste, one question per line")
        self.upload = widgets.FileUpload(
            accept=".csv", description="Rows from CSV", layout=widgets.Layout(width="auto")
        )
        self.upload.add_class("ab-other")
        self.upload.tooltip = "Fill {{names}} in prompts and inputs from the columns of a CSV file"
        self.upload.observe(on_upload, "value")
        answer_while_busy(self.upload)
        self.rows = parts.html()
        self.checks = text_area("Checks of the reply, one per line", 3, "such as:\nSource\nshort enough: /^.{1,300}$/")
        self.concurrency = field(widgets.BoundedIntText(4, min=1, max=64, description="Parallel requests"), "ab-number")
        self.repeats = field(widgets.BoundedIntText(1, min=1, max=1000, description="Repeats"), "ab-number")
        self.retry = checkbox("Retry failed questions", False)
        self.run = button(
            "Run", "ab-main", "Ask the selected variants all inputs that they have not answered yet", on_run
        )
        self.stop = button("Stop", "ab-stop", "Stop listening; the replies so far are kept (Esc)", on_stop)
        self.bar = widgets.IntProgress(0, min=0, max=1, layout=widgets.Layout(width="auto"))
        self.bar.add_class("ab-lab-bar")
        input_side = parts.box(
            [parts.html(html.title("Test inputs")), self.inputs, self.upload, self.rows], "ab-lab-side"
        )
        check_side = parts.box(
            [parts.html(html.title("Variants to run")), variants.widget, self.checks, checks], "ab-lab-side"
        )
        row = parts.row([self.concurrency, self.repeats, self.run, self.stop, self.retry], "ab-lab-row")
        self.prices = text_area("Prices per million tokens", 3, "model: input, output\nsuch as gpt-4o-mini: 0.15, 0.60")
        self.max_cost = text_field("Cost limit of a run", "none", "ab-number")
        self.costs = Fold(
            parts,
            "Costs",
            "Prices of models, and a limit of a run's cost",
            [parts.row([self.prices, self.max_cost], "ab-lab-row")],
        )
        self.confirmation = Confirmation(parts, "Run anyway", "The agent keeps the last variant", on_confirm)
        top = parts.row([input_side, check_side], "ab-lab-top")
        body = [top, row, self.costs.widget, self.confirmation.widget, self.bar, status]
        self.widget = parts.box(body, "ab-lab-part", "ab-lab-run")

    def read_upload(self) -> tuple[str, bytes] | None:
        """The name and the content of the file that was chosen last."""
        files = self.upload.value
        return (str(files[0]["name"]), bytes(files[0]["content"])) if files else None

    def draw_rows(self, text: str, *, error: bool = False) -> None:
        """Say what the rows are, and show a message as it will go out."""
        name = "ab-failed" if error else "ab-foot"
        self.rows.value = f'<div class="{name}" role="status">{plain(text)}</div>' if text else ""

    @property
    def ticks(self) -> Mapping[str, Any]:
        """The checkboxes of the variants, by name."""
        return self._variants.ticks

    def fill(self, inputs: str, checks: str, *, replace: bool = False) -> None:
        """Show the inputs and checks of the lab.

        Text that a person has typed stays, unless it is to be replaced.
        """
        for box, text in ((self.inputs, inputs), (self.checks, checks)):
            before = self._filled.get(box, "")
            self._filled[box] = text
            if replace or text != before == box.value:
                box.value = text

    def read_variants(self) -> list[str]:
        """The names of the selected variants."""
        return [name for name, box in self.ticks.items() if box.value]

    def read(self) -> tuple[str, str, list[str], dict[str, Any]]:
        """Inputs and checks as typed, the names of the selected variants, and options.

        Raises
        ------
        ValueError
            If no variant is selected.
        """
        names = self.read_variants()
        if not names:
            raise ValueError("No variant is selected: add one, or select one above.")
        options = {
            "concurrency": self.concurrency.value,
            "repeats": self.repeats.value,
            "retry_failed": self.retry.value,
            "prices": self.prices.value,
            "max_cost": self.max_cost.value,
        }
        return self.inputs.value, self.checks.value, names, options

    def add_check(self, line: str) -> None:
        """Add a line to the checks that are typed."""
        self.checks.value = "\n".join(filter(None, [self.checks.value.rstrip(), line]))

    def draw_progress(self, progress: tuple[int, int] | None, *, busy: bool) -> None:
        """Draw how many questions are done, of how many; None hides the bar."""
        self.run.disabled = busy
        show(self.stop, busy)
        show(self.bar, progress is not None)
        if progress is not None:
            done, total = progress
            self.bar.max, self.bar.value = max(1, total), done

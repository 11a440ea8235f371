"""What is to be run, in the lab's form: inputs, checks, which variants, how many at a time, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ipywidgets as widgets

from ..html.render import plain
from ..widgets.view import Parts, button, show
from . import html
from .answers import Answer, Key
from .checks import Check
from .form import area, field, read_typed_checks, read_typed_inputs, tick, write_inputs
from .run import Options, Plan
from .variant import Variant


class RunForm:
    """Inputs, checks and ticked variants as a person gives them, Run and Stop, and the progress bar.

    Attributes
    ----------
    widget : Widget
    ticks : dict of str to Checkbox
        One for each variant, by name.
    """

    def __init__(self, parts: Parts, run: Callable[[], None], stop: Callable[[], None], status: Any) -> None:
        self._parts = parts
        self.ticks: dict[str, Any] = {}
        self._told: dict[Any, str] = {}  # what the lab held for each box when it was last looked at
        self.tried = parts.box([], "ab-ticks")
        self.inputs = area("Test inputs, one a line", 6, "Type or paste, one question a line")
        self.checks = area("Checks of the reply, one a line", 3, "such as:\nSource\nshort enough: /^.{1,300}$/")
        self.others = parts.html()
        self.concurrency = field(widgets.BoundedIntText(4, min=1, max=64, description="At a time"), "ab-number")
        self.repeats = field(widgets.BoundedIntText(1, min=1, max=100, description="Repeats"), "ab-number")
        self.retry = tick("Ask again what failed", False)
        self.run = button("Run", "ab-main", "Ask every ticked variant every input that it has not answered yet", run)
        self.stop = button("Stop", "ab-stop", "Stop listening; what arrived stays (Esc)", stop)
        self.bar = widgets.IntProgress(0, min=0, max=1, layout=widgets.Layout(width="auto"))
        self.bar.add_class("ab-lab-bar")
        left = parts.box([parts.html(html.title("Test inputs")), self.inputs], "ab-lab-side")
        right = parts.box(
            [parts.html(html.title("Variants to run")), self.tried, self.checks, self.others], "ab-lab-side"
        )
        row = parts.row([self.concurrency, self.repeats, self.run, self.stop, self.retry], "ab-lab-row")
        self.widget = parts.box(
            [parts.row([left, right], "ab-lab-top"), row, self.bar, status], "ab-lab-part", "ab-lab-run"
        )

    def fill(self, inputs: Iterable[str], checks: Iterable[Check]) -> None:
        """Write down what the lab holds; what a person has typed meanwhile stays."""
        typed = [html.typed_check(check) for check in checks]
        told = {self.inputs: write_inputs(inputs), self.checks: "\n".join(filter(None, typed))}
        for box, words in told.items():
            before = self._told.get(box, "")
            self._told[box] = words
            if words != before == box.value:
                box.value = words

    # What was typed

    def read_inputs(self) -> list[str]:
        """The inputs."""
        return read_typed_inputs(self.inputs.value)

    def read_checks(self, have: Iterable[Check]) -> dict[str, Check]:
        """The checks; of those there are, what cannot be typed stays.

        Raises
        ------
        ValueError
            If a line cannot be read.
        """
        return read_typed_checks(self.checks.value, _not_typed(have))

    def read_variants(self) -> list[str]:
        """The names of the ticked variants.

        Raises
        ------
        ValueError
            If there is none.
        """
        chosen = [name for name, box in self.ticks.items() if box.value]
        if not chosen:
            raise ValueError("No variant is ticked: add one, or tick one above.")
        return chosen

    def read_options(self) -> Options:
        """How to run."""
        return Options(self.concurrency.value, self.repeats.value, self.retry.value)

    # Drawing: on the toolkit's thread

    def draw_ticks(self, variants: Mapping[str, Variant], checks: Iterable[Check]) -> None:
        """A tick for each variant, and the checks that cannot be typed."""
        names = [check.name for check in _not_typed(checks)]
        self.others.value = f'<div class="ab-foot">From code: {plain(", ".join(names))}</div>' if names else ""
        if list(variants) == list(self.ticks) and self.tried.children:
            return
        for gone in set(self.ticks) - set(variants):
            self.ticks.pop(gone).close()
        self.ticks = {name: self.ticks.get(name) or tick(_told(each), True) for name, each in variants.items()}
        empty = self._parts.html('<div class="ab-foot">No variant yet: type a prompt and press “Add as variant”.</div>')
        before = self.tried.children
        self.tried.children = tuple(self.ticks.values()) or (empty,)
        for unused in set(before) - set(self.tried.children):
            unused.close()

    def draw_bar(self, plan: Plan | None, answers: Mapping[Key, Answer]) -> None:
        """How far `plan` has come; None while nothing is run."""
        show(self.bar, plan is not None)
        if plan is None:
            return
        cells = [key for variant in plan.variants for key in plan.cells(variant)]
        done = sum(key in answers and answers[key].status in ("answered", "failed") for key in cells)
        self.bar.max, self.bar.value = max(1, len(cells)), done


def _not_typed(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if html.typed_check(check) is None]


def _told(variant: Variant) -> str:
    said = " ".join((variant.system_prompt or ("the agent as it is" if not variant.configures else "")).split())
    whose = f" [{variant.agent}]" if variant.agent else ""
    return f"{variant.name}{whose}: {said if len(said) <= 70 else said[:69] + '…'}"

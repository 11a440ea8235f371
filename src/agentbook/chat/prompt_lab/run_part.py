"""Runs in the form: reads inputs and checks, starts a run, and shows its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...evaluation.plan import Plan
from .form_context import FormContext
from .form_model import count_text
from .run_form import RunForm
from .variant_list import VariantList

RUN = "run"  # the status line


class RunPart:
    """Inputs, Run and Stop.

    Parameters
    ----------
    context : FormContext
    variants : VariantList
    checks : Widget
        The widgets that add checks.
    on_end : callable
        Awaited after a run.

    Attributes
    ----------
    form : RunForm
    status : Widget
        The status line.
    """

    def __init__(
        self,
        context: FormContext,
        variants: VariantList,
        checks: Any,
        on_end: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._lab, self._model, self._task, self._on_end = context.lab, context.model, context.task, on_end
        later = context.later
        self._plan: Plan | None = None  # of the run started here
        self._progress = ""  # what the status line says about it
        self.status = context.status_line()
        self.form = RunForm(
            context.parts,
            variants,
            checks,
            later(self._ask_run),
            context.starter(self._run, RUN),
            later(self._task.stop),
            later(self._upload),
            self.status,
        )
        self.form.inputs.observe(later(self._show_rows), "value")
        self.form.prices.observe(later(self._price), "value")
        self.form.fill(*self._model.experiment_as_text())
        self.form.repeats.value = self._lab.experiment.repeats
        self.form.repeats.observe(later(self._keep_repeats), "value")

    @property
    def asking(self) -> bool:
        """Whether a run is in progress, started here or in code."""
        return self._plan is not None or self._model.asking

    # Drawing: on the toolkit's thread

    def draw(self, *, busy: bool) -> None:
        """Draw which buttons can be pressed, and the progress of the run."""
        if self._plan is None:
            self.form.draw_progress(None, busy=busy)
            return
        answered, failed, total = self._model.count(self._plan)
        self.form.draw_progress((answered + failed, total), busy=busy)
        if answered + failed and self._task.message(RUN) in ((self._progress, False), ("", False)):
            self._say_progress(self._model.under_way(self._plan))  # there is no pause to report

    def draw_choices(self) -> None:
        """Draw inputs and checks."""
        self.form.fill(*self._model.experiment_as_text())

    def replace(self) -> None:
        """Show the inputs and checks of the lab instead of what was typed."""
        self._model.forget_rows()
        self.form.fill(*self._model.experiment_as_text(), replace=True)
        self.form.repeats.value = self._lab.experiment.repeats
        self.form.draw_rows("")

    @property
    def present(self) -> str:
        """The existing replies, in words."""
        return self._model.progress

    # The buttons: on the toolkit's thread

    def _upload(self) -> None:
        file = self.form.read_upload()
        if file is not None:
            try:
                self._model.read_rows(*file)
            except ValueError as error:
                self.form.draw_rows(str(error), error=True)
            else:
                self._show_rows()

    def _show_rows(self) -> None:
        try:
            self.form.draw_rows(self._model.rows_note(self.form.inputs.value))
        except (ValueError, TypeError) as error:
            self.form.draw_rows(str(error), error=True)

    def _keep_repeats(self) -> None:
        self._lab.experiment.repeats = self.form.repeats.value

    def _price(self) -> None:
        if not self._task.busy:  # a run has read the prices and continues with them
            self._task.attempt(lambda: self._model.price(self.form.prices.value), RUN)

    def _ask_run(self) -> None:
        if not self._model.keeps_a_variant(self.form.read_variants()):
            self._task.start(self._run, RUN)
            return
        self.form.confirmation.ask(
            f"{self._lab.agent_name} has no version yet. A run commits the variants as versions, which the platform "
            "does not delete: afterwards it keeps the last one."
        )

    async def _run(self) -> None:
        plan = self._model.plan_from_text(*self.form.read())
        self._say_progress(self._model.beginning(plan))
        self._plan = plan
        try:
            await self._lab.run(plan, self._say)
        finally:
            self._plan = None
            await asyncio.shield(self._on_end())
        self._task.say(
            " ".join([count_text(*self._model.count(plan)), *self._lab.notes]), RUN, error=self._lab.unrestored
        )

    def _say_progress(self, text: str) -> None:
        self._progress = text
        if self._task.message(RUN) != (text, False):
            self._say(text)

    def _say(self, text: str) -> None:
        self._task.say(text, RUN)

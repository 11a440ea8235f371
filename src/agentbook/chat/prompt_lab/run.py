"""What to run in the form: inputs, checks and options; Run, Stop and the progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import FunctionType
from typing import Any

import ipywidgets as widgets

from ...evaluation.checks import parse_checks
from ...evaluation.inputs import format_inputs, parse_inputs, read_rows
from ...evaluation.run import Options, Plan
from ..widgets.parts import answer_while_busy, button, show
from .agent import JudgePart
from .form import Form, checkbox, field, in_thread, note, text_area, title
from .variants import VariantsPart

RUN = "run"  # the status line


class RunPart:
    """Inputs, checks and selected variants, Run and Stop.

    Parameters
    ----------
    form : Form
    variants : VariantsPart
    on_end : callable
        Awaited after a run.

    Attributes
    ----------
    widget : Widget
    inputs, checks, concurrency, repeats, retry, upload : Widget
        The fields.
    run, stop : Button
    bar : Widget
        The progress.
    rows, wrong : Widget
        What the rows are, and which line is not a check.
    running : Question
        Asked before a run that cannot restore the agent.
    judge : JudgePart
    """

    def __init__(self, form: Form, variants: VariantsPart, on_end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._form, self._lab, self._variants, self._on_end = form, form.lab, variants, on_end
        parts, later = form.parts, form.later
        self._plan: Plan | None = None  # of the run started here
        self._checking: asyncio.Task[None] | None = None
        self._progress = ""  # what the status line says about it
        self._table: Any = None  # the rows that fill names in braces
        self._of_table: list[str] = []  # the lab's inputs when the table came, and after each run of it
        self._filled: dict[Any, str] = {}  # the text of the lab that was last put into each box
        self.inputs = text_area("Test inputs, one per line", 6, "Type or paste, one input per line")
        auto = widgets.Layout(width="auto")
        self.upload = widgets.FileUpload(accept=".csv", description="Rows from CSV", layout=auto)
        self.upload.add_class("ab-upload")
        self.upload.tooltip = "Fill {{names}} in prompts and inputs from the columns of a CSV file"
        answer_while_busy(self.upload)
        self.rows, self.wrong = parts.html(), parts.html()
        self.checks = text_area(
            "Checks of the reply, one per line", 4, "for example:\nSource\nnot: sorry\nwords <= 80\nan id: /#\\d{4}/i"
        )
        self.judge = JudgePart(form, self._add_check)
        self.concurrency = field(widgets.BoundedIntText(4, min=1, max=64, description="Parallel requests"), "ab-number")
        repeats = widgets.BoundedIntText(self._lab.repeats, min=1, max=1000, description="Repeats")
        self.repeats = field(repeats, "ab-number")
        self.retry = checkbox("Retry failed questions", False)
        self.run = form.button("Run", "Ask what is not answered yet", self.ask, RUN, "ab-main")
        self.run.add_class("ab-run")
        self.stop = button("Stop", "ab-stop", "Stop listening; the replies so far are kept (Esc)", later(form.stop))
        self.bar = widgets.IntProgress(0, min=0, max=1, layout=auto)
        self.bar.add_class("ab-lab-bar")
        self.running = form.question("Run anyway", "The agent keeps the last variant", self._run, RUN)
        left = [parts.html(title("Test inputs")), parts.box([self.inputs, self.upload], "ab-composer"), self.rows]
        right = [parts.html(title("Variants to run")), variants.list, self.checks, self.wrong, self.judge.widget]
        runs = [self.concurrency, self.repeats, self.run, self.stop, self.retry, self.running.widget]
        body = [
            parts.row([parts.box(left, "ab-lab-side"), parts.box(right, "ab-lab-side")], "ab-lab-top"),
            parts.row(runs, "ab-lab-row"),
            self.bar,
            form.status_line(RUN, lambda: self.progress),
        ]
        self.widget = parts.box(body, "ab-lab-part", "ab-lab-run")
        self.draw_all()
        self.inputs.observe(later(self._draw_rows), "value")
        self.checks.observe(later(self._check), "value")
        self.upload.observe(later(self._upload), "value")
        self.repeats.observe(later(self._keep_repeats), "value")

    @property
    def asking(self) -> bool:
        """Whether a run is in progress, started here or in code."""
        return self._plan is not None or "asking" in self._all_statuses()

    @property
    def progress(self) -> str:
        """How many questions have an answer, in words; empty before the first run."""
        if (plan := self._plan) is not None:
            return _count_text(self._statuses(plan), len(plan.keys))
        statuses = self._all_statuses()
        return _count_text(statuses) if statuses else ""

    def _all_statuses(self) -> list[str]:
        return [answer.status for answer in list(self._lab.answered.values())]

    # Drawing: on the toolkit's thread

    def draw(self) -> None:
        """Draw which buttons can be pressed, and the progress of the run."""
        plan, busy = self._plan, self._form.busy
        self.run.disabled = busy
        show(self.stop, busy)
        show(self.bar, plan is not None)
        if plan is None:
            return
        statuses = self._statuses(plan)
        failed, total = statuses.count("failed"), len(plan.keys)
        done = statuses.count("answered") + failed
        self.bar.max, self.bar.value = max(1, total), done
        if done and self._form.message(RUN) in (self._progress, ""):  # there is no pause to report
            failures = f", {failed} failed" if failed else ""
            waiting = f"Waiting for {total - done} of {total} replies{failures}…"
            self._say_progress(waiting if done < total else self._judging() or "Ending the run…")

    def draw_all(self) -> None:
        """Show the inputs and checks of the lab, unless a person has typed others."""
        lab, replace = self._lab, self._form.replaced
        is_other = not self._form.busy and lab.inputs != self._of_table  # they were changed in code
        if self._table is not None and (replace or is_other):
            self._table = None
            self._draw_rows()
        texts = {self.checks: "\n".join(map(str, lab.checks.values()))}
        if self._table is None:  # else the box holds what the rows fill
            texts[self.inputs] = format_inputs(lab.inputs)
        for box, text in texts.items():
            filled = self._filled.get(box, "")
            self._filled[box] = text
            if replace or text != filled == box.value:
                box.value = text
        if replace:
            self.repeats.value = lab.repeats

    def _draw_rows(self) -> None:
        """Say what the rows are, with the first message as it will go out."""
        if self._table is None:
            self.rows.value = ""
            return
        try:
            filled = self._lab.input_set.fill(parse_inputs(self.inputs.value) or None, self._table, [])
        except (ValueError, TypeError) as error:
            self.rows.value = note(str(error), error=True)
        else:
            columns, first = ", ".join(filled[0].row), filled[0].message
            inputs = f"{len(filled)} input{'s' if len(filled) != 1 else ''}"
            self.rows.value = note(f"{inputs} from rows (columns: {columns}). The first message: “{first}”")

    # The fields and buttons: on the toolkit's thread

    def _upload(self) -> None:
        if not self.upload.value:
            return
        file = self.upload.value[0]
        try:
            text = TextIOWrapper(BytesIO(bytes(file["content"])), "utf-8-sig", newline="")
            table = [row for _, row in read_rows(Path(file["name"]), text)]
            if not table:
                raise ValueError(f"{file['name']} has no rows below its first line, which names the columns.")
        except ValueError as error:
            self.rows.value = note(str(error), error=True)
        else:
            self._table, self._of_table = table, list(self._lab.inputs)
            self._draw_rows()

    def _check(self) -> None:
        """Apply the checks to the existing replies, or say which line is wrong."""
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._apply_checks())

    async def _apply_checks(self) -> None:
        """Apply them on another thread: patterns and functions may take long."""
        try:
            while (checks := self._parse_checks()) != self._lab.checks and not self._form.busy:
                await in_thread(self._lab.check, checks)
        except (ValueError, TypeError) as error:
            self.wrong.value = note(str(error), error=True)
        else:
            self.wrong.value = ""
        finally:
            self._checking = None

    def _parse_checks(self) -> Any:
        lab = self._lab
        return parse_checks(self.checks.value, lab.checks.values(), notebook_functions(), lab.default_judge)

    def _add_check(self, line: str) -> None:
        self.checks.value = "\n".join(filter(None, [self.checks.value.rstrip(), line]))

    def _keep_repeats(self) -> None:
        self._lab.repeats = self.repeats.value

    def ask(self) -> str:
        """Start a run, or ask first if the agent could not get back.

        The platform does not delete versions: an agent without one keeps a variant.
        """
        lab, configurator = self._lab, self._lab.configurator
        chosen = [lab.variants[name] for name, box in self._variants.ticks.items() if box.value]
        own = any(variant.configures and variant.agent in (None, lab.agent) for variant in chosen)
        self.running.ask(
            f"{lab.agent_name} has no version yet. A run commits the variants as versions, which the platform "
            "does not delete; afterwards, the agent keeps the last one.",
            needed=own and not lab.drafts and configurator is not None and configurator.versions == [],
        )
        return ""

    async def _run(self) -> None:
        plan = await in_thread(self._lab.plan, *self._read())
        self._of_table = list(self._lab.inputs)
        missing = len(plan.missing(self._lab.answered))
        asking = f"Asking {missing} question{'s' if missing != 1 else ''}…"
        self._say_progress(asking if missing else self._judging() or "All questions are answered.")
        self._plan = plan
        try:
            await self._lab.ask(plan, self._say)
        finally:
            self._plan = None
            await asyncio.shield(self._on_end())
        text = " ".join([_count_text(self._statuses(plan), len(plan.keys)), *self._lab.notes])
        self._form.say(text, RUN, error=self._lab.unrestored)

    def _read(self) -> tuple[Any, ...]:
        """The plan in the fields, as the arguments of `Lab.plan`.

        Raises
        ------
        ValueError
            If a field cannot be read.
        """
        lab, table, variants = self._lab, self._table, self._variants.chosen
        templates = parse_inputs(self.inputs.value, lab.inputs)
        if table is None:
            lab.inputs = templates
        parsed = self._parse_checks()
        options = Options(self.concurrency.value, self.repeats.value, self.retry.value)
        inputs = None if table is None else templates or None
        return inputs, variants, None if parsed == lab.checks else parsed, options, table

    def _statuses(self, plan: Plan) -> list[str]:
        answers = self._lab.answered
        return [answers[key].status for key in plan.keys if key in answers]

    def _judging(self) -> str:
        """How far the judges are, in words; empty if none is asked."""
        names = [name for name, check in self._lab.all_checks.items() if check.judges]
        answers = [answer for answer in list(self._lab.answered.values()) if answer.reply is not None]
        grades = [answer.verdicts.get(name) for answer in answers for name in names]
        open_ = sum(grade is not None and grade.error is not None for grade in grades)
        undecided = f", {open_} undecided" if open_ else ""
        judged = sum(grade is not None for grade in grades)
        return f"Asking the judge: {judged} of {len(grades)} verdicts{undecided}…" if grades else ""

    def _say_progress(self, text: str) -> None:
        self._progress = text
        if self._form.message(RUN) != text:
            self._say(text)

    def _say(self, text: str) -> None:
        self._form.say(text, RUN)


def _count_text(statuses: list[str], total: int | None = None) -> str:
    """How many questions have an answer, in words."""
    answered, failed = statuses.count("answered"), statuses.count("failed")
    failures = f", {failed} failed" if failed else ""
    return f"{answered} of {len(statuses) if total is None else total} answered{failures}."


def notebook_functions() -> dict[str, Callable[..., Any]]:
    """The functions that the notebook's cells define, by name."""
    import __main__

    names = vars(__main__)
    return {
        name: each
        for name, each in list(names.items())
        if isinstance(each, FunctionType) and each.__module__ == "__main__" and not name.startswith("_")
    }

"""The form of a prompt lab in a cell, made of plain ipywidgets and live during a run.

As in the chat panel, one daemon thread of the toolkit makes every widget update after
construction, and changes are drawn together a few times a second. Clicks may arrive on
any thread, so their handlers only hand work over to that thread. The fields and tables
are in `variant_form` and `run_form`; this module says what the buttons do. It reaches
the lab through its `LabController`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import ipywidgets as widgets

from ...api.errors import AgentbookError
from ...events import loop
from ..html.sanitize import plain
from ..html.static_transcript import StaticTranscript, show_bundle
from ..html.style import live_style
from ..model.user_errors import explain
from ..widgets.parts import Parts, close_all, show
from ..widgets.throttle import Throttle
from . import html
from .controller import LabController
from .run_form import ResultsView, RunForm
from .variant_form import PromptChooser, VariantForm

APPLIED = "applied in the prompt lab"  # summary of a version whose variant has no name
FORM, RUN, FILE = "form", "run", "file"  # the status lines


class LabView(widgets.VBox):  # type: ignore[misc]
    """The form: variant, versions, inputs, checks, Run and Stop, results, a file."""

    def __init__(self, lab: LabController) -> None:
        self.lab = lab
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._static = StaticTranscript(self._uid, html.static_html)
        self._throttle = Throttle(self._draw)
        self._task: asyncio.Task[None] | None = None
        self._task_line = FORM
        self._count: Callable[[], tuple[int, int, int]] | None = None  # of the run started here
        # The text of each status line, and whether it is an error.
        self._messages = {FORM: ("Type a prompt, or start from a version.", False), RUN: ("", False), FILE: ("", False)}
        self._changed: set[str] | None = None  # inputs whose row is to be drawn; None for all
        # What code has run or applied since the chart was drawn and the versions were
        # read.
        self._outdated, self._configurations = False, lab.configurations
        self._refreshing: asyncio.Task[None] | None = None
        self._closing = False
        super().__init__(self._make(), layout=widgets.Layout(width="100%", max_width="1200px"))
        self.add_class("ab-chat")
        self.add_class("ab-lab")
        self._draw()
        self._end_listening = lab.experiment.listen(lambda answer: self._hand_over(self._on_change, answer))
        loop.submit(self._open())

    def _make(self) -> list[Any]:
        parts = Parts()
        self.head = parts.html("", "ab-head")
        self.status = {line: parts.html("", "ab-lab-status") for line in (FORM, RUN, FILE)}
        self.form = VariantForm(parts, self._on_add, self._on_apply, self.status[FORM])
        self.prompts = PromptChooser(parts, self._on_use, self._on_compare)
        self.form.prompt.observe(self._on_compare, "value")
        self.run_form = RunForm(parts, self._on_run, self._on_stop, self.status[RUN])
        self.run_form.fill(*self.lab.experiment_as_text())
        self.results = ResultsView(parts, self._on_save, self.status[FILE])
        top = parts.row([self.form.widget, self.prompts.widget], "ab-lab-part", "ab-lab-top")
        styles = parts.html(live_style(self._uid) + html.LIVE_STYLE)
        return [styles, self.head, top, self.run_form.widget, self.results.widget]

    # Clicks: on any thread

    def _hand_over(self, work: Callable[..., Any], *arguments: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *arguments)

    def _on_add(self) -> None:
        self._hand_over(self._add)

    def _on_apply(self) -> None:
        self._hand_over(self._start, self._apply, FORM)

    def _on_use(self) -> None:
        self._hand_over(self._use, self.prompts.start.value)

    def _on_run(self) -> None:
        self._hand_over(self._start, self._run, RUN)

    def _on_stop(self) -> None:
        self._hand_over(self._stop)

    def _on_save(self) -> None:
        self._hand_over(self._start, self._save, FILE)

    def _on_compare(self, _change: Any) -> None:
        self._hand_over(self._throttle.note)

    # Work: on the toolkit's thread

    def _on_change(self, answer: Any) -> None:
        self._outdated = True
        if answer is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.add(answer.input)
        self._throttle.note()

    def _draw_all(self) -> None:
        self._changed = None
        self._throttle.note()

    def _say(self, text: str, line: str = RUN, *, error: bool = False) -> None:
        self._messages[line] = (text, error)
        self._throttle.note()

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]], line: str) -> None:
        """Start `work` unless something is running. A status line shows errors."""
        # A second click may be on its way before the first has disabled the button.
        if self._task is None and not self._closing:
            self._task_line = line
            self._task = asyncio.get_running_loop().create_task(self._report(work(), line))
            self._throttle.note()

    async def _report(self, work: Coroutine[Any, Any, None], line: str) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._say("Stopped. The replies so far are kept; Run continues, and first looks for late replies.", line)
        except AgentbookError as error:
            self._say(explain(error).text, line, error=True)
        except (ValueError, TypeError, OSError, ImportError) as error:
            self._say(str(error), line, error=True)
        finally:
            self._task = None
            self._draw_all()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _open(self) -> None:
        """Read the agent and its versions, and fill the form with its configuration."""
        if self.lab.agent is None:
            return
        try:
            await self._read_versions()
        except AgentbookError as error:
            self._say(explain(error).text, FORM, error=True)
        else:
            current = self.lab.current
            if current is not None and not self.form.prompt.value:
                self.form.fill(self.lab.settings_as_text(current))
                self._say(f"The form shows the agent's current version {current.label}.", FORM)
        if self.lab.experiment.answers_by_key:
            await self._draw_chart()
        else:
            self._draw_all()

    def _refresh(self) -> None:
        """Show what was done in code."""
        if self._outdated and self._refreshing is None and not self._closing:
            self._outdated = False
            self._refreshing = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            if self.lab.experiment.answers_by_key or self.results.chart:
                await self._draw_chart()
            if self._configurations != self.lab.configurations and self.lab.agent is not None:
                await self._read_versions()
        except AgentbookError as error:
            self._say(explain(error).text, FORM, error=True)
        finally:
            self._refreshing = None
            self._throttle.note()

    async def _read_versions(self) -> None:
        self._configurations = self.lab.configurations
        await self.lab.read_agent()
        self._draw_all()

    def _add(self) -> None:
        try:
            variant = self.lab.experiment.add_variant(self.lab.parse_variant(self.form.read()))
        except (ValueError, TypeError) as error:
            self._say(str(error), FORM, error=True)
            return
        self.form.name.value = ""
        self._say(f"Added the variant “{variant.name}”. Run it below.", FORM)

    def _use(self, label: str) -> None:
        configuration = self.lab.configurations_by_label().get(label)
        if configuration is not None:
            self.form.fill(self.lab.settings_as_text(configuration))
            self._say(f"The form shows {label}.", FORM)

    async def _apply(self) -> None:
        variant = self.lab.parse_variant(self.form.read(), APPLIED)
        self._say("Applying…", FORM)
        version = await self.lab.apply(variant, notify=lambda text: self._say(text, FORM))
        await self._read_versions()
        self.form.version.value = ""
        self._say(f"Applied: the agent now runs on version {version.label}.", FORM)

    async def _run(self) -> None:
        form = self.run_form
        plan = self.lab.plan_from_text(form.inputs.value, form.checks.value, form.read_variants(), form.read_options())
        missing = len(plan.all_missing(self.lab.experiment.answers_by_key))
        self._say(
            f"Asking {missing} question{'s' if missing != 1 else ''}…" if missing else "All questions are answered."
        )
        self._count = lambda: self.lab.count(plan)
        try:
            await self.lab.run(plan, self._say)
        finally:
            self._count = None
            await asyncio.shield(self._finish_run())
        answered, failed, total = self.lab.count(plan)
        text = f"{answered} of {total} answered" + (f", {failed} failed." if failed else ".")
        self._say(" ".join([text, *self.lab.notes]), error=bool(self.lab.notes))

    async def _finish_run(self) -> None:
        await self._draw_chart()
        if self.lab.agent is not None:
            await self._read_versions()
        self._outdated = False

    async def _draw_chart(self) -> None:
        try:
            # Drawing takes time: it must not block the thread that everything else
            # waits for.
            chart = await asyncio.to_thread(self.lab.experiment.chart)
            self.results.chart = f'<div class="ab-picture">{await asyncio.to_thread(chart.html)}</div>'
        except ValueError:  # there is no reply yet
            self.results.chart = ""
        except ImportError as error:
            self.results.chart = f'<div class="ab-foot">{plain(str(error))}</div>'
        self._draw_all()

    async def _save(self) -> None:
        name = self.results.path.value.strip() or "prompt-lab.json"
        path = await asyncio.to_thread(self.lab.save, name)
        self._say(f"Saved to {path}.", FILE)

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        lab, busy = self.lab, self._task is not None
        agent, workspace = plain(lab.agent or "several agents"), plain(lab.workspace or "no workspace")
        session = f'<span class="ab-session">{agent} in {workspace}</span>'
        self.head.value = f'<div class="ab-title"><span class="ab-name">Prompt lab</span>{session}</div>'
        for line, widget in self.status.items():
            widget.value = _status_line(*self._messages[line], busy=busy and line == self._task_line)
        for button in (self.run_form.run, self.form.apply, self.results.save):
            button.disabled = busy
        self.form.apply.disabled = busy or lab.agent is None
        show(self.run_form.stop, busy)
        self._draw_bar()
        changed, self._changed = self._changed, set()
        if changed is None:
            self._draw_choices()
        self.prompts.draw_diff(self.form.prompt.value)
        self._draw_results(changed, busy)

    def _draw_bar(self) -> None:
        if self._count is None:
            self.run_form.draw_bar(None)
        else:
            answered, failed, total = self._count()
            self.run_form.draw_bar((answered + failed, total))

    def _draw_choices(self) -> None:
        lab = self.lab
        configurations = lab.configurations_by_label()
        prompts = {label: configuration.system_prompt or "" for label, configuration in configurations.items()}
        current = next((label for label, each in configurations.items() if each == lab.current), "")
        self.prompts.draw_choices(html.history(lab.configurator, lab.agent), prompts, current)
        self.run_form.fill(*lab.experiment_as_text())
        self.run_form.draw_ticks(lab.variant_labels(), lab.other_checks)

    def _draw_results(self, changed: set[str] | None, busy: bool) -> None:
        experiment = self.lab.experiment
        answers = experiment.answers
        # During a run, started here or in code, the summary and the static transcript
        # wait for its end: they need all answers.
        asking = self._count is not None or any(answer.status == "asking" for answer in answers)
        if (changed is None or changed) and not asking:
            self.results.draw_summary(html.summary(experiment))
        groups = html.by_variant_and_input(answers)
        checks = list(experiment.checks)
        self.results.draw_rows(
            list(dict.fromkeys(answer.input for answer in answers)),
            changed,
            lambda text: html.result(text, experiment.variants, groups, checks),
        )
        if not busy and not asking:
            self._static.update(self.lab, self.results.chart)
            self._refresh()

    # Showing

    def display(self) -> None:
        """Show the form in the running cell, with its static transcript."""
        show_bundle(self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)})
        self._static.show(self.lab, self.results.chart)

    def flush(self) -> None:
        """Draw now: a notebook that is executed and saved may end with this cell."""
        loop.run(self._flush())

    async def _flush(self) -> None:
        self._throttle.flush()

    def close(self) -> None:
        """Stop what is running and remove the form from the page."""
        if self.comm is None or self._closing:
            return
        self._closing = True
        self._end_listening()
        if not loop.is_over():
            self._hand_over(self._stop)
            self._hand_over(self._throttle.end)
        for child in self.children:
            close_all(child)
        super().close()

    def __repr__(self) -> str:
        return repr(self.lab)


def _status_line(text: str, error: bool, *, busy: bool) -> str:
    dot = '<span class="ab-dot"></span>' if busy else ""
    body = f'<div class="ab-failed">{plain(text)}</div>' if error else f"<span>{plain(text)}</span>"
    return f'<div class="ab-statusline">{dot}{body}</div>'

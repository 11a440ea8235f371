"""The form of a prompt lab in a cell, made of plain ipywidgets and live during a run.

As in the chat panel, the toolkit's daemon thread makes every widget update after
construction, and changes are drawn together a few times a second. Clicks may arrive on
any thread, so their handlers only hand work over to that thread. The handling of the
buttons is in the parts: `agent_part`, `variants_part`, `checks_part`, `run_part`,
`results_part` and `runs_part`. They reach the lab through its `LabController`.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import ipywidgets as widgets

from ..._text import safe_repr
from ...api.errors import AgentbookError
from ...events import loop
from ..html.sanitize import plain
from ..html.static_transcript import show_live
from ..html.style import live_style
from ..model.start_check import start_errors
from ..model.user_errors import UserError, explain
from ..widgets.parts import Parts, close_all, show
from ..widgets.throttle import Throttle
from . import html
from .agent_part import AGENT, AgentPart
from .checks_part import CHECKS, ChecksPart
from .controller import LabController
from .form_context import FormContext
from .form_model import FormModel
from .form_module import FormModule
from .form_task import FormTask
from .results_part import ResultsPart
from .run_part import RUN, RunPart
from .runs_part import RUNS, RunsPart
from .variants_part import FORM, VariantsPart


class LabView(widgets.VBox):  # type: ignore[misc]
    """The form: variants, inputs, checks, Run and Stop, results, earlier runs.

    Attributes
    ----------
    status : dict of str to Widget
        The status lines.
    """

    def __init__(self, lab: LabController) -> None:
        self.lab = lab
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._throttle = Throttle(self._draw)
        self._model, self._task = FormModel(lab), FormTask(FORM, self._throttle.note, self._draw_all)
        self._context = FormContext(lab, self._model, self._task, Parts())
        self._all_changed = True
        # The count of runs and applies when the versions were last read.
        self._configurations = lab.configurations
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        super().__init__(self._make(), layout=widgets.Layout(width="100%", max_width="1200px"))
        self.add_class("ab-chat")
        self.add_class("ab-lab")
        self._draw_form()
        self._end_listening = lab.experiment.listen(self._hear)
        loop.submit(self._open())

    def _make(self) -> list[Any]:
        context, parts = self._context, self._context.parts
        self.head, self.guide = parts.html("", "ab-head"), parts.html("", "ab-lab-guide")
        self._agent = AgentPart(context, self._open_agent)
        self._variants = VariantsPart(context, self._throttle.note, self._read_versions)
        self._checks = ChecksPart(context, lambda: self.run_form.checks.value, self._add_check)
        self._run = RunPart(context, self._variants.list, self._checks.form.widget, self._finish_run)
        self._results = ResultsPart(context, self._uid, self._read_versions, self._run.replace)
        self._runs = RunsPart(context, self._run.replace)
        self.agent_form = self._agent.form
        self.form, self.prompts, self.variants = self._variants.form, self._variants.prompts, self._variants.list
        self.check_form, self.run_form = self._checks.form, self._run.form
        self.results, self.runs = self._results.view, self._runs.view
        self.status = {
            AGENT: self._agent.status,
            FORM: self._variants.status,
            CHECKS: self._checks.status,
            RUN: self._run.status,
            RUNS: self._runs.status,
            **self._results.status,
        }
        styles = parts.html(live_style(self._uid) + html.STYLE)
        sections = [self.agent_form.widget, self._variants.widget, self.run_form.widget]
        sections += [self.results.widget, self.runs.widget]
        return [styles, FormModule(), self.head, self.guide, *sections]

    def _add_check(self, line: str) -> None:
        self.run_form.add_check(line)

    def _hear(self, answer: Any) -> None:
        loop.get_loop().call_soon_threadsafe(self._on_change, answer)

    # Work: on the toolkit's thread

    def _on_change(self, answer: Any) -> None:
        if answer is None:
            self._all_changed = True
            self._task.forget(RUN)  # what it says about the replies may be outdated
        self._results.change(answer)
        self._throttle.note()

    def _draw_all(self) -> None:
        self._all_changed = True
        self._throttle.note()

    async def _open(self) -> None:
        """Read the agent, its versions and the earlier runs, and fill the form."""
        self._draw_all()
        self._runs.read()
        errors = await self._start_errors()
        try:
            await (self._agent.open() if self.lab.agent is None else self._open_agent())
        except AgentbookError as error:
            errors = errors or [explain(error)]
            self._variants.unread = True
            self._draw_all()
        if errors:
            line = AGENT if self._agent.is_missing else FORM
            self._task.say(" ".join(error.text for error in errors), line, error=True)

    async def _start_errors(self) -> list[UserError]:
        """Why the lab's sessions cannot start, as far as that can be told now."""
        lab = self.lab
        agents = dict.fromkeys([lab.agent, *(variant.agent for variant in lab.experiment.variants.values())])
        return await start_errors(lab.client, lab.workspace, filter(None, agents))

    async def _open_agent(self) -> None:
        await self._read_versions()
        await self._variants.open()
        self._checks.offer_agents(await self._model.agent_names())

    async def _read_versions(self) -> None:
        self._configurations = self.lab.configurations
        await self.lab.read_agent()
        self._draw_all()

    async def _read_again(self) -> None:
        """Read the versions and the runs after code has run or applied something."""
        self._runs.read()
        try:
            await self._read_versions()
        except AgentbookError as error:
            self._task.say(explain(error).text, FORM, error=True)
        finally:
            self._reading = None
            self._throttle.note()

    async def _finish_run(self) -> None:
        self._runs.read()
        await self._results.redraw()
        if self.lab.agent is not None:
            await self._read_versions()

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        self._draw_form()
        busy = self._task.busy
        # During a run, started here or in code, anything that needs all answers waits
        # until it ends.
        asking = self._run.asking
        self._results.draw(busy=busy, asking=asking)
        outdated = self._configurations != self.lab.configurations and self.lab.agent is not None
        if outdated and not busy and not asking and self._reading is None and not self._closing:
            self._reading = asyncio.get_running_loop().create_task(self._read_again())

    def _draw_form(self) -> None:
        lab, busy = self.lab, self._task.busy
        agent = lab.agent_name or ("no agent yet" if self._agent.is_missing else "several agents")
        where = f"{agent} in {lab.workspace_name}" if lab.workspace_name else agent
        session = f'<span class="ab-session">{plain(where)}</span>'
        self.head.value = f'<div class="ab-title"><span class="ab-name">Prompt lab</span>{session}</div>'
        present = {FORM: self._variants.present, RUN: self._run.present}
        for line, widget in self.status.items():
            text, error = self._task.message(line) or ("", False)
            text, working = text or present.get(line, ""), busy and line == self._task.line
            widget.value = _status_line(text, error, busy=working)
            show(widget, bool(text) or working)  # an empty line would leave a gap
        if self._all_changed:
            self._all_changed = False
            self._draw_choices()
        self._agent.draw(busy=busy)
        self._variants.draw(busy=busy)
        self._run.draw(busy=busy)
        self._runs.draw(busy=busy)

    def _draw_choices(self) -> None:
        self.guide.value = html.guide(self._model.steps())
        self._variants.draw_choices()
        self._checks.draw()
        self._run.draw_choices()

    # Showing

    def display(self) -> None:
        """Show the form in the running cell, with its static transcript."""
        show_live(self)
        self._results.show_static()

    def flush(self) -> None:
        """Draw now: a notebook that is executed and saved may end with this cell."""
        loop.run(self._flush())

    async def _flush(self) -> None:
        if not self._task.busy:
            await self._results.redraw()
            if self._reading is not None:
                await self._reading
        self._throttle.flush()

    def close(self) -> None:
        """Stop what is running and remove the form from the page."""
        if self.comm is None or self._closing:
            return
        self._closing = True
        self._end_listening()
        if not loop.is_over():
            self._context.later(self._results.end)()
            self._context.later(self._task.end)()
            self._context.later(self._throttle.end)()
        for child in self.children:
            close_all(child)
        super().close()

    @safe_repr
    def __repr__(self) -> str:
        return repr(self.lab)


def _status_line(text: str, error: bool, *, busy: bool) -> str:
    dot = '<span class="ab-dot"></span>' if busy else ""
    body = f'<div class="ab-failed">{plain(text)}</div>' if error else f"<span>{plain(text)}</span>"
    return f'<div class="ab-statusline">{dot}{body}</div>'

"""The form of a prompt lab in a cell, made of plain ipywidgets and live during a run.

As in the chat panel, the toolkit's daemon thread makes every widget update after
construction, and changes are drawn together a few times a second.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import ipywidgets as widgets

from ..._text import safe_repr
from ...api.errors import AgentbookError
from ...evaluation.platform import model_names
from ...events import loop
from ..html.sanitize import escape
from ..html.static_transcript import show_live
from ..html.style import live_class, live_style
from ..model.start import start_errors
from ..model.user_errors import explain
from ..widgets.parts import close_all
from ..widgets.throttle import Throttle
from .better import BetterPart
from .form import Form, FormAccessibility, title
from .lab import AgentLab
from .results import STYLE, WINNER, ResultsPart
from .run import RUN, RunPart
from .variants import FORM, VariantsPart

MAX_AGENTS = 50  # offered as judges


class LabView(widgets.VBox):  # type: ignore[misc]
    """The form of a `PromptLab`: variants, inputs, checks, Run and Stop, results.

    Attributes
    ----------
    lab : Lab
    form : Form
    head, guide : Widget
    variants : VariantsPart
    run : RunPart
    results : ResultsPart
    better : BetterPart
    """

    def __init__(self, prompt_lab: Any) -> None:
        lab: AgentLab = prompt_lab._lab
        self.lab = lab
        self._throttle = Throttle(self._draw)
        self.form = form = Form(lab, self._throttle.request_draw)
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        uid = f"ap-{uuid.uuid4().hex[:12]}"
        self.head, self.guide = form.parts.html("", "ab-headline"), form.parts.html("", "ab-lab-guide")
        self.variants = VariantsPart(form, lambda: self.run.ask())
        self.run = RunPart(form, self.variants, self._end_run)
        self.results = ResultsPart(form, uid)
        self.better = BetterPart(form)
        sections = [part.widget for part in (self.variants, self.run, self.results, self.better)]
        style = form.parts.html(live_style(uid) + STYLE)
        head = form.parts.row([self.head, self.results.files], "ab-head")
        super().__init__(
            [style, FormAccessibility(), head, self.guide, *sections],
            layout=widgets.Layout(width="100%", max_width="1200px"),
        )
        for name in ("ab-chat", "ab-module", "ab-lab", live_class(uid)):
            self.add_class(name)
        self._draw_form()
        self._end_listening = lab.listen(self._forward)
        loop.submit(self._open())

    def _forward(self, answer: Any) -> None:
        loop.get_loop().call_soon_threadsafe(self._on_change, answer)

    # Work: on the toolkit's thread

    def _on_change(self, answer: Any) -> None:
        if answer is None:
            self.form.outdated = True
            self.form.forget(RUN)  # what it says about the replies may be outdated
        self.results.change(answer)
        self.form.redraw()

    async def _open(self) -> None:
        """Read the agent and its versions, and fill the form."""
        lab = self.lab
        self.form.redraw_all()
        agents = dict.fromkeys([lab.agent, *(variant.agent for variant in lab.variants.values())])
        errors = await start_errors(lab.client, lab.workspace, filter(None, agents))
        try:
            if lab.agent is not None:
                await self.form.read_versions()
            models = await model_names(lab.client)
            self.variants.open(models)
            records = [record async for record in lab.client.agents.list(limit=MAX_AGENTS)]
            names = [str(each.get("full_name") or each["id"]) for each in records]
            self.run.judge.offer(names, models)
            self.better.offer(names, models)
        except AgentbookError as error:
            errors = errors or [explain(error)]
            self.variants.versions.unread = True
            self.form.redraw_all()
        if errors:
            self.form.say(" ".join(error.text for error in errors), FORM, error=True)

    async def _end_run(self) -> None:
        await self.results.redraw()
        if self.lab.agent is not None:
            await self.form.read_versions()

    async def _read_again(self) -> None:
        """Read the versions after code has run or applied something."""
        self.form.forget(WINNER)
        try:
            await self.form.read_versions()
        except AgentbookError as error:
            self.form.say(explain(error).text, FORM, error=True)
        finally:
            self._reading = None
            self.form.redraw()

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        self._draw_form()
        # During a run, started here or in code, anything that needs all answers waits
        # until it ends.
        asking = self.run.asking
        self.results.draw(asking=asking)
        outdated = self.form.configurations != self.lab.configurations and self.lab.agent is not None
        if outdated and not (self.form.busy or asking or self._reading or self._closing):
            self._reading = asyncio.get_running_loop().create_task(self._read_again())

    def _draw_form(self) -> None:
        lab, form = self.lab, self.form
        has_agents = any(variant.agent for variant in lab.variants.values())
        agent = lab.agent_name or ("several agents" if has_agents else "no agent yet")
        where = f"{agent} in {lab.workspace_name}" if lab.workspace_name else agent
        session = f'<span class="ab-session">{escape(where)}</span>'
        self.head.value = f'<div class="ab-title"><span class="ab-name">Prompt lab</span>{session}</div>'
        form.draw_status()
        if form.outdated:
            form.outdated = False
            self.guide.value = _guide(lab)
            self.variants.draw_all()
            self.run.draw_all()
            form.replaced = False
        broken = "" if lab.regressions is None or lab.regressions.empty else f", {len(lab.regressions)} broken"
        count = self.run.progress.replace(" answered", "").removesuffix(".")
        self.better.draw()
        self.variants.draw(f"Results: {count}{broken}" if count else "")
        self.run.draw()

    # Showing

    def display(self) -> None:
        """Show the form in the running cell, with its static transcript."""
        show_live(self)
        self.results.show_static()

    def flush(self) -> None:
        """Draw now: a notebook that is executed and saved may end with this cell."""
        loop.run(self._flush())

    async def _flush(self) -> None:
        with self.results.static.published_here():
            if not self.form.busy:
                await self.results.redraw()
                if self._reading is not None:
                    await self._reading
            self._throttle.flush()

    def close(self) -> None:
        """Stop what is running and remove the form from the page."""
        if self.comm is None or self._closing:
            return
        self._closing = True
        self._end_listening()
        if not loop.interpreter_is_finalizing():
            for end in (self.results.end, self.form.end, self._throttle.end):
                self.form.later(end)()
        for child in self.children:
            close_all(child)
        super().close()

    @safe_repr
    def __repr__(self) -> str:
        return repr(self.lab)


def _guide(lab: AgentLab) -> str:
    """The first steps in a lab as safe HTML; empty once all are done."""
    steps = {
        "Write a prompt and press “Add as variant”. Add a second one to compare it with.": lab.variants,
        "Type or paste test inputs, one per line, and what a good reply must contain.": lab.inputs,
        "Press “Run”, read the replies side by side, and apply the winner.": lab.answered,
    }
    if all(steps.values()):
        return ""
    items = "".join(
        f"<li{' class=ab-done' if done else ''}>{escape(text)}"
        f"{'<span class=ab-unseen> Done.</span>' if done else ''}</li>"
        for text, done in steps.items()
    )
    return f"{title('Three steps')}<ol>{items}</ol>"

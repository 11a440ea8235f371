"""The lab as a form in a cell, live while the kernel works: drawn with plain ipywidgets over a `PromptLab`.

As in the chat panel, the toolkit's one daemon thread makes every widget write after construction, changes are drawn together
some times a second, and clicks only hand over. What stands where is in `form`, `prompts`, `run_form` and `replies`; here is
what happens when something is pressed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from ...api.errors import AgentbookError
from ...events import loop
from ..html.render import plain
from ..html.static_transcript import StaticTranscript, show_bundle
from ..html.style import live_style
from ..model.user_errors import explain
from ..widgets.throttle import Throttle
from ..widgets.view import Parts, close_all, show
from . import html as looks
from .answers import Answer
from .configurator import AgentConfigurator
from .form import VariantForm
from .prompts import Prompts
from .results import Replies
from .run import Plan
from .run_form import RunForm
from .style import STYLE

if TYPE_CHECKING:
    from .prompt_lab import PromptLab

APPLIED = "applied in the prompt lab"  # what a version is said to change where the form has no name
FORM, RUN, FILE = "form", "run", "file"


class LabView(widgets.VBox):  # type: ignore[misc]
    """The form of a `PromptLab`: prompt and Apply, versions and their difference, inputs, Run and Stop, results, a file."""

    def __init__(self, lab: PromptLab) -> None:
        self.lab = lab
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._twin = StaticTranscript(self._uid, looks.static_html)
        self._pace = Throttle(self._draw)
        self._running: asyncio.Task[None] | None = None
        self._place = FORM
        self._plan: Plan | None = None
        # What is said, and whether it is bad news, where the button was pressed that it is about.
        self._said = {FORM: ("Type a prompt, or start from a version.", False), RUN: ("", False), FILE: ("", False)}
        self._changed: set[str] | None = None  # inputs whose row is to be drawn; None for all
        # What was run or applied in code since the chart was drawn and the versions were read.
        self._behind, self._configured = False, lab._configured
        self._catching_up: asyncio.Task[None] | None = None
        self._ended = False
        super().__init__(self._make(), layout=widgets.Layout(width="100%", max_width="1200px"))
        self.add_class("ab-chat")
        self.add_class("ab-lab")
        self._draw()
        self._unlisten = lab.listen(self._heard)
        loop.submit(self._begin())

    def _make(self) -> list[Any]:
        parts = Parts()
        self.head = parts.html("", "ab-head")
        self.status = {place: parts.html("", "ab-lab-status") for place in (FORM, RUN, FILE)}
        self.form = VariantForm(parts, self._add_clicked, self._apply_clicked, self.status[FORM])
        self.prompts = Prompts(parts, self._use_clicked, self._compared)
        self.form.prompt.observe(self._compared, "value")
        self.trial = RunForm(parts, self._run_clicked, self._stop_clicked, self.status[RUN])
        self.trial.fill(self.lab.inputs, self.lab.checks.values())
        self.replies = Replies(parts, self._save_clicked, self.status[FILE])
        top = parts.row([self.form.widget, self.prompts.widget], "ab-lab-part", "ab-lab-top")
        styles = parts.html(live_style(self._uid) + STYLE)
        return [styles, self.head, top, self.trial.widget, self.replies.widget]

    # Clicks: on any thread, so they read what was typed and hand over

    def _hand_over(self, work: Callable[..., Any], *given: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *given)

    def _add_clicked(self) -> None:
        self._hand_over(self._add)

    def _apply_clicked(self) -> None:
        self._hand_over(self._start, self._apply, FORM)

    def _use_clicked(self) -> None:
        self._hand_over(self._use, self.prompts.start.value)

    def _run_clicked(self) -> None:
        self._hand_over(self._start, self._run, RUN)

    def _stop_clicked(self) -> None:
        self._hand_over(self._stop)

    def _save_clicked(self) -> None:
        self._hand_over(self._start, self._save, FILE)

    def _compared(self, _change: Any) -> None:
        self._hand_over(self._pace.note)

    def _heard(self, answer: Answer | None) -> None:
        self._hand_over(self._fall_behind, answer)

    # Work: on the toolkit's thread

    def _note(self, answer: Answer | None) -> None:
        if answer is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.add(answer.input)
        self._pace.note()

    def _fall_behind(self, answer: Answer | None) -> None:
        self._behind = True
        self._note(answer)

    def _catch_up(self) -> None:
        """Bring in what was done in code."""
        if self._behind and self._catching_up is None and not self._ended:
            self._behind = False
            self._catching_up = asyncio.get_running_loop().create_task(self._caught_up())

    async def _caught_up(self) -> None:
        try:
            if self.lab._answers or self.replies.chart:
                await self._draw_chart()
            if self._configured != self.lab._configured and self.lab.agent is not None:
                await self._read_versions()
        except AgentbookError as error:
            self._say(explain(error).text, FORM, fails=True)
        finally:
            self._catching_up = None
            self._pace.note()

    def _say(self, words: str, place: str = RUN, *, fails: bool = False) -> None:
        self._said[place] = (words, fails)
        self._pace.note()

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]], place: str) -> None:
        """Begin `work`, one at a time; what goes wrong is said in the form."""
        # A second click may be on its way before the first has disabled the button.
        if self._running is None and not self._ended:
            self._place = place
            self._running = asyncio.get_running_loop().create_task(self._watched(work(), place))
            self._pace.note()

    async def _watched(self, work: Coroutine[Any, Any, None], place: str) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._say("Stopped. What arrived stays; Run goes on, and looks first for replies that came late.", place)
        except (AgentbookError, ValueError, TypeError, OSError, ImportError) as error:
            words = explain(error).text if isinstance(error, AgentbookError) else str(error)
            self._say(words, place, fails=True)
        finally:
            self._running = None
            self._note(None)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _begin(self) -> None:
        """Read the agent and its versions, and start from what it runs on."""
        if self.lab.agent is None:
            return
        try:
            await self._read_versions()
        except AgentbookError as error:
            self._say(explain(error).text, FORM, fails=True)
        else:
            current = self.prompts.current
            if current is not None and not self.form.prompt.value:
                self.form.fill(current.settings)
                self._say(f"The form holds what the agent runs on: version {current.label}.", FORM)
        if not self.lab._answers:
            self._note(None)
            return
        await self._draw_chart()

    async def _read_versions(self) -> None:
        self._configured = self.lab._configured
        self.prompts.bench = await AgentConfigurator.open(self.lab._client, self.lab._agent_of())
        self._note(None)

    def _free_name(self) -> str:
        n = 1
        while f"variant {n}" in self.lab.variants:
            n += 1
        return f"variant {n}"

    def _add(self) -> None:
        try:
            made = self.lab.add_variant(self.form.read(self._free_name()))
        except (ValueError, TypeError) as error:
            self._say(str(error), FORM, fails=True)
            return
        self.form.name.value = ""
        self._say(f"“{made.name}” is a variant now; it can be run below.", FORM)

    def _use(self, label: str) -> None:
        chosen = self.prompts.named(label)
        if chosen is None:
            return
        self.form.fill(chosen.settings)
        self._say(f"The form holds {label}.", FORM)

    async def _apply(self) -> None:
        variant = self.form.read(APPLIED)
        self._say("Applying…", FORM)
        version = await self.lab._apply(variant, say=lambda words: self._say(words, FORM))
        await self._read_versions()
        self.form.version.value = ""
        self._say(f"Applied: the agent runs on version {version.label} now.", FORM)

    async def _run(self) -> None:
        self.lab.inputs = self.trial.read_inputs()
        checks = self.trial.read_checks(self.lab.checks.values())
        if checks != self.lab.checks:
            self.lab.check(checks)
        chosen, how = self.trial.read_variants(), self.trial.read_options()
        self._plan = plan = self.lab._plan(None, chosen, None, how)
        missing = sum(len(plan.missing(variant, self.lab._answers)) for variant in plan.variants)
        self._say(
            f"Asking {missing} question{'s' if missing != 1 else ''}…" if missing else "Everything is answered already."
        )
        try:
            await self.lab._go(plan, self._say)
        finally:
            self._plan = None
            await asyncio.shield(self._after_run())
        cells = [
            self.lab._answers[key]
            for variant in plan.variants
            for key in plan.cells(variant)
            if key in self.lab._answers
        ]
        failed = sum(cell.status == "failed" for cell in cells)
        answered = sum(cell.status == "answered" for cell in cells)
        words = f"{answered} of {len(cells)} answered" + (f", {failed} failed." if failed else ".")
        self._say(" ".join([words, *self.lab.notes]), fails=bool(self.lab.notes))

    async def _after_run(self) -> None:
        await self._draw_chart()
        if self.lab.agent is not None:
            await self._read_versions()
        self._behind = False

    async def _draw_chart(self) -> None:
        try:
            # Drawing takes a moment: not on the thread that everything else waits for.
            drawn = await asyncio.to_thread(self.lab.chart)
            self.replies.chart = looks.picture(await asyncio.to_thread(drawn.svg), drawn.text)
        except ValueError:  # nothing was answered yet
            self.replies.chart = ""
        except ImportError as missing:
            self.replies.chart = f'<div class="ab-foot">{plain(str(missing))}</div>'
        self._note(None)

    async def _save(self) -> None:
        name = self.replies.path.value.strip() or "prompt-lab.json"
        path = await asyncio.to_thread(self.lab.save, name)
        self._say(f"Saved to {path}.", FILE)

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        lab, busy = self.lab, self._running is not None
        # By the form or by a cell: the figures and the static twin come at its end, for they want all answers.
        asking = self._plan is not None or any(answer.status == "asking" for answer in list(lab._answers.values()))
        where = f"{plain(lab.agent or 'several agents')} in {plain(lab.workspace or 'no workspace')}"
        where = f'<span class="ab-session">{where}</span>'
        self.head.value = f'<div class="ab-title"><span class="ab-name">Prompt lab</span>{where}</div>'
        for place, html in self.status.items():
            html.value = _statement(*self._said[place], under_way=busy and place == self._place)
        for each in (self.trial.run, self.form.apply, self.replies.save):
            each.disabled = busy
        self.form.apply.disabled = busy or lab.agent is None
        show(self.trial.stop, busy)
        self.trial.draw_bar(self._plan, lab._answers)
        changed, self._changed = self._changed, set()
        if changed is None:
            self.prompts.draw_choices(lab.agent, lab.variants)
            self.trial.fill(lab.inputs, lab.checks.values())
            self.trial.draw_ticks(lab.variants, lab.checks.values())
        self.prompts.draw_diff(self.form.prompt.value)
        self.replies.draw(lab, changed, running=asking)
        if not busy and not asking:
            self._twin.update(lab, self.replies.chart)
            self._catch_up()

    # Showing

    def display(self) -> None:
        """Show it in the cell that is running, with its static twin."""
        show_bundle(self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)})
        self._twin.show(self.lab, self.replies.chart)

    def close(self) -> None:
        """Stop what is running and take it off the page."""
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._unlisten()
        if not loop.is_over():
            self._hand_over(self._stop)
            self._hand_over(self._pace.end)
        for child in self.children:
            close_all(child)
        super().close()

    def __repr__(self) -> str:
        return repr(self.lab)


def _statement(words: str, fails: bool, *, under_way: bool) -> str:
    dot = '<span class="ab-dot"></span>' if under_way else ""
    said = f'<div class="ab-failed">{plain(words)}</div>' if fails else f"<span>{plain(words)}</span>"
    return f'<div class="ab-statusline">{dot}{said}</div>'

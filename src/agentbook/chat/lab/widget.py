"""The lab as a form in a cell, live while the kernel works: drawn with plain ipywidgets over a `PromptLab`.

As in the chat panel, the toolkit's one daemon thread makes every widget write after construction, changes are drawn together
some times a second, and clicks only hand over.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from ...api.errors import AgentbookError
from ...events import loop
from ..pace import Pace
from ..render import plain, visible
from ..static import StaticTwin, show_bundle
from ..style import live_style
from ..trouble import explain
from ..view import Parts, button, close_all, show
from . import looks
from .answers import Answer
from .bench import Bench
from .diff import PromptDiff
from .form import VariantForm, area, field, read_typed_checks, read_typed_inputs, text, tick, write_inputs
from .run import Options, Plan
from .style import STYLE
from .variant import Variant
from .versions import Version

if TYPE_CHECKING:
    from .lab import PromptLab

MOST_ROWS = 100  # inputs drawn; all of them are in `lab.results`
THE_FORM = "the form"
APPLIED = "applied in the prompt lab"  # what a version is said to change where the form has no name
FORM, RUN, FILE = "form", "run", "file"
Prompts = dict[str, Variant | Version]


class LabView(widgets.VBox):  # type: ignore[misc]
    """The form of a `PromptLab`: prompt and Apply, versions and their difference, inputs, Run and Stop, results, a file."""

    def __init__(self, lab: PromptLab) -> None:
        self.lab = lab
        self._uid = f"ap-{uuid.uuid4().hex[:12]}"
        self._twin = StaticTwin(self._uid, looks.static_html)
        self._pace = Pace(self._draw)
        self._running: asyncio.Task[None] | None = None
        self._place = FORM
        self._plan: Plan | None = None
        # What is said, and whether it is bad news, where the button was pressed that it is about.
        self._said = {FORM: ("Type a prompt, or start from a version.", False), RUN: ("", False), FILE: ("", False)}
        self._bench: Bench | None = None
        self._chart = ""
        self._prompts: Prompts = {}
        self._rows: dict[str, Any] = {}
        self._changed: set[str] | None = None  # inputs whose row is to be drawn; None for all
        self._ticks: dict[str, Any] = {}
        self._ended = False
        super().__init__(self._make(), layout=widgets.Layout(width="100%", max_width="1200px"))
        self.add_class("ab-chat")
        self.add_class("ab-lab")
        self._fill_inputs()
        self._draw()
        self._unlisten = lab.listen(self._heard)
        loop.submit(self._begin())

    # Construction

    def _make(self) -> list[Any]:
        self.parts = parts = Parts()
        self.head = parts.html("", "ab-head")
        self.status = {place: parts.html("", "ab-lab-status") for place in (FORM, RUN, FILE)}
        self.form = VariantForm(parts, self._add_clicked, self._apply_clicked, self.status[FORM])
        self.start = field(widgets.Dropdown(description="Start from", options=[("…", "")]), "ab-grow")
        self.use = button(
            "Put into the form", "ab-other", "Fill the form with this prompt and its settings", self._use_clicked
        )
        self.history = parts.html()
        self.old = field(widgets.Dropdown(description="Compare", options=[("…", "")]), "ab-grow")
        self.new = field(widgets.Dropdown(description="with", options=[(THE_FORM, THE_FORM)]), "ab-grow")
        self.diff = parts.html()
        for watched in (self.old, self.new, self.form.prompt):
            watched.observe(self._compared, "value")
        versions = parts.box(
            [
                parts.html(looks.title("Versions")), self.history,
                parts.row([self.start, self.use], "ab-lab-row"),
                parts.row([self.old, self.new], "ab-lab-row"), self.diff,
            ],
            "ab-lab-side",
        )  # fmt: skip
        top = parts.row([self.form.widget, versions], "ab-lab-part", "ab-lab-top")
        results = parts.box([self._make_results(parts)], "ab-lab-part")
        styles = parts.html(live_style(self._uid) + STYLE)
        return [styles, self.head, top, self._make_run(parts), results]

    def _make_run(self, parts: Parts) -> Any:
        self.tried = parts.box([], "ab-ticks")
        self.inputs = area("Test inputs, one a line", 6, "Type or paste, one question a line")
        self.checks = area("Checks of the reply, one a line", 3, "Source\nshort enough: /^.{1,300}$/")
        self.others = parts.html()
        self.concurrency = field(widgets.BoundedIntText(4, min=1, max=64, description="At a time"), "ab-number")
        self.repeats = field(widgets.BoundedIntText(1, min=1, max=100, description="Repeats"), "ab-number")
        self.retry = tick("Ask again what failed", False)
        self.run = button(
            "Run", "ab-main", "Ask every ticked variant every input that it has not answered yet", self._run_clicked
        )
        self.stop = button("Stop", "ab-stop", "Stop listening; what arrived stays (Esc)", self._stop_clicked)
        self.bar = widgets.IntProgress(0, min=0, max=1, layout=widgets.Layout(width="auto"))
        self.bar.add_class("ab-lab-bar")
        left = parts.box([parts.html(looks.title("Test inputs")), self.inputs], "ab-lab-side")
        right = parts.box(
            [parts.html(looks.title("Variants to run")), self.tried, self.checks, self.others], "ab-lab-side"
        )
        row = parts.row([self.concurrency, self.repeats, self.run, self.stop, self.retry], "ab-lab-row")
        return parts.box(
            [parts.row([left, right], "ab-lab-top"), row, self.bar, self.status[RUN]], "ab-lab-part", "ab-lab-run"
        )

    def _make_results(self, parts: Parts) -> Any:
        self.summary, self.picture, self.rows = parts.html(), parts.html(), parts.box([])
        self.more = parts.html()
        self.path = text("File", "", "ab-grow")
        self.path.value = "prompt-lab.json"
        self.save = button(
            "Save", "ab-other", "Write variants, inputs, checks and replies into this file", self._save_clicked
        )
        return parts.box(
            [
                parts.html(looks.title("Results")), self.summary, self.picture, self.rows, self.more,
                parts.row([self.path, self.save], "ab-lab-row"),
                self.status[FILE],
            ]
        )  # fmt: skip

    def _fill_inputs(self) -> None:
        self.inputs.value = write_inputs(self.lab.inputs)
        typed = [looks.typed_check(check) for check in self.lab.checks.values()]
        self.checks.value = "\n".join(line for line in typed if line is not None)

    # Clicks: on any thread, so they read what was typed and hand over

    def _hand_over(self, work: Callable[..., Any], *given: Any) -> None:
        loop.get_loop().call_soon_threadsafe(work, *given)

    def _add_clicked(self) -> None:
        self._hand_over(self._add)

    def _apply_clicked(self) -> None:
        self._hand_over(self._start, self._apply, FORM)

    def _use_clicked(self) -> None:
        self._hand_over(self._use, self.start.value)

    def _run_clicked(self) -> None:
        self._hand_over(self._start, self._run, RUN)

    def _stop_clicked(self) -> None:
        self._hand_over(self._stop)

    def _save_clicked(self) -> None:
        self._hand_over(self._start, self._save, FILE)

    def _compared(self, _change: Any) -> None:
        self._hand_over(self._pace.note)

    def _heard(self, answer: Answer | None) -> None:
        self._hand_over(self._note, answer)

    # Work: on the toolkit's thread

    def _note(self, answer: Answer | None) -> None:
        if answer is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.add(answer.input)
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
            current = self._bench.current if self._bench else None
            if current is not None and not self.form.prompt.value:
                self.form.fill(current.settings)
                self._say(f"The form holds what the agent runs on: version {current.label}.", FORM)
        if not self.lab._answers:
            self._note(None)
            return
        await self._draw_chart()

    async def _read_versions(self) -> None:
        self._bench = await Bench.open(self.lab._client, self.lab._agent_of())
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
        chosen = self._prompts.get(label)
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
        self.lab.inputs = read_typed_inputs(self.inputs.value)
        others = [check for check in self.lab.checks.values() if looks.typed_check(check) is None]
        checks = read_typed_checks(self.checks.value, others)
        if checks != self.lab.checks:
            self.lab.check(checks)
        chosen = [name for name, box in self._ticks.items() if box.value]
        if not chosen:
            raise ValueError("No variant is ticked: add one, or tick one above.")
        how = Options(self.concurrency.value, self.repeats.value, self.retry.value)
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

    async def _draw_chart(self) -> None:
        try:
            # Drawing takes a moment: not on the thread that everything else waits for.
            drawn = await asyncio.to_thread(self.lab.chart)
            self._chart = looks.picture(await asyncio.to_thread(drawn.svg), drawn.text)
        except ValueError:  # nothing was answered yet
            self._chart = ""
        except ImportError as missing:
            self._chart = f'<div class="ab-foot">{plain(str(missing))}</div>'
        self._note(None)

    async def _save(self) -> None:
        name = self.path.value.strip() or "prompt-lab.json"
        path = await asyncio.to_thread(self.lab.save, name)
        self._say(f"Saved to {path}.", FILE)

    # Drawing: on the toolkit's thread

    def _draw(self) -> None:
        lab, busy = self.lab, self._running is not None
        where = f"{plain(lab.agent or 'several agents')} in {plain(lab.workspace or 'no workspace')}"
        where = f'<span class="ab-session">{where}</span>'
        self.head.value = f'<div class="ab-title"><span class="ab-name">Prompt lab</span>{where}</div>'
        for place, html in self.status.items():
            html.value = _statement(*self._said[place], under_way=busy and place == self._place)
        for each in (self.run, self.form.apply, self.save):
            each.disabled = busy
        self.form.apply.disabled = busy or lab.agent is None
        show(self.stop, busy)
        self._draw_bar()
        changed, self._changed = self._changed, set()
        if changed is None:
            self._draw_choices()
            self._draw_ticks()
            self.others.value = self._other_checks()
        self._draw_diff()
        self._draw_results(changed)
        if not busy:
            self._twin.update(lab, self._chart)

    def _draw_bar(self) -> None:
        plan = self._plan
        show(self.bar, plan is not None)
        if plan is None:
            return
        cells = [key for variant in plan.variants for key in plan.cells(variant)]
        answers = self.lab._answers
        done = sum(key in answers and answers[key].status in ("answered", "failed") for key in cells)
        self.bar.max, self.bar.value = max(1, len(cells)), done

    def _draw_choices(self) -> None:
        """The history, and what can be started from and compared."""
        bench = self._bench
        if bench is not None:
            self.history.value = looks.history(bench.versions, bench.current)
        elif self.lab.agent is not None:
            self.history.value = '<div class="ab-foot">Reading the versions…</div>'
        versions = (bench.versions if bench else None) or []
        readable = [version for version in versions if version.system_prompt is not None]
        self._prompts = {f"version {visible(version.label)}": version for version in reversed(readable)}
        self._prompts = dict(reversed(self._prompts.items()))
        self._prompts |= {
            f"variant {visible(name)}": each for name, each in self.lab.variants.items() if each.system_prompt
        }
        labels = list(self._prompts)
        current = bench.current if bench else None
        now = next((label for label in labels if self._prompts[label] == current), labels[0] if labels else "")
        _choose(self.start, labels, now)
        _choose(self.old, labels, now)
        _choose(self.new, [THE_FORM, *labels], THE_FORM)

    def _draw_diff(self) -> None:
        old, new = self._prompts.get(self.old.value), self._prompts.get(self.new.value)
        first = old.system_prompt if old is not None else None
        second = (
            self.form.prompt.value if self.new.value == THE_FORM else new.system_prompt if new is not None else None
        )
        if first is None or second is None:
            self.diff.value = '<div class="ab-foot">Two prompts are needed to compare them.</div>'
            return
        html = PromptDiff(first, second, self.old.value, self.new.value).to_html()
        self.diff.value = f'<div class="ab-difference" tabindex="0" role="region" aria-label="Difference">{html}</div>'

    def _draw_ticks(self) -> None:
        names = list(self.lab.variants)
        if names == list(self._ticks) and self.tried.children:
            return
        for gone in set(self._ticks) - set(names):
            self._ticks.pop(gone).close()
        self._ticks = {name: self._ticks.get(name) or tick(self._told(name), True) for name in names}
        empty = self.parts.html('<div class="ab-foot">No variant yet: type a prompt and press “Add as variant”.</div>')
        before = self.tried.children
        self.tried.children = tuple(self._ticks.values()) or (empty,)
        for unused in set(before) - set(self.tried.children):
            unused.close()

    def _told(self, name: str) -> str:
        variant = self.lab.variants[name]
        said = " ".join((variant.system_prompt or ("the agent as it is" if not variant.configures else "")).split())
        whose = f" [{variant.agent}]" if variant.agent else ""
        return f"{name}{whose}: {said if len(said) <= 70 else said[:69] + '…'}"

    def _other_checks(self) -> str:
        names = [check.name for check in self.lab.checks.values() if looks.typed_check(check) is None]
        return f'<div class="ab-foot">From code: {plain(", ".join(names))}</div>' if names else ""

    def _draw_results(self, changed: set[str] | None) -> None:
        answers = self.lab.answers
        texts = list(dict.fromkeys(answer.input for answer in answers))
        if changed is None or changed:
            # The figures want all answers; while a run goes on they come with the chart, at its end.
            if self._plan is None:
                self.summary.value = looks.summary(self.lab) or '<div class="ab-foot">No replies yet.</div>'
            self.picture.value = self._chart
            found = looks.by_cell(answers)
            for said in texts[:MOST_ROWS]:
                if said not in self._rows:
                    self._rows[said] = self.parts.html("", "ab-result")
                elif changed is not None and said not in changed:
                    continue
                self._rows[said].value = looks.result(said, self.lab.variants, found, list(self.lab.checks))
        for gone in set(self._rows) - set(texts):
            self._rows.pop(gone).close()
        rows = tuple(self._rows[said] for said in texts[:MOST_ROWS])
        if rows != self.rows.children:
            self.rows.children = rows
        rest = len(texts) - len(rows)
        self.more.value = f'<div class="ab-foot">{rest} more inputs are in lab.results.</div>' if rest > 0 else ""

    # Showing

    def display(self) -> None:
        """Show it in the cell that is running, with its static twin."""
        show_bundle(self._repr_mimebundle_() if self.comm is not None else {"text/plain": repr(self)})
        self._twin.show(self.lab, self._chart)

    def close(self) -> None:
        """Stop what is running and take it off the page."""
        if self.comm is None or self._ended:
            return
        self._ended = True
        self._unlisten()
        self._hand_over(self._stop)
        self._hand_over(self._pace.end)
        for child in self.children:
            close_all(child)
        super().close()

    def __repr__(self) -> str:
        return repr(self.lab)


def _choose(box: Any, labels: list[str], otherwise: str) -> None:
    """Give a dropdown its options and keep what was chosen, if it is still there."""
    options = tuple((label, label) for label in labels) or (("none yet", ""),)
    if tuple(box.options) == options:
        return
    kept = box.value if box.value in labels else otherwise
    box.options = options
    box.value = kept if kept in labels else options[0][1]


def _statement(words: str, fails: bool, *, under_way: bool) -> str:
    dot = '<span class="ab-dot"></span>' if under_way else ""
    said = f'<div class="ab-failed">{plain(words)}</div>' if fails else f"<span>{plain(words)}</span>"
    return f'<div class="ab-statusline">{dot}{said}</div>'

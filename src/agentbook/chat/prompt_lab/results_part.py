"""The results of a lab in its form: keeps them up to date, and handles their buttons.

The table gets changed rows at once. Summary, chart and static transcript need all
replies and take some time, so they are made in a worker thread once a run has ended. A
thumb or a note does not change any figures: it is drawn at once, and written to the
static transcript when no other has followed for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...evaluation.answers import Answer
from ...evaluation.experiment import Experiment
from ...evaluation.winner import leader
from ...events import loop
from ..html.sanitize import plain
from ..html.static_transcript import StaticTranscript
from ..widgets.page_view import OnHello, PageViewBox
from . import html, runs_html
from .form_context import FormContext
from .form_task import in_thread
from .result_rows import ResultRows
from .results_table import ResultsTable
from .results_view import ResultsView

SAVE_AFTER_S = 2.0  # after the last thumb or note
WINNER, FILE = "winner", "file"  # the status lines


class ResultsPart:
    """The results.

    Parameters
    ----------
    context : FormContext
    uid : str
        The id of the form.
    read_versions : callable
        Reads the agent's versions again, after it was changed.
    on_load : callable
        Called after a file has replaced the content of the lab.

    Attributes
    ----------
    view : ResultsView
    status : dict of str to Widget
        The status lines.
    """

    def __init__(
        self,
        context: FormContext,
        uid: str,
        read_versions: Callable[..., Any],
        on_load: Callable[[], None],
    ) -> None:
        self._lab, self._task, self._read_versions, self._on_load = context.lab, context.task, read_versions, on_load
        self._rows = ResultRows(context.lab, uid)
        self._static = StaticTranscript(uid, lambda text, _: text)
        self._uid = uid
        self._changed: set[str] | None = None  # inputs whose row may have changed; None for all
        self._stale = True
        self._rated = False  # thumbs or notes have changed, and nothing else
        self._drawn = Experiment()  # the experiment that the figures were made from
        self._figures = _Figures()
        self._saving: asyncio.TimerHandle | None = None
        self._redrawing: asyncio.Task[None] | None = None
        self.status = {line: context.status_line() for line in (WINNER, FILE)}
        table = PageViewBox(self._make_table)
        later, starter = context.later, context.starter
        self.view = ResultsView(
            context.parts, table, later(self._ask_apply), starter(self._apply, WINNER), starter(self._undo, WINNER),
            starter(self._save, FILE), later(self._ask_load), starter(self._load, FILE),
            self.status[WINNER], self.status[FILE],
        )  # fmt: skip

    # Drawing: on the toolkit's thread

    def change(self, answer: Any) -> None:
        """Note that this answer has changed; None if anything may have."""
        if self._is_rating(answer):
            self._rated = True
        else:
            self._stale = True
        if answer is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.add(answer.input)

    def _is_rating(self, answer: Answer | None) -> bool:
        """Whether nothing but thumb and note can have changed since it was drawn."""
        if answer is None:
            return False
        drawn = self._drawn.answers_by_key.get(answer.key)
        return drawn is not None and replace(drawn, thumb=answer.thumb, note=answer.note) == answer

    def draw(self, *, busy: bool, asking: bool) -> None:
        """Send changed rows, and redraw the rest unless a run is in progress."""
        self.view.draw_buttons(busy=busy, can_undo=self._lab.can_undo)
        changed, self._changed = self._changed, set()
        if changed is None or changed:
            message = self._rows.changes(changed)
            if message is not None:
                self.view.table.view.send(message)
        if asking and not self._figures.table:
            self.view.draw_waiting()
        if asking or self._redrawing is not None:
            return
        if self._stale:
            self._start_redrawing()
        elif self._rated:
            self._draw_ratings()

    def _draw_ratings(self) -> None:
        """Draw what depends on thumbs, and save them a little later."""
        self._rated = False
        self._draw_figures(self._lab.experiment)
        self._wait_to_save()
        self._saving = asyncio.get_running_loop().call_later(SAVE_AFTER_S, self._save_ratings)

    def _save_ratings(self) -> None:
        self._saving = None
        if self._redrawing is None and not self._stale:  # otherwise the redrawing saves them too
            self._start_redrawing()

    def _wait_to_save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None

    def _start_redrawing(self) -> None:
        self._redrawing = asyncio.get_running_loop().create_task(self._redraw())

    async def redraw(self) -> None:
        """Redraw what needs all replies, if any has changed; wait until it is done."""
        if self._redrawing is None and (self._stale or self._rated or self._saving is not None):
            self._start_redrawing()
        while self._redrawing is not None:
            await asyncio.shield(self._redrawing)

    async def _redraw(self) -> None:
        self._wait_to_save()
        try:
            is_first = True
            while is_first or self._stale:
                stale, is_first, self._stale, self._rated = self._stale, False, False, False
                experiment = self._lab.experiment.copy()
                if stale:
                    self._drawn = experiment
                    self._figures = await in_thread(_Figures.of, experiment)
                    self.view.regressions.value = runs_html.regressions(self._lab.keeper.regressions)
                self._draw_figures(experiment)
                if self._static.shown:
                    summary = self.view.summary.value if self._figures.table else ""
                    self._static.update(await in_thread(self._static_html, experiment, summary + self._figures.chart))
        finally:
            self._redrawing = None

    def _draw_figures(self, experiment: Experiment) -> None:
        figures = self._figures
        self.view.draw(figures.summary(experiment), figures.chart, figures.winners, figures.leader)

    def end(self) -> None:
        """Save no more."""
        self._wait_to_save()

    def _static_html(self, experiment: Experiment, figures: str) -> str:
        return html.static_html(experiment, self._lab.agent_name, figures, self._uid)

    def show_static(self) -> None:
        """Display the static transcript in the running cell."""
        experiment = self._lab.experiment.copy()
        self._static.show(self._static_html(experiment, html.summary(experiment) + self.view.image.value))

    # Messages of the page: they arrive on any thread

    def _make_table(self, on_hello: OnHello) -> ResultsTable:
        return ResultsTable(self._rows.snapshot, self._receive, on_hello, "The replies of a prompt lab")

    def _receive(self, message: dict[str, Any]) -> None:
        loop.submit(self._answer(message))

    async def _answer(self, message: dict[str, Any]) -> None:
        reply = await asyncio.to_thread(self._reply_to, message)
        if reply is not None:
            self.view.table.view.send(reply)

    def _reply_to(self, message: dict[str, Any]) -> dict[str, Any] | None:
        rows = self._rows
        match message:
            case {"kind": "bodies", "rows": [*ids], "against": int() | None as against}:
                return rows.bodies([row for row in ids if isinstance(row, int)], against)
            case {"kind": "details", "row": int(row), "variant": int(variant), "repeat": int(repeat)}:
                return rows.details(row, variant, repeat)
            case {"kind": "vote", "row": int(row), "variant": int(variant), "repeat": int(repeat)}:
                key, thumb = rows.key(row, variant, repeat), message.get("thumb")
                if key is not None:
                    with contextlib.suppress(ValueError):  # the reply may be gone by now
                        note = str(message.get("note") or "")
                        self._lab.experiment.rate(key, thumb if isinstance(thumb, bool) else None, note)
        return None

    # The buttons: on the toolkit's thread

    def _ask_apply(self) -> None:
        name = self.view.winner.value

        def ask() -> str:
            self.view.confirmation.ask(self._lab.replacement_text(name))
            return ""

        self._task.attempt(ask, WINNER)

    async def _apply(self) -> None:
        name = self.view.winner.value
        self._task.say(f"Applying “{name}”…", WINNER)
        version = await self._lab.apply(
            self._lab.experiment.variant(name), notify=lambda text: self._task.say(text, WINNER)
        )
        await self._read_versions()
        self._task.say(f"Applied “{name}”: the agent now runs on version {version.label}.", WINNER)

    async def _undo(self) -> None:
        self._task.say("Restoring the earlier configuration…", WINNER)
        version = await self._lab.undo_apply(notify=lambda text: self._task.say(text, WINNER))
        await self._read_versions()
        self._task.say(f"Undone: the agent runs on its earlier configuration, as version {version.label}.", WINNER)

    async def _save(self) -> None:
        name = self.view.path.value.strip() or "prompt-lab.json"
        notes = await asyncio.to_thread(self._lab.write, name)
        self._task.say(" ".join([f"Saved to {name}.", *notes]), FILE)

    def _ask_load(self) -> None:
        if self._lab.experiment.variants:
            self.view.replacing.ask("The file replaces the variants, inputs, checks and replies that are here.")
        else:
            self._task.start(self._load, FILE)

    async def _load(self) -> None:
        name = self.view.path.value.strip()
        notes = await asyncio.to_thread(self._lab.read, name)
        self._lab.keeper.regressions = None
        self._on_load()
        self._task.say(" ".join([f"Loaded {name}.", *notes]), FILE)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What is drawn from all replies, except for thumbs and notes."""

    table: str = ""
    sentences: Sequence[str] = ()
    chart: str = ""
    winners: Sequence[str] = ()
    leader: str = ""

    @classmethod
    def of(cls, experiment: Experiment) -> _Figures:
        winners = [name for name, variant in experiment.variants.items() if variant.configures]
        if not experiment.answers_by_key:
            return cls(winners=winners)
        best = leader(experiment.summary(), winners)
        return cls(html.figures(experiment), html.comparison(experiment), _chart(experiment), winners, best)

    def summary(self, experiment: Experiment) -> str:
        """The table, and sentences about what it shows and how well judges agree."""
        return self.table and self.table + html.sentences([*self.sentences, *html.agreements(experiment)])


def _chart(experiment: Experiment) -> str:
    try:
        return (
            f'<div class="ab-lab-chart" tabindex="0" role="region" aria-label="Chart">{experiment.chart().html()}</div>'
        )
    except ValueError:  # there is no reply yet
        return ""
    except ImportError as error:
        return f'<div class="ab-foot">{plain(str(error))}</div>'

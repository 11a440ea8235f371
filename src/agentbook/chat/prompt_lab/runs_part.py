"""The earlier runs in the form: lists them, compares two, and opens one.

They are files, so they are read in a worker thread.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Callable
from typing import Any

from ...evaluation import saved_runs
from ...evaluation.keeping import open_run
from ..html.sanitize import plain, visible
from . import runs_html
from .form_context import FormContext
from .form_task import in_thread
from .runs_view import RunsView

RUNS = "runs"  # the status line
MAX_LISTED = 40


class RunsPart:
    """The earlier runs.

    Parameters
    ----------
    context : FormContext
    on_open : callable
        Called after a run has replaced the content of the lab.

    Attributes
    ----------
    view : RunsView
    status : Widget
        The status line.
    """

    def __init__(self, context: FormContext, on_open: Callable[[], None]) -> None:
        self._lab, self._task, self._on_open = context.lab, context.task, on_open
        self._rows: dict[str, dict[Any, Any]] = {}  # by id, the newest first
        self._reading: asyncio.Task[None] | None = None
        self._stale = False
        self._compared: tuple[str, str] | None = None
        self.status = context.status_line()
        later, start = context.later, context.starter(self._open, RUNS)
        self.view = RunsView(context.parts, later(self._choose), later(self._ask_open), start, self.status)

    def read(self) -> None:
        """Read the list again; on the toolkit's thread."""
        self._stale = True
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())

    def draw(self, *, busy: bool) -> None:
        """Draw which buttons can be pressed."""
        self.view.open.disabled = busy

    async def _read(self) -> None:
        try:
            while self._stale:
                self._stale = False
                self._rows = {row["run"]: row for row in await in_thread(_newest)}
                labels = {each: self._label(row) for each, row in self._rows.items()}
                self.view.draw(labels, *self._defaults())
                await self._compare()
        finally:
            self._reading = None

    def _defaults(self) -> tuple[str, str]:
        """The newest run, and the previous one of the same agent."""
        ids = list(self._rows)
        if not ids:
            return "", ""
        agent = self._rows[ids[0]]["agent"]
        return ids[0], next((each for each in ids[1:] if self._rows[each]["agent"] == agent), ids[-1])

    def _label(self, row: dict[Any, Any]) -> str:
        agent = "" if row["agent"] in (self._lab.agent, self._lab.agent_name) else f" · {row['agent']}"
        inputs = f"{row['inputs']} input{'s' if row['inputs'] != 1 else ''}"
        passed = "" if row["passed"] != row["passed"] else f" · {row['passed']} of {row['answered']} passed"
        started = f"{row['started_at'].to_pydatetime().astimezone():%Y-%m-%d %H:%M:%S}"
        return visible(f"{started}{agent} · {row['variants']} · {inputs}{passed}")

    # The fields and buttons: on the toolkit's thread

    def _choose(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._compare_chosen())

    async def _compare_chosen(self) -> None:
        try:
            await self._compare()
        finally:
            self._reading = None
        if self._stale:
            self.read()

    async def _compare(self) -> None:
        """Compare the chosen runs, again if the choice changes meanwhile."""
        while (chosen := (self.view.before.value, self.view.run.value)) != self._compared:
            self._compared = chosen
            self.view.changes.value = await in_thread(self._compare_runs, *chosen)

    def _compare_runs(self, before: str, run: str) -> str:
        if before == run or not before:
            return '<div class="ab-foot">Choose another run to compare with.</div>' if len(self._rows) > 1 else ""
        try:
            return runs_html.comparison(self._lab.keeper.compare(before, run))
        except (OSError, ValueError) as error:
            return f'<div class="ab-failed">{plain(str(error))}</div>'

    def _ask_open(self) -> None:
        if self._lab.experiment.variants:
            self.view.confirmation.ask("The run replaces the variants, inputs, checks and replies that are here.")
        else:
            self._task.start(self._open, RUNS)

    async def _open(self) -> None:
        run = await in_thread(open_run, self.view.run.value)
        experiment = await in_thread(lambda: run.experiment)
        self._lab.keeper.regressions = None
        self._lab.experiment.become(experiment)
        self._on_open()
        self._task.say(f"Opened the run of {run.started_at.astimezone():%Y-%m-%d %H:%M:%S}.", RUNS)


def _newest() -> list[dict[Any, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run that cannot be read is named by lab.runs()
        frame = saved_runs.table(itertools.islice(saved_runs.saved(), MAX_LISTED))
    return frame.to_dict("records")

"""The earlier runs in the form: listed, compared, and opened.

They are files, so they are read in a worker thread.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...evaluation import runs
from ...evaluation.runs import open_run
from ..html.sanitize import escape, visible
from ..widgets.parts import show
from .diff import PromptDiff
from .form import Choice, Form, in_thread, note, table, title
from .rows import MAX_COMPARED

if TYPE_CHECKING:
    import pandas as pd

RUNS = "runs"  # the status line
MAX_LISTED = 40
MAX_ROWS = 100  # of a table: broken cells come first
_CLASSES = {"broken": "ab-r-broken", "fixed": "ab-r-fixed"}


class RunsPart:
    """The earlier runs.

    Parameters
    ----------
    form : Form

    Attributes
    ----------
    widget, changes : Widget
    run, before : Choice
        The id of the run, and of the run it is compared with.
    open : Button
    opening : Question
        Asked before a run replaces the current content.
    """

    def __init__(self, form: Form) -> None:
        self._form, self._lab = form, form.lab
        self._rows: dict[str, dict[Any, Any]] = {}  # by id, the newest first
        self._reading: asyncio.Task[None] | None = None
        self._stale = False
        self._compared: tuple[str, str] | None = None
        self.run, self.before = Choice("Run"), Choice("Compared with")
        for choice in (self.run, self.before):
            choice.widget.observe(form.later(self._update), "value")
        self.open = form.button("Open", "Show its variants, inputs, checks and replies", self._ask_open, RUNS)
        self.opening = form.question("Open the run", "Replace what is here", self._open, RUNS)
        self.changes = form.parts.html()
        row = form.parts.row([self.run.widget, self.before.widget, self.open], "ab-lab-row")
        body = [form.parts.html(title("Earlier runs")), row, self.opening.widget, self.changes, form.status_line(RUNS)]
        self.widget = form.parts.box(body, "ab-lab-part", "ab-lab-runs", "ab-hidden")

    def read(self) -> None:
        """Read the list again; on the toolkit's thread."""
        self._stale = True
        self._update()

    def draw(self) -> None:
        """Draw which buttons can be pressed."""
        self.open.disabled = self._form.busy

    def _update(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Read the list and compare the chosen runs, until neither has changed."""
        try:
            while self._stale or (self.before.value, self.run.value) != self._compared:
                if self._stale:
                    self._stale = False
                    self._rows = {row["run"]: row for row in await in_thread(_newest)}
                    self._offer()
                self._compared = self.before.value, self.run.value
                self.changes.value = await in_thread(self._compare, *self._compared)
        finally:
            self._reading = None

    def _offer(self) -> None:
        """Offer the runs: the newest, and the previous one of the same agent."""
        labels, ids = {each: self._label(row) for each, row in self._rows.items()}, list(self._rows)
        same = [each for each in ids[1:] if self._rows[each]["agent"] == self._rows[ids[0]]["agent"]]
        show(self.widget, bool(ids))
        self.run.offer(labels)
        self.before.offer(labels, next(iter(same or ids[-1:]), ""))

    def _label(self, row: dict[Any, Any]) -> str:
        agent = "" if row["agent"] in (self._lab.agent, self._lab.agent_name) else f" · {row['agent']}"
        inputs = f"{row['inputs']} input{'s' if row['inputs'] != 1 else ''}"
        is_known = isinstance(row["passed"], int) and row["answered"]
        passed = f" · {row['passed']} of {row['answered']} passed" if is_known else ""
        started = f"{row['started_at'].to_pydatetime().astimezone():%Y-%m-%d %H:%M:%S}"
        return visible(f"{started}{agent} · {row['variants']} · {inputs}{passed}")

    def _compare(self, before: str, run: str) -> str:
        if before == run:
            return note("Choose another run to compare with." if len(self._rows) > 1 else "")
        try:
            return comparison(runs.compare(before, run))
        except (OSError, ValueError) as error:
            return note(str(error), error=True)

    # The buttons: on the toolkit's thread

    def _ask_open(self) -> str:
        question = "The run replaces the variants, inputs, checks and replies that are here."
        self.opening.ask(question, needed=bool(self._lab.variants))
        return ""

    async def _open(self) -> None:
        run = await in_thread(open_run, self.run.value)
        self._lab.replace_with(await in_thread(lambda: run.experiment))
        self._form.replaced = True
        self._form.say(f"Opened the run of {run.started_at.astimezone():%Y-%m-%d %H:%M:%S}.", RUNS)


def _newest() -> list[dict[Any, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run that cannot be read is named by lab.runs()
        frame = runs.table(itertools.islice(runs.saved(), MAX_LISTED))
    return frame.to_dict("records")


def comparison(changes: pd.DataFrame) -> str:
    """What changed from one run to another as safe HTML, broken cells first."""
    counts = changes["change"].value_counts()
    words = [f"{counts[name]} {name}" for name in changes["change"].cat.categories if counts.get(name)]
    if not words:
        return note("Neither run has replies to compare.")
    rows = changes[changes["change"] != "unchanged"].to_dict("records")
    return f'<p class="ab-lab-counts">{escape(", ".join(words))}.</p>{_table(rows, "What changed")}'


def regressions(changes: pd.DataFrame | None) -> str:
    """What the last run broke as safe HTML; empty if nothing."""
    if changes is None or changes.empty:
        return ""
    count = len(changes)
    cells = "1 reply that passed before does" if count == 1 else f"{count} replies that passed before do"
    broken = _table(changes.to_dict("records"), "What the run broke")
    return f'<div class="ab-lab-broken">{title(f"Broken since the run before: {cells} not pass now")}{broken}</div>'


def _table(rows: Sequence[dict[Any, Any]], label: str) -> str:
    if not rows:
        return ""
    shown = "".join(map(_row, rows[:MAX_ROWS]))
    rest = note(f"and {len(rows) - MAX_ROWS} more: lab.compare()") if len(rows) > MAX_ROWS else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("change", "variant", "input", "checks"))
    head += '<th scope="col" class="ab-figure">passed</th>'
    return table(label, head, shown) + rest


def _row(row: dict[Any, Any]) -> str:
    change = str(row["change"])
    edited = ' <span class="ab-lab-version">edited</span>' if row["edited"] else ""
    shares = (row["passed_before"], row["passed_after"])
    passed = " → ".join("–" if each is None or each != each else f"{each:.0%}" for each in shares)
    return (
        f'<tr><td><span class="ab-r-turned {_CLASSES.get(change, "")}">{escape(change)}</span></td>'
        f"<td>{escape(row['variant'])}{edited}</td>"
        f'<td class="ab-lab-wide">{escape(row["input"])}{_replies(row["reply_before"], row["reply_after"])}</td>'
        f'<td>{escape(row["checks"])}</td><td class="ab-figure">{passed}</td></tr>'
    )


def _replies(before: Any, after: Any) -> str:
    if not isinstance(before, str) or not isinstance(after, str):
        return ""
    if not before or not after or max(len(before), len(after)) > MAX_COMPARED:
        return ""
    return f"<details><summary>replies</summary>{PromptDiff(before, after, 'before', 'after').to_html()}</details>"

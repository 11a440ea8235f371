"""The results in the form: kept up to date, with the winner and a file to save to.

What the last run broke stands first. The table gets changed rows at once. Summary,
chart and static transcript need all replies and take some time, so they are made in a
worker thread, once a run has ended and when no other change has followed for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._files import own_path
from ..._text import seconds
from ...evaluation.calibration import calibrate, labelled
from ...evaluation.experiment import Answer, Experiment
from ...evaluation.statistics import describe, leader
from ...events import loop
from ..assets import read_module, read_style
from ..html.message_html import finish_chip
from ..html.sanitize import escape
from ..html.static_transcript import StaticTranscript, empty_element, static_element
from ..html.static_transcript import title as heading
from ..widgets.page_view import OnHello, PageView, PageViewBox
from ..widgets.parts import show
from .diff import PromptDiff
from .form import Choice, Fold, Form, in_thread, note, region, table, text_field, title
from .rows import MAX_COMPARED, ResultRows, rendered, version_labels

if TYPE_CHECKING:
    import pandas as pd

STYLE = f"<style>{read_style('lab/form.css')}</style>"
_GRADES = {True: ("ab-yes", "passed"), False: ("ab-no", "not passed"), None: ("ab-maybe", "undecided")}
MAX_BROKEN = 100  # listed
MIN_THUMBS = 10  # before the summary says that a judge is no use
REDRAW_AFTER_S = 1.0  # after the last change
WINNER, FILE = "winner", "file"  # the status lines
_FILE = "prompt-lab.json"  # unless a person names another


class ResultsTable(PageView):
    """Shows the results in a page: a row per input, a column per variant.

    The module filters, sorts and draws; it receives rows, and requests what a row near
    the view needs. `widgets.page_view` documents what the messages of all modules have
    in common.
    """

    _esm = read_module("lab/results.js")
    _css = read_style("lab/results.css")


class ResultsPart:
    """The results.

    Parameters
    ----------
    form : Form
    uid : str
        The id of the form.

    Attributes
    ----------
    widget, files, regressions, summary, image, table : Widget
    static : StaticTranscript
    winner : Choice
    apply, undo, save, load : Button
    path : Widget
    applying, applying_open, loading : Question
        Asked before the winner is applied (`applying_open` once more, if the comparison
        is open), and before a file replaces the content.
    """

    def __init__(self, form: Form, uid: str) -> None:
        self._form, self._lab, self._uid = form, form.lab, uid
        self._rows = ResultRows(form.lab, uid)
        self.static = StaticTranscript(uid, lambda text, _: text)
        self._changed: set[str] | None = None  # inputs whose row may have changed; None for all
        self._stale = True  # summary, chart and static transcript
        self._figures = ""
        self._wait: asyncio.TimerHandle | None = None
        self._redrawing: asyncio.Task[None] | None = None
        parts = form.parts
        self.regressions, self.summary, self.image = parts.html(), parts.html(), parts.html()
        self.table = PageViewBox(self._make_table)
        self.winner = Choice("Winner")
        self.apply = form.button("Apply the winner", "Commit it as a new version", self._ask_apply, WINNER)
        self.undo = form.button("Undo", "Restore the agent's earlier configuration", self._undo, WINNER)
        self._applying = form.applying(self._apply, WINNER)
        self.applying, self.applying_open = self._applying.first, self._applying.again
        self.path = text_field("File: .json with the replies, .yaml for agentbook eval", "", "ab-grow")
        self.path.value = _FILE
        self.save = form.button("Save", "Write variants, inputs and checks to this file", self._save, FILE)
        self.load = form.button("Load", "Read variants, inputs, checks and replies from it", self._ask_load, FILE)
        self.loading = form.question("Replace", "Read the file now", self._load, FILE)
        winning = [self.winner.widget, self.apply, self.undo, self.applying.widget, self.applying_open.widget]
        winning = [parts.row(winning, "ab-lab-row"), form.status_line(WINNER)]
        self._winning = parts.box(winning, "ab-lab-winner", "ab-hidden")
        body = [parts.html(title("Results")), self.regressions, self.summary, self.image, self._winning, self.table]
        file = parts.row([self.path, self.save, self.load, self.loading.widget], "ab-lab-row")
        self.files = Fold(parts, "Save or load", "The lab as a file", [file, form.status_line(FILE)], "more").widget
        self.widget = parts.box([parts.box(body, "ab-lab-results")], "ab-lab-part")

    # Drawing: on the toolkit's thread

    def change(self, answer: Any) -> None:
        """Note that this answer has changed; None if anything may have."""
        self._stale = True
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        if answer is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.add(answer.input)

    def draw(self, *, asking: bool) -> None:
        """Send changed rows, and redraw the rest unless a run is in progress."""
        for each in (self.apply, self.undo, self.save, self.load):
            each.disabled = self._form.busy
        show(self.undo, self._lab.can_undo)
        changed, self._changed = self._changed, set()
        if changed is None or changed:
            message = self._rows.changes(changed)
            if message is not None:
                self.table.send(message)
        if asking:
            follows = "The summary follows when the run has ended."
            said = f"{follows} This is the earlier one:" if self._figures else follows
            self.summary.value = note(said) + self._figures
        if not asking and self._stale and self._redrawing is None and self._wait is None:
            after_s = REDRAW_AFTER_S if self.image.value else 0.0
            self._wait = asyncio.get_running_loop().call_later(after_s, self._start_redrawing)

    def _start_redrawing(self) -> None:
        self._wait = None
        if self._redrawing is None:
            self._redrawing = asyncio.get_running_loop().create_task(self._redraw())

    async def redraw(self) -> None:
        """Redraw what needs all replies, if any has changed; wait until it is done."""
        if self._stale:
            self._start_redrawing()
        while self._redrawing is not None:
            await asyncio.shield(self._redrawing)

    async def _redraw(self) -> None:
        try:
            while self._stale:
                self._stale = False
                experiment = self._lab.copy()
                winners = [name for name, variant in experiment.variants.items() if variant.configures]
                figures, chart, best = await in_thread(_figures, experiment, winners)
                self.summary.value, self.image.value = figures or note("No replies yet."), chart
                self._figures = figures
                self.regressions.value = broken_html(self._lab.regressions)
                show(self._winning, bool(figures and winners))
                choices = dict(zip(winners, winners, strict=True))
                self.winner.offer(choices if best else {"": "choose one", **choices}, best)
                if self.static.shown:
                    self.static.update(await in_thread(self._static_html, experiment, figures + chart))
        finally:
            self._redrawing = None

    def end(self) -> None:
        """Redraw no more."""
        if self._wait is not None:
            self._wait.cancel()

    def _static_html(self, experiment: Experiment, figures: str) -> str:
        return static_html(experiment, self._lab.agent_name, figures, self._uid)

    def show_static(self) -> None:
        """Display the static transcript in the running cell."""
        experiment = self._lab.copy()
        self.static.show(self._static_html(experiment, summary_html(experiment) + self.image.value))

    # Messages of the page: they arrive on any thread

    def _make_table(self, on_hello: OnHello) -> ResultsTable:
        return ResultsTable(self._rows.snapshot, self._receive, on_hello, "The replies of a prompt lab")

    def _receive(self, message: dict[str, Any]) -> None:
        loop.submit(self._answer(message))

    async def _answer(self, message: dict[str, Any]) -> None:
        reply = await asyncio.to_thread(self._reply_to, message)
        if reply is not None:
            self.table.send(reply)

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
                        self._lab.rate(key, thumb if isinstance(thumb, bool) else None, note)
        return None

    # The buttons: on the toolkit's thread

    def _ask_apply(self) -> str:
        name = self.winner.value
        if not name:
            raise ValueError("No variant passed a check, so none is proposed: choose the winner.")
        return self._applying.ask(self._lab.variant(name), self._lab.replacement_text(name))

    async def _apply(self) -> None:
        name, say = self.winner.value, self._say
        say(f"Applying “{name}”…")
        version = await self._lab.aapply(name, even_if_open=True, notify=say)
        await self._form.read_versions()
        say(f"Applied “{name}”: the agent now runs on version {version.label}.")

    async def _undo(self) -> None:
        self._say("Restoring the earlier configuration…")
        version = await self._lab.aundo_apply(notify=self._say)
        await self._form.read_versions()
        self._say(f"Undone: the agent runs on its earlier configuration, as version {version.label}.")

    def _say(self, text: str) -> None:
        self._form.say(text, WINNER)

    async def _save(self) -> None:
        name = self.path.value.strip() or _FILE
        if name == _FILE:
            own_path(Path(), name)
        notes = await asyncio.to_thread(self._lab.write, name)
        self._form.say(" ".join([f"Saved to {name}.", *notes]), FILE)

    def _ask_load(self) -> str:
        question = "The file replaces the variants, inputs, checks and replies that are here."
        self.loading.ask(question, needed=bool(self._lab.variants))
        return ""

    async def _load(self) -> None:
        name = self.path.value.strip()
        await asyncio.to_thread(self._lab.read, name)
        self._form.replaced = True
        self._form.say(f"Loaded {name}.", FILE)


def _figures(experiment: Experiment, winners: Sequence[str]) -> tuple[str, str, str]:
    """The summary and the chart as safe HTML, and the winner."""
    if not experiment.answered:
        return "", "", ""
    return summary_html(experiment), _chart(experiment), leader(experiment.summary(), winners)


def _chart(experiment: Experiment) -> str:
    try:
        chart = experiment.chart().html()
    except ValueError:  # there is no reply yet
        return ""
    except ImportError as error:
        return note(str(error))
    return region("ab-lab-chart", "Chart", chart)


def summary_html(experiment: Experiment) -> str:
    """What the replies show in sentences, and the summary; empty before a run."""
    frame = experiment.summary()
    if frame.empty:
        return ""
    names, costs, versions = list(experiment.all_checks), _costs(experiment), version_labels(experiment.answers)
    titles = ["answered", *names, "median", "p95", *(["cost"] if costs else [])]
    head = "".join(f'<th scope="col" class="ab-figure">{escape(name)}</th>' for name in titles)
    body = ""
    for row in frame.to_dict("records"):
        values = [f"{row['answered']} of {row['n']}"]
        passed = {name: f"{row[f'{name}_passed']} of {row[f'{name}_n']}" for name in names}
        values += [f"{text}{_undecided(experiment, row, name)}" for name, text in passed.items()]
        values += [seconds(row[name]) if row[name] == row[name] else "–" for name in ("p50_s", "p95_s")]
        values += [costs.get(row["variant"], "–")] if costs else []
        cells = "".join(f'<td class="ab-figure">{escape(value)}</td>' for value in values)
        version = versions.get(row["variant"])
        mark = f' <span class="ab-lab-version">{escape(version)}</span>' if version else ""
        body += f'<tr><th scope="row">{escape(row["variant"])}{mark}</th>{cells}</tr>'
    first, *others = experiment.variants
    lines = describe(experiment.compare_variants(), first) if others else []
    sentences = "<br>".join(map(escape, [*lines, *_agreements(experiment)]))
    shown = table("Summary", f'<th scope="col">variant</th>{head}', body)
    return (f'<div class="ab-lab-verdict">{sentences}</div>' if sentences else "") + shown


def broken_html(changes: pd.DataFrame | None) -> str:
    """What the last run broke as safe HTML; empty if nothing."""
    if changes is None or changes.empty:
        return ""
    count, rows = len(changes), changes.head(MAX_BROKEN).to_dict("records")
    cells = "1 reply that passed before does" if count == 1 else f"{count} replies that passed before do"
    rest = note(f"and {count - MAX_BROKEN} more: lab.regressions") if count > MAX_BROKEN else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("variant", "input", "checks"))
    head += '<th scope="col" class="ab-figure">passed</th>'
    broken = table("What the run broke", head, "".join(map(_row, rows)))
    said = title(f"Broken since the run before: {cells} not pass now")
    return f'<div class="ab-lab-broken">{said}{broken}{rest}</div>'


def _row(row: Mapping[Any, Any]) -> str:
    edited = ' <span class="ab-lab-version">edited</span>' if row["edited"] else ""
    return (
        f"<tr><td>{escape(row['variant'])}{edited}</td>"
        f'<td class="ab-lab-wide">{escape(row["input"])}{_replies(row["reply_before"], row["reply_after"])}</td>'
        f"<td>{escape(row['checks'])}</td>"
        f'<td class="ab-figure">{row["passed_before"]:.0%} → {row["passed_after"]:.0%}</td></tr>'
    )


def _replies(before: Any, after: Any) -> str:
    if not all(isinstance(text, str) and 0 < len(text) <= MAX_COMPARED for text in (before, after)):
        return ""
    return f"<details><summary>replies</summary>{PromptDiff(before, after, 'before', 'after').to_html()}</details>"


def _undecided(experiment: Experiment, row: Mapping[Any, Any], check: str) -> str:
    """How many replies a check looked at without a verdict, in words."""
    answers = [each for each in experiment.answered.values() if each.variant == row["variant"]]
    count = sum(check in each.verdicts and each.verdicts[check].error is not None for each in answers)
    return f", {count:,} undecided" if count else ""


def _costs(experiment: Experiment) -> dict[str, str]:
    """What the replies of each variant cost; empty without prices.

    Where the cost of a reply is not known, there is no sum: a part would look like the
    total.
    """
    known: dict[str, list[float]] = {}
    unknown: Counter[str] = Counter()
    for answer in experiment.answers:
        if answer.cost is not None:
            known.setdefault(answer.variant, []).append(answer.cost)
        elif answer.status == "answered":
            unknown[answer.variant] += 1
    return {name: "–" if unknown[name] else f"{sum(costs):.3g}" for name, costs in known.items()}


def _agreements(experiment: Experiment) -> list[str]:
    """How far judges agree with people, in sentences."""
    lines = []
    for name in (name for name, check in experiment.all_checks.items() if check.judges):
        if pairs := labelled(experiment.answers, name):
            agreed, noun = sum(passed == thumb for passed, thumb in pairs), "reply" if len(pairs) == 1 else "replies"
            warning = calibrate(pairs).warning if len(pairs) >= MIN_THUMBS else ""
            said = f"The judge “{name}” agrees with the labels on {agreed} of {len(pairs)} {noun}."
            lines.append(f"{said} {warning}".rstrip())
    return lines


# In a saved notebook: text goes through `escape` or `render`, and the chart is an
# image, so nothing in it can run.


def static_html(experiment: Experiment, agent_name: str, figures: str, uid: str) -> str:
    """The lab as one element of safe HTML: prompts, then `figures`, then replies."""
    agent_name = agent_name or "several agents"
    if not experiment.variants:
        return empty_element(uid, f"Prompt lab of {agent_name}. There is no variant yet.")
    prompts = "".join(
        f'<h6 class="ab-who"><strong>{escape(variant.name)}</strong></h6>'
        f'<pre class="ab-prompt" dir="auto">{escape(variant.prompt_label)}</pre>'
        for variant in experiment.variants.values()
    )
    folded = f'<details class="ab-steps"><summary>{len(experiment.variants)} variants</summary>{prompts}</details>'
    checks = list(experiment.all_checks)
    cells: dict[str, list[str]] = {}
    for answer in experiment.answers:
        cells.setdefault(answer.input, []).append(_cell(answer, checks))
    rows = "".join(
        f'<div class="ab-result"><blockquote class="ab-asked" dir="auto">{escape(text)}</blockquote>'
        f'<div class="ab-cells">{"".join(each)}</div></div>'
        for text, each in cells.items()
    )
    head = heading(f"Prompt lab of {agent_name}")
    return static_element(uid, f"{STYLE}{head}{folded}{figures}{rows}", "ab-lab")


def _cell(answer: Answer, checks: Sequence[str]) -> str:
    version = f" · {escape(answer.version)}" if answer.version else ""
    times = f" · no. {answer.repeat}" if answer.repeat > 1 else ""
    who = f'<h6 class="ab-who"><strong>{escape(answer.variant)}</strong>{version}{times}</h6>'
    if answer.status == "asking":
        return f'<div class="ab-cell">{who}<div class="ab-foot">asking…</div></div>'
    if answer.status == "answered":
        reply = f'<div class="ab-md">{rendered(answer.shown)}</div>'
        latency = f"Reply after {seconds(answer.latency_s)}" if answer.latency_s is not None else ""
        facts = finish_chip(answer.finish_reason) + latency
        foot = f'<div class="ab-foot">{facts}</div>' if facts else ""
        return f'<div class="ab-cell">{who}{reply}{_grades(answer, checks)}{_rating(answer)}{foot}</div>'
    word = "Failed." if answer.status == "failed" else "Stopped."
    reason = answer.reason or "The agent may still finish; Run looks for its reply."
    request = f'<div class="ab-id">Request {escape(answer.request_id)}</div>' if answer.request_id else ""
    failure = f'<div class="ab-failed"><strong>{word}</strong> {escape(reason)}{request}</div>'
    return f'<div class="ab-cell">{who}{failure}</div>'


def _grades(answer: Answer, checks: Sequence[str]) -> str:
    chips = []
    for name in checks:
        grade = answer.verdicts.get(name)
        if grade is None:
            continue
        kind, word = _GRADES[grade.passed]
        score = f" {grade.score:.2g}" if grade.score is not None else ""
        title = f' title="{escape(grade.error)}"' if grade.error else ""
        said = f'{escape(name)}{score}<span class="ab-unseen"> {word}</span>'
        chips.append(f'<span class="ab-check {kind}"{title}>{said}</span>')
    # Without styles, the chips are words in a row.
    return f'<div class="ab-checks">{"<span class=ab-unseen>; </span>".join(chips)}</div>' if chips else ""


def _rating(answer: Answer) -> str:
    thumb = "" if answer.thumb is None else "👍 good" if answer.thumb else "👎 bad"
    words = ": ".join(escape(part) for part in (thumb, answer.note) if part)
    return f'<p class="ab-r-rating">{words}</p>' if words else ""

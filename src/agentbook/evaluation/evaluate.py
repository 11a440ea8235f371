"""Runs a lab file, from reading to reports, for the command and pytest.

The results are a row per question, as JSON, a page and JUnit XML. The page has no
scripts, and failures first and open. Continuous-integration systems show the XML.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from .._files import local_path, make_private, own_path, write_text
from .._masking import Redactor, with_texts
from .._text import clip, visible
from ..api.calls import ref
from ..events import loop
from ..events.turns import how_incomplete
from . import runs
from .asking import CONCURRENCY, TIMEOUT_S
from .experiment import Answer, Key, grade_data, pending
from .file import SavedLab, read_lab
from .model import Grade
from .platform import find_workspace, require_workspace
from .run import Lab, Options, Plan, progress_bar
from .source import ConfigError
from .statistics import VERDICTS, describe
from .variant import Variant

if TYPE_CHECKING:
    import pandas as pd

    from ..client import Client

AS_IT_IS = "now"  # the variant of a file without any
REPORTS = ("results.json", "junit.xml", "report.html")


def evaluate(
    path: str | Path,
    connect: Callable[[], Client],
    *,
    agent: Any = None,
    workspace: Any = None,
    judge: Any = None,
    folder: Path | None = None,
    repeats: int | None = None,
    against: str | None = None,
    failed: bool = False,
    allow_code: bool = False,
    concurrency: int = CONCURRENCY,
    timeout_s: float = TIMEOUT_S,
    prices: Any = None,
    max_cost: float | None = None,
    progress: bool = False,
    follow: Any = None,
) -> tuple[Results, list[str]]:
    """Run a lab file; returns the results, and notes for the user.

    Parameters
    ----------
    path : str or Path
    connect : callable
        Returns a client. Not called if the file is wrong.
    agent, workspace, judge : str or Record, optional
        Replace those in the file. A judge that a check names stays.
    folder : Path, optional
        Where the reports are written. None writes none.
    repeats : int, optional
        Number of times to ask each input, instead of the file's.
    against : str, optional
        The variant with which the others are compared. Default: the first one.
    failed : bool
        Ask only what did not pass in the last run of the file.
    allow_code : bool
        Whether checks may run functions of Python files.
    concurrency : int
        Number of questions that may be open at the same time.
    timeout_s : float
        Seconds to wait for one reply.
    prices : dict, DataFrame, str or path, optional
        As for `agentbook.with_cost`, for checks of cost and `max_cost`. Default: the
        file that ``AGENTBOOK_PRICES`` names.
    max_cost : float, optional
        The most that the agents' answers and the judges may cost.
    progress : bool
        Show a progress bar on stderr.

    Raises
    ------
    ConfigError
        If the file or the prices are wrong, or no agent or workspace can be determined.
    AgentbookError
        If the platform cannot be reached, or refuses before anything is sent.
    """
    saved = read_lab(path, allow_code=allow_code, judge=judge and ref(judge))
    name = _agent(path, saved, agent)
    if against is not None and against not in saved.experiment.variants:
        there = ", ".join(saved.experiment.variants)
        raise ConfigError(f"{path}: there is no variant {against!r} to compare with; there are {there}.")
    if against is not None and not saved.experiment.all_checks:
        raise ConfigError(f"{path}: there are no `checks`, by which variants could be compared with {against!r}.")
    saved.experiment.answered.clear()  # what a notebook asked earlier
    try:
        number = saved.experiment.repeats if repeats is None else repeats
        options = Options(concurrency, number, True, timeout_s=timeout_s, prices=prices, max_cost=max_cost)
        is_private = folder == default_folder(path)
        if folder is not None:
            make_private(folder) if is_private else folder.mkdir(parents=True, exist_ok=True)
            for report in REPORTS:
                own_path(folder, report)  # before anything is asked
        client = connect()
        where = ref(workspace) if workspace is not None else saved.workspace
        if where is None:
            where = find_workspace(client, name)
        else:
            loop.run(require_workspace(client.asynchronous(), where), operation="eval")
        lab = Lab(client, name, where, follow)
        lab.replace_with(saved.experiment)
        lab.path = Path(path).resolve()
        plan = lab.plan(options=options)
        if failed:
            plan = dataclasses.replace(plan, rounds=_failed(lab, plan))
        with progress_bar(plan, lab, shown=progress) as notify:
            loop.run(lab.ask(plan, notify), operation="eval")
    except ConfigError:
        raise
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from error
    results = Results.of(lab, plan, against)
    if folder is not None:
        write_reports(folder, results, private=is_private)
    return results, lab.notes


def _agent(path: str | Path, saved: SavedLab, agent: Any) -> str | None:
    """The agent to ask; the file has inputs, and each variant an agent."""
    if not saved.experiment.inputs:
        raise ConfigError(f"{path}: there are no `inputs`, so there is nothing to ask.")
    if not saved.experiment.variants:
        saved.experiment.add_variant(Variant(AS_IT_IS))
    name = ref(agent) if agent is not None else saved.agent
    if name is None and any(each.agent is None for each in saved.experiment.variants.values()):
        raise ConfigError(f"{path}: no `agent` is named, so nobody can be asked: name one there, or with --agent.")
    return name


def _failed(lab: Lab, plan: Plan) -> list[list[Key]]:
    """The questions that did not pass in the last run of a file."""
    run = next(runs.saved({**lab.place, "file": str(lab.path)}), None)
    if run is None:
        raise ConfigError(f"There is no earlier run of {lab.path} with this agent, so nothing is known to have failed.")
    checks = list(run.experiment.all_checks)
    wrong = {answer.key for answer in run.answers if status_of(answer, checks) != "passed"}
    left = [[key for key in keys if key in wrong] for keys in plan.rounds]
    if not any(left):
        raise ConfigError("Everything passed in the last run, so there is nothing to ask with --failed.")
    return left


@contextlib.contextmanager
def closing_clients(connect: Callable[[], Client]) -> Iterator[Callable[[], Client]]:
    """`connect`, whose client is closed with its connections when the block ends."""
    connect_once = functools.cache(connect)
    try:
        yield connect_once
    finally:
        if connect_once.cache_info().currsize:
            client = connect_once()
            loop.run(client.asynchronous().aclose(), 60)
            client.close()


def default_folder(path: str | Path) -> Path:
    """Where the reports of a file go unless a folder is named: the data directory."""
    target = Path(path).resolve()
    return local_path("evaluations") / f"{target.stem}-{hashlib.sha256(str(target).encode()).hexdigest()[:8]}"


def write_reports(folder: Path, results: Results, *, private: bool) -> None:
    """Write the `REPORTS`, without any key."""
    redactor = Redactor(runs.secrets_in_environment())
    data = json.dumps(with_texts(results.as_data(), redactor.text), ensure_ascii=False, indent=1)
    texts = data, redactor.text(junit_xml(results)), redactor.text(html_report(results))
    for name, text in zip(REPORTS, texts, strict=True):
        write_text(folder / name, text, private=private)


# Results

_ORDER = {"error": 0, "failed": 1, "passed": 2}
_NOT_SENT = "The question was not sent."
_OF_ANSWER = ("reply", "latency_s", "cost", "session_id", "version", "model", "tokens", "finish_reason")

# Characters that XML 1.0 cannot contain.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def status_of(answer: Answer, checks: Sequence[str]) -> str:
    """passed, failed, or error: there is no reply, or a check could not decide."""
    if answer.status != "answered":
        return "error"
    passed = answer.passed(checks)
    is_open = passed is None and any(pending(answer.verdicts.get(name)) for name in checks)
    return "error" if is_open else "failed" if passed is False else "passed"


@dataclass(frozen=True, slots=True)
class Row:
    """One question: its reply and its grades.

    Attributes
    ----------
    answer : Answer
    checks : sequence of str
        Names of the checks.
    """

    answer: Answer
    checks: Sequence[str] = ()

    @property
    def title(self) -> str:
        """What people call the question."""
        repeat = f" (repeat {self.answer.repeat})" if self.answer.repeat > 1 else ""
        return f"{clip(' '.join(self.answer.input.split()), 160)}{repeat}"

    @property
    def status(self) -> str:
        """passed, failed or error."""
        return status_of(self.answer, self.checks)

    @property
    def reply(self) -> str | None:
        """The reply; None if there is none."""
        return self.answer.reply

    @property
    def grades(self) -> dict[str, Grade]:
        """The grades of the checks that apply, by name."""
        found = {name: self.answer.verdicts.get(name, Grade(None, error=_NOT_SENT)) for name in self.checks}
        return {name: grade for name, grade in found.items() if grade.passed is not None or grade.error is not None}

    @property
    def reason(self) -> str:
        """Why it did not pass; empty if it did."""
        if self.answer.status != "answered":
            return self.answer.reason or _NOT_SENT
        bad = ((name, each.error or each.reason) for name, each in self.grades.items() if not each.passed)
        return "; ".join(f"{name}: {reason}" if reason else name for name, reason in bad)

    def as_data(self) -> dict[str, Any]:
        """The row as plain data, ready for JSON."""
        answer = self.answer
        return {
            **{"variant": answer.variant, "input": answer.input, "repeat": answer.repeat, "message": answer.question},
            **{"values": dict(answer.row), "status": self.status, "reason": self.reason or None},
            **{name: getattr(answer, name) for name in _OF_ANSWER},
            "turns": [{"message": turn.prompt, "reply": turn.text} for turn in answer.turns],
            "checks": {name: grade_data(grade) for name, grade in self.grades.items()},
        }


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of an evaluation, variant by variant.

    Attributes
    ----------
    rows : sequence of Row
    title : str
    facts : mapping of str to str
        The agent, the judges and the like.
    baseline : str or None
        The variant with which the others are compared.
    comparison : DataFrame or None
        As `PromptLab.compare_variants`; None with one variant.
    is_worse : bool
        Whether a variant passes less often than the baseline, beyond noise.
    """

    rows: Sequence[Row]
    title: str = "Evaluation"
    facts: Mapping[str, str] = field(default_factory=dict)
    baseline: str | None = None
    comparison: pd.DataFrame | None = None
    is_worse: bool = False

    @classmethod
    def of(cls, lab: Lab, plan: Plan, against: str | None = None) -> Results:
        """The results of a lab's run."""
        checks, answers = list(lab.all_checks), lab.answered
        rows = [Row(answers.get(key) or Answer(*key, status="stopped"), checks) for key in plan.keys]
        baseline, comparison, is_worse = against or next(iter(lab.variants)), None, False
        if len(lab.variants) > 1:
            comparison = lab.compare_variants(baseline)
            if checks:
                passed = lab.compare_variants(baseline, metrics="passed")
                is_worse = bool((passed["verdict"] == VERDICTS[1]).any())
        judges = {grade.judge for row in rows for grade in row.grades.values() if grade.judge}
        known = {**lab.place, "judge": "; ".join(sorted(judges)) or None, "run": lab.run_id}
        facts = {name: each for name, each in known.items() if each is not None}
        return cls(rows, lab.path.stem if lab.path else "Evaluation", facts, baseline, comparison, is_worse)

    def count(self, status: str) -> int:
        """The number of rows with this status."""
        return sum(row.status == status for row in self.rows)

    @property
    def pass_rate(self) -> float:
        """The share of rows that passed; errors count as failed. 1 without rows."""
        return self.count("passed") / len(self.rows) if self.rows else 1.0

    @property
    def failures(self) -> list[Row]:
        """The rows that failed or could not be graded."""
        return [row for row in self.rows if row.status != "passed"]

    def by_variant(self) -> dict[str, list[Row]]:
        """The rows of each variant, by its name."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.answer.variant, []).append(row)
        return groups

    def verdict(self) -> list[str]:
        """What the comparison of the variants shows, in sentences."""
        return [] if self.comparison is None else describe(self.comparison, str(self.baseline))

    def as_data(self) -> dict[str, Any]:
        """The results as plain data, ready for JSON."""
        comparison = [] if self.comparison is None else json.loads(self.comparison.to_json(orient="records"))
        counts = {status: self.count(status) for status in _ORDER}
        return {
            **self.facts,
            **{"title": self.title, "pass_rate": self.pass_rate, **counts, "verdict": self.verdict()},
            **{"baseline": self.baseline, "comparison": comparison, "results": [row.as_data() for row in self.rows]},
        }


# The page


def html_report(results: Results) -> str:
    """The page, for light and dark and for narrow screens.

    Examples
    --------
    >>> "0 of 0 passed" in html_report(Results([]))
    True
    """
    return _template("results.html", lambda value: visible(value) if type(value) is str else value).render(
        results=results,
        variants={
            label: sorted(rows, key=lambda row: _ORDER[row.status]) for label, rows in results.by_variant().items()
        },
    )


def _template(name: str, finalize: Callable[[Any], Any]) -> jinja2.Template:
    """A template beside this file; `finalize` gets every value that it shows."""
    environment = jinja2.Environment(autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"clip": clip, "how_incomplete": how_incomplete}
    return environment.from_string(files(__package__).joinpath(name).read_text("utf-8"))


# JUnit


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a JUnit file: `text` says more than the one line of `message`."""

    name: str
    status: str  # passed, failed, error or skipped
    message: str = ""
    text: str = ""
    seconds: float | None = None


def junit(name: str, suites: Mapping[str, Sequence[Case]]) -> str:
    """A JUnit file, which continuous-integration systems show.

    Examples
    --------
    >>> print(junit("checks", {}).splitlines()[1])
    <testsuites name="checks" tests="0" failures="0" errors="0" skipped="0">
    """
    named = [(" ".join(label.split())[:120], list(cases)) for label, cases in suites.items()]
    template = _template("junit.xml", lambda value: _ILLEGAL.sub("\ufffd", value) if type(value) is str else value)
    return template.render(name=name, suites=named)


def junit_xml(results: Results) -> str:
    """A suite per variant and a case per question, with the reasons for failures."""
    return junit(results.title, {label: list(map(_case, rows)) for label, rows in results.by_variant().items()})


def _case(row: Row) -> Case:
    text = f"{row.reason}\n\nReply:\n{row.reply or 'none'}"
    return Case(row.title, row.status, row.reason, text, row.answer.latency_s)

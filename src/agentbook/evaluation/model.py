"""The parts of an evaluation file, replies to them, and grades: how these add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .._text import thought
from .check import Check
from .files.source import OutsideFolder, Permissions, referenced_files


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to send, or the messages of a chat as JSON.

    Attributes
    ----------
    label : str
    text : str
        A template.
    settings : mapping
        The prompt's ``config``: model, temperature and the like.
    """

    label: str
    text: str
    id: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """Values for the prompts, and the asserts on the replies.

    Attributes
    ----------
    vars : mapping of str to object
        A list of strings stands for several cases.
    asserts : tuple of Check
    threshold : float or None
        The score from which the case passes, whatever its asserts say.
    prompts : tuple of str or None
        Labels or ids of the prompts it is for; None for all.
    reply : str or None
        A stored reply (``providerOutput``), for which nothing is sent.
    turn : Reply or None
        A past turn with a reply, of which more is known than its text.
    options : mapping
        prefix, suffix, rubricPrompt, disableVarExpansion, disableDefaultAsserts.
    """

    vars: Mapping[str, Any] = field(default_factory=dict)
    asserts: tuple[Check, ...] = ()
    threshold: float | None = None
    description: str | None = None
    prompts: tuple[str, ...] | None = None
    reply: Any = None
    turn: Any = field(default=None, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """An evaluation file: every prompt is sent with the values of every case.

    Attributes
    ----------
    prompts : tuple of Prompt
    cases : tuple of Case
        The cases as in the file; `agentbook.evaluation.files.cells.expand` merges and
        multiplies them.
    default : Case
        The defaults of all cases.
    repeat : int
        Number of times to send each prompt and case.
    agent, judge, workspace : str or None
        Agents of the platform, from ``agentbook:NAME`` in the file's providers.
    folder : Path
        The folder of the file.
    notes : tuple of str
        Parts of the file that have no effect here.
    skipped : tuple of str
        Parts that were left out because they cannot run here, with the reasons.
    allowed : Permissions
        What it may use besides the files in its folder.
    """

    prompts: tuple[Prompt, ...]
    cases: tuple[Case, ...] = ()
    default: Case = field(default_factory=Case)
    repeat: int = 1
    description: str | None = None
    agent: str | None = None
    judge: str | None = None
    workspace: str | None = None
    folder: Path = field(default_factory=Path)
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    allowed: Permissions = field(default_factory=Permissions)


# Replies and grades


class CaseError(ValueError):
    """A check that could not run: the cell of a file has an error and scores 0."""


class Undecided(Exception):
    """A check that ran and has no outcome, such as a judge whose answer says nothing.

    It counts as not passed, with a score of 0, and the other checks are not affected.
    """


class Step(NamedTuple):
    """What an agent ran, such as a tool, and whether it failed."""

    name: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered, and what a check may know about it.

    Attributes
    ----------
    text : str
    latency_s : float or None
        Seconds from sending to the reply; None if not known.
    cost : float or None
        In the currency of the prices; None if not known.
    prompt : str
        The message it answers.
    values : mapping of str to object
        What templates and code may name: the columns of the input.
    input : str
        What the lab calls the input.
    steps : sequence of Step or None
        What the agent ran before it replied; None if not known.
    turns : sequence of Reply
        All of a conversation; a judge reads it, and other checks the last reply.
    session_id : str or None
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``; None if it is not known.
    before : sequence of Reply
        What came before in the session, which a judge reads too.
    """

    text: str
    latency_s: float | None = None
    cost: float | None = None
    prompt: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    input: str = ""
    steps: Sequence[Step] | None = None
    turns: Sequence[Reply] = ()
    session_id: str | None = None
    finish_reason: str | None = None
    before: Sequence[Reply] = ()

    @property
    def folded(self) -> Reply:
        """The reply, and all of a conversation, without what the model only thought."""
        turns, before = ([each.folded for each in part] for part in (self.turns, self.before))
        return replace(self, text=thought(self.text)[1], turns=turns, before=before)


def transcript(turns: Sequence[Reply]) -> str:
    """A conversation as text.

    Examples
    --------
    >>> print(transcript([Reply("Hello.", prompt="Hi")]))
    User: Hi
    <BLANKLINE>
    Agent: Hello.
    """
    return "\n\n".join(f"User: {turn.prompt}\n\nAgent: {turn.text}" for turn in turns)


@dataclass(frozen=True, slots=True)
class Services:
    """Services that some checks need in addition to the reply.

    Attributes
    ----------
    ask_judge : callable or None
        Takes a message and the agent that the check names, or None, and returns the
        judge's reply. Called on a worker thread.
    embed : callable or None
        Takes texts and returns their vectors; None for the endpoint in the environment.
    folder : Path
        The folder of the file.
    allowed : Permissions
        What the file may use besides the files in it.
    """

    ask_judge: Callable[[str, str | None], str] | None = None
    embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None
    folder: Path = field(default_factory=Path)
    allowed: Permissions = field(default_factory=Permissions)

    def file(self, name: str) -> Path:
        """The file that a check names.

        Raises
        ------
        CaseError
            If there is none, or it may not be read.
        """
        try:
            found = referenced_files(self.folder, name, (self.folder, *self.allowed.paths), "")
        except OutsideFolder as error:
            raise CaseError(str(error)) from error
        if not found:
            raise CaseError(f"there is no file {name!r} in {self.folder}.")
        return found[0]


@dataclass(frozen=True, slots=True)
class Grade:
    """The outcome of a check, of a set of them, or of a whole cell.

    Attributes
    ----------
    passed : bool or None
        None if it could not be decided; `error` says why.
    score : float or None
        None if the check only passes or fails.
    reason : str or None
        Why it failed, or what was found; for a judge, the judge's reason.
    error : str or None
    judge : str or None
        Who judged: the agent, its version, and the version of the judge's prompt.
    check : Check or None
        None for a cell.
    parts : tuple of Grade
        The grades of a set's or cell's checks, in order.
    metrics : mapping of str to float
        Scores by the names of checks, averaged by weight.
    """

    passed: bool | None
    score: float | None = None
    reason: str | None = None
    error: str | None = None
    judge: str | None = field(default=None, repr=False)
    check: Check | None = None
    parts: tuple[Grade, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The score, or 1 if the check passed and 0 if not."""
        return float(self.passed is True) if self.score is None else self.score

    @property
    def known_score(self) -> float | None:
        """The score; None also if it is undecided: its 0 points are no measurement."""
        return None if self.passed is None else self.score

    @property
    def known_reason(self) -> str | None:
        """The reason; None if it is undecided: `error` says why."""
        return None if self.passed is None else self.reason

    @classmethod
    def undecided(cls, error: str) -> Grade:
        """The grade of what could not be graded."""
        return cls(None, 0.0, error, error)

    def as_data(self) -> dict[str, Any]:
        """The outcome as plain data, ready for JSON."""
        return {name: getattr(self, name) for name in ("passed", "score", "error", "reason", "judge")}


NO_ASSERTS = Grade(True, 1.0, "no asserts")


def combine(parts: Sequence[tuple[Check, Grade]], threshold: float | None, check: Check | None = None) -> Grade:
    """The grade of several checks: the weighted mean of their scores.

    It passes if all passed, or, with a threshold, if the score reaches it.

    Parameters
    ----------
    parts : sequence of (Check, Grade)
    threshold : float or None
        0 counts as a threshold too: the cell then always passes.
    check : Check, optional
        The set that they form.

    Examples
    --------
    >>> yes, no = Grade(True), Grade(False)
    >>> parts = [(Check("contains", weight=3), yes), (Check("regex"), no)]
    >>> combine(parts, 0.7).score
    0.75
    """
    total = sum(each.weight for each, _ in parts)
    score = sum(grade.points * each.weight for each, grade in parts) / total if total > 0 else 0.0
    bad = [(each, grade) for each, grade in parts if not grade.passed]
    failed = [part for part in bad if part[1].passed is False] or bad[-1:]
    reasons = [f"{each.name}: {grade.reason}" if each.name else grade.reason or "" for each, grade in failed]
    reason = "; ".join(filter(None, reasons))
    passed = not bad if threshold is None else score >= threshold
    if threshold is not None:
        below = f"score {score:.2f} is below the threshold {threshold:g}"
        reason = "" if passed else f"{below}: {reason}" if reason else below
    grades = tuple(grade for _, grade in parts)
    # What is only undecided has not failed.
    is_open = not passed and bool(bad) and all(grade.passed is None for _, grade in bad)
    error = next(grade.error for _, grade in bad) if is_open else None
    return Grade(None if is_open else passed, score, reason, error, None, check, grades, _metrics(parts))


def _metrics(parts: Sequence[tuple[Check, Grade]]) -> dict[str, float]:
    totals: dict[str, tuple[float, float]] = {}
    for check, grade in parts:
        named: dict[str, float] = {check.name: grade.points} if check.name else {}
        for name, score in {**grade.metrics, **named}.items():
            total, weight = totals.get(name, (0.0, 0.0))
            totals[name] = total + score * check.weight, weight + check.weight
    return {name: total / weight if weight > 0 else 0.0 for name, (total, weight) in totals.items()}

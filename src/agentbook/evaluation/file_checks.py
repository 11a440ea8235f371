"""Checks that are asserts of an evaluation file, with the file's meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ..api.calls import ref
from . import similarity
from .asserts import grade
from .files import cells
from .files.read import read_assertion, read_case
from .files.write import assertion_data, case_data, literal_of
from .grade import Reply, Services
from .model import Assertion, Case
from .verdict import Subject, Verdict

AskJudge = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class FileAssert:
    """One assert, on the reply to every input.

    Attributes
    ----------
    assertion : Assertion
    folder : Path
        Where the code that it refers to is.
    agent : str or None
        The agent that judges, if the assert needs one.

    Examples
    --------
    >>> FileAssert(Assertion("contains", "refund")).judge(Subject("Refund")).passed
    False
    """

    kind: ClassVar[str] = "assert"
    assertion: Assertion
    folder: Path = field(default_factory=Path)
    agent: str | None = None

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return self.assertion.label

    def judge(self, subject: Subject, ask: AskJudge | None = None) -> Verdict:
        """The verdict on a reply; `ask` asks the agent that judges."""
        return judge_case(Case(vars=_printed(subject.values), asserts=(self.assertion,)), subject, self, ask)

    def as_data(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON, without code."""
        (assertion,) = _without_code((self.assertion,))
        return {"assert": assertion_data(assertion), "agent": self.agent}


@dataclass(frozen=True, slots=True)
class FileCases:
    """The cases of a file: each input has asserts, weights and a threshold of its own.

    Attributes
    ----------
    cases : mapping of str to Case
        By the name of the input.
    folder : Path
        Where the code that they refer to is.
    agent : str or None
        The agent that judges, if an assert needs one.
    """

    kind: ClassVar[str] = "cases"
    cases: Mapping[str, Case]
    folder: Path = field(default_factory=Path)
    agent: str | None = None

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return "cases of the file"

    def judge(self, subject: Subject, ask: AskJudge | None = None) -> Verdict:
        """The verdict on a reply; an input without a case passes."""
        case = self.cases.get(subject.name) or self.cases.get(subject.question) or Case()
        return judge_case(case, subject, self, ask)

    def as_data(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON, without code."""
        cases = {name: replace(case, asserts=_without_code(case.asserts)) for name, case in self.cases.items()}
        return {"cases": {name: case_data(case) for name, case in cases.items()}, "agent": self.agent}


FileCheck = FileAssert | FileCases
FILE_KINDS = (FileAssert.kind, FileCases.kind)


def flat(assertions: Iterable[Assertion]) -> Iterator[Assertion]:
    """Asserts, and those within sets of them."""
    for assertion in assertions:
        yield assertion
        yield from flat(assertion.children)


def asserts_of(check: FileCheck) -> list[Assertion]:
    """All asserts of a check."""
    lists = [(check.assertion,)] if isinstance(check, FileAssert) else [case.asserts for case in check.cases.values()]
    return [assertion for assertions in lists for assertion in flat(assertions)]


def judge_case(case: Case, subject: Subject, check: FileCheck, ask: AskJudge | None) -> Verdict:
    """The verdict of a case, with the pass and score of its cell in the file."""
    if check.agent is not None and ask is None:
        return Verdict(None, error="not judged yet")
    if any(assertion.base == "python" and assertion.value is None for assertion in flat(case.asserts)):
        return Verdict(None, error="its code is not in this file; load the evaluation file again")
    latency_ms = None if subject.latency_s is None else subject.latency_s * 1000
    reply = Reply(subject.reply, latency_ms, subject.cost, subject.question)
    result = grade(case, reply, Services(ask, similarity.endpoint(), check.folder))
    if result.error is not None:
        return Verdict(None, error=result.error)
    return Verdict(result.passed, result.score, reason=result.reason or None)


def _printed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a lab for a case, which would fill names in braces in them."""
    resolved = cells.resolve(values)
    return {name: value if resolved[name] == value else [[value]] for name, value in values.items()}


def _without_code(assertions: Iterable[Assertion]) -> tuple[Assertion, ...]:
    return tuple(
        replace(each, value=None if each.base == "python" else each.value, children=_without_code(each.children))
        for each in assertions
    )


def read_file_check(kind: str, data: Mapping[str, Any]) -> FileCheck:
    """The check that `as_data` wrote. Code in the data is not used.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is something else, or refers to a file.
    """
    agent = None if data.get("agent") is None else ref(data["agent"])
    if kind == FileAssert.kind:
        return FileAssert(read_assertion(_data_only(data["assert"])), agent=agent)
    return FileCases({str(name): read_case(_data_only(case)) for name, case in data["cases"].items()}, agent=agent)


# What is only shown, or given to code, which the data have none of.
_NOT_READ = ("description", "metadata", "providerOutput", "metric", "config")


def _data_only(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a case or an assert, without code and without names of files.

    Raises
    ------
    ValueError
        If it names a file: a lab's file holds what its checks need.
    """
    for text in _texts({name: part for name, part in data.items() if name not in _NOT_READ}):
        if text.startswith("file://"):
            raise ValueError(f"a check refers to {text!r}; the file of a lab holds what its checks need.")
    is_code = str(data.get("type")).removeprefix("not-") == "python"
    asserts = [_data_only(each) for each in data.get("assert") or ()]
    return {**data, **({"assert": asserts} if asserts else {}), **({"value": None} if is_code else {})}


def _texts(part: Any) -> Iterator[str]:
    """The texts in a part of a case that may be the names of files."""
    if isinstance(part, str):
        yield part
    elif literal_of(part) is part:
        for item in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
            yield from _texts(item)

"""Checks that are asserts of an evaluation file, with the file's meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...evaluation import similarity
from ...evaluation.asserts import grade
from ...evaluation.grade import Reply, Services
from ...evaluation.model import Assertion, Case
from ...evaluation.read import read_assertion, read_case
from ...evaluation.write import assertion_data, case_data
from .verdict import Subject, Verdict


@dataclass(frozen=True, slots=True)
class FileAssert:
    """One assert, on the reply to every input.

    Attributes
    ----------
    assertion : Assertion
    folder : Path
        Where the files that it refers to are.

    Examples
    --------
    >>> FileAssert(Assertion("contains", "refund")).judge(Subject("Refund")).passed
    False
    """

    kind: ClassVar[str] = "assert"
    assertion: Assertion
    folder: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return self.assertion.label

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply."""
        return judge_case(Case(vars=subject.values, asserts=(self.assertion,)), subject, self.folder)

    def as_data(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON."""
        return {"assert": assertion_data(self.assertion), "folder": str(self.folder)}


@dataclass(frozen=True, slots=True)
class FileCases:
    """The cases of a file: each input has asserts, weights and a threshold of its own.

    Attributes
    ----------
    cases : mapping of str to Case
        By input.
    folder : Path
    """

    kind: ClassVar[str] = "cases"
    cases: Mapping[str, Case]
    folder: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        """What the check is called unless it gets a name."""
        return "cases of the file"

    def judge(self, subject: Subject) -> Verdict:
        """The verdict on a reply; an input without a case passes."""
        return judge_case(self.cases.get(subject.question, Case()), subject, self.folder)

    def as_data(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON."""
        return {"cases": {text: case_data(case) for text, case in self.cases.items()}, "folder": str(self.folder)}


FileCheck = FileAssert | FileCases
FILE_KINDS = (FileAssert.kind, FileCases.kind)


def judge_case(case: Case, subject: Subject, folder: Path) -> Verdict:
    """The verdict of a case, with the pass and score of its cell in the file."""
    latency_ms = None if subject.latency_s is None else subject.latency_s * 1000
    reply = Reply(subject.reply, latency_ms, subject.cost, subject.question)
    result = grade(case, reply, Services(embed=similarity.endpoint(), folder=folder))
    if result.error is not None:
        return Verdict(None, error=result.error)
    return Verdict(result.passed, result.score, reason=result.reason or None)


def read_file_check(kind: str, data: Mapping[str, Any]) -> FileCheck:
    """The check that `as_data` wrote."""
    folder = Path(data["folder"])
    if kind == FileAssert.kind:
        return FileAssert(read_assertion(data["assert"]), folder)
    return FileCases({text: read_case(case) for text, case in data["cases"].items()}, folder)

"""Checks of a reply: a text, a pattern, a JSON schema, a function, or `ab.checks`.

A check is a function of one reply and never asks the agent again, so checks can be
changed and applied to existing replies. An `ab.checks.rubric` asks a judge.

The lab's own checks are lenient: texts match in any case, JSON may be in a code fence,
and a score passes from 0.5. An assert of an evaluation file keeps the meaning it has
there.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import jsonschema_rs

from . import patterns
from .criteria import KINDS, Cost, Criterion, Rubric, read_criterion, whole_number
from .file_checks import FILE_KINDS, FileCheck, read_file_check
from .schema import LIMITS
from .verdict import Subject, Verdict

PASSING_SCORE = 0.5
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_NAMED_LINE = re.compile(r"(?P<name>[^:/{]{1,60}):\s+(?P<criterion>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
    kind : str
        contains (in any case), regex, json_schema (also in a code fence), function,
        assert, cases (of an evaluation file), or the kind of one of `ab.checks`.
    criterion : object
        The text, pattern, schema or function; None for a function that was read from a
        file.
    """

    name: str
    kind: str
    criterion: Any

    def judge(
        self,
        reply: str,
        question: str = "",
        latency_s: float | None = None,
        values: Mapping[str, Any] | None = None,
        cost: float | None = None,
        name: str | None = None,
    ) -> Verdict:
        """The verdict on a reply. If the check raises, the verdict has an error.

        Parameters
        ----------
        reply, question : str
        latency_s : float, optional
            Seconds from sending to the reply.
        values : mapping of str to object, optional
            The columns of the input.
        cost : float, optional
            In the currency of the prices.
        name : str, optional
            What the lab calls the input; None if that is the question.
        """
        subject = Subject(
            reply, question, latency_s, {"input": question, **(values or {})}, cost, question if name is None else name
        )
        try:
            if isinstance(self.criterion, Criterion | FileCheck):
                return self.criterion.judge(subject)
            return _JUDGES[self.kind](self.criterion, reply, question)
        except Exception as error:
            return Verdict(None, error=f"{type(error).__name__}: {error}")

    @property
    def is_local(self) -> bool:
        """Whether it decides on its own; otherwise an agent decides."""
        return not (isinstance(self.criterion, Rubric | FileCheck) and self.criterion.agent is not None)

    @property
    def reads_cost(self) -> bool:
        """Whether its verdict may depend on what the reply cost."""
        return self.kind in (Cost.kind, *FILE_KINDS)

    @property
    def line(self) -> str | None:
        """The check as a line that `parse_checks` reads; None if it cannot be typed."""
        if self.kind not in ("contains", "regex", "json_schema"):
            return None
        if self.kind == "json_schema":
            return f"{self.name}: {json.dumps(self.criterion, ensure_ascii=False)}"
        line = str(self.criterion) if self.kind == "contains" else f"/{self.criterion.pattern}/"
        return line if self.name == _default_name(self.kind, self.criterion) else f"{self.name}: {line}"

    def as_data(self) -> dict[str, Any]:
        """The check as plain data. Code is never written: a function is only named."""
        if self.kind == "regex":
            return {
                "name": self.name,
                "kind": self.kind,
                "what": self.criterion.pattern,
                "flags": self.criterion.flags,
            }
        if isinstance(self.criterion, Criterion | FileCheck):
            return {"name": self.name, "kind": self.kind, "what": self.criterion.as_data()}
        return {"name": self.name, "kind": self.kind, "what": None if self.kind == "function" else self.criterion}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Check:
        """The check that `as_data` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is something else.
        """
        name, kind, criterion = data["name"], data["kind"], data["what"]
        if not isinstance(name, str):
            raise ValueError(f"The name of a check must be a text, not {name!r}.")
        if kind == "function":
            return cls(name, kind, None)
        if kind == "regex":
            criterion = re.compile(criterion, whole_number(data["flags"], "The flags of a pattern", low=0))
        elif kind in READERS:
            criterion = READERS[kind](criterion)
        elif kind not in _JUDGES:
            kinds = ", ".join([*_JUDGES, *READERS])
            raise ValueError(f"Unknown kind of check {kind!r}; the kinds are {kinds}.")
        check = _read_check(name, criterion)
        if check.kind != kind:
            raise ValueError(f"The check {name!r} is of the kind {kind}, but looks for {criterion!r}.")
        return check


def read_checks(checks: Any) -> dict[str, Check]:
    r"""Checks by name.

    Parameters
    ----------
    checks : mapping of name to check, or iterable of checks
        A string must be contained in the reply, ignoring case. A compiled pattern must
        be found in it. A mapping is a JSON schema that the reply must satisfy. A
        function takes the reply, or reply and input, and returns a bool or a score from
        0 to 1, which passes from 0.5. `ab.checks` has length, latency, similarity and a
        judge. Checks in a list are named by what they look for.

    Raises
    ------
    TypeError, ValueError

    Examples
    --------
    >>> checks = read_checks({"polite": "please", "short": lambda text: len(text) < 9})
    >>> [check.judge("Please take 2.").passed for check in checks.values()]
    [True, False]
    >>> list(read_checks(["refund", re.compile("a+")]))
    ['contains refund', 'matches a+']
    """
    if checks is None:
        return {}
    if isinstance(checks, str | re.Pattern | Check) or (callable(checks) and not isinstance(checks, Mapping)):
        checks = [checks]
    if isinstance(checks, Mapping):
        parsed = [_read_check(str(name), criterion) for name, criterion in checks.items()]
    elif isinstance(checks, Iterable):
        parsed = [_read_check(None, criterion) for criterion in checks]
    else:
        raise TypeError(f"Checks must be a dict of name to check, or a list of checks, not {type(checks).__name__}.")
    names = [check.name for check in parsed]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Two checks are called {repeated[0]!r}: pass them as a dict with a name for each.")
    return {check.name: check for check in parsed}


def parse_checks(text: str, others: Iterable[Check] = ()) -> dict[str, Check]:
    r"""The checks in a text area, one per line, after `others`, which cannot be typed.

    A line is a text the reply must contain, a pattern between slashes, or a JSON
    schema; ``name:`` in front of it is optional.

    Raises
    ------
    ValueError
        If a line cannot be read.

    Examples
    --------
    >>> checks = parse_checks("Source\ndigits: /\\d+/\n")
    >>> [(check.name, check.kind) for check in checks.values()]
    [('contains Source', 'contains'), ('digits', 'regex')]
    """
    parsed: list[Check] = list(others)
    for line in filter(None, map(str.strip, text.splitlines())):
        named = _NAMED_LINE.fullmatch(line)
        name, body = (named["name"].strip(), named["criterion"].strip()) if named else ("", line)
        criterion: Any = body
        try:
            if len(body) > 2 and body[0] == body[-1] == "/":
                criterion = re.compile(body[1:-1])
            elif body.startswith("{"):
                criterion = json.loads(body)
            parsed += read_checks({name: criterion} if name else [criterion]).values()
        except (ValueError, re.error) as error:
            raise ValueError(f"Checks: “{line}” cannot be read: {error}") from error
    return read_checks(parsed)


def _read_check(name: str | None, criterion: Any) -> Check:
    if isinstance(criterion, Check):
        return Check(name or criterion.name, criterion.kind, criterion.criterion)
    if isinstance(criterion, Criterion | FileCheck):
        return Check(name or criterion.name, criterion.kind, criterion)
    if isinstance(criterion, str):
        if not criterion:
            raise ValueError("A check for an empty text would always pass.")
        kind = "contains"
    elif isinstance(criterion, re.Pattern):
        kind = "regex"
    elif isinstance(criterion, Mapping):
        criterion = dict(criterion)
        _require_schema(criterion)  # raises here rather than for every reply
        kind = "json_schema"
    elif callable(criterion):
        kind = "function"
    else:
        raise TypeError(
            "A check must be a string, a compiled pattern, a JSON schema, a function or one of ab.checks, "
            f"not {type(criterion).__name__} ({criterion!r})."
        )
    return Check(name or _default_name(kind, criterion), kind, criterion)


def _default_name(kind: str, criterion: Any) -> str:
    match kind:
        case "contains":
            return f"contains {criterion}"
        case "regex":
            return f"matches {criterion.pattern}"
        case "json_schema":
            return str(criterion.get("title", "JSON schema"))
        case _:
            return str(getattr(criterion, "__name__", type(criterion).__name__))


def _contains(text: str, reply: str, _question: str) -> Verdict:
    return Verdict(text.lower() in reply.lower())  # as icontains does


def _regex(pattern: re.Pattern[str], reply: str, _question: str) -> Verdict:
    try:
        return Verdict(patterns.search(pattern, reply))
    except patterns.SearchFailed as error:
        return Verdict(None, error=str(error))


def _json_schema(schema: Mapping[str, Any], reply: str, _question: str) -> Verdict:
    fenced = _FENCED.match(reply)  # models like to wrap JSON in a code block
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except json.JSONDecodeError:
        return Verdict(False)
    try:
        return Verdict(not patterns.schema_error("validator_for", schema, value))
    except patterns.SearchFailed as error:
        return Verdict(None, error=str(error))


def _require_schema(schema: Mapping[str, Any]) -> None:
    jsonschema_rs.validator_for(dict(schema), **LIMITS)


def _function(function: Callable[..., Any] | None, reply: str, question: str) -> Verdict:
    if function is None:
        return Verdict(None, error="its function is not in the file; pass it again with lab.check(...)")
    result = function(reply, question) if _takes_two(function) else function(reply)
    if result is None:
        return Verdict(None, error="the function returned nothing; return True, False or a score")
    if isinstance(result, bool) or type(result).__name__ == "bool":  # NumPy's as well
        return Verdict(bool(result))
    score = float(result)
    if score != score:
        return Verdict(None, error="the function returned NaN")
    return Verdict(score >= PASSING_SCORE, score)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is Parameter.empty for each in parameters) >= 2


_JUDGES: dict[str, Callable[[Any, str, str], Verdict]] = {
    "contains": _contains,
    "regex": _regex,
    "json_schema": _json_schema,
    "function": _function,
}

READERS: dict[str, Callable[[Any], Any]] = {
    **{kind: functools.partial(read_criterion, kind) for kind in KINDS},
    **{kind: functools.partial(read_file_check, kind) for kind in FILE_KINDS},
}

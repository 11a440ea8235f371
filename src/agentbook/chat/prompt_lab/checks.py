"""Checks of a reply: a text it contains, a pattern, a JSON schema or a function.

A check is a pure function of one reply. It never asks the agent anything, so checks can
change and be applied to the replies that are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import jsonschema_rs

PASSING_SCORE = 0.5
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_NAMED_LINE = re.compile(r"(?P<name>[^:/{]{1,60}):\s+(?P<criterion>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check. If it could not decide, `passed` is None."""

    passed: bool | None
    score: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
    kind : {"contains", "regex", "json_schema", "function"}
    criterion : object
        The text, the pattern, the schema or the function; None for a function that was
        read from a file.
    """

    name: str
    kind: str
    criterion: Any

    def judge(self, reply: str, question: str = "") -> Verdict:
        """The verdict on a reply. A check that raises is a verdict with an error."""
        try:
            return _JUDGES[self.kind](self.criterion, reply, question)
        except Exception as error:
            return Verdict(None, error=f"{type(error).__name__}: {error}")

    @property
    def line(self) -> str | None:
        """The check as a line that `parse_checks` reads; None if it cannot be typed."""
        if self.kind == "function":
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
        return {"name": self.name, "kind": self.kind, "what": None if self.kind == "function" else self.criterion}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Check:
        """The check that `as_data` wrote."""
        criterion = data["what"]
        if data["kind"] == "regex":
            criterion = re.compile(criterion, data["flags"])
        elif data["kind"] not in _JUDGES:
            raise ValueError(f"Unknown kind of check {data['kind']!r}; the kinds are {', '.join(_JUDGES)}.")
        return cls(data["name"], data["kind"], criterion)


def read_checks(checks: Any) -> dict[str, Check]:
    r"""Checks by name.

    Parameters
    ----------
    checks : mapping of name to check, or iterable of checks
        A string must be contained in the reply, ignoring case. A compiled pattern must
        be found in it. A mapping is a JSON schema that the reply must satisfy. A
        function takes the reply, or reply and input, and returns a bool or a score from
        0 to 1, which passes from 0.5. Checks in a list are named by what they look for.

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
    if isinstance(criterion, str):
        if not criterion:
            raise ValueError("A check for an empty text would always pass.")
        kind = "contains"
    elif isinstance(criterion, re.Pattern):
        kind = "regex"
    elif isinstance(criterion, Mapping):
        criterion = dict(criterion)
        jsonschema_rs.validator_for(criterion)  # raises here, and not for every reply
        kind = "json_schema"
    elif callable(criterion):
        kind = "function"
    else:
        raise TypeError(
            "A check must be a string, a compiled pattern, a JSON schema or a function, "
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
    return Verdict(text.casefold() in reply.casefold())


def _regex(pattern: re.Pattern[str], reply: str, _question: str) -> Verdict:
    return Verdict(pattern.search(reply) is not None)


def _json_schema(schema: Mapping[str, Any], reply: str, _question: str) -> Verdict:
    fenced = _FENCED.match(reply)  # models like to wrap JSON in a code block
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except json.JSONDecodeError:
        return Verdict(False)
    return Verdict(bool(jsonschema_rs.is_valid(dict(schema), value)))


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

"""Checks: what a reply should be like, said as a text, a pattern, a JSON schema or a function.

A check is a pure question about one reply. It never asks the agent anything, so checks can be changed and held against the
replies that are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import jsonschema_rs

ENOUGH = 0.5  # a score passes from here on
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says about a reply: `passed` is None where it could not tell, and `error` says why."""

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
    what : object
        The text, the pattern, the schema or the function; None for a function that came back from a file.
    """

    name: str
    kind: str
    what: Any

    def judge(self, reply: str, asked: str = "") -> Verdict:
        """Hold it against a reply; a check that fails itself says so in the verdict, and never raises."""
        try:
            return _JUDGES[self.kind](self.what, reply, asked)
        except Exception as error:
            return Verdict(None, error=f"{type(error).__name__}: {error}")

    def as_data(self) -> dict[str, Any]:
        """It as plain data. Of a function only the name: code is not written into files."""
        if self.kind == "regex":
            return {"name": self.name, "kind": self.kind, "what": self.what.pattern, "flags": self.what.flags}
        return {"name": self.name, "kind": self.kind, "what": None if self.kind == "function" else self.what}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Check:
        """The check that `as_data` told."""
        what = data["what"]
        if data["kind"] == "regex":
            what = re.compile(what, data["flags"])
        elif data["kind"] not in _JUDGES:
            raise ValueError(f"{data['kind']!r} is no kind of check; there are {', '.join(_JUDGES)}.")
        return cls(data["name"], data["kind"], what)


def read_checks(given: Any) -> dict[str, Check]:
    r"""Checks by name.

    Parameters
    ----------
    given : mapping of name to check, or iterable of checks
        A text must be contained in the reply (upper and lower case count the same); a compiled pattern must be found in it; a
        mapping is a JSON schema that the reply must meet; a function is given the reply, or reply and input, and returns a bool
        or a score from 0 to 1, which passes from 0.5 on. In a list each is named by what it is.

    Raises
    ------
    TypeError, ValueError

    Examples
    --------
    >>> checks = read_checks({"polite": "please", "short": lambda reply: len(reply) < 40, "number": re.compile(r"\d")})
    >>> [check.judge("Please take 2.").passed for check in checks.values()]
    [True, True, True]
    >>> list(read_checks(["refund", re.compile("a+")]))
    ['contains refund', 'matches a+']
    """
    if given is None:
        return {}
    if isinstance(given, str | re.Pattern | Check) or (callable(given) and not isinstance(given, Mapping)):
        given = [given]
    if isinstance(given, Mapping):
        made = [_check(str(name), what) for name, what in given.items()]
    elif isinstance(given, Iterable):
        made = [what if isinstance(what, Check) else _check(None, what) for what in given]
    else:
        raise TypeError(f"Checks are a dict of name to check, or a list of checks, not {type(given).__name__}.")
    names = [check.name for check in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Two checks are called {twice[0]!r}: give them as a dict, with a name for each.")
    return {check.name: check for check in made}


def _check(name: str | None, what: Any) -> Check:
    if isinstance(what, Check):
        return Check(name or what.name, what.kind, what.what)
    if isinstance(what, str):
        if not what:
            raise ValueError("A check for an empty text would always pass.")
        return Check(name or f"contains {what}", "contains", what)
    if isinstance(what, re.Pattern):
        return Check(name or f"matches {what.pattern}", "regex", what)
    if isinstance(what, Mapping):
        jsonschema_rs.validator_for(dict(what))  # raises here, and not for every reply
        return Check(name or str(what.get("title", "JSON schema")), "json_schema", dict(what))
    if callable(what):
        return Check(name or str(getattr(what, "__name__", type(what).__name__)), "function", what)
    raise TypeError(
        f"A check is a text, a compiled pattern, a JSON schema or a function, not {type(what).__name__} ({what!r})."
    )


def _contains(text: str, reply: str, _asked: str) -> Verdict:
    return Verdict(text.casefold() in reply.casefold())


def _regex(pattern: re.Pattern[str], reply: str, _asked: str) -> Verdict:
    return Verdict(pattern.search(reply) is not None)


def _json_schema(schema: Mapping[str, Any], reply: str, _asked: str) -> Verdict:
    fenced = _FENCED.match(reply)  # as models like to wrap it
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except json.JSONDecodeError:
        return Verdict(False)
    return Verdict(bool(jsonschema_rs.is_valid(dict(schema), value)))


def _function(function: Callable[..., Any] | None, reply: str, asked: str) -> Verdict:
    if function is None:
        return Verdict(None, error="its function is not in the file; give it again with lab.check(...)")
    said = function(reply, asked) if _takes_two(function) else function(reply)
    if said is None:
        return Verdict(None, error="the function returned nothing; return True, False or a score")
    if isinstance(said, bool) or type(said).__name__ == "bool":  # numpy's as well
        return Verdict(bool(said))
    score = float(said)
    if score != score:
        return Verdict(None, error="the function returned NaN")
    return Verdict(score >= ENOUGH, score)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in places and each.default is Parameter.empty for each in parameters) >= 2


_JUDGES: dict[str, Callable[[Any, str, str], Verdict]] = {
    "contains": _contains,
    "regex": _regex,
    "json_schema": _json_schema,
    "function": _function,
}

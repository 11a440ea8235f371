"""Converts a check to the text of the form's fields, and back."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from ...evaluation import judge, similarity
from ...evaluation.checks import Check, read_checks
from ...evaluation.criteria import Cost, Latency, Length, Overlap, Rubric, Similar

_ANSWER = "Expected answer, such as {{expected}}"
_SCORE = "Minimum score to pass"
# Kind -> what a passing reply does, and the labels of the kind's fields by name.
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "json_schema": ("is JSON with this schema", {"value": "JSON schema"}),
    "rubric": (
        "meets a criterion, according to a judge",
        {"value": "Criterion", "agent": "Agent that judges", "threshold": _SCORE, "prompt": "Prompt of the judge"},
    ),
    "overlap": ("shares words with an expected answer", {"value": _ANSWER, "threshold": _SCORE}),
    "similar": ("means the same as an expected answer", {"value": _ANSWER, "threshold": _SCORE}),
    "length": ("has this length", {"min": "At least", "max": "At most", "unit": "Unit"}),
    "latency": ("arrives within a time limit", {"max_s": "Maximum seconds"}),
    "cost": ("stays within a cost limit", {"max_cost": "Maximum cost"}),
    "function": ("passes a function of this notebook", {"function": "Function of the reply, or of reply and input"}),
    "contains": ("contains a text, in any case", {"value": "Text"}),
    "regex": ("matches a regular expression", {"value": "Regular expression"}),
}
# The content of the fields before anything is typed.
DEFAULTS = {"prompt": judge.PROMPT}


def read_check(kind: str, fields: Mapping[str, str]) -> Check:
    """The check in the fields of the form.

    Raises
    ------
    ValueError
        If a field cannot be read; the message names it.

    Examples
    --------
    >>> read_check("length", {"name": "", "min": "", "max": "80", "unit": "words"}).name
    'at most 80 words'
    """
    texts = {name: text.strip() for name, text in fields.items()}
    criterion = _READERS[kind](texts)
    name = texts.get("name", "")
    return next(iter(read_checks({name: criterion} if name else [criterion]).values()))


def format_check(check: Check) -> dict[str, str]:
    """A check as the fields that `read_check` reads."""
    criterion = check.criterion
    texts = {"name": check.name}
    match criterion:
        case Length():
            return {**texts, "min": _text(criterion.min), "max": _text(criterion.max), "unit": criterion.unit}
        case Cost():
            return {**texts, "max_cost": f"{criterion.max:g}"}
        case Latency():
            return {**texts, "max_s": f"{criterion.max_s:g}"}
        case Overlap() | Similar():
            return {**texts, "value": criterion.expected, "threshold": f"{criterion.threshold:g}"}
        case Rubric():
            threshold = _text(criterion.threshold)
            return {
                **texts, "value": criterion.text, "agent": criterion.agent, "threshold": threshold,
                "prompt": criterion.prompt,
            }  # fmt: skip
    return {**texts, "function": getattr(criterion, "__name__", "")} if check.kind == "function" else texts


def describe_check(check: Check) -> str:
    """A check in one line: its name, and what it checks.

    Examples
    --------
    >>> describe_check(read_check("latency", {"name": "fast", "max_s": "2"}))
    'fast: within 2 s'
    """
    criterion = check.criterion
    if isinstance(criterion, Rubric):
        meaning = f"“{criterion.text}”, judged by {criterion.agent} (prompt {criterion.prompt_version})"
    elif check.kind == "function":
        meaning = "from code" if criterion is not None else "its function is missing: pass it again"
    else:
        meaning = getattr(criterion, "name", check.kind.replace("_", " "))
    return meaning if meaning == check.name else f"{check.name}: {meaning}"


def notebook_functions() -> dict[str, Callable[..., Any]]:
    """The functions that the notebook's cells define, by name."""
    names = vars(sys.modules["__main__"])
    return {
        name: each
        for name, each in list(names.items())
        if isinstance(each, FunctionType) and each.__module__ == "__main__" and not name.startswith("_")
    }


def _schema(texts: Mapping[str, str]) -> Any:
    try:
        schema = json.loads(texts["value"])
    except ValueError as error:
        raise ValueError(f"JSON schema: this is not JSON ({error}).") from error
    if not isinstance(schema, dict):
        raise ValueError('JSON schema: type an object, such as {"type": "object", "required": ["answer"]}.')
    return schema


def _pattern(texts: Mapping[str, str]) -> Any:
    if not texts["value"]:
        raise ValueError("Regular expression: it is empty, so it would match every reply.")
    try:
        return re.compile(texts["value"])
    except re.error as error:
        raise ValueError(f"Regular expression: it cannot be read: {error}.") from error


def _rubric(texts: Mapping[str, str]) -> Any:
    if not texts["agent"]:
        raise ValueError("Agent that judges: name an agent, such as acme~judge.")
    return Rubric(texts["value"], texts["agent"], _number(texts, "threshold"), texts["prompt"] or judge.PROMPT)


def _named_function(texts: Mapping[str, str]) -> Any:
    functions = notebook_functions()
    name = texts["function"]
    if name not in functions:
        names = ", ".join(functions) or "none yet"
        raise ValueError(f"Function: this notebook defines no {name or 'function of this name'}; there are: {names}.")
    return functions[name]


def _number(texts: Mapping[str, str], name: str, kind: type[Any] = float) -> Any:
    text = texts.get(name, "")
    try:
        return kind(text) if text else None
    except ValueError:
        number = "a whole number" if kind is int else "a number"
        raise ValueError(f"{_LABELS[name]}: type {number}, not “{text}”.") from None


def _limit(texts: Mapping[str, str], name: str) -> Any:
    if not texts[name]:
        raise ValueError(f"{_LABELS[name]}: type a number.")
    return _number(texts, name)


def _score(texts: Mapping[str, str], default: float) -> float:
    score = _number(texts, "threshold")
    return default if score is None else score


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}"


_LABELS = {name: label for _, labels in KINDS.values() for name, label in labels.items()}
_READERS: dict[str, Callable[[Mapping[str, str]], Any]] = {
    "contains": lambda texts: texts["value"],
    "regex": _pattern,
    "json_schema": _schema,
    "length": lambda texts: Length(_number(texts, "max", int), _number(texts, "min", int), texts["unit"]),
    "latency": lambda texts: Latency(_limit(texts, "max_s")),
    "cost": lambda texts: Cost(_limit(texts, "max_cost")),
    "overlap": lambda texts: Overlap(texts["value"], _score(texts, 0.5)),
    "similar": lambda texts: Similar(texts["value"], _score(texts, similarity.THRESHOLD)),
    "rubric": _rubric,
    "function": _named_function,
}

"""The kinds of checks. Each takes a reply and says whether it passes, with a score.

Texts and lists are compared as promptfoo's kinds of the same names do it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import jsonschema_rs
import numpy as np

from .._text import clip, thought
from ..api.errors import AgentbookError
from ..frames.analysis.embeddings import EmbeddingFailed, endpoint
from ..frames.analysis.paths import repeated
from . import patterns, template
from .check import EVERY, FUNCTION, OWN, TURN, Check, compiled
from .judge import escape_marks, find_objects, judge_reply
from .model import Grade, Reply, Services, Undecided

PASSING_SCORE = 0.5
SIMILAR = 0.75  # the threshold of `similar`
_EPSILON = 2.0**-52
NO_EMBEDDINGS = (
    "similar needs embeddings: set OPENAI_BASE_URL, OPENAI_API_KEY and, for a model, AGENTBOOK_EMBEDDING_MODEL."
)
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)

# Whether it holds, what was found, and a score; or the grade, which "not-" is part of.
Outcome = bool | tuple[bool, str] | tuple[bool, str, float] | Grade
Kind = Callable[[Check, Any, Reply, Services], Outcome]


def grade_check(check: Check, reply: Reply, services: Services | None = None) -> Grade:
    """The grade of a reply by one check.

    `reply.values` are what they are, and no templates.

    Examples
    --------
    >>> grade_check(Check("word-count", {"max": 2}), Reply("One two three.")).reason
    '3 words instead of at most 2'
    """
    if check.base == OWN:
        own = check.value.get(reply.input)
        made = Grade(None) if own is None else grade_check(own, reply, services)
        return made if made.reason or made.passed is None else dataclasses.replace(made, reason=own.label)
    try:
        require_columns(check, {name: value for name, value in reply.values.items() if value is not None})
        return _run(check, _folded(reply), services or Services())
    except (Exception, SystemExit) as error:  # what a check does affects only its own cell
        is_ours = isinstance(error, Undecided | AgentbookError)
        return Grade(None, error=str(error) if is_ours else f"{type(error).__name__}: {error}")


def _folded(reply: Reply) -> Reply:
    """The reply, and all of a conversation, without what the model only thought."""
    turns, before = ([_folded(each) for each in part] for part in (reply.turns, reply.before))
    return dataclasses.replace(reply, text=thought(reply.text)[1], turns=turns, before=before)


def columns_of(check: Check) -> list[str]:
    """The columns that a check names in braces, or a check within it."""
    texts = check.value if isinstance(check.value, list) else [check.value]
    named = template.names_in("\n".join(each for each in texts if isinstance(each, str)))
    return [*named, *(name for each in check.children for name in columns_of(each))]


def require_columns(check: Check, row: Mapping[str, Any]) -> None:
    """Raise an Undecided if a check names a column that is not in a row."""
    for name in columns_of(check):
        try:
            template.require(name, row, f"The check {check.label!r}")
        except ValueError as error:
            raise Undecided(str(error)) from None


def _run(check: Check, reply: Reply, services: Services) -> Grade:
    try:
        outcome = KINDS[check.base](check, _value(check, reply.values), reply, services)
    except patterns.InvalidPattern as error:  # always fails, even with `not-`
        return Grade(False, 0.0, f"{check.value!r} is not a pattern of JavaScript: {error}")
    except patterns.SearchFailed as error:
        raise Undecided(str(error)) from error
    if isinstance(outcome, Grade):
        return outcome
    holds, reason, *scores = outcome if isinstance(outcome, tuple) else (outcome, None)
    score = None if not scores else 1 - scores[0] if check.negated else scores[0]
    return Grade(holds != check.negated, score, reason)


def require_valid(check: Check) -> None:
    """Raise a ValueError if a check cannot look for its value.

    Examples
    --------
    >>> require_valid(Check("agentbook:pattern", {"pattern": "("}))
    Traceback (most recent call last):
    ...
    ValueError: the pattern '(' cannot be read: ...
    """
    for each in check.flat():
        value = each.value
        if each.base in ("agentbook:json", "agentbook:pattern", "agentbook:steps") and not isinstance(value, Mapping):
            raise ValueError(f"{each.type} needs names with values, not {value!r}.")
        match each.base:
            case "agentbook:pattern":
                compiled(value)
            case "agentbook:json" | "is-json" | "contains-json" if isinstance(value, Mapping):
                _require_schema(value)
            case "agentbook:steps":
                _require_steps(value)
            case "agentbook:overlap" if not isinstance(value, str) or not value.strip():
                raise ValueError("the expected answer is empty, so no reply could be similar to it.")
            case "llm-rubric" if each.threshold is not None and not 0 <= each.threshold <= 1:
                raise ValueError(f"the threshold of a judge is a number from 0 to 1, not {each.threshold:g}.")
            case "word-count" | "agentbook:characters" if isinstance(value, Mapping):
                _require_bounds(each, value)


def _require_schema(value: Mapping[str, Any]) -> None:
    try:
        jsonschema_rs.validator_for(dict(value), **patterns.LIMITS)
    except (ValueError, jsonschema_rs.ValidationError) as problem:
        path, reason = ".".join(map(str, getattr(problem, "instance_path", ()))), str(problem).splitlines()[0]
        raise ValueError(f"it is no JSON schema{path and f' at {path}'}: {reason}.") from None


def _require_steps(value: Mapping[str, Any]) -> None:
    most = value.get("at_most")
    lists = [value.get(key) or [] for key in ("called", "not_called")]
    if isinstance(lists[0], Mapping) and all(isinstance(each, Mapping) for each in lists[0].values()):
        lists[0] = list(lists[0])
    are_names = all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in lists)
    unknown = value.keys() - {"called", "not_called", "at_most", "order", "no_failures", "no_loops"}
    is_count = most is None or (isinstance(most, int) and not isinstance(most, bool) and most >= 0)
    has_order = value.get("order") in (None, "any", "strict")
    has_condition = any([*lists, value.get("no_failures"), value.get("no_loops")]) or most is not None
    if unknown or not (has_condition and is_count and has_order and are_names):
        known = "called (names, or names with their arguments), not_called (names), at_most (a whole number)"
        raise ValueError(f"steps need {known}, order (any or strict), no_failures or no_loops, not {dict(value)!r}.")


def _require_bounds(check: Check, value: Mapping[str, Any]) -> None:
    bounds = [value[name] for name in ("min", "max") if value.get(name) is not None]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in bounds):
        raise Undecided(f"{check.type}: min and max are finite numbers, not {dict(value)!r}.")
    if not bounds or bounds != sorted(bounds):
        raise Undecided(f"{check.type} needs min or max, and min at most max, not {dict(value)!r}.")


def _value(check: Check, values: Mapping[str, Any]) -> Any:
    """The value with the columns that it names filled in."""
    if check.base == "llm-rubric":
        # What a column holds, others may have written: the question, or an old reply.
        safe = {name: escape_marks(template.filled_in(value)) for name, value in values.items()}
        marks = {name: f"<reference>{text}</reference>" for name, text in safe.items()}
        values = {**marks, "input": safe.get("input")}
    items = check.value if isinstance(check.value, list) else [check.value]
    filled = [template.fill(item, values) if isinstance(item, str) else item for item in items]
    return filled if isinstance(check.value, list) else filled[0]


# The kinds that compare texts and numbers


def _needle(check: Check, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Undecided(f"{check.type} needs a text, not {value!r}.")
    return value


def _needles(check: Check, value: Any) -> list[str]:
    if isinstance(value, str):  # of a column
        is_json = value.lstrip().startswith("[")
        value = _parsed(value) if is_json else list(filter(None, map(str.strip, value.split(","))))
    if not isinstance(value, list) or not value:
        raise Undecided(f"{check.type} needs a list of texts, not {value!r}.")
    return list(map(str, value))


def _contains(fold: Callable[[str], str]) -> Kind:
    return lambda check, value, reply, services: _found(check, value, fold(_needle(check, value)) in fold(reply.text))


def _found(check: Check, value: Any, holds: bool) -> bool | tuple[bool, str]:
    """Whether a text is found; with the text, if it comes from a column."""
    is_named = isinstance(check.value, str) and template.names_in(check.value)
    return (holds, f"{check.type} {clip(str(value), 200)}") if is_named else holds


def _contains_list(fold: Callable[[str], str], combined: Callable[[list[bool]], bool]) -> Kind:
    def run(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
        needles = _needles(check, value)
        hits = [fold(needle) in fold(reply.text) for needle in needles]
        missing = ", ".join(needle for needle, hit in zip(needles, hits, strict=True) if not hit)
        return combined(hits), "" if check.negated else f"{check.type}: missing {missing}"

    return run


def _is_json(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    try:
        data = _parsed(reply.text)
    except (ValueError, RecursionError) as error:
        return False, f"not JSON: {error}"
    return _matches(value, [data])


def _contains_json(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    objects = find_objects(reply.text)
    return _matches(value, objects) if objects else (False, "there is no JSON object in the reply")


def _matches(schema: Any, candidates: Sequence[Any]) -> tuple[bool, str]:
    if schema is None:
        return True, "the reply is JSON"
    if not isinstance(schema, Mapping):
        raise Undecided(f"a JSON schema is needed, not {schema!r}.")
    errors = [patterns.schema_error(schema, candidate) for candidate in candidates]
    return "" in errors, next(iter(errors)) or "the reply conforms to the schema"


def _parsed(text: str) -> Any:
    """JSON as its specification has it, without NaN."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def _json(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    fenced = _FENCED.match(reply.text)  # models like to wrap JSON in a code block
    return _is_json(check, value, dataclasses.replace(reply, text=fenced[1] if fenced else reply.text), services)


def _latency(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if reply.latency_s is None:
        raise Undecided(f"{check.type}: the time of the reply is not known.")
    measured = reply.latency_s * 1000
    return measured <= _limit(check, "milliseconds"), f"{reply.latency_s:.3g} s"


def _cost(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if reply.cost is None:
        raise Undecided(f"{check.type}: the cost is not known: pass prices= (--prices) with a price for this model.")
    return reply.cost <= _limit(check, "the currency of the prices"), f"{reply.cost:.3g}"


def _limit(check: Check, unit: str) -> float:
    if check.threshold is None:
        raise Undecided(f"{check.type} needs a threshold in {unit}.")
    return check.threshold


def _count(check: Check, value: Any, count: int, unit: str) -> tuple[bool, str]:
    if not isinstance(value, Mapping):
        try:
            value = {"min": float(value), "max": float(value)}
        except (TypeError, ValueError):
            raise Undecided(f"{check.type} needs a number, or min and max, not {value!r}.") from None
    _require_bounds(check, value)
    low, high = value.get("min"), value.get("max")
    holds = (low is None or count >= low) and (high is None or count <= high)
    limits = [f"{word} {limit:g}" for word, limit in (("at least", low), ("at most", high)) if limit is not None]
    expected = " and ".join(limits) if low is None or low != high else f"{low:g}"
    return holds, f"{count} {unit}" + ("" if holds else f" instead of {expected}")


def similarity(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of a ``similar``; with several texts, the most similar counts.

    Examples
    --------
    >>> services = Services(embed=lambda texts: [[3.0, 4.0] for text in texts])
    >>> similarity(Check("similar"), "Hello", Reply("World"), services).score
    1.0
    """
    if not isinstance(value, str | list) or not value:
        raise Undecided(f"{check.type} needs a text or a list of texts, not {value!r}.")
    embed = services.embed or endpoint()
    if embed is None:
        raise Undecided(NO_EMBEDDINGS)
    threshold = SIMILAR if check.threshold is None else check.threshold
    texts = [value] if isinstance(value, str) else value
    try:
        vectors = np.asarray(embed([reply.text, *map(str, texts)]), np.float64)
    except EmbeddingFailed as error:
        raise Undecided(str(error)) from error
    except (ValueError, TypeError):
        raise Undecided("the embeddings are not numbers, as many for each text") from None
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    cosine = float(max(vectors[1:] @ vectors[0]))
    passed = cosine <= threshold + _EPSILON if check.negated else cosine >= threshold - _EPSILON
    reason = f"similarity {cosine:.2f}, {'at most' if check.negated else 'at least'} {threshold:g} is needed"
    return Grade(passed, 1 - cosine if check.negated else cosine, "" if passed else reason)


async def require_embeddings(checks: Iterable[Check]) -> None:
    """Check that there are embeddings for these checks, before any agent is asked.

    Raises
    ------
    ValueError
        If a check needs them, and no endpoint returns any.
    """
    if not any(check.reads("similar") for check in checks):
        return
    embed = endpoint()
    if embed is None:
        raise ValueError(f"Nothing was sent: {NO_EMBEDDINGS}")
    try:
        await asyncio.to_thread(embed, ["test"])
    except AgentbookError as error:
        raise ValueError(f"Nothing was sent, because a check needs embeddings. {error}") from error


# The kinds of ours


def _overlap(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str, float]:
    """How many words are shared with an expected answer: the F1 measure."""
    expected, found = (re.findall(r"\w+", str(text).casefold()) for text in (value, reply.text))
    if not expected:
        raise Undecided("the expected answer has no words.")
    common = sum((Counter(expected) & Counter(found)).values())
    score = 2 * common / (len(expected) + len(found)) if common else 0.0
    least = PASSING_SCORE if check.threshold is None else check.threshold
    return score >= least, f"{common} words in common", score


def _function(check: Check, value: Any, reply: Reply, services: Services) -> Outcome:
    if value is None:
        raise Undecided("its function is not in the file; pass it again with lab.check(...)")
    result = value(*(reply.text, reply.prompt, reply.values)[: _count_arguments(value)])
    if result is None:
        raise Undecided("the function returned nothing; return True, False or a score")
    if isinstance(result, bool) or type(result).__name__ == "bool":  # NumPy's as well
        return Grade(bool(result) != check.negated)
    score = float(result)
    if score != score:
        raise Undecided("the function returned NaN")
    least = PASSING_SCORE if check.threshold is None else check.threshold
    return Grade((score >= least) != check.negated, 1 - score if check.negated else score)


def _count_arguments(function: Callable[..., Any]) -> int:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return 1
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(each.kind in positional and each.default is Parameter.empty for each in parameters)
    return min(max(needed, 1), 3)


def _steps(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if reply.steps is None:
        raise Undecided("the steps of the reply are not known.")
    names = [step.name for step in reply.steps]
    called, others = list(value.get("called") or ()), set(value.get("not_called") or ())
    missing = list((Counter(called) - Counter(names)).elements())
    problems = [f"did not call {name}" for name in missing]
    if value.get("order") == "strict" and not missing:
        rest = iter(names)
        if not all(any(name == each for each in rest) for name in called):
            problems.append(f"called {', '.join(name for name in names if name in called)} in this order")
    problems += [f"called {name}" for name in dict.fromkeys(names) if name in others]
    most = value.get("at_most")
    if most is not None and len(names) > most:
        problems.append(f"{len(names)} steps instead of at most {most}")
    if value.get("no_failures"):
        problems += [f"{step.name or 'a step'} failed" for step in reply.steps if step.failed]
    unknown = set()
    for name, asked in value["called"].items() if isinstance(value.get("called"), Mapping) else ():
        wanted = {
            key: template.fill(each, reply.values) if isinstance(each, str) else each for key, each in asked.items()
        }
        given = [step.arguments for step in reply.steps if step.name == name]
        if given and not any(_has(arguments, wanted) for arguments in given):
            unknown |= {name} if None in given else set()
            problems += [] if None in given else [f"did not call {name} with {json.dumps(wanted, ensure_ascii=False)}"]
    if value.get("no_loops"):
        turns = reply.turns if reply.turns and all(each.steps is not None for each in reply.turns) else [reply]
        ran = [(turn, step) for turn, each in enumerate(turns) for step in each.steps or () if not step.failed]
        for numbers, is_loop in repeated([(turn, step.name or None, *step[2:]) for turn, step in ran]):
            name = ran[numbers[0]][1].name
            problems += [f"ran {name} {len(numbers)} times in vain"] if is_loop else []
            unknown |= set() if is_loop else {name or "a step"}
    if unknown and not problems:
        raise Undecided(f"what {', '.join(sorted(unknown))} ran with, or what came back, is not known.")
    return not problems, "; ".join(problems) or f"called {', '.join(filter(None, names)) or 'nothing'}"


def _has(arguments: str | None, wanted: Mapping[str, Any]) -> bool:
    """Whether arguments, as JSON text, have these values among them."""
    given = json.loads(arguments) if arguments is not None else None
    return isinstance(given, dict) and all(
        name in given and (given[name] == value or (isinstance(value, str) and str(given[name]) == value))
        for name, value in wanted.items()
    )


def _turn(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of one reply of a conversation, or the worst of all."""
    turns = reply.turns or [reply]
    last = len(turns)
    numbers = range(1, last + 1) if value == EVERY else [value if value > 0 else last + value + 1]
    if not 1 <= numbers[0] <= last:
        raise Undecided(f"the conversation has {last} replies, so there is no turn {value}.")
    shared: dict[str, Any] = {"values": reply.values, "input": reply.input}
    parts = [(n, dataclasses.replace(turns[n - 1], before=turns[: n - 1], **shared)) for n in numbers]
    grades = [(n, grade_check(check.children[0], part, services)) for n, part in parts]
    number, worst = min(grades, key=lambda pair: ({False: 0, None: 1, True: 2}[pair[1].passed], pair[1].score or 0.0))
    where = f"turn {number}: " if value == EVERY and len(turns) > 1 else ""
    reason, error = (text and f"{where}{text}" for text in (worst.reason, worst.error))
    passed = None if worst.passed is None else worst.passed != check.negated
    return dataclasses.replace(worst, passed=passed, reason=reason, error=error)


KINDS: dict[str, Kind] = {
    "equals": lambda check, value, reply, _: _found(check, value, _needle(check, value) == reply.text),
    "contains": _contains(str),
    "icontains": _contains(str.lower),
    "contains-any": _contains_list(str, any),
    "contains-all": _contains_list(str, all),
    "icontains-any": _contains_list(str.lower, any),
    "icontains-all": _contains_list(str.lower, all),
    "starts-with": lambda check, value, reply, _: _found(check, value, reply.text.startswith(_needle(check, value))),
    "regex": lambda check, value, reply, _: patterns.search_ecmascript(_needle(check, value), reply.text),
    "is-json": _is_json,
    "contains-json": _contains_json,
    "latency": _latency,
    "cost": _cost,
    "similar": similarity,
    "llm-rubric": judge_reply,
    "word-count": lambda check, value, reply, _: _count(check, value, len(reply.text.split()), "words"),
    "agentbook:characters": lambda check, value, reply, _: _count(check, value, len(reply.text), "characters"),
    FUNCTION: _function,
    "agentbook:json": _json,
    "agentbook:overlap": _overlap,
    "agentbook:pattern": lambda check, value, reply, _: patterns.search(compiled(value), reply.text),
    "agentbook:steps": _steps,
    TURN: _turn,
}

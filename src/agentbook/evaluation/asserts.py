"""The kinds of checks. Each takes a reply and says whether it passes, with a score.

They are the asserts of evaluation files, with the pass and score that promptfoo gives;
`tests/peers/promptfoo` compares them cell by cell. Kinds that begin with ``agentbook:``
are ours. The wording of the reasons is ours too.
"""

from __future__ import annotations

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

from .._text import clip
from ..api.errors import AgentbookError
from ..frames.analysis.embeddings import EmbeddingFailed, endpoint
from . import javascript, lenient_json, patterns, template
from .check import CASES, CODE, EVERY, FUNCTION, SET, TURN, Check, compiled
from .code_assert import run_javascript, run_python
from .files import cells
from .files.source import read_source
from .judge import escape_marks, judge_reply
from .model import NO_ASSERTS, Case, CaseError, Grade, Reply, Services, Undecided, combine
from .template import literal

_PROGRAM = re.compile(r"\.(?:py|[cm]?js)(?::\w+)?\Z", re.ASCII)
MAX_EDITED = 100_000_000  # characters times characters, whose edits are counted in some seconds
PASSING_SCORE = 0.5
SIMILAR = 0.75  # the threshold of `similar`
_EPSILON = 2.0**-52
NO_EMBEDDINGS = (
    "similar needs an endpoint for embeddings: set OPENAI_BASE_URL and OPENAI_API_KEY, and AGENTBOOK_EMBEDDING_MODEL for "
    "another model."
)
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)

# Whether it holds, what was found, and a score; or the grade, which "not-" is part of.
Outcome = bool | tuple[bool, str] | tuple[bool, str, float] | Grade
Kind = Callable[[Check, Any, Reply, Services], Outcome]


def grade(case: Case, reply: Reply, services: Services | None = None) -> Grade:
    """The grade of a reply: all checks of its case, weighted.

    Parameters
    ----------
    case : Case
        The case with its defaults merged, as by
        `agentbook.evaluation.files.cells.expand`.
    reply : Reply
    services : Services, optional
        The judge and the embeddings, for the checks that need them.

    Returns
    -------
    Grade
        If a check could not run, a grade with an `error`; other cells are not affected.

    Examples
    --------
    >>> checks = Check("contains", "refund"), Check("not-contains", "order")
    >>> result = grade(Case(asserts=checks), Reply("No refund for order 12."))
    >>> result.passed, result.score, result.reason
    (False, 0.5, 'failed: not-contains order')
    """
    try:
        reply = dataclasses.replace(reply.folded, values=cells.resolve(case.vars))
    except template.TemplateError as error:
        return Grade.undecided(str(error))
    return _grade_case(case, reply, services or Services())


def grade_check(check: Check, reply: Reply, services: Services | None = None) -> Grade:
    """The grade of a reply by one check, as in a lab.

    `reply.values` are what they are, and no templates.

    Examples
    --------
    >>> grade_check(Check("word-count", {"max": 2}), Reply("One two three.")).reason
    '3 words instead of at most 2'
    """
    try:
        require_columns(check, [name for name, value in reply.values.items() if value is not None])
        return _run(check, reply.folded, services or Services())
    except (Exception, SystemExit) as error:  # what a check does affects only its own cell
        return Grade(None, error=_words(error))


def columns_of(check: Check) -> list[str]:
    """The columns that a check names in braces, or a check within it."""
    if check.base == CASES:
        return []
    texts = [check.value] if isinstance(check.value, str) and check.base not in CODE else []
    texts += [each for each in check.value if isinstance(each, str)] if isinstance(check.value, list) else []
    return [*template.names_in("\n".join(texts)), *(name for each in check.children for name in columns_of(each))]


def require_columns(check: Check, names: Iterable[str]) -> None:
    """Raise a CaseError if a check names a column that is not among these."""
    names = list(names)
    missing = next((name for name in columns_of(check) if {name, name.partition(".")[0]}.isdisjoint(names)), None)
    if missing is not None:
        raise CaseError(
            f"The check {check.label!r} names {{{{{missing}}}}}, and there is no such column: there are "
            f"{', '.join(names) or 'none'}. Correct the name, or write {{% raw %}}…{{% endraw %}} around a text."
        )


def _words(error: BaseException) -> str:
    is_ours = isinstance(error, CaseError | template.TemplateError | AgentbookError)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"


def _grade_case(case: Case, reply: Reply, services: Services) -> Grade:
    if not case.asserts:
        return NO_ASSERTS
    prompt = case.options.get("rubricPrompt")
    checks = [check.judged_by(None, prompt) for check in case.asserts] if prompt else case.asserts
    try:
        parts = [(check, _grade(check, reply, services)) for check in checks]
    except Exception as error:  # a bug in a check must not end the run
        return Grade.undecided(_words(error))
    return combine(parts, case.threshold)


def _grade(check: Check, reply: Reply, services: Services) -> Grade:
    """The grade of a check of a case: a number of points, and why it did not pass."""
    result = _run(check, reply, services)
    keeps_reason = not result.passed or check.base in (*CODE, "llm-rubric")
    reason = (result.reason or f"failed: {check.text}") if not result.passed else result.reason or ""
    return dataclasses.replace(result, score=result.points, reason=reason if keeps_reason else "", check=check)


def _run(check: Check, reply: Reply, services: Services) -> Grade:
    result = _run_kind(check, reply, services)
    # A check with weight 0 is only recorded: it never fails.
    never_fails = check.weight == 0 and not check.children
    return dataclasses.replace(result, passed=True, score=result.points) if never_fails else result


def _run_kind(check: Check, reply: Reply, services: Services) -> Grade:
    if check.folder is not None:
        services = dataclasses.replace(services, folder=check.folder)
    if check.is_data:
        services = dataclasses.replace(services, allowed=dataclasses.replace(services.allowed, env=()))
    try:
        outcome = KINDS[check.base](check, _value(check, services, reply.values), reply, services)
    except patterns.InvalidPattern as error:  # always fails, even with `not-`
        return Grade(False, 0.0, f"{check.value!r} is not a pattern of JavaScript: {error}")
    except (Undecided, patterns.SearchFailed) as error:
        return Grade.undecided(str(error))
    if isinstance(outcome, Grade):
        return outcome
    holds, reason, *scores = outcome if isinstance(outcome, tuple) else (outcome, None)
    score = None if not scores else 1 - scores[0] if check.negated else scores[0]
    return Grade(holds != check.negated, score, reason)


def require_valid(check: Check) -> None:
    """Raise a ValueError if a check of ours cannot look for its value.

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
            case "agentbook:json":
                _require_schema(value)
            case "agentbook:steps":
                _require_steps(value)
            case "agentbook:turn":
                is_turn = value == EVERY or (isinstance(value, int) and not isinstance(value, bool) and value != 0)
                if not is_turn or len(each.children) != 1:
                    raise ValueError(f'a turn is a whole number from 1, or "every", with one assert, not {value!r}.')
            case "agentbook:overlap" if not isinstance(value, str) or not value.strip():
                raise ValueError("the expected answer is empty, so no reply could be similar to it.")
            case "word-count" | "agentbook:characters" if isinstance(value, Mapping):
                _require_bounds(each, value)


def _require_schema(value: Mapping[str, Any]) -> None:
    try:
        jsonschema_rs.validator_for(dict(value), **patterns.LIMITS)
    except (ValueError, jsonschema_rs.ValidationError) as problem:
        where = "".join(f".{part}" for part in getattr(problem, "instance_path", ()))
        raise ValueError(
            f"it is no JSON schema{where and f' at {where[1:]}'}: {str(problem).splitlines()[0]}."
        ) from None


def _require_steps(value: Mapping[str, Any]) -> None:
    most = value.get("at_most")
    lists = [value.get(key) or [] for key in ("called", "not_called")]
    are_names = all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in lists)
    unknown = value.keys() - {"called", "not_called", "at_most", "order", "no_failures"}
    is_count = most is None or (isinstance(most, int) and not isinstance(most, bool) and most >= 0)
    has_order = value.get("order") in (None, "any", "strict")
    has_condition = any([*lists, value.get("no_failures")]) or most is not None
    if unknown or not (has_condition and is_count and has_order and are_names):
        raise ValueError(
            f"steps need called or not_called (lists of names), at_most (a whole number), order (any or strict) or no_failures, "
            f"not {dict(value)!r}."
        )


def _require_bounds(check: Check, value: Mapping[str, Any]) -> None:
    bounds = [value[name] for name in ("min", "max") if value.get(name) is not None]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in bounds):
        raise CaseError(f"{check.type}: min and max are finite numbers, not {dict(value)!r}.")
    if not bounds or bounds != sorted(bounds):
        raise CaseError(f"{check.type} needs min or max, and min at most max, not {dict(value)!r}.")


def _value(check: Check, services: Services, values: Mapping[str, Any]) -> Any:
    """The value with its templates filled in, or read from its file."""
    value = check.value
    if isinstance(value, str) and value.startswith("file://"):
        return _from_file(value, services)
    if isinstance(value, str) and check.base in CODE:
        if named := template.names(value):  # the value of a case is what anybody wrote
            raise CaseError(
                f"{check.type}: {{{{{named[0]}}}}} is not filled into code; write context['vars']['{named[0]}'] for its value."
            )
        return _render(value, {}, services)
    if isinstance(value, str) and check.base == "llm-rubric":
        # What a column holds, others may have written: the question, or an old reply.
        values = {name: escape_marks(each) for name, each in values.items()}
        if template.has_only_names(value):
            marks = {name: f"<reference>{template.filled_in(each)}</reference>" for name, each in values.items()}
            return _render(value, {**marks, "input": values.get("input")}, services)
    if isinstance(value, str):
        return _render(value, values, services)
    if isinstance(value, list):
        return [_render(item, values, services) if isinstance(item, str) else item for item in value]
    return value


def _render(text: str, values: Mapping[str, Any], services: Services) -> str:
    if template.has_only_names(text) and values.keys() >= set(template.names_in(text)):
        return template.fill(text, values)  # columns have any names, such as “Expected answer”
    return template.render(text, values, services.allowed.env)


def inlined(check: Check, services: Services) -> Check:
    """A check with the content of its file in place of the file's name.

    Code stays in its file.

    Raises
    ------
    ConfigError, OSError
        If a file cannot be read.
    """
    value = check.value
    if check.base not in CODE and isinstance(value, str) and value.startswith("file://"):
        value = _from_file(value, services)
        if isinstance(value, list):
            value = [literal(item) if isinstance(item, str) else item for item in value]
        elif isinstance(value, str):
            value = literal(value)
    return dataclasses.replace(check, value=value)


def _from_file(value: str, services: Services) -> Any:
    name = value.removeprefix("file://")
    if _PROGRAM.search(name):
        return value
    path = services.file(name)
    if path.suffix in (".json", ".yaml", ".yml"):
        return read_source(path).value
    return javascript.strip(path.read_text(encoding="utf-8-sig"))


# The kinds that compare texts and numbers


def _equals(check: Check, value: Any, reply: Reply, services: Services) -> bool | tuple[bool, str]:
    if value is None or isinstance(value, Mapping | list):
        try:
            return javascript.is_deep_equal(value, javascript.parse_json(reply.text))
        except ValueError:
            return False
    return _found(check, value, javascript.to_text(value) == reply.text)


def _needle(check: Check, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise CaseError(f"{check.type} needs a text or a number, not {value!r}.")
    return javascript.to_text(value)


def _needles(check: Check, value: Any) -> list[str]:
    if isinstance(value, str) and value:
        return split_values(value)
    if not isinstance(value, list):
        raise CaseError(f"{check.type} needs a list of texts, not {value!r}.")
    return [javascript.to_text(item) for item in value]


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


def split_values(text: str) -> list[str]:
    """Texts between commas; a text in quotation marks may contain a comma.

    Raises
    ------
    CaseError
        If a quotation mark is not closed.

    Examples
    --------
    >>> split_values('a, "b, c",, d')
    ['a', 'b, c', 'd']
    """
    values: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "," or javascript.strip(text[position]) == "":
            position += 1
        elif text[position] == '"':
            value, position = _quoted(text, position + 1)
            values.append(value)
        else:
            end = text.find(",", position)
            end = len(text) if end < 0 else end
            values.append(javascript.strip(text[position:end]))
            position = end
    return values


def _quoted(text: str, position: int) -> tuple[str, int]:
    chars: list[str] = []
    while position < len(text):
        pair = text[position : position + 2]
        if pair in ('\\"', "\\\\", '""'):
            chars.append(pair[1])
            position += 2
        elif text[position] == '"':
            rest = text[position + 1 :]
            after = javascript.strip(rest)
            if after and not after.startswith(","):
                raise CaseError(f"a comma is needed after the quotation mark in {text!r}.")
            return "".join(chars), position + 1
        else:
            chars.append(text[position])
            position += 1
    raise CaseError(f"a quotation mark is not closed in {text!r}.")


def _starts_with(check: Check, value: Any, reply: Reply, services: Services) -> bool | tuple[bool, str]:
    if not isinstance(value, str) or not value:
        raise CaseError(f"{check.type} needs a text, not {value!r}.")
    return _found(check, value, reply.text.startswith(value))


def _regex(check: Check, value: Any, reply: Reply, services: Services) -> bool:
    if not isinstance(value, str) or not value:
        raise CaseError(f"{check.type} needs a pattern, not {value!r}.")
    return patterns.search_ecmascript(value, reply.text)


def _is_json(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    try:
        data = javascript.parse_json(reply.text)
    except ValueError as error:
        return False, f"not JSON: {error}"
    return _matches(value, [data])


def _contains_json(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    objects = lenient_json.find_objects(reply.text)
    return _matches(value, objects) if objects else (False, "there is no JSON object in the reply")


def _matches(schema: Any, candidates: Sequence[Any]) -> tuple[bool, str]:
    if schema is None or schema == "":
        return True, "the reply is JSON"
    errors = [patterns.schema_errors(schema, candidate) for candidate in candidates]
    return "" in errors, next(iter(errors)) or "the reply conforms to the schema"


def _latency(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if reply.latency_s is None:
        raise CaseError(f"{check.type}: the time of the reply is not known.")
    measured = reply.latency_s * 1000
    return measured <= _limit(check, "milliseconds"), f"{reply.latency_s:.3g} s"


def _cost(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if reply.cost is None:
        raise CaseError(f"{check.type}: the cost is not known: pass prices= (--prices) with a price for this model.")
    return reply.cost <= _limit(check, "the currency of the prices"), f"{reply.cost:.3g}"


def _limit(check: Check, unit: str) -> float:
    if check.threshold is None:
        raise CaseError(f"{check.type} needs a threshold in {unit}.")
    return check.threshold


def _levenshtein(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    if not isinstance(value, str):
        raise CaseError(f"{check.type} needs a text, not {value!r}.")
    limit = 5 if check.threshold is None else check.threshold
    texts = javascript.code_units(reply.text), javascript.code_units(value)
    if len(texts[0]) * len(texts[1]) > MAX_EDITED:
        raise CaseError(f"texts of {len(texts[0]):,} and {len(texts[1]):,} characters are too long to count edits.")
    distance = edit_distance(*texts)
    return distance <= limit, f"{distance} edits, limit {limit:g}"


def edit_distance(text: str, other: str) -> int:
    """The number of characters to insert, remove or replace.

    Examples
    --------
    >>> edit_distance("kitten", "sitting")
    3
    """
    characters, columns = np.array([ord(char) for char in other], np.int32), np.arange(len(other) + 1, dtype=np.int32)
    row = columns
    for number, char in enumerate(text, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (characters != ord(char)))
        # Inserting goes from left to right: the least so far, plus the columns since.
        row = np.minimum.accumulate(np.append(np.int32(number), changed) - columns) + columns
    return int(row[-1])


def _word_count(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    return _count(check, value, len(javascript.words(reply.text)), "words")


def _characters(check: Check, value: Any, reply: Reply, services: Services) -> tuple[bool, str]:
    return _count(check, value, len(reply.text), "characters")


def _count(check: Check, value: Any, count: int, unit: str) -> tuple[bool, str]:
    if not isinstance(value, Mapping):
        try:
            value = {"min": float(value), "max": float(value)}
        except (TypeError, ValueError):
            raise CaseError(f"{check.type} needs a number, or min and max, not {value!r}.") from None
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
        raise CaseError(f"{check.type} needs a text or a list of texts, not {value!r}.")
    embed = services.embed or endpoint()
    if embed is None:
        raise CaseError(NO_EMBEDDINGS)
    threshold = SIMILAR if check.threshold is None else check.threshold
    texts = [value] if isinstance(value, str) else value
    try:
        vectors = np.asarray(embed([reply.text, *map(str, texts)]), np.float64)
    except EmbeddingFailed as error:
        raise Undecided(str(error)) from error
    except (ValueError, TypeError):
        raise Undecided("the embeddings are not numbers, as many for each text") from None
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    grades = [_compare(float(cosine), threshold, check.negated) for cosine in vectors[1:] @ vectors[0]]
    if check.negated:
        failed = next((grade for grade in grades if not grade.passed), None)
        return failed or min(grades, key=lambda grade: grade.points)
    passed = next((grade for grade in grades if grade.passed), None)
    return passed or max(grades, key=lambda grade: grade.points)


def _compare(cosine: float, threshold: float, negated: bool) -> Grade:
    passed = cosine <= threshold + _EPSILON if negated else cosine >= threshold - _EPSILON
    reason = f"similarity {cosine:.2f}, {'at most' if negated else 'at least'} {threshold:g} is needed"
    return Grade(passed, 1 - cosine if negated else cosine, "" if passed else reason)


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


def _pattern(check: Check, value: Any, reply: Reply, services: Services) -> bool:
    return patterns.search(compiled(value), reply.text)


def _json(check: Check, value: Any, reply: Reply, services: Services) -> bool:
    fenced = _FENCED.match(reply.text)  # models like to wrap JSON in a code block
    try:
        data = json.loads(fenced[1] if fenced else reply.text)
    except (json.JSONDecodeError, RecursionError):
        return False
    return not patterns.schema_error("validator_for", value, data)


def _function(check: Check, value: Any, reply: Reply, services: Services) -> Outcome:
    if value is None:
        raise CaseError("its function is not in the file; pass it again with lab.check(...)")
    result = value(reply.text, reply.prompt) if _takes_two(value) else value(reply.text)
    if result is None:
        raise CaseError("the function returned nothing; return True, False or a score")
    if isinstance(result, bool) or type(result).__name__ == "bool":  # NumPy's as well
        return Grade(bool(result) != check.negated)
    score = float(result)
    if score != score:
        raise CaseError("the function returned NaN")
    least = PASSING_SCORE if check.threshold is None else check.threshold
    return Grade((score >= least) != check.negated, 1 - score if check.negated else score)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is Parameter.empty for each in parameters) >= 2


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
    return not problems, "; ".join(problems) or f"called {', '.join(filter(None, names)) or 'nothing'}"


def _turn(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of one reply of a conversation, or the worst of all."""
    turns = reply.turns or [reply]
    if value == EVERY:
        chosen = list(enumerate(turns, 1))
    elif -len(turns) <= value - (value > 0) < len(turns):
        chosen = [((value - 1) % len(turns) + 1 if value > 0 else len(turns) + value + 1, turns[value - (value > 0)])]
    else:
        raise Undecided(f"the conversation has {len(turns)} replies, so there is no turn {value}.")
    parts = [
        (n, dataclasses.replace(turn, values=reply.values, input=reply.input, before=turns[: n - 1]))
        for n, turn in chosen
    ]
    grades = [(n, _run(check.children[0], part, services)) for n, part in parts]
    number, worst = min(grades, key=lambda pair: ({False: 0, None: 1, True: 2}[pair[1].passed], pair[1].points))
    where = f"turn {number}: " if value == EVERY and len(turns) > 1 else ""
    reason, error = (text and f"{where}{text}" for text in (worst.reason, worst.error))
    passed = None if worst.passed is None else worst.passed != check.negated
    return dataclasses.replace(worst, passed=passed, reason=reason, error=error)


def _cases(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of the case of an input; an input without a case passes."""
    result = _grade_case(value.get(reply.input) or value.get(reply.prompt) or Case(), reply, services)
    return dataclasses.replace(result, reason=result.reason or None)


def _set(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    if not check.children:
        raise CaseError(f"{check.type} needs asserts.")
    return combine([(each, _grade(each, reply, services)) for each in check.children], check.threshold, check)


KINDS: dict[str, Kind] = {
    "equals": _equals,
    "contains": _contains(str),
    "icontains": _contains(str.lower),
    "contains-any": _contains_list(str, any),
    "contains-all": _contains_list(str, all),
    "icontains-any": _contains_list(str.lower, any),
    "icontains-all": _contains_list(str.lower, all),
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _is_json,
    "contains-json": _contains_json,
    "latency": _latency,
    "cost": _cost,
    "similar": similarity,
    "llm-rubric": judge_reply,
    "levenshtein": _levenshtein,
    "word-count": _word_count,
    "python": run_python,
    "javascript": run_javascript,
    "agentbook:characters": _characters,
    FUNCTION: _function,
    "agentbook:json": _json,
    "agentbook:overlap": _overlap,
    "agentbook:pattern": _pattern,
    "agentbook:steps": _steps,
    TURN: _turn,
    CASES: _cases,
    SET: _set,
}

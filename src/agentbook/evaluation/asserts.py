"""The asserts. Each takes a reply and says whether it passes, with a score.

Pass and score are the same as in promptfoo; `tests/peers/promptfoo` compares them cell
by cell. The wording of the reasons is ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import javascript, lenient_json, patterns, template
from .files import cells
from .files.source import OutsideFolder, read_source, referenced_files
from .files.write import literal
from .grade import NO_ASSERTS, CaseError, Grade, Reply, Services, combine
from .judge import judge_reply
from .model import Assertion, Case, Permissions
from .python_assert import run_python
from .schema import InvalidSchema, schema_errors
from .similarity import similarity

# Characters times edits: counting them takes some 10 s.
MAX_EDITED = 10_000_000

Check = Callable[[Assertion, Any, Reply], "bool | tuple[bool, str]"]


def grade(case: Case, reply: Reply, services: Services | None = None) -> Grade:
    """The grade of a reply: all asserts of its case, weighted.

    Parameters
    ----------
    case : Case
        The case with its defaults merged, as by
        `agentbook.evaluation.files.cells.expand`.
    reply : Reply
    services : Services, optional
        The judge and the embeddings, for the asserts that need them.

    Returns
    -------
    Grade
        If an assert could not run, a failed grade with an `error`; other cells are not
        affected.

    Examples
    --------
    >>> asserts = Assertion("contains", "refund"), Assertion("not-contains", "order")
    >>> result = grade(Case(asserts=asserts), Reply("No refund for order 12."))
    >>> result.passed, result.score, result.reason
    (False, 0.5, 'failed: not-contains order')
    """
    if not case.asserts:
        return NO_ASSERTS
    try:
        values = cells.resolve(case.vars)
        parts = [_grade(assertion, case, reply, services or Services(), values) for assertion in case.asserts]
    except (CaseError, template.TemplateError) as error:
        return Grade(False, 0.0, str(error), error=str(error))
    except Exception as error:  # a bug in an assert must not end the run
        text = f"{type(error).__name__}: {error}"
        return Grade(False, 0.0, text, error=text)
    return combine(parts, case.threshold)


def _grade(
    assertion: Assertion, case: Case, reply: Reply, services: Services, values: Mapping[str, Any]
) -> tuple[Assertion, Grade]:
    if assertion.children:
        parts = [_grade(child, case, reply, services, values) for child in assertion.children]
        return assertion, combine(parts, assertion.threshold, assertion)
    result = _run(assertion, case, reply, services, values)
    # An assert with weight 0 is only recorded: it never fails.
    passed = result.passed or assertion.weight == 0
    return assertion, Grade(passed, result.score, result.reason, assertion, metrics=result.metrics)


def _run(assertion: Assertion, case: Case, reply: Reply, services: Services, values: Mapping[str, Any]) -> Grade:
    if assertion.is_data:
        services = dataclasses.replace(services, allowed=dataclasses.replace(services.allowed, env=()))
    if assertion.base == "python":
        value = _value(assertion, services, values)
        return run_python(assertion, reply, values, services.folder, value, services.allowed)
    value = _value(assertion, services, values)
    if assertion.base == "llm-rubric":
        return judge_reply(assertion, value, case, reply, services, values)
    if assertion.base == "similar":
        return similarity(assertion, value, reply, services)
    try:
        outcome = _CHECKS[assertion.base](assertion, value, reply)
    except InvalidCheck as error:
        return Grade(False, 0.0, str(error))
    holds, detail = outcome if isinstance(outcome, tuple) else (outcome, "")
    passed = holds != assertion.negated
    return Grade(passed, float(passed), "" if passed else detail or f"failed: {assertion.text}")


class InvalidCheck(Exception):
    """An assert that always fails, even with ``not-``."""


def _value(assertion: Assertion, services: Services, values: Mapping[str, Any]) -> Any:
    """The value with its templates filled in, or read from its file."""
    value = assertion.value
    if isinstance(value, str):
        return _from_file(value, services) if value.startswith("file://") else _render(value, values, services)
    if isinstance(value, list):
        return [_render(item, values, services) if isinstance(item, str) else item for item in value]
    return value


def _render(text: str, values: Mapping[str, Any], services: Services) -> str:
    return template.render(text, values, services.allowed.env)


def inlined(assertion: Assertion, folder: Path, allowed: Permissions) -> Assertion:
    """An assert with the content of its file in place of the file's name.

    Code stays in its file.

    Raises
    ------
    ConfigError, OSError
        If a file cannot be read.
    """
    value = assertion.value
    if assertion.base != "python" and isinstance(value, str) and value.startswith("file://"):
        value = _from_file(value, Services(folder=folder, allowed=allowed))
        if isinstance(value, list):
            value = [literal(item) if isinstance(item, str) else item for item in value]
        elif isinstance(value, str):
            value = literal(value)
    children = tuple(inlined(child, folder, allowed) for child in assertion.children)
    return dataclasses.replace(assertion, value=value, children=children)


def _from_file(value: str, services: Services) -> Any:
    name = value.removeprefix("file://")
    if ".py" in name:
        return value
    try:
        found = referenced_files(services.folder, name, (services.folder, *services.allowed.paths), "")
    except OutsideFolder as error:
        raise CaseError(str(error)) from error
    if not found:
        raise CaseError(f"there is no file {name!r} in {services.folder}.")
    (path,) = found
    if path.suffix in (".json", ".yaml", ".yml"):
        return read_source(path).value
    return javascript.strip(path.read_text(encoding="utf-8-sig"))


# The asserts that compare texts and numbers


def _equals(assertion: Assertion, value: Any, reply: Reply) -> bool:
    if value is None or isinstance(value, Mapping | list):
        try:
            return javascript.equal(value, javascript.parse_json(reply.text))
        except ValueError:
            return False
    return javascript.to_text(value) == reply.text


def _needle(assertion: Assertion, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise CaseError(f"{assertion.type} needs a text or a number, not {value!r}.")
    return javascript.to_text(value)


def _needles(assertion: Assertion, value: Any) -> list[str]:
    if isinstance(value, str) and value:
        return split_values(value)
    if not isinstance(value, list):
        raise CaseError(f"{assertion.type} needs a list of texts, not {value!r}.")
    return [javascript.to_text(item) for item in value]


def _contains(fold: Callable[[str], str]) -> Check:
    return lambda assertion, value, reply: fold(_needle(assertion, value)) in fold(reply.text)


def _contains_list(fold: Callable[[str], str], combined: Callable[[list[bool]], bool]) -> Check:
    def check(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
        needles = _needles(assertion, value)
        hits = [fold(needle) in fold(reply.text) for needle in needles]
        missing = ", ".join(needle for needle, hit in zip(needles, hits, strict=True) if not hit)
        return combined(hits), "" if assertion.negated else f"{assertion.type}: missing {missing}"

    return check


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


def _starts_with(assertion: Assertion, value: Any, reply: Reply) -> bool:
    if not isinstance(value, str) or not value:
        raise CaseError(f"{assertion.type} needs a text, not {value!r}.")
    return reply.text.startswith(value)


def _regex(assertion: Assertion, value: Any, reply: Reply) -> bool:
    if not isinstance(value, str) or not value:
        raise CaseError(f"{assertion.type} needs a pattern, not {value!r}.")
    try:
        return patterns.search_ecmascript(value, reply.text)
    except patterns.InvalidPattern as error:
        raise InvalidCheck(f"{value!r} is not a pattern of JavaScript: {error}") from error
    except patterns.SearchFailed as error:
        raise CaseError(f"the pattern {value!r}: {error}") from error


def _is_json(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
    try:
        data = javascript.parse_json(reply.text)
    except ValueError as error:
        return False, f"not JSON: {error}"
    return _matches(value, [data])


def _contains_json(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
    objects = lenient_json.find_objects(reply.text)
    return _matches(value, objects) if objects else (False, "there is no JSON object in the reply")


def _matches(schema: Any, candidates: Sequence[Any]) -> tuple[bool, str]:
    if schema is None or schema == "":
        return True, "the reply is JSON"
    try:
        errors = [schema_errors(schema, candidate) for candidate in candidates]
    except InvalidSchema as error:
        raise CaseError(f"not a valid JSON schema: {error}") from error
    except patterns.SearchFailed as error:
        raise CaseError(str(error)) from error
    return "" in errors, next(iter(errors)) or "the reply conforms to the schema"


def _upper_bound(unit: str) -> Check:
    def check(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
        measured = reply.latency_ms if assertion.base == "latency" else reply.cost
        if measured is None:
            raise CaseError(f"{assertion.type}: the {assertion.base} of the reply is not known.")
        if assertion.threshold is None:
            raise CaseError(f"{assertion.type} needs a threshold in {unit}.")
        return measured <= assertion.threshold, f"{assertion.base} {measured:g} {unit}, limit {assertion.threshold:g}"

    return check


def _levenshtein(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
    if not isinstance(value, str):
        raise CaseError(f"{assertion.type} needs a text, not {value!r}.")
    limit = 5 if assertion.threshold is None else assertion.threshold
    longest = max(len(reply.text), len(value))
    if longest * min(limit, longest) > MAX_EDITED:
        raise CaseError(f"texts of {longest:,} characters are too long to count {limit:g} edits; lower the threshold.")
    texts = javascript.code_units(reply.text), javascript.code_units(value)
    distance = edit_distance(*texts, limit=max(0, int(limit)))
    return distance <= limit, f"{distance} edits or more, limit {limit:g}"


def edit_distance(text: str, other: str, limit: int | None = None) -> int:
    """The number of characters to insert, remove or replace.

    Parameters
    ----------
    text, other : str
    limit : int, optional
        The greatest distance to count exactly; beyond it, any number above it may be
        returned.

    Examples
    --------
    >>> edit_distance("kitten", "sitting")
    3
    """
    if len(text) < len(other):
        text, other = other, text
    reach = len(text) if limit is None else limit  # how far a path may leave the diagonal
    if len(text) - len(other) > reach:
        return reach + 1
    far = len(text) + 1
    previous = {column: column for column in range(min(len(other), reach) + 1)}
    for row, char in enumerate(text, 1):
        current: dict[int, int] = {}
        for column in range(max(0, row - reach), min(len(other), row + reach) + 1):
            changed = previous.get(column - 1, far) + (column == 0 or char != other[column - 1])
            current[column] = min(previous.get(column, far) + 1, current.get(column - 1, far) + 1, changed)
        previous = current
        if limit is not None and min(current.values()) > limit:
            return limit + 1
    return previous[len(other)]


def _word_count(assertion: Assertion, value: Any, reply: Reply) -> tuple[bool, str]:
    count = len(javascript.words(reply.text))
    if isinstance(value, Mapping):
        low, high = value.get("min"), value.get("max")
        if low is None and high is None:
            raise CaseError(f"{assertion.type} needs min or max.")
        if low is not None and high is not None and low > high:
            raise CaseError(f"{assertion.type}: min {low} is greater than max {high}.")
        limits = [f"{word} {limit}" for word, limit in (("at least", low), ("at most", high)) if limit is not None]
        holds = (low is None or count >= low) and (high is None or count <= high)
        return holds, f"{count} words instead of {' and '.join(limits)}"
    try:
        return count == float(value), f"{count} words instead of {value}"
    except (TypeError, ValueError):
        raise CaseError(f"{assertion.type} needs a number, or min and max, not {value!r}.") from None


def _same(text: str) -> str:
    return text


_CHECKS: dict[str, Check] = {
    "equals": _equals,
    "contains": _contains(_same),
    "icontains": _contains(str.lower),
    "contains-any": _contains_list(_same, any),
    "icontains-any": _contains_list(str.lower, any),
    "contains-all": _contains_list(_same, all),
    "icontains-all": _contains_list(str.lower, all),
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _is_json,
    "contains-json": _contains_json,
    "latency": _upper_bound("ms"),
    "cost": _upper_bound("dollars"),
    "levenshtein": _levenshtein,
    "word-count": _word_count,
}

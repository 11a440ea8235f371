"""The assert ``python``: code in the file, run on the reply."""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import patterns
from .files.source import referenced_files
from .grade import CaseError, Grade, Reply
from .javascript import parse_float, parse_json, to_text
from .model import Assertion, Permissions

_FILE = re.compile(r"(?:file://)?(\S+\.py)(?::(\w+))?")
# As a lab writes a pattern that JavaScript would read differently.
_SEARCH = re.compile(r"__import__\('re'\)\.search\((.+), output, (\d+)\) is not None", re.DOTALL)


def run_python(
    assertion: Assertion,
    reply: Reply,
    values: Mapping[str, Any],
    folder: Path,
    value: Any,
    allowed: Permissions | None = None,
) -> Grade:
    """The grade of a ``python`` assert: an expression, a function's body, or a file.

    The result may be a bool, a score, or a mapping with pass, score and reason. A score
    passes if it is above 0 or, if the assert has a threshold, reaches that. Code that
    raises fails its cell.

    Parameters
    ----------
    assertion : Assertion
    reply : Reply
        The code reads its text as ``output``.
    values : mapping of str to object
        The code reads them as ``context["vars"]``, and the assert's config, if it has
        one, as ``context["config"]``.
    folder : Path
        The folder with the files.
    value : object
        The assert's value with its templates filled in.
    allowed : Permissions, optional
        Where else its file may be.

    Examples
    --------
    >>> code = "len(output) / 10"
    >>> run_python(Assertion("python"), Reply("Hello"), {}, Path(), code).score
    0.5
    """
    if not isinstance(value, str):
        raise CaseError(f"{assertion.type} needs code as text, not {value!r}.")
    if search := _SEARCH.fullmatch(value):
        with contextlib.suppress(SyntaxError, ValueError, re.error):
            pattern = re.compile(ast.literal_eval(search[1]), int(search[2]))
            return _read_result(assertion, _search(pattern, reply.text))
    context = {"prompt": reply.prompt, "vars": dict(values), "test": {"vars": dict(values)}}
    if assertion.config not in (None, False, 0, ""):
        context["config"] = copy.deepcopy(assertion.config)  # as written: promptfoo fills no templates in it
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            file = python_file(assertion)
            result = (
                _call(value, reply.text, context)
                if file is None
                else _call_file(*file, folder, allowed or Permissions(), reply.text, context)
            )
        return _read_result(assertion, result)
    except Exception as error:
        return Grade(False, 0.0, f"the code raised {type(error).__name__}: {error}")


def _search(pattern: re.Pattern[str], text: str) -> bool:
    try:
        return patterns.search(pattern, text)
    except patterns.SearchFailed as error:
        raise CaseError(f"the pattern {pattern.pattern!r}: {error}") from error


def python_file(assertion: Assertion) -> tuple[str, str] | None:
    """The name of the file and of the function that an assert runs; None for code.

    Examples
    --------
    >>> python_file(Assertion("python", "file://check.py:score"))
    ('check.py', 'score')
    """
    if assertion.base != "python" or not isinstance(assertion.value, str):
        return None
    match = _FILE.fullmatch(assertion.value)
    return None if match is None else (match[1], match[2] or "get_assert")


def _call_file(
    name: str, function: str, folder: Path, allowed: Permissions, output: str, context: Mapping[str, Any]
) -> Any:
    found = referenced_files(folder, name, (folder, *allowed.paths), "")
    if not found:
        raise CaseError(f"there is no file {name!r} in {folder}")
    (path,) = found
    namespace: dict[str, Any] = {"__name__": "assert", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)  # noqa: S102 - the file's own code
    return namespace[function](output, context)


def _call(code: str, output: str, context: Mapping[str, Any]) -> Any:
    namespace: dict[str, Any] = {"__name__": "assert"}
    body = code if "\n" in code else f"return {code}"
    first = re.search(r"^(?!\s*$)\s+", body, re.MULTILINE)
    indent = first[0] if first and "\n" in code else "    "
    lines = "\n".join(f"{indent}{line}" for line in body.split("\n"))
    exec(f"import json\n\ndef main(output, context):\n{lines}\n", namespace)  # noqa: S102
    return namespace["main"](output, context)


def _read_result(assertion: Assertion, result: Any) -> Grade:
    if isinstance(result, str) and result.startswith("{"):
        result = parse_json(result)
    if isinstance(result, bool) or (isinstance(result, str) and result.lower() in ("true", "false")):
        passed = (result is True or str(result).lower() == "true") != assertion.negated
        return Grade(passed, float(passed), "" if passed else f"the code returned {result}")
    if isinstance(result, Mapping):
        return _read_mapping(assertion, result)
    score = parse_float(to_text(result)) if result is not None else None
    if score is None:
        raise ValueError(f"it must return True, False, a score, or pass, score and reason, not {result!r}")
    enough = score > 0 if assertion.threshold is None else score >= assertion.threshold
    passed = enough != assertion.negated
    return Grade(passed, score, "" if passed else f"the code returned {score:g}")


def _read_mapping(assertion: Assertion, result: Mapping[str, Any]) -> Grade:
    passed = result.get("pass", result.get("pass_"))
    score, reason = result.get("score"), result.get("reason")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not isinstance(passed, bool) or not is_number or not isinstance(reason, str):
        raise ValueError(f"it must return pass (true or false), score (a number) and reason (a text), not {result!r}")
    number = float(score)  # type: ignore[arg-type]
    if assertion.threshold is not None and number < assertion.threshold:
        passed, reason = False, f"score {number:g} is below the threshold {assertion.threshold:g}: {reason}"
    metrics = result.get("namedScores", result.get("named_scores")) or {}
    return Grade(passed != assertion.negated, number, reason, metrics={str(n): float(v) for n, v in metrics.items()})

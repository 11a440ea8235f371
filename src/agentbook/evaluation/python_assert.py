"""The assert ``python``: code in the file, run on the reply."""

from __future__ import annotations

import contextlib
import copy
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .check import Check
from .grade import CaseError, Grade, Reply, Services
from .javascript import parse_float, parse_json, to_text

_FILE = re.compile(r"(?:file://)?(\S+\.py)(?::(\w+))?")


def run_python(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of a ``python`` check: an expression, a function's body, or a file.

    The code reads the reply as ``output``, the values as ``context["vars"]``, and the
    check's config, if it has one, as ``context["config"]``. It may return a bool, a
    score, or a mapping with pass, score and reason. A score passes if it is above 0 or,
    if the check has a threshold, reaches that. Code that raises fails its cell.

    Examples
    --------
    >>> check = Check("python", "len(output) / 10")
    >>> run_python(check, check.value, Reply("Hello"), Services()).score
    0.5
    """
    if value is None:
        raise CaseError("its code is not in this file; load the evaluation file again.")
    if not isinstance(value, str):
        raise CaseError(f"{check.type} needs code as text, not {value!r}.")
    values = reply.values
    context = {"prompt": reply.prompt, "vars": dict(values), "test": {"vars": dict(values)}}
    if check.config not in (None, False, 0, ""):
        context["config"] = copy.deepcopy(check.config)  # as written: promptfoo fills no templates in it
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            file = python_file(check)
            result = (
                _call(value, reply.text, context)
                if file is None
                else _call_file(services.file(file[0]), file[1], reply.text, context)
            )
        return _read_result(check, result)
    except (Exception, SystemExit) as error:  # the code's own end is not that of the run
        return Grade(False, 0.0, f"the code raised {type(error).__name__}: {error}")


def python_file(check: Check) -> tuple[str, str] | None:
    """The name of the file and of the function that a check runs; None for code.

    Examples
    --------
    >>> python_file(Check("python", "file://check.py:score"))
    ('check.py', 'score')
    """
    if check.base != "python" or not isinstance(check.value, str):
        return None
    match = _FILE.fullmatch(check.value)
    return None if match is None else (match[1], match[2] or "get_assert")


def _call_file(path: Path, function: str, output: str, context: Mapping[str, Any]) -> Any:
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


def _read_result(check: Check, result: Any) -> Grade:
    if isinstance(result, str) and result.startswith("{"):
        result = parse_json(result)
    if isinstance(result, bool) or (isinstance(result, str) and result.lower() in ("true", "false")):
        passed = (result is True or str(result).lower() == "true") != check.negated
        return Grade(passed, float(passed), "" if passed else f"the code returned {result}")
    if isinstance(result, Mapping):
        return _read_mapping(check, result)
    score = parse_float(to_text(result)) if result is not None else None
    if score is None:
        raise ValueError(f"it must return True, False, a score, or pass, score and reason, not {result!r}")
    enough = score > 0 if check.threshold is None else score >= check.threshold
    passed = enough != check.negated
    return Grade(passed, score, "" if passed else f"the code returned {score:g}")


def _read_mapping(check: Check, result: Mapping[str, Any]) -> Grade:
    passed = result.get("pass", result.get("pass_"))
    score, reason = result.get("score"), result.get("reason")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not isinstance(passed, bool) or not is_number or not isinstance(reason, str):
        raise ValueError(f"it must return pass (true or false), score (a number) and reason (a text), not {result!r}")
    number = float(score)  # type: ignore[arg-type]
    if check.threshold is not None and number < check.threshold:
        passed, reason = False, f"score {number:g} is below the threshold {check.threshold:g}: {reason}"
    metrics = result.get("namedScores", result.get("named_scores")) or {}
    return Grade(passed != check.negated, number, reason, metrics={str(n): float(v) for n, v in metrics.items()})

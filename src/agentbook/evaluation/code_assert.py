"""The asserts ``python`` and ``javascript``: code in the file, run on the reply.

JavaScript runs only where whoever runs the file allows it: by Node, in a process of its
own, with a limit of time and without variables of the environment. What code returns
counts as in promptfoo.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from .check import Check, code_file
from .javascript import parse_float, parse_json, to_text
from .model import CaseError, Grade, Reply, Services

NOT_ALLOWED = "it runs JavaScript; allow it with --allow-javascript, in Python allow_javascript=True"
LIMIT_S = 10.0
MAX_MEMORY_MB = 512
_CONTEXT = ("prompt", "vars", "test", "config")  # promptfoo passes more, not known here
# A line that begins with a declaration returns what follows its last semicolon.
_PROGRAM = r"""
import fs from "node:fs"
import {createRequire} from "node:module"
import {dirname} from "node:path"
import {pathToFileURL} from "node:url"
for (const each of ["module", "exports", "require", "__filename", "__dirname"]) delete globalThis[each]
const {answer, code, file, name, output, context} = JSON.parse(fs.readFileSync(0, "utf8"))
const body = line => {
  const text = line.trim().replace(/;+\s*$/, "")
  if (!/^(const|let|var)\s/.test(text)) return `return ${text}`
  const bare = text.replace(/\\[^]|'(?:\\[^]|[^'\\])*'|"(?:\\[^]|[^"\\])*"|`(?:\\[^]|[^`\\])*`/g, each => " ".repeat(each.length))
  const end = bare.lastIndexOf(";") + 1
  return end ? `${text.slice(0, end)} return ${text.slice(end)}` : text
}
const run = async () => {
  if (!file) {
    process.mainModule = {require: createRequire(process.cwd() + "/")}
    const text = code.trimEnd()
    return new Function("output", "context", "process", text.includes("\n") ? text : body(text))(output, context, process)
  }
  const found = await import(pathToFileURL(file)).catch(error => {
    if (!/(module|exports|require) is not defined/.test(error.message)) throw error
    const made = {exports: {}}  // CommonJS in a package of ES modules, which promptfoo reads too
    const load = new Function("module", "exports", "require", "__filename", "__dirname", fs.readFileSync(file, "utf8"))
    load(made, made.exports, createRequire(file), file, dirname(file))
    return made.exports
  })
  const module = found.default?.default || found.default || found
  const use = name ? module[name] : module
  if (typeof use !== "function") throw new Error(`the file exports no function ${name ?? ""}`)
  return use(output, context)
}
const tell = result => {
  fs.writeFileSync(answer, JSON.stringify(result))
  process.exit(0)
}
run().then(result => tell({type: typeof result, result}), error => tell({error: String(error?.message ?? error)}))
"""


def _context(check: Check, reply: Reply) -> dict[str, Any]:
    """What the code reads as its second argument."""
    context: dict[str, Any] = {"prompt": reply.prompt, "vars": dict(reply.values), "test": {"vars": dict(reply.values)}}
    if check.config not in (None, False, 0, ""):
        context["config"] = copy.deepcopy(check.config)  # as written: promptfoo fills no templates in it
    return context


def _grade_bool(check: Check, result: bool, shown: Any) -> Grade:
    passed = result != check.negated
    return Grade(passed, float(passed), "" if passed else f"the code returned {shown}")


def _grade_score(check: Check, score: float) -> Grade:
    enough = score > 0 if check.threshold is None else score >= check.threshold
    passed = enough != check.negated
    return Grade(passed, score, "" if passed else f"the code returned {score:g}")


def _grade_object(check: Check, result: Any) -> Grade:
    data = result if isinstance(result, Mapping) else {}
    passed, score, reason = data.get("pass"), data.get("score"), data.get("reason")
    is_score = isinstance(score, int | float) and not isinstance(score, bool)
    if not isinstance(passed, bool) or not is_score or not isinstance(reason, str):
        raise ValueError(
            "it must return true, false, a score, or pass (true or false), score (a number) and reason (a text), "
            f"not {result!r:.200}"
        )
    metrics = data.get("namedScores")
    named = {str(name): float(each) for name, each in metrics.items()} if isinstance(metrics, Mapping) else {}
    return Grade(passed != check.negated, float(cast(float, score)), reason, metrics=named)


# Python


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
    context = _context(check, reply)
    try:
        if named := code_file(check):
            result = _call_file(services.file(named[0]), named[1] or "get_assert", reply.text, context)
        else:
            result = _call(value, reply.text, context)
    except (Exception, SystemExit) as error:  # the code's own end is not that of the run
        return Grade(False, 0.0, f"the code raised {type(error).__name__}: {error}")
    try:
        return _read_python(check, result)
    except Exception as error:  # the values are the code's own objects
        return Grade(False, 0.0, f"the code gave no grade: {error}")


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


def _read_python(check: Check, result: Any) -> Grade:
    if isinstance(result, str) and result.startswith("{"):
        result = parse_json(result)
    if isinstance(result, bool) or (isinstance(result, str) and result.lower() in ("true", "false")):
        return _grade_bool(check, str(result).lower() == "true", result)
    if isinstance(result, Mapping):
        names = {"pass_": "pass", "named_scores": "namedScores"}
        grade = _grade_object(check, {names.get(name, name): value for name, value in result.items()})
        if check.threshold is None or grade.points >= check.threshold:
            return grade
        reason = f"score {grade.points:g} is below the threshold {check.threshold:g}: {grade.reason}"
        return dataclasses.replace(grade, passed=check.negated, reason=reason)
    score = parse_float(to_text(result)) if result is not None else None
    return _grade_object(check, result) if score is None else _grade_score(check, score)


# JavaScript


def run_javascript(check: Check, value: Any, reply: Reply, services: Services) -> Grade:
    """The grade of a ``javascript`` check: an expression, a function's body, a file.

    The code reads the reply as ``output``, and ``context`` with the prompt, the values
    as ``vars`` and ``test.vars``, and the check's ``config``. It returns true, false,
    a score, or an object with pass, score and reason, or a promise of these.
    """
    if not services.allowed.javascript:
        raise CaseError(NOT_ALLOWED)
    if not isinstance(value, str):
        raise CaseError(f"{check.type} needs code as text, not {value!r}.")
    question: dict[str, Any] = {"code": value, "output": reply.text, "context": _context(check, reply)}
    if named := code_file(check):
        question |= {"file": str(services.file(named[0]).resolve()), "name": named[1]}
    answer = _ask_node(question, services.folder)
    if "error" in answer and named:
        raise CaseError(f"{named[0]}: {answer['error']}")
    if "error" in answer:
        return Grade(False, 0.0, f"the code threw {answer['error']}")
    return _read_javascript(check, answer.get("type"), answer.get("result"))


def refusal(check: Check, *, is_allowed: bool) -> str | None:
    """Why the code of a check cannot run; None if it can."""
    if not is_allowed:
        return NOT_ALLOWED
    if shutil.which("node") is None:
        return "it runs JavaScript, and there is no `node` on the PATH"
    text = check.value if isinstance(check.value, str) and not code_file(check) else ""
    unknown = [name for name in re.findall(r"\bcontext\s*\??\.\s*(\w+)", text) if name not in _CONTEXT]
    return f"`context.{unknown[0]}` is not known here, only {', '.join(_CONTEXT)}" if unknown else None


def _read_javascript(check: Check, kind: Any, result: Any) -> Grade:
    if kind == "boolean":
        return _grade_bool(check, result, str(result).lower())
    if kind == "number":
        if result is None:  # NaN
            return Grade(check.negated, 0.0, "the code returned NaN")
        return _grade_score(check, float(result))
    try:
        return _grade_object(check, result)
    except ValueError as error:
        return Grade(False, 0.0, f"the code gave no grade: {error}")


def _ask_node(question: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # The answer is a file: what the code prints, or a process that it starts, would
    # fill a pipe, or keep it open.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        answer = Path(place, "answer")
        try:
            subprocess.run(  # noqa: S603 - the code of the file, which the command allows
                [
                    shutil.which("node") or "node",
                    f"--max-old-space-size={MAX_MEMORY_MB}",
                    "--input-type=module",
                    "-e",
                    _PROGRAM,
                ],
                cwd=folder,
                env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},  # Windows needs it
                input=json.dumps({**question, "answer": str(answer)}, default=str).encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT_S,
                check=False,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            result: dict[str, Any] = json.loads(answer.read_bytes())
            return result
        except (subprocess.TimeoutExpired, OSError, ValueError):  # it was ended, so there is no answer
            raise CaseError(
                f"the JavaScript gave no result within {LIMIT_S:g} s and {MAX_MEMORY_MB} MB; make it end sooner, and "
                "return less."
            ) from None

"""Applies patterns and JSON schemas to other people's text, within a time limit.

Some take longer than a lifetime on a short text, and nothing in this process can stop
a search or a validator. So they run in a child process, which ends itself at the limit
and is started again when it is next needed.

Patterns of evaluation files are JavaScript's. The package `regress` searches for them,
but in whole characters, where JavaScript sees two for each one beyond U+FFFF. So the
two are moved to U+E000–E7FF, whose own characters are private and rare.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import marshal
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import jsonschema_rs
import yaml

from . import javascript
from .files.source import YamlLoader
from .model import CaseError

LIMIT_S = 3.0
MAX_MEMORY_MB = 512  # where the system can limit it
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
# What `regress` would read differently: half a character, and `\\u` before no digits.
_ESCAPE = re.compile(r"\\u([dD][89a-fA-F][0-9a-fA-F]{2})|(\\u)(?![0-9a-fA-F]{4})|\\[\s\S]")
# A boundary that is repeated, which `regress` allows; a class has none.
_BOUNDARY = re.compile(r"\[(?:\\[\s\S]|[^\]\\])*+\]|\\(?:[bB](?P<count>[*+?]|\{\d+(?:,\d*)?\})|[\s\S])")
DRAFT_7 = ("http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#")
_KEYWORDS = frozenset(
    (
        *("$schema", "$id", "$ref", "$comment", "$defs", "definitions", "title", "description"),
        *("default", "examples", "readOnly", "writeOnly", "nullable", "type", "enum", "const"),
        *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength"),
        *("minLength", "pattern", "format", "items", "additionalItems", "maxItems", "minItems"),
        *("uniqueItems", "contains", "maxProperties", "minProperties", "required", "properties"),
        *("patternProperties", "additionalProperties", "dependencies", "propertyNames", "if", "then"),
        *("else", "allOf", "anyOf", "oneOf", "not", "contentEncoding", "contentMediaType"),
    )
)
_SCHEMAS = ("additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not")
_LISTS = ("allOf", "anyOf", "oneOf")
_MAPS = ("properties", "patternProperties", "definitions", "$defs")
_HALVES = {unit: unit + 0x800 for unit in range(0xD800, 0xE000)}
_CHILD = """
import faulthandler, marshal, os, re, sys

def search(pattern, flags, text):
    return re.compile(pattern, flags).search(text) is not None

def search_ecmascript(path, pattern, flags, text):
    if path != sys.path:
        sys.path[:] = path
    import regress
    try:
        return regress.Regex(pattern, flags).find(text) is not None
    except regress.RegressError as error:
        return str(error)

def validate(path, draft, schema, value):
    if path != sys.path:
        sys.path[:] = path
    import json, jsonschema_rs
    checks = {
        name: jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True).is_valid
        for name in ("uuid", "duration", "uri")  # draft 7 does not have the first two
    }
    formats = {**checks, "uri": lambda text: checks["uri"](text) and not text.endswith(":")}
    options = {"validate_formats": True, "formats": formats, "email_options": jsonschema_rs.EmailOptions(require_tld=True)}
    # Within parts of a schema, a search that is given up would count as one that found
    # nothing. Here, the clock gives up.
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=2**31 - 1)
    make = getattr(jsonschema_rs, draft)
    try:
        make(json.loads(schema), retriever=refuse, pattern_options=patterns, **options).validate(json.loads(value))
    except jsonschema_rs.ValidationError as error:
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded):
            raise MemoryError("a pattern of the schema needs too much of it") from None
        return error.message
    return ""

def refuse(address):
    raise ValueError("only a part of the schema itself can be referred to")

def limit_memory(size):
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    except (ImportError, OSError, ValueError):
        pass

nowhere = open(os.devnull, "w")
while True:
    try:
        question, arguments, limit, memory = marshal.load(sys.stdin.buffer)
    except EOFError:
        break
    limit_memory(memory)
    faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
    try:
        answer = True, globals()[question](*arguments)
    except MemoryError:
        os._exit(1)
    except Exception as error:
        answer = False, f"{type(error).__name__}: {error}"
    faulthandler.cancel_dump_traceback_later()
    marshal.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


class SearchFailed(Exception):
    """A search without a result; the message says why."""


class InvalidPattern(ValueError):
    """JavaScript does not accept the pattern."""


def search_ecmascript(pattern: str, text: str, flags: str = "") -> bool:
    r"""Whether ``new RegExp(pattern, flags).test(text)``.

    Raises
    ------
    InvalidPattern
    SearchFailed
        If it takes longer than `LIMIT_S`.

    Examples
    --------
    >>> search_ecmascript(r"^\w+$", "naïve"), search_ecmascript("B$", "ab", "i")
    (False, True)
    """
    if not flags and _SPECIAL.isdisjoint(pattern):
        return pattern in text
    if any(match["count"] for match in _BOUNDARY.finditer(pattern)):
        raise InvalidPattern("Nothing to repeat.")
    found = _child.ask("search_ecmascript", _path(), _halved(_ESCAPE.sub(_escape, pattern)), flags, _halved(text))
    if isinstance(found, str):
        raise InvalidPattern(f"{found}.")
    return bool(found)


def _escape(match: re.Match[str]) -> str:
    if match[1]:
        return f"\\u{int(match[1], 16) + 0x800:04x}"
    return "u" if match[2] else match[0]


def _halved(text: str) -> str:
    return javascript.code_units(text).translate(_HALVES)


def _path() -> list[str]:
    return [folder for folder in sys.path if isinstance(folder, str)]


def search(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern of Python is found in a text.

    Raises
    ------
    SearchFailed
        If it takes longer than `LIMIT_S`.

    Examples
    --------
    >>> search(re.compile(r"order \\d+"), "Your order 12 is on its way.")
    True
    """
    if not pattern.flags & ~(re.UNICODE | re.ASCII) and _SPECIAL.isdisjoint(pattern.pattern):
        return pattern.pattern in text
    found: bool = _child.ask("search", pattern.pattern, int(pattern.flags & ~re.DEBUG), text)
    return found


# JSON schemas, as promptfoo applies them: draft 7, strictly, with formats (Ajv)


def _refuse(address: str) -> Any:
    raise ValueError("only a part of the schema itself can be referred to")


# A schema may come from somebody else: it reads no file and asks no server.
LIMITS: dict[str, Any] = {"retriever": _refuse, "pattern_options": jsonschema_rs.FancyRegexOptions()}


def schema_errors(schema: Any, value: Any) -> str:
    """Why a value does not conform to a schema; empty if it does.

    Parameters
    ----------
    schema : mapping, bool or str
        A string is YAML or JSON.
    value : object

    Raises
    ------
    CaseError
        If the schema cannot be read.
    SearchFailed

    Examples
    --------
    >>> schema_errors({"type": "object", "required": ["answer"]}, {"answer": 1})
    ''
    >>> schema_errors("type: number", "1")
    '"1" is not of type "number"'
    """
    if isinstance(schema, str):
        try:
            schema = yaml.load(schema, YamlLoader)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, ValueError) as error:
            raise _invalid(str(error)) from error
    if not isinstance(schema, Mapping | bool):
        raise _invalid(f"it must be an object, not {javascript.to_json(schema)}.")
    unknown = next(_unknown_keywords(schema), None)
    if unknown is not None:
        raise _invalid(f"unknown keyword {unknown!r}.")
    draft = schema.get("$schema") if isinstance(schema, Mapping) else None
    if draft is not None and draft not in DRAFT_7:
        raise _invalid(f"{draft} is not draft 7.")
    schema = dict(schema) if isinstance(schema, Mapping) else schema
    try:
        jsonschema_rs.Draft7Validator(schema, validate_formats=True, **LIMITS)
    except (ValueError, jsonschema_rs.ValidationError) as problem:
        raise _invalid(str(problem).splitlines()[0]) from problem
    return schema_error("Draft7Validator", schema, value)


def _invalid(reason: str) -> CaseError:
    return CaseError(f"not a valid JSON schema: {reason}")


def _unknown_keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield from (str(name) for name in schema if name not in _KEYWORDS)
    parts = [schema[name] for name in _SCHEMAS if name in schema]
    parts += [part for name in _LISTS for part in schema.get(name) or ()]
    parts += [part for name in _MAPS for part in (schema.get(name) or {}).values()]
    items = schema.get("items")
    parts += items if isinstance(items, list) else [items]
    for part in parts:
        yield from _unknown_keywords(part)


def schema_error(draft: str, schema: Mapping[str, Any] | bool, value: Any) -> str:
    """Why a value does not conform to a schema; empty if it does.

    Formats are checked. One that JSON Schema does not define, such as int32, is not.
    ``nullable: true`` also allows null, as in OpenAPI.

    Parameters
    ----------
    draft : str
        The function of `jsonschema_rs` that makes the validator.
    schema : mapping or bool
        One that this function accepts.
    value : object

    Raises
    ------
    SearchFailed
        If it takes longer than `LIMIT_S`.
    """
    error: str = _child.ask("validate", _path(), draft, json.dumps(_with_null(schema)), json.dumps(value))
    return error


def _with_null(schema: Any) -> Any:
    """A schema in which what is nullable has the type null, too."""
    if isinstance(schema, list):
        return [_with_null(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    parts = {name: each if name in ("const", "enum", "default") else _with_null(each) for name, each in schema.items()}
    kinds = parts.get("type")
    if parts.get("nullable") is True and isinstance(kinds, str | list):
        parts["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
        if isinstance(parts.get("enum"), list):
            parts["enum"] = [*parts["enum"], None]
    return parts


class _Child:
    """The process that searches and validates, one text at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parents: subprocess.Popen[bytes] | None = None  # kept, so that its pipes stay as they are

    def ask(self, question: str, *arguments: Any) -> Any:
        request = marshal.dumps((question, arguments, LIMIT_S, MAX_MEMORY_MB << 20))
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self._end()
                process = self._process = self._start()
            stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            started, answer = time.monotonic(), None
            try:
                with contextlib.suppress(OSError, EOFError):  # it has ended, so there is no answer
                    stdin.write(request)
                    stdin.flush()
                    answer = marshal.load(stdout)  # noqa: S302 - our own process
            finally:
                if answer is None:  # also after an interrupt: a late answer would be taken for the next one
                    self._end()
        if answer is not None:
            is_answered, result = answer
            if not is_answered:
                raise SearchFailed(result)
            return result
        if time.monotonic() - started >= LIMIT_S:
            raise SearchFailed(
                f"it took longer than {LIMIT_S:g} s; write the pattern without repetitions within repetitions, such as "
                "(a+)+, and a schema so that no part of it refers to others twice"
            )
        raise SearchFailed("the process that tries it ended; it may have run out of memory")

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-I", "-S", "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl+C interrupts whoever waits, not the process.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError, TypeError) as error:  # there may be no `sys.executable`
            raise SearchFailed(f"no process to try it in could be started: {error}") from error

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def end(self) -> None:
        """End the process; a later search starts another one."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leave the process to the parent, after a fork."""
        if self._process is not None:
            self._process.returncode = 0  # as far as this process is concerned
        self._lock, self._process, self._parents = threading.Lock(), None, self._process


_child = _Child()
atexit.register(_child.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child.forget)

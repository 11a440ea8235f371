"""Applies patterns and JSON schemas to other people's text, within a time limit.

Some take longer than a lifetime on a short text, and nothing in this process can stop
a search or a validator. So they run in a child process, which ends itself at the limit
and is started again when it is next needed.

Patterns of Python and of JavaScript are both searched for: `regress` has the latter.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import marshal
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, Any, cast

import jsonschema_rs

LIMIT_S = 3.0
MAX_MEMORY_MB = 512  # where the system can limit it
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_CHILD = """
import faulthandler, marshal, os, re, sys

def search(pattern, flags, text):
    return re.compile(pattern, flags).search(text) is not None

def search_ecmascript(pattern, flags, text):
    import regress
    try:
        return regress.Regex(pattern, flags).find(text) is not None
    except regress.RegressError as error:
        return str(error)

def validate(schema, value):
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
    made = jsonschema_rs.validator_for(json.loads(schema), retriever=refuse, pattern_options=patterns, **options)
    try:
        made.validate(json.loads(value))
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
    found = _child.ask("search_ecmascript", pattern, flags, text)
    if isinstance(found, str):
        raise InvalidPattern(f"{found}.")
    return bool(found)


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


# JSON schemas


def _refuse(address: str) -> Any:
    raise ValueError("only a part of the schema itself can be referred to")


# A schema may come from somebody else: it reads no file and asks no server.
LIMITS: dict[str, Any] = {"retriever": _refuse, "pattern_options": jsonschema_rs.FancyRegexOptions()}


def schema_error(schema: Mapping[str, Any], value: Any) -> str:
    """Why a value does not conform to a schema; empty if it does.

    Formats are checked. One that JSON Schema does not define, such as int32, is not.
    ``nullable: true`` also allows null, as in OpenAPI.

    Parameters
    ----------
    schema : mapping
        One that `jsonschema_rs` accepts.
    value : object

    Raises
    ------
    SearchFailed
        If it takes longer than `LIMIT_S`.

    Examples
    --------
    >>> schema_error({"type": "number"}, "1")
    '"1" is not of type "number"'
    """
    error: str = _child.ask("validate", json.dumps(_with_null(schema)), json.dumps(value))
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
                [sys.executable, "-P", "-c", _CHILD],
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


_child = _Child()
atexit.register(_child.end)

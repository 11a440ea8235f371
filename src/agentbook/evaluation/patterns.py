"""Searches other people's text with regular expressions, within a time limit.

Some patterns take longer than a lifetime on a short text, and nothing in this process
can stop `re`. So it runs in a child process, which ends itself at the limit and is
started again when it is next needed.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import re
import subprocess
import sys
import threading
import time
from typing import IO, cast

LIMIT_S = 3.0
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_SEARCH = """
import faulthandler, marshal, os, re, sys
nowhere = open(os.devnull, "w")
while True:
    try:
        pattern, flags, text, limit = marshal.load(sys.stdin.buffer)
    except EOFError:
        break
    faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
    found = re.compile(pattern, flags).search(text) is not None
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.buffer.write(b"1" if found else b"0")
    sys.stdout.buffer.flush()
"""


class SearchFailed(Exception):
    """A search without a result; the message says why."""


def search(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found in a text.

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
    # Not JSON, which joins two halves of a character that JavaScript keeps apart.
    return _child.ask(marshal.dumps((pattern.pattern, int(pattern.flags & ~re.DEBUG), text, LIMIT_S)))


class _Child:
    """The process that searches, one text at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parents: subprocess.Popen[bytes] | None = None  # kept, so that its pipes stay as they are

    def ask(self, request: bytes) -> bool:
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self._end()
                process = self._process = self._start()
            stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            started, answer = time.monotonic(), b""
            try:
                with contextlib.suppress(OSError):  # it has ended, so there is no answer
                    stdin.write(request)
                    stdin.flush()
                    answer = stdout.read(1)
            finally:
                if not answer:  # also after an interrupt: a late answer would be taken for the next one
                    self._end()
        if answer:
            return answer == b"1"
        if time.monotonic() - started >= LIMIT_S:
            raise SearchFailed(
                f"the search took longer than {LIMIT_S:g} s; write the pattern without repetitions within repetitions, "
                "such as (a+)+"
            )
        raise SearchFailed("the process that searches ended; it may have run out of memory")

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-I", "-S", "-c", _SEARCH],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl+C interrupts whoever waits, not the process.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError, TypeError) as error:  # there may be no `sys.executable`
            raise SearchFailed(f"no process to search in could be started: {error}") from error

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

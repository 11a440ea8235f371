"""Runs vl-convert in a process of its own, which ends when there is nothing to draw.

vl-convert contains V8, whose memory stays with the process until it ends: about 80 MB,
a quarter of a kernel's memory, which a container of 450 MB cannot spare.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

IDLE_S = 5.0  # V8 takes 0.5 s of CPU to start, so charts that follow soon use the same process
_PROGRAM = Path(__file__).with_name("draw.py")


class DrawingProcess:
    """A process that is started by the first call and ended after `idle_s` without one.

    Safe to use from several threads; they wait for each other.
    """

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        process = self._process
        return process.pid if process is not None else None

    def call(self, function: str, **arguments: Any) -> str | bytes:
        """What a function of vl-convert returns.

        Raises
        ------
        ValueError
            If vl-convert refuses the arguments; the message is its own.
        ChildProcessError
            If the process ended before it replied.
        """
        request = json.dumps([function, arguments]).encode() + b"\n"
        with self._lock:
            self._cancel_timer()
            try:
                kind, content = self._exchange(request)
            except BaseException:  # also an interrupted cell: the reply would go to the next call
                self._end()
                raise
            self._timer = threading.Timer(self._idle_s, self._end_if_idle)
            self._timer.daemon = True
            self._timer.start()
        if kind == "error":
            raise ValueError(content.decode())
        return content.decode() if kind == "text" else content

    def close(self) -> None:
        """End the process. The next call starts another."""
        with self._lock:
            self._cancel_timer()
            self._end()

    def _exchange(self, request: bytes) -> tuple[str, bytes]:
        if self._process is not None:
            with contextlib.suppress(_EndedError):
                return _exchange(self._process, request)
            self._end()  # killed since the last call, for example by the system
        self._process = _started()
        try:
            return _exchange(self._process, request)
        except _EndedError:
            raise ChildProcessError(
                "The process that draws charts ended before the chart was drawn. Run the cell again."
            ) from None

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():  # otherwise a call came in between
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it holds nothing that could be lost
        for pipe in _pipes(process):
            with contextlib.suppress(BrokenPipeError):  # from a call that could not be written
                pipe.close()
        process.wait()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a file of this package
        [sys.executable, "-P", str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Jupyter interrupts all processes of the kernel's group
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


class _EndedError(Exception):
    """The process ended before it replied."""


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> tuple[str, bytes]:
    """The kind and content of the reply."""
    calls, responses = _pipes(process)
    try:
        calls.write(request)
        calls.flush()
    except BrokenPipeError:
        raise _EndedError from None
    head = responses.readline()
    if not head:
        raise _EndedError
    kind, length = json.loads(head)
    content = responses.read(length)
    if len(content) < length:
        raise _EndedError
    return kind, content


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


# By process id: a process that was forked from this one must not use its pipes.
_of_process: dict[int, DrawingProcess] = {}


def drawing_process() -> DrawingProcess:
    """The drawing process of this process."""
    drawing = _of_process.setdefault(os.getpid(), DrawingProcess())
    return drawing


@atexit.register
def _close() -> None:
    drawing = _of_process.get(os.getpid())
    if drawing is not None:
        drawing.close()

"""The toolkit's one daemon thread, with its own event loop.

WebSockets and streams run here and never on the kernel's loop, so a cell that is busy
for a minute stops neither the pongs of a socket nor the display of a reply. Other
threads hand over coroutines with `submit` (do not wait) or `run` (wait). The thread
starts on first use, and again in a forked child. Once the interpreter is ending, the
thread no longer runs, and waiting for it would take forever: from then on, work is
refused, and `run_before_exit` skips it.

`allow_nested_loops` is for the kernel's loop, and opt-in: nothing here needs it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import sys
import threading
import time
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any, TypeVar

from ..api.errors import AgentbookError, DeadlineExceeded

T = TypeVar("T")

# Waiting in slices keeps interrupts prompt where waiting for a lock cannot be
# interrupted (Windows).
_SLICE_S = 0.2
# The same for an `await`: interrupting a bare one does not wake the kernel's loop.
_AWAIT_SLICE_S = 0.1
_NEST_MIN_VERSION = (1, 7, 3)  # of nest-asyncio2

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_pid = 0


def interpreter_is_finalizing() -> bool:
    """Whether the interpreter is ending, so that daemon threads no longer run."""
    return sys.is_finalizing()


def get_loop() -> asyncio.AbstractEventLoop:
    """The running loop of the toolkit's thread.

    Raises
    ------
    RuntimeError
        If the interpreter is ending.
    """
    global _loop, _thread, _pid
    if interpreter_is_finalizing():
        raise RuntimeError("Python is shutting down, and agentbook's thread has ended: make calls before that.")
    with _lock:
        if _loop is None or _thread is None or _pid != os.getpid() or not _thread.is_alive():
            started = threading.Event()
            loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_serve, args=(loop, started), name="agentbook", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # in an atexit function, where newer Pythons start no threads
                loop.close()
                raise
            started.wait()
            _loop, _pid = loop, os.getpid()
        return _loop


def _unlock_after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock_after_fork)


def _serve(loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started.set)
    loop.run_forever()


def on_loop_thread() -> bool:
    """Whether this is the toolkit's own thread, which must not wait for itself."""
    return _thread is not None and threading.current_thread() is _thread and _pid == os.getpid()


def submit(work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the toolkit's loop, from any thread; returns its future.

    Raises
    ------
    RuntimeError
        If the interpreter is ending.
    """
    try:
        there = get_loop()
    except RuntimeError:
        work.close()
        raise
    return asyncio.run_coroutine_threadsafe(work, there)


def run(
    work: Coroutine[Any, Any, T], timeout_s: float | None = None, *, operation: str | None = None, check: str = ""
) -> T:
    """Run a coroutine on the toolkit's loop and wait for it.

    An interrupt, or the end of `timeout_s` seconds, cancels it at once. `check` is the
    Python expression that shows what arrived later, for the error's message.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds.
    RuntimeError
        If called on the toolkit's own thread, which would wait for itself, or if the
        interpreter is ending.
    """
    if on_loop_thread():
        work.close()
        raise RuntimeError("agentbook's own thread must not wait for itself: await this call instead.")
    # Created first, so that an interrupt during the handover finds and cancels it.
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        try:
            submit(_run_for(work, future))
        except RuntimeError:  # avoid the warning that the coroutine was never awaited
            work.close()
            raise
        while True:
            slice_s = _SLICE_S if ends_at is None else min(_SLICE_S, max(ends_at - time.monotonic(), 0.0))
            # Not result(timeout): it could not tell the work's own TimeoutError apart.
            if concurrent.futures.wait([future], slice_s).done:
                return future.result()
            if ends_at is not None and time.monotonic() >= ends_at:
                raise _deadline_error(operation, timeout_s, check)
    finally:
        future.cancel()


async def run_async(
    work: Coroutine[Any, Any, T], timeout_s: float | None = None, *, operation: str | None = None, check: str = ""
) -> T:
    """As `run`, awaited on any other event loop, such as the one that runs a cell.

    Cancelled when the caller stops waiting.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds; None waits without limit.
    """
    future = submit(work)
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        waiting = asyncio.wrap_future(future)
        while not waiting.done():
            if ends_at is not None and time.monotonic() >= ends_at:
                raise _deadline_error(operation, timeout_s, check)
            await asyncio.wait([waiting], timeout=_AWAIT_SLICE_S)
        return waiting.result()
    finally:
        future.cancel()


def _deadline_error(operation: str | None, timeout_s: float | None, check: str) -> DeadlineExceeded:
    later = f"; {check} shows what came." if check else "."
    return DeadlineExceeded(
        f"{operation or 'The call'}: no answer within {timeout_s:g} s. The agent may still finish{later}",
        operation=operation,
    )


def run_before_exit(work: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Run the last work of an object that is closed, and wait for it if possible.

    On the toolkit's own thread the work is only started. If the interpreter is ending,
    it is skipped, because the thread no longer runs.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds.
    """
    if on_loop_thread():
        submit(work)
        return
    try:
        get_loop()
    except RuntimeError:
        work.close()
        return
    run(work, timeout_s)


async def _run_for(work: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
    """Run the work for a future, until the future is cancelled."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    if future.cancelled():
        work.close()
        return
    future.add_done_callback(lambda done: done.cancelled() and loop.call_soon_threadsafe(task.cancel))
    try:
        result = await work
    except asyncio.CancelledError:
        future.cancel()
        raise
    except BaseException as error:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled meanwhile
            future.set_exception(error)
    else:
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            future.set_result(result)


def allow_nested_loops() -> None:
    """Let ``asyncio.run`` and ``loop.run_until_complete`` work in a notebook cell.

    Uses nest-asyncio2, the maintained fork of nest-asyncio, from version 1.7.3 on.
    nest-asyncio 1.6.0 and the fork up to 1.7.2 lose queued cells and clicks with
    ipykernel 7.1 and newer (measured). agentbook never needs this: its sync methods
    work under a running loop, and its async methods can be awaited in a cell.

    Raises
    ------
    AgentbookError
        If nest-asyncio2 is missing or too old, or the original nest-asyncio has been
        applied already.

    Examples
    --------
    >>> import subprocess, sys  # in its own process: it cannot be undone
    >>> code = "import agentbook as ab, asyncio; ab.allow_nested_loops(); "
    >>> code += "print(asyncio.run(asyncio.sleep(0, 'done')))"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.strip()
    b'done'
    """
    if hasattr(asyncio, "_nest_patched") and not hasattr(asyncio, "_nest_asyncio2"):
        raise AgentbookError(
            "nest_asyncio has been applied in this kernel; with recent kernels it loses queued cells. Restart the kernel, leave "
            "nest_asyncio.apply() out, and call agentbook.allow_nested_loops() instead."
        )
    try:
        import nest_asyncio2
    except ImportError:
        raise AgentbookError("allow_nested_loops needs nest-asyncio2: pip install 'nest-asyncio2>=1.7.3'") from None
    installed = version("nest-asyncio2")
    if tuple(int(part) for part in installed.split(".")[:3] if part.isdigit()) < _NEST_MIN_VERSION:
        raise AgentbookError(f"nest-asyncio2 {installed} loses queued cells: pip install -U 'nest-asyncio2>=1.7.3'")
    nest_asyncio2.apply()

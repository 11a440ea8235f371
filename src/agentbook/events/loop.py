"""The toolkit's one daemon thread, with its own event loop.

Sockets and streams live here and never on the kernel's loop: a cell that is busy for a
minute neither starves a socket of pongs nor stops a reply from being painted.
Everything else hands coroutines over with `submit` (fire and follow) or `run` (wait).
The thread starts on first use, and again in a forked child, which inherits none. Once
the interpreter ends it no longer runs, and whoever would start it again or wait for it
would do so for ever: from then on work is refused, and passed over by `wind_up`.
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
from typing import Any, TypeVar

from ..api.errors import DeadlineExceeded

T = TypeVar("T")

# Waiting in slices keeps an interrupt prompt where a lock cannot be interrupted
# (Windows).
_SLICE_S = 0.2
# The same for an `await`: an interrupt of a bare one does not wake the kernel's loop.
_AWAIT_SLICE_S = 0.1

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_pid = 0


def is_over() -> bool:
    """Whether the interpreter is ending: its daemon threads are gone, so the loop runs nothing any more."""
    return sys.is_finalizing()


def get_loop() -> asyncio.AbstractEventLoop:
    """The running loop of the toolkit's thread.

    Raises
    ------
    RuntimeError
        If the interpreter is ending.
    """
    global _loop, _thread, _pid
    if is_over():
        raise RuntimeError("Python is ending: agentbook's thread has ended, and nothing can be asked any more.")
    with _lock:
        if _loop is None or _thread is None or _pid != os.getpid() or not _thread.is_alive():
            started = threading.Event()
            loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_serve, args=(loop, started), name="agentbook", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # in a function of atexit, where newer Pythons start no thread
                loop.close()
                raise
            started.wait()
            _loop, _pid = loop, os.getpid()
        return _loop


def _serve(loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started.set)
    loop.run_forever()


def on_loop_thread() -> bool:
    """Whether the caller is the toolkit's own thread, which must never wait for itself."""
    return _thread is not None and threading.current_thread() is _thread and _pid == os.getpid()


def submit(work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the toolkit's loop, from any thread; its future.

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


def run(work: Coroutine[Any, Any, T], timeout_s: float | None = None, *, operation: str | None = None) -> T:
    """Run a coroutine on the toolkit's loop and wait for it.

    An interrupt, or the end of `timeout_s` seconds, cancels it at once.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds.
    RuntimeError
        If called on the toolkit's own thread, which would wait for itself; or if the
        interpreter is ending.
    """
    if on_loop_thread():
        work.close()
        raise RuntimeError("agentbook's own thread must not wait for itself: await this call instead.")
    # There before the work is: an interrupt that comes while it is being handed over
    # finds it, and the work ends.
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    until = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        try:
            submit(_carry(work, future))
        except RuntimeError:  # it is not begun, and its last words would be that nobody awaited it
            work.close()
            raise
        while True:
            slice_s = _SLICE_S if until is None else min(_SLICE_S, max(until - time.monotonic(), 0.0))
            # Not result(timeout): a TimeoutError of the work itself would look the
            # same.
            if concurrent.futures.wait([future], slice_s).done:
                return future.result()
            if until is not None and time.monotonic() >= until:
                raise _deadline_error(operation, timeout_s)
    finally:
        future.cancel()


async def run_async(work: Coroutine[Any, Any, T], timeout_s: float | None = None, *, operation: str | None = None) -> T:
    """As `run`, awaited on any other event loop, such as the one that runs a cell.

    Cancelled when the caller stops waiting.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds; None waits without limit.
    """
    future = submit(work)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        waiting = asyncio.wrap_future(future)
        while not waiting.done():
            if until is not None and time.monotonic() >= until:
                raise _deadline_error(operation, timeout_s)
            await asyncio.wait([waiting], timeout=_AWAIT_SLICE_S)
        return waiting.result()
    finally:
        future.cancel()


def _deadline_error(operation: str | None, timeout_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{operation or 'The call'}: no answer within {timeout_s:g} s. The agent may still finish.",
        operation=operation,
    )


def wind_up(work: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Run the last work of something that is being closed, and wait for it where that can be.

    On the toolkit's own thread it is only begun. Where the interpreter is ending it is
    passed over: there is nothing left to end, and a widget that is collected then has
    nobody to tell.

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


async def _carry(work: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
    """Do the work for a future that somebody waits for, until they cancel it."""
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
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled meanwhile: nobody waits any more
            future.set_exception(error)
    else:
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            future.set_result(result)

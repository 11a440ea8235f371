from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

import agentbook as ab
from agentbook.events import loop


class Work:
    """Work that goes on until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_work_runs_on_one_daemon_thread_of_its_own() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    first, second = loop.run(where()), loop.run(where())
    assert first is second
    assert first is not threading.current_thread()
    assert first.daemon


def test_it_works_under_a_running_loop() -> None:
    async def outer() -> int:
        return loop.run(asyncio.sleep(0.01, 7))

    assert asyncio.run(outer()) == 7


def test_an_error_comes_through() -> None:
    async def fails() -> None:
        raise TimeoutError("the work's own")

    with pytest.raises(TimeoutError, match="the work's own"):
        loop.run(fails(), timeout_s=60)


def test_the_timeout_cancels_the_work() -> None:
    work = Work()

    with pytest.raises(ab.DeadlineExceeded):
        loop.run(work.run(), timeout_s=0.05)
    assert work.cancelled.wait(60)


@pytest.mark.parametrize("timeout_s", [0.05, None], ids=["deadline", "abandoned"])
def test_awaited_work_is_cancelled_when_the_caller_stops_waiting(timeout_s: float | None) -> None:
    work = Work()

    async def outer() -> None:
        assert await loop.run_async(asyncio.sleep(0.01, 7)) == 7
        await asyncio.wait_for(loop.run_async(work.run(), timeout_s, operation="outer"), 0.5)

    with pytest.raises(TimeoutError if timeout_s is None else ab.DeadlineExceeded):
        asyncio.run(outer())
    assert work.cancelled.wait(60)


def test_an_interrupt_cancels_the_work_at_once() -> None:
    work = Work()

    def interrupt() -> None:
        work.begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        loop.run(work.run())
    assert time.monotonic() - began < 30
    assert work.cancelled.wait(60)


def test_an_interrupt_while_the_work_is_handed_over_cancels_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    work, submit = Work(), loop.submit

    def interrupted(coroutine: Coroutine[Any, Any, None]) -> None:
        submit(coroutine)
        assert work.begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(work.run())
    assert work.cancelled.wait(60)


def test_its_own_thread_must_not_wait_for_itself() -> None:
    async def outer() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="await this call instead"):
        loop.run(outer())


def test_when_python_ends_work_is_refused_or_passed_over_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    loop.run_before_exit(work(), 60)
    assert begun == ["work"]
    monkeypatch.setattr(loop, "interpreter_is_finalizing", lambda: True)
    for hand_over in (loop.run, loop.submit):
        late = work()
        with pytest.raises(RuntimeError, match="Python is shutting down"):
            hand_over(late)
        assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
    late = work()
    loop.run_before_exit(late, 60)
    assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
    assert begun == ["work"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    loop.run(asyncio.sleep(0))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"no"
        try:
            answer = b"yes" if loop.run(asyncio.sleep(0.01, 7), timeout_s=60) == 7 else b"no"
        finally:
            os.write(write, answer)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 3) == b"yes"
    os.close(read)
    os.close(write)


# -- nested loops, each in its own interpreter: the patch cannot be undone -------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_waits_for_what_another_thread_imports() -> None:
    code = """
import os, signal, sys, threading, warnings
import agentbook as ab
warnings.simplefilter("ignore")
client = ab.Client("https://example.org/v1", credentials="id:secret")
begun, go = threading.Event(), threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == "agentbook.events.websocket":
            begun.set()
            go.wait()
sys.meta_path.insert(0, Slow())
threading.Thread(target=lambda: client.sessions.stream("s").close()).start()
begun.wait()
os.register_at_fork(before=go.set)
if (child := os.fork()) == 0:
    signal.alarm(20)
    client.sessions.stream("s").close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_asyncio_run_works_inside_a_running_loop_once_allowed() -> None:
    code = """
import asyncio, agentbook as ab
async def inner(): return 7
async def outer():
    ab.allow_nested_loops()
    return asyncio.run(inner())
print(asyncio.run(outer()))
"""
    assert run(code).stdout.split() == ["7"]


def test_the_original_applied_before_is_refused_with_what_to_do() -> None:
    code = """
import asyncio, agentbook as ab
asyncio._nest_patched = True  # what nest_asyncio.apply() leaves behind
try:
    ab.allow_nested_loops()
except ab.AgentbookError as error:
    print(error)
"""
    assert "Restart the kernel" in run(code).stdout


def test_a_missing_fork_says_how_to_get_it() -> None:
    code = """
import sys, agentbook as ab
sys.modules["nest_asyncio2"] = None
try:
    ab.allow_nested_loops()
except ab.AgentbookError as error:
    print(error)
"""
    assert "pip install" in run(code).stdout


def test_everything_works_where_it_has_been_applied() -> None:
    code = """
import asyncio, nest_asyncio2
nest_asyncio2.apply()
from agentbook.events import loop
async def inner(): return await asyncio.sleep(0.01, 7)
async def outer(): return loop.run(inner()), await asyncio.sleep(0, 8)
print(asyncio.run(outer()))
"""
    assert run(code).stdout.strip() == "(7, 8)"

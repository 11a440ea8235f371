"""The `agentbook` command, with a record of what its event loop computes.

    python tests/benchmarks/loop_cpu.py serve ...

Each line on stdin is answered by a line of JSON on stdout: the longest callback and the
longest turn of the loop since the last line, in CPU seconds of the loop's own thread.
A turn runs every callback that is ready: nobody else is served until it ends. Unlike a
delay that is measured by the clock, neither depends on what else the machine does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from asyncio import base_events, events
from collections.abc import Callable
from typing import Any

from agentbook.cli import main

_run_callback: Callable[[events.Handle], None] = events.Handle._run  # type: ignore[attr-defined]
_run_once: Callable[[base_events.BaseEventLoop], None] = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]


class Longest:
    """The longest callback and the longest turn so far, in CPU seconds."""

    callback_s = turn_s = 0.0
    callback = ""

    def reset(self) -> str:
        """Return the record as JSON, and begin a new one."""
        record = {"callback_s": self.callback_s, "turn_s": self.turn_s, "callback": self.callback}
        self.callback_s = self.turn_s = 0.0
        return json.dumps(record)


longest = Longest()


def run_callback(handle: events.Handle) -> None:
    start = time.thread_time()
    _run_callback(handle)
    spent = time.thread_time() - start
    if spent > longest.callback_s:
        longest.callback_s, longest.callback = spent, describe(handle)


def run_once(loop: base_events.BaseEventLoop) -> None:
    start = time.thread_time()
    _run_once(loop)
    longest.turn_s = max(longest.turn_s, time.thread_time() - start)


def describe(handle: Any) -> str:
    """Name the function of a callback; of a task's step, its coroutine's."""
    task = getattr(handle._callback, "__self__", None)
    if hasattr(task, "get_coro"):
        return str(getattr(task.get_coro(), "__qualname__", task))
    return str(getattr(handle._callback, "__qualname__", handle._callback))


def answer() -> None:
    for _ in sys.stdin:
        print(longest.reset(), flush=True)


events.Handle._run = run_callback  # type: ignore[attr-defined]
base_events.BaseEventLoop._run_once = run_once  # type: ignore[attr-defined]
threading.Thread(target=answer, daemon=True).start()
if __name__ == "__main__":
    main()

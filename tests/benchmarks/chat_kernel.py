"""The kernel's side of `tests/benchmarks/chat.py`: a timed agent, recorded sessions.

The agent is the fake platform of the panel's tests. It runs on the toolkit's thread,
and the panel reads it through its ``follow`` parameter. Each event arrives on time
whatever the load of the machine, so the time until it is painted is the panel's own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

# Not ``from chat.fakes``: this folder has a module chat.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "chat"))
from chat_text import PROSE, tokens
from fakes import AGENT, KEY, SESSION, FakePlatform

import agentbook as ab
from agentbook.events import loop

LEAD_S = 0.5  # between the message and the first token
# A screen draws 60 frames a second, a panel updates 20 times a second. As 60 is a
# multiple of 20, every update of a run would fall on the same point of a frame, and
# that point would be random. So each second of tokens is delayed by this much, a
# seventh of a frame.
DRIFT_S = 1 / 60 / 7


class Agent(FakePlatform):
    """Answers "4000" with that many tokens, a hundred a second.

    `due` holds the time at which each token is due, in seconds since the epoch.
    """

    def __init__(self, rate: float = 100.0, mark_every: int = 10) -> None:
        super().__init__(self._stream)
        self.rate, self.mark_every = rate, mark_every
        self.due: list[float] = []
        self.text = ""

    async def _stream(self, platform: FakePlatform, question: str) -> None:
        words = tokens(int(question), self.mark_every)
        start = time.time() + LEAD_S
        self.due = [start + n / self.rate + n / self.rate // 1 * DRIFT_S for n in range(len(words))]
        self.text = "".join(words)
        complete, event_loop = asyncio.Event(), asyncio.get_running_loop()

        def send() -> None:
            # A thread wakes on time; a timer of the loop fires a millisecond or more
            # late, which messages from a socket would not.
            offset = 0
            for due, token in zip(self.due, words, strict=True):
                if (wait_s := due - time.time()) > 0:
                    time.sleep(wait_s)
                event_loop.call_soon_threadsafe(self.write, token, offset)
                offset += len(token)
            event_loop.call_soon_threadsafe(complete.set)

        threading.Thread(target=send, daemon=True).start()
        await complete.wait()
        self.reply(self.text)


def panel(agent: FakePlatform) -> ab.ChatPanel:
    return ab.ChatPanel(agent, workspace="acme~lab", agent="speaker", height="300px", follow=agent.follow)  # type: ignore[arg-type]


def begin(panel: ab.ChatPanel, text: str) -> Any:
    """Send a message without waiting; returns the future of the turn."""
    return loop.submit(panel._ask(text))


def recorded(turns: int) -> FakePlatform:
    """A session of `turns` finished turns."""
    platform = FakePlatform()
    for n in range(turns):
        platform.persist("message", {"text": f"Question {n}: what do the figures of week {n % 52} say?"}, KEY)
        reply = f"Answer {n}. **{n % 7 + 2} runs** failed, most of them in the night:\n\n- " + "\n- ".join(
            f"run {n * 3 + m}: {PROSE[(n + m) % len(PROSE)]} `exit {m}`" for m in range(3)
        )
        platform.persist("runtime_done", {"text": reply}, AGENT)
    return platform


def opened(platform: FakePlatform) -> ab.ChatPanel:
    """A panel that shows the platform's session."""
    return ab.ChatPanel(platform, session=SESSION, height="300px", follow=platform.follow)  # type: ignore[arg-type]


def python_work(seconds: float) -> int:
    """Count, in pure Python; returns how far."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        count += sum(n % 7 for n in range(1_000))
    return count


def pandas_work(seconds: float) -> float:
    """Sort, group and apply, as notebook cells do.

    Returns the longest time for which the interpreter was held, in seconds: another
    thread, which asks for it every few milliseconds, did not get it for so long.
    """
    import numpy as np
    import pandas as pd

    draw = np.random.default_rng(7)
    frame = pd.DataFrame({"key": draw.integers(0, 5_000, 400_000), "value": draw.random(400_000)})
    frame["name"] = "n" + frame["key"].astype(str)
    held_s, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal held_s
        before = time.monotonic()
        while not ended.wait(0.002):
            now = time.monotonic()
            held_s, before = max(held_s, now - before - 0.002), now

    watcher = threading.Thread(target=watch)
    watcher.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        frame.sort_values(["key", "value"])
        frame.groupby("name")["value"].agg(["mean", "max"])
        frame["value"].head(50_000).apply(lambda value: value**2 + 1)
    ended.set()
    watcher.join()
    return held_s

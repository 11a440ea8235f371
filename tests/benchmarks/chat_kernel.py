"""What runs in the kernel for `tests/benchmarks/chat.py`: an agent that says so many
tokens at a pace, and recorded sessions.

The agent is the fake platform of the panel's own tests, on the toolkit's thread, behind
the panel's `follow=` seam: an event is there at the moment its time has come, whatever
else the machine does, so the time to the painted page is the panel's own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "chat"))
from chat_text import PROSE, tokens
from fakes import AGENT, KEY, SESSION, FakePlatform

import agentbook as ab
from agentbook.events import loop

LEAD_S = 0.5  # between the message and the first token
# Screens are drawn 60 times a second, panels 20: the one a whole number of times within
# the other, so where in a frame a drawing falls would be one throw of dice for a whole
# run. Each second of tokens is this much later, a seventh of a frame.
DRIFT_S = 1 / 60 / 7


class Agent(FakePlatform):
    """Answers "4000" with that many tokens, a hundred a second; `due` holds when each
    was due (seconds since the epoch).
    """

    def __init__(self, rate: float = 100.0, mark_every: int = 10) -> None:
        super().__init__(self._speak)
        self.rate, self.mark_every = rate, mark_every
        self.due: list[float] = []
        self.text = ""

    async def _speak(self, platform: FakePlatform, question: str) -> None:
        words = tokens(int(question), self.mark_every)
        start = time.time() + LEAD_S
        self.due = [start + n / self.rate + n / self.rate // 1 * DRIFT_S for n in range(len(words))]
        self.text = "".join(words)
        spoken, here = asyncio.Event(), asyncio.get_running_loop()

        def speak() -> None:
            # A thread wakes when it asked to, the loop up to a millisecond and more
            # later; a socket's news would not.
            offset = 0
            for due, token in zip(self.due, words, strict=True):
                if (wait_s := due - time.time()) > 0:
                    time.sleep(wait_s)
                here.call_soon_threadsafe(self.write, token, offset)
                offset += len(token)
            here.call_soon_threadsafe(spoken.set)

        threading.Thread(target=speak, daemon=True).start()
        await spoken.wait()
        self.reply(self.text)


def panel(agent: FakePlatform) -> ab.ChatPanel:
    return ab.ChatPanel(agent, workspace="acme~lab", agent="speaker", height="300px", follow=agent.follow)  # type: ignore[arg-type]


def begin(panel: ab.ChatPanel, text: str) -> Any:
    """Ask and do not wait; the future of the turn."""
    return loop.submit(panel._ask(text))


def recorded(turns: int, steps: int = 0) -> FakePlatform:
    """A session of so many finished turns, each with `steps` subtasks."""
    platform = FakePlatform()
    for n in range(turns):
        platform.persist("message", {"text": f"Question {n}: what do the figures of week {n % 52} say?"}, KEY)
        for step in range(steps):
            platform.persist("runtime_done", {}, AGENT, f"s{n}-{step}")
        reply = f"Answer {n}. **{n % 7 + 2} runs** failed, most of them in the night:\n\n- " + "\n- ".join(
            f"run {n * 3 + m}: {PROSE[(n + m) % len(PROSE)]} `exit {m}`" for m in range(3)
        )
        platform.persist("runtime_done", {"text": reply}, AGENT)
    return platform


def opened(platform: FakePlatform) -> ab.ChatPanel:
    """A panel on that session."""
    return ab.ChatPanel(platform, session=SESSION, height="300px", follow=platform.follow)  # type: ignore[arg-type]


def pandas_work(seconds: float) -> int:
    """Sorting, grouping and applying, as cells do; the number of rounds."""
    import numpy as np
    import pandas as pd

    draw = np.random.default_rng(7)
    frame = pd.DataFrame({"key": draw.integers(0, 5_000, 400_000), "value": draw.random(400_000)})
    frame["name"] = "n" + frame["key"].astype(str)
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        frame.sort_values(["key", "value"])
        frame.groupby("name")["value"].agg(["mean", "max"])
        frame["value"].head(50_000).apply(lambda value: value**2 + 1)
        rounds += 1
    return rounds

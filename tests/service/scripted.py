"""An agent whose messages say what its turn does, so a test can stop it anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from agentbook.service.engines.base import Draft, Failure, Reply, Step, ToolDone, ToolStarted, TurnRequest


class Scripted:
    """Reads its message word by word.

    ``draft:x`` writes x, ``tool:x`` runs a tool, ``open:x`` begins one and leaves it,
    ``hang`` waits forever, ``crash`` raises, ``timeout`` raises TimeoutError,
    ``limit`` fails, ``silent`` ends without a reply, ``wait:x`` waits for `signals[x]`,
    ``file:x`` until the file x is there (from another process). Anything else, and the
    end, replies with what it knows about its turn.
    """

    def __init__(self) -> None:
        self.signals: dict[str, asyncio.Event] = {}
        self.turns: list[TurnRequest] = []
        self.cancelled = 0

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        self.turns.append(turn)
        for word in turn.message.split():
            verb, _, rest = word.partition(":")
            if verb == "draft":
                yield Draft(rest)
            elif verb == "tool":
                yield ToolStarted(rest)
                await asyncio.sleep(0)
                yield ToolDone(rest)
            elif verb == "open":
                yield ToolStarted(rest)
            elif verb == "wait":
                await self.signals.setdefault(rest, asyncio.Event()).wait()
            elif verb == "file":
                while not Path(rest).exists():
                    await asyncio.sleep(0.005)
            elif verb == "hang":
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled += 1
            elif verb == "crash":
                raise RuntimeError("an engine broke")
            elif verb == "timeout":
                raise TimeoutError("an engine's own")
            elif verb == "limit":
                yield Failure(429, "TooManyRequests", "exceeded LLM call limit for this execution tree")
                return
            elif verb == "silent":
                return
        heard = " | ".join(f"{message.role}: {message.text[:20]}" for message in turn.history[-3:])
        yield Reply(f"You said {turn.message!r} after [{heard}]")

    def __call__(self, _name: str) -> Scripted:
        return self

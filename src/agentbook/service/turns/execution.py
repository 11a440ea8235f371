"""One turn while its engine runs: steps in, drafts out, limits enforced."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from ..clock import Clock
from ..engines.base import (
    Draft,
    Engine,
    Failure,
    Reply,
    StateSaved,
    Step,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
    TurnRequest,
)
from ..engines.meter import Meter
from ..text import replace_surrogates
from .live import DraftWriter

log = logging.getLogger("agentbook.service")

INTERNAL_ERROR = Failure(500, "InternalServerError", "Something went wrong")


async def close_steps(steps: AsyncIterator[Step]) -> None:
    """Close an engine's generator, so that it gives up what it holds at once."""
    close = getattr(steps, "aclose", None)
    if close is not None:
        with contextlib.suppress(RuntimeError):  # the generator is already closing
            await close()


class Execution:
    """Runs an engine on one turn.

    Attributes
    ----------
    meter : Meter
        What the turn has used so far.
    tool_task_ids : list of str
        The tasks of the tool runs that have finished, in order.
    states : dict
        The newest state that each agent saved, by the id of the sub-agent; None is the
        turn's own agent.
    """

    def __init__(self, request: TurnRequest, meter: Meter, drafts: DraftWriter, clock: Clock) -> None:
        self.request = request
        self.meter = meter
        self.tool_task_ids: list[str] = []
        self.states: dict[str | None, str] = {}
        self._drafts = drafts
        self._clock = clock
        self._running: list[tuple[str, str]] = []  # (task, tool) of each tool run that has not finished

    async def run(self, engine: Engine) -> Reply | Failure:
        """Run the engine until its last step, or until it exceeds a run limit."""
        steps = engine.run(self.request)
        yields = _YieldDetector(asyncio.get_running_loop())
        try:
            async for step in steps:
                end = self.meter.charge(step, yielded=yields.has_yielded()) or self._apply(step)
                if end is not None:
                    return end
        finally:
            await close_steps(steps)
        log.error("the agent of turn %s ended without a reply", self.request.task_id)
        return INTERNAL_ERROR

    def _apply(self, step: Step) -> Reply | Failure | None:
        """Show a step to listeners; the end of the turn, if the step is the last."""
        match step:
            case Draft(text):
                self._drafts.write(replace_surrogates(text))
            case ToolStarted(name) | SubtaskStarted(name):
                self._running.append((self._next_task_id(), name))
                self._drafts.tool(*self._running[-1], "running")
            case ToolDone(name):
                # The newest run of that name. A run that was never announced still
                # counts as a finished task.
                run = next((run for run in reversed(self._running) if run[1] == name), None)
                if run is None:
                    run = (self._next_task_id(), name)
                else:
                    self._running.remove(run)
                self.tool_task_ids.append(run[0])
                self._drafts.tool(*run, "done")
            case StateSaved(_, str(state), agent_id):
                self.states[agent_id] = state
            case Reply(text):
                return Reply(replace_surrogates(text))
            case Failure():
                return step
        return None

    def _next_task_id(self) -> str:
        return self._clock.part_id(self.request.task_id, len(self._running) + len(self.tool_task_ids))


class _YieldDetector:
    """Detects whether the event loop ran anything else since the last check."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._yielded = True
        self._scheduled = False

    def has_yielded(self) -> bool:
        yielded, self._yielded = self._yielded, False
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._note_yield)
        return yielded

    def _note_yield(self) -> None:
        self._yielded, self._scheduled = True, False

"""One turn while its engine runs: steps in, drafts out, limits enforced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..._text import replace_surrogates
from ..engines.base import (
    Draft,
    Engine,
    Failure,
    Reply,
    StateSaved,
    Step,
    SubtaskDone,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
    TurnRequest,
)
from ..engines.meter import Meter
from ..ids import Clock
from .live import DraftWriter

log = logging.getLogger("agentbook.service")


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool run (`kind` is ``tool``) or a sub-agent's task (``task``) of a turn.

    `parent_id` is the sub-agent's task that it ran in.
    """

    task_id: str
    name: str
    kind: str
    parent_id: str | None
    started_at: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    ended_at: str = ""
    result: Any = None
    error: str | None = None
    call_id: str | None = None

    def as_step(self) -> dict[str, Any]:
        """The field ``step`` of its event, without ``ended_at`` if it did not end."""
        step: dict[str, Any] = {"kind": self.kind, "name": replace_surrogates(self.name)[:_MAX_NAME]}
        if self.parent_id is not None:
            step["parent_id"] = self.parent_id
        step |= {"started_at": self.started_at, **({"ended_at": self.ended_at} if self.ended_at else {})}
        contents = {"arguments": self.arguments or None, "result": self.result, "error": self.error}
        return step | {name: _limited(value) for name, value in contents.items() if value is not None}


_MAX_NAME = 200  # characters; a model may make up any name
_MAX_CONTENT = 8_000  # characters of JSON; a tool may return any amount


def _limited(value: Any) -> Any:
    """A JSON value for an event; of a long one, the beginning of its text."""
    is_text = isinstance(value, str)
    try:
        text = value if is_text else json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, RecursionError):
        return "not a JSON value"
    text = replace_surrogates(text)
    if len(text) > _MAX_CONTENT:
        return f"{text[:_MAX_CONTENT]}… ({len(text):,} characters)"
    return text if is_text else msgspec.Raw(text.encode())


def without_contents(step: Step) -> Step:
    """A step that says what ran, but not with what."""
    match step:
        case ToolStarted() | SubtaskStarted():
            return replace(step, arguments={})
        case ToolDone():
            return replace(step, result=None, error=None)
    return step


INTERNAL_ERROR = Failure(500, "InternalServerError", "Something went wrong")


async def close_steps(steps: AsyncIterator[Step]) -> None:
    """Close an engine's generator, so that it releases its resources at once."""
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
    tool_runs : list of ToolRun
        The tool runs and sub-agents that have finished, or never will, in order.
    states : dict
        The newest state that each agent saved, by the id of the sub-agent; None is the
        turn's own agent.
    """

    def __init__(self, request: TurnRequest, meter: Meter, drafts: DraftWriter, clock: Clock) -> None:
        self.request = request
        self.meter = meter
        self.tool_runs: list[ToolRun] = []
        self.states: dict[str | None, str] = {}
        self._drafts = drafts
        self._clock = clock
        self._running: list[ToolRun] = []

    async def run(self, engine: Engine) -> Reply | Failure:
        """Run the engine until its last step, or until it exceeds a run limit."""
        steps = engine.run(self.request)
        yields = _YieldDetector(asyncio.get_running_loop())
        try:
            async for step in steps:
                shown = without_contents(step) if self.request.hides_steps else step
                charged = self.meter.charge(step, yielded=yields.has_yielded(), task_id=self._task_id)
                end = charged or self._apply(shown)
                if end is not None:
                    return end
        finally:
            await close_steps(steps)
        log.error("the agent of turn %s ended without a reply", self.request.task_id)
        return INTERNAL_ERROR

    def _apply(self, step: Step) -> Reply | Failure | None:
        """Show a step to listeners; returns the turn's end if the step is the last."""
        match step:
            case Draft(text):
                self._drafts.write(replace_surrogates(text))
            case ToolStarted(name, arguments) | SubtaskStarted(name, arguments):
                kind, call_id = ("task", None) if isinstance(step, SubtaskStarted) else ("tool", step.id)
                run = self._new_run(name, kind, arguments, call_id)
                self._running.append(run)
                self._drafts.tool(run.task_id, name, "running")
            case ToolDone(name, result, error):
                kind = "task" if isinstance(step, SubtaskDone) else "tool"
                # A run that was never announced still counts as a finished task.
                announced = self._find(name, kind, step.id)
                if announced is not None and kind == "task":
                    self.end_running(error, announced)  # what a sub-agent left unfinished
                self._end(announced or self._new_run(name, kind), result, error)
            case StateSaved(_, str(state), agent_id):
                self.states[agent_id] = state
            case Reply(text):
                return replace(step, text=replace_surrogates(text))
            case Failure():
                return step
        return None

    def _find(self, name: str, kind: str, call_id: str | None) -> ToolRun | None:
        """The run that ends: of this id, else the oldest of the innermost sub-agent.

        Sub-agents run in each other, so the newest of them ends first.
        """
        if kind == "task":
            return next((run for run in reversed(self._running) if (run.name, run.kind) == (name, kind)), None)
        of_call = [run for run in self._running if call_id is not None and run.call_id == call_id]
        same = of_call or [run for run in self._running if (run.name, run.kind) == (name, kind)]
        return next((run for run in same if run.parent_id == self._task_id), same[0] if same else None)

    def end_running(self, error: str | None, after: ToolRun | None = None) -> None:
        """Note what still runs, or has started after a run, as failed with that error.

        Without an error, it has not ended, and never will.
        """
        while self._running and self._running[-1] is not after:
            if error is None:
                self.tool_runs.append(self._running.pop())
            else:
                self._end(self._running[-1], error=error)

    def _new_run(
        self, name: str, kind: str, arguments: Mapping[str, Any] | None = None, call_id: str | None = None
    ) -> ToolRun:
        task_id = self._clock.part_id(self.request.task_id, len(self._running) + len(self.tool_runs))
        return ToolRun(task_id, name, kind, self._task_id, self._clock.instant(), arguments or {}, call_id=call_id)

    def _end(self, run: ToolRun, result: Any = None, error: str | None = None) -> None:
        if run in self._running:
            self._running.remove(run)
        self.tool_runs.append(replace(run, ended_at=self._clock.instant(), result=result, error=error))
        self._drafts.tool(run.task_id, run.name, "done")

    @property
    def _task_id(self) -> str | None:
        """The innermost sub-agent's task: tool runs within it are its own."""
        return next((run.task_id for run in reversed(self._running) if run.kind == "task"), None)


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

"""The platform tools that do more than return text: other agents, and a memory.

Each run is a generator of steps, which the engine passes on. The text of the result
comes last.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from ..base import Failure, Reply, StateSaved, Step, SubtaskDone, SubtaskStarted, ToolDone, ToolStarted, TurnRequest
from .completion_stream import ToolCall
from .tools import CALL_AGENT, BadArguments, Memory, Tool, as_json, parse_arguments, run_tool, text_argument


async def run_call(
    call: ToolCall, name: str, tools: Mapping[str, Tool], turn: TurnRequest, memory: Memory
) -> AsyncGenerator[Step | str, None]:
    """Run a tool that the model called: its steps, then its result as text.

    `name` is the tool's name as it is shown to listeners.
    """
    if call.name == CALL_AGENT and call.name in tools:
        async with aclosing(_call_agent(call, turn)) as items:
            async for item in items:
                yield item
        return
    yield ToolStarted(name, shown_arguments(call, turn))
    result = await run_tool(call, tools, turn)
    if memory.has_changed:
        memory.has_changed = False
        state = await asyncio.to_thread(lambda: memory.state)  # up to 8 MiB
        yield StateSaved(len(state.encode(errors="replace")), state)
    yield _done(name, result)
    yield result


def shown_arguments(call: ToolCall, turn: TurnRequest) -> Mapping[str, Any]:
    """A call's arguments as shown to people: as text if they are not a JSON object."""
    try:
        return parse_arguments(call.arguments, turn)
    except BadArguments:
        return {"arguments": call.arguments}


def shown_result(text: str) -> Any:
    """A tool's result as shown to people: as a JSON value if it is one, else text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def _call_agent(call: ToolCall, turn: TurnRequest) -> AsyncGenerator[Step | str, None]:
    """Have another agent answer. Its failure is the tool's error."""
    try:
        arguments = parse_arguments(call.arguments, turn)
        name, message = text_argument(arguments, "agent"), text_argument(arguments, "message")
        names = [agent.name for agent in turn.calls.agents]
        if name not in names:
            raise BadArguments(f"There is no agent {name[:100]!r}. There are: {', '.join(names) or 'none'}.")
    except BadArguments as error:
        yield ToolStarted(CALL_AGENT, shown_arguments(call, turn))
        yield ToolDone(CALL_AGENT, error=str(error))
        yield as_json({"error": str(error)})
        return
    yield SubtaskStarted(name, {"message": message})
    result = ""
    async with aclosing(turn.calls.run(name, message)) as steps:  # type: ignore[type-var]
        async for step in steps:
            match step:
                case Reply(text, finish_reason):
                    why = {} if finish_reason is None else {"finish_reason": finish_reason}
                    result = as_json({"agent": name, "reply": text, **why})
                    break
                case Failure(status, _, problem):
                    result = as_json({"error": f"The agent {name!r} failed ({status}): {problem}"})
                    break
            yield step
    yield _done(name, result, SubtaskDone)
    yield result


def _done(name: str, result: str, kind: type[ToolDone] = ToolDone) -> ToolDone:
    """The end of a run. What a tool tells the model as its error is the run's error."""
    match shown_result(result):
        case {"error": str(error), **others} if not others:
            return kind(name, error=error)
        case shown:
            return kind(name, shown)

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

import msgspec

from ..base import Failure, Reply, StateSaved, Step, SubtaskStarted, ToolDone, ToolStarted, TurnRequest
from .completion_stream import ToolCall
from .tools import CALL_AGENT, MEMORY, BadArguments, Tool, as_json, parse_arguments, run_tool, text_argument


class _State(msgspec.Struct):
    memory: dict[str, str] = {}


_MAX_SHOWN = 8_000  # characters of a text shown to people
_ACTIONS = ("save", "read", "delete", "list")


class Memory:
    """The notes of an agent in this session, by name.

    Parameters
    ----------
    state
        The agent's state, as `state` returned it in an earlier turn.

    Examples
    --------
    >>> memory = Memory(None)
    >>> _ = memory.use({"action": "save", "name": "order", "text": "4711"})
    >>> Memory(memory.state).use({"action": "read", "name": "order"})
    {'name': 'order', 'text': '4711'}
    """

    def __init__(self, state: str | None) -> None:
        try:
            notes = msgspec.json.decode(state or "{}", type=_State).memory
        except msgspec.DecodeError:  # another engine's state: the agent has been reconfigured
            notes = {}
        self._notes = notes
        self.has_changed = False

    @property
    def state(self) -> str:
        """The notes as JSON text."""
        return json.dumps({"memory": self._notes}, ensure_ascii=False)

    def use(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the model asks for, and return the result.

        Raises
        ------
        BadArguments
            The action is unknown, or a name or text is missing.
        """
        action = arguments.get("action")
        self.has_changed = action in ("save", "delete")
        if action == "list":
            return {"names": list(self._notes)}
        if action not in _ACTIONS:
            raise BadArguments(f"The argument 'action' must be one of {', '.join(_ACTIONS)}.")
        name = text_argument(arguments, "name")
        if action == "save":
            self._notes[name] = text_argument(arguments, "text")
            return {"saved": name}
        if name not in self._notes:
            raise BadArguments(f"Nothing is saved under {name!r}. There are: {', '.join(self._notes) or 'none'}.")
        if action == "delete":
            del self._notes[name]
            return {"deleted": name}
        return {"name": name, "text": self._notes[name]}


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
    if call.name == MEMORY and call.name in tools:
        result = _use_memory(call, turn, memory)
        if memory.has_changed:
            state = await asyncio.to_thread(lambda: memory.state)  # up to 8 MiB
            yield StateSaved(len(state.encode(errors="replace")), state)
    else:
        result = await run_tool(call, tools, turn)
    yield _done(name, result)
    yield result


def shown_arguments(call: ToolCall, turn: TurnRequest) -> Mapping[str, Any]:
    """A call's arguments as shown to people: as text if they are not a JSON object."""
    try:
        return parse_arguments(call.arguments, turn)
    except BadArguments:
        return {"arguments": _shortened(call.arguments)}


def shown_result(text: str) -> Any:
    """A tool's result as shown to people: as a JSON value if it is one, else text."""
    if len(text) > _MAX_SHOWN:
        return _shortened(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text):,} characters)"


def _use_memory(call: ToolCall, turn: TurnRequest, memory: Memory) -> str:
    try:
        return as_json(memory.use(parse_arguments(call.arguments, turn)))
    except BadArguments as error:
        memory.has_changed = False
        return as_json({"error": str(error)})


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
    running: list[str] = []
    result = ""
    steps = turn.calls.run(name, message)
    try:
        async for step in steps:
            match step:
                case Reply(text, finish_reason):
                    why = {} if finish_reason is None else {"finish_reason": finish_reason}
                    result = as_json({"agent": name, "reply": text, **why})
                    break
                case Failure(status, _, problem):
                    result = as_json({"error": f"The agent {name!r} failed ({status}): {problem}"})
                    break
                case ToolStarted(tool) | SubtaskStarted(tool):
                    running.append(tool)
                case ToolDone(tool) if tool in running:
                    running.reverse()
                    running.remove(tool)
                    running.reverse()
            yield step
    finally:
        await steps.aclose()  # type: ignore[attr-defined]
    # Steps that the sub-agent left unfinished end with it.
    for tool in reversed(running):
        yield ToolDone(tool)
    yield _done(name, result)
    yield result


def _done(name: str, result: str) -> ToolDone:
    """The end of a run. What a tool tells the model as its error is the run's error."""
    match shown_result(result):
        case {"error": str(error), **others} if not others:
            return ToolDone(name, error=error)
        case shown:
            return ToolDone(name, shown)

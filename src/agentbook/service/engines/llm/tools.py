"""The tools that a model may call, which are the platform's own.

Integrations are offered too, but this service is not connected to any, and their result
says so. A tool is a function of its arguments and the turn. Whatever the arguments, it
returns text for the model, and it never fails a turn. No tool opens a connection or
writes anything.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import operator
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec

from ...demo.manual import manual
from ..base import TurnRequest
from ..meter import POWER_FACTOR
from .completion_stream import ToolCall

log = logging.getLogger("agentbook.service")

CALL_AGENT = "call_agent"  # run by `agent_tools`

_MAX_ARGUMENTS = 20_000  # characters; in unlimited power mode more
_MAX_NAME = 64  # what endpoints accept
_MAX_SECTION = 3_000
_MAX_SECTIONS = 3
_ANY_OBJECT = {"type": "object", "properties": {}, "additionalProperties": True}


class BadArguments(ValueError):
    """A tool does not accept the model's arguments; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function offered to the model. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[TurnRequest, Mapping[str, Any]], Awaitable[str]]

    def as_function(self) -> dict[str, Any]:
        """The tool's entry in the body of a request."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def _texts(required: Sequence[str] = (), **about: str | list[str]) -> dict[str, Any]:
    """The schema of an object of texts, each with its description or its values."""
    properties = {
        name: {"type": "string", "description" if isinstance(text, str) else "enum": text}
        for name, text in about.items()
    }
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """An argument that must be text; raises `BadArguments` if it is not, or blank."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadArguments(f"The argument {name!r} must be a text that is not empty.")
    return value


async def _calculate(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    expression = text_argument(arguments, "expression")
    return as_json({"expression": expression, "value": calculate(expression)})


_ARITHMETIC = re.compile(r"[\d\s()+\-*/%^.]{1,500}")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_MAX_BITS = 4096  # of a number


def calculate(expression: str) -> str:
    """The value of an arithmetic expression; raises `BadArguments` if it has none.

    Examples
    --------
    >>> calculate("(2 + 3) * 4"), calculate("2^10 / 3")
    ('20', '341.333333333')
    """
    if not _ARITHMETIC.fullmatch(expression) or re.search(r"[\d.)]\s*\(", expression):
        raise BadArguments("Use numbers, + - * / // % ^ and parentheses, at most 500 characters.")
    try:
        value = _evaluate(ast.parse(expression.strip().replace("^", "**"), mode="eval").body)
        return str(value) if value.denominator == 1 else f"{float(value):.12g}"
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError, ValueError) as error:
        raise BadArguments(f"{expression!r} cannot be calculated: {error}") from None


def _evaluate(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return -_evaluate(operand) if isinstance(sign, ast.USub) else _evaluate(operand)
        case ast.BinOp(left=left, op=operation, right=right):
            first, second = _evaluate(left), _evaluate(right)
            bits = max(first.numerator.bit_length(), first.denominator.bit_length())
            if isinstance(operation, ast.Pow) and (second.denominator != 1 or abs(second) * bits > _MAX_BITS):
                raise ValueError("the power is too large, or not whole")
            value = Fraction(_OPERATIONS[type(operation)](first, second))
            if max(value.numerator.bit_length(), value.denominator.bit_length()) <= _MAX_BITS:
                return value
    raise ValueError("the number is too large")


async def _search_docs(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    query = text_argument(arguments, "query")
    # In a thread, because the first search builds the index.
    hits = await asyncio.to_thread(lambda: manual().search(query, _MAX_SECTIONS))
    if not hits:
        note = "Nothing in the documentation fits. Its pages: " + ", ".join(manual().pages)
        return as_json({"found": [], "note": note})
    sections = [(hit.section.source, "\n\n".join(hit.section.blocks)[:_MAX_SECTION]) for hit in hits]
    return as_json({"found": [{"source": source, "text": text} for source, text in sections]})


async def _now(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    now = datetime.now(UTC)
    return as_json({"utc": now.isoformat(timespec="seconds"), "weekday": f"{now:%A}"})


PLATFORM_TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "calculator",
            "Calculate an arithmetic expression exactly: + - * / // % ^ and parentheses.",
            _texts(["expression"], expression="For example: (2 + 3) * 4"),
            _calculate,
        ),
        Tool(
            "search_docs",
            "Search the documentation of agentbook and the agent platform. Answers with sections and their sources.",
            _texts(["query"], query="A question or a few words"),
            _search_docs,
        ),
        Tool("now", "The present date, time and weekday in UTC.", _texts(), _now),
    )
}


def _call_agent_tool(turn: TurnRequest) -> Tool:
    """Calling other agents; the description lists those of the workspace."""
    listed = "; ".join(f"{agent.name}: {(agent.description or 'no description')[:200]}" for agent in turn.calls.agents)
    parameters = _texts(
        ["agent", "message"],
        agent="The agent's name",
        message="Everything the agent needs to know: it sees nothing else",
    )
    description = f"Have another agent answer a message, and get its reply. The agents: {listed or 'none'}"
    return Tool(CALL_AGENT, description, parameters, _run_by_engine)


async def _run_by_engine(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    raise BadArguments("This tool cannot be called here.")


class _State(msgspec.Struct):
    memory: dict[str, str] = {}


_ACTIONS = ["save", "read", "delete", "list"]


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
            self._notes = msgspec.json.decode(state or "{}", type=_State).memory
        except msgspec.DecodeError:  # another engine's state: the agent has been reconfigured
            self._notes = {}
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
        if action == "list":
            return {"names": list(self._notes)}
        if action not in _ACTIONS:
            raise BadArguments(f"The argument 'action' must be one of {', '.join(_ACTIONS)}.")
        name = text_argument(arguments, "name")
        if action == "save":
            self._notes[name] = text_argument(arguments, "text")
            self.has_changed = True
            return {"saved": name}
        if name not in self._notes:
            raise BadArguments(f"Nothing is saved under {name!r}. There are: {', '.join(self._notes) or 'none'}.")
        if action == "delete":
            del self._notes[name]
            self.has_changed = True
            return {"deleted": name}
        return {"name": name, "text": self._notes[name]}

    def tool(self) -> Tool:
        """The tool with which a model uses its notes."""

        async def run(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
            return as_json(self.use(arguments))

        texts = {"name": "What the note is saved under", "text": "The note, to save it"}
        description = "Notes that you keep for the later turns of this session: save, read, delete or list them."
        return Tool("memory", description, _texts(["action"], action=_ACTIONS, **texts), run)


def offered_tools(turn: TurnRequest, memory: Memory) -> dict[str, Tool]:
    """The tools of the agent's version, by the names that the model uses."""
    own = {**PLATFORM_TOOLS, "memory": memory.tool(), CALL_AGENT: _call_agent_tool(turn)}
    tools: dict[str, Tool] = {}
    for name in turn.platform_tools:
        # Accepted on purpose: platforms have different tools, and a version may come
        # from another one.
        tool = own.get(name) or _unavailable(name, f"The platform tool {name!r} is not part of this service")
        tools.setdefault(tool.name, tool)
    for entry in turn.tools:
        integration, names = entry.get("integration"), entry.get("tools")
        for name in names if isinstance(names, list) else ():
            reason = f"The integration {integration!r} is not connected on this service"
            tool = _unavailable(f"{integration}__{name}", reason)
            tools.setdefault(tool.name, tool)
    return tools


def _unavailable(name: str, reason: str) -> Tool:
    """A tool that only tells the model why it is not available."""

    async def run(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
        return as_json({"error": f"{reason}, so nothing was done. Say so; do not make up a result."})

    return Tool(callable_name(name), f"{name} (not connected)", _ANY_OBJECT, run)


def callable_name(name: str) -> str:
    """`name` in the form that endpoints accept for a function.

    That is at most 64 letters, digits, ``_`` and ``-``.

    Examples
    --------
    >>> callable_name("google drive__find file")
    'google_drive__find_file'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_MAX_NAME] or "tool"


async def run_tool(call: ToolCall, tools: Mapping[str, Tool], turn: TurnRequest) -> str:
    """Run a tool that the model called, and return its result or error as text."""
    tool = tools.get(call.name)
    if tool is None:
        names = ", ".join(tools) or "none"
        return as_json({"error": f"There is no tool {call.name[:_MAX_NAME]!r}. There are: {names}."})
    try:
        return await tool.run(turn, parse_arguments(call.arguments, turn))
    except BadArguments as error:
        return as_json({"error": str(error)})
    except Exception:
        log.exception("the tool %s of turn %s failed", tool.name, turn.task_id)
        return as_json({"error": "The tool failed. Go on without it, and say so."})


def parse_arguments(text: str, turn: TurnRequest) -> Mapping[str, Any]:
    """The arguments that a model wrote as JSON; empty text means an empty object.

    Raises
    ------
    BadArguments
        The text is not a JSON object, or is longer than any tool accepts.
    """
    limit = _MAX_ARGUMENTS * (POWER_FACTOR if turn.unlimited_power_mode else 1)
    if len(text) > limit:
        raise BadArguments(f"The arguments are longer than {limit:,} characters.")
    try:
        arguments = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise BadArguments("The arguments are not JSON.") from None
    if not isinstance(arguments, dict):
        raise BadArguments("The arguments must be a JSON object.")
    return arguments


def as_json(value: Mapping[str, object]) -> str:
    """A tool's result as text for the model."""
    return json.dumps(value, ensure_ascii=False)

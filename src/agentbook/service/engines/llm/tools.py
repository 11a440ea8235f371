"""What a model may call: the platform's own tools, and integrations, which this service has none of and says so.

A tool is a function of its arguments and the turn. Whatever it is given, it answers with text for the model to read; it never
fails a turn, and none of them opens a connection or writes anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ...demo.agents.analyst import Analyst
from ...demo.agents.analyst.question import EXAMPLES
from ...demo.agents.calculator import CannotCalculate, calculate, written
from ...demo.agents.documentation import library
from ..base import Reply, TurnRequest
from .chunks import ToolCall

log = logging.getLogger("agentbook.service")

_LONGEST_ARGUMENTS = 20_000
_LONGEST_RESULT = 12_000
_LONGEST_NAME = 64  # what endpoints accept
_PAGES = 3

Run = Callable[[TurnRequest, Mapping[str, Any]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function offered to the model. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run

    def offered(self) -> dict[str, Any]:
        """As the request to the endpoint says it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def _takes(name: str, description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
        "additionalProperties": False,
    }


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadArguments(f"The argument {name!r} must be a text that is not empty.")
    return value


class BadArguments(ValueError):
    """The model called a tool with arguments it does not take; its message is for the model."""


async def _calculate(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    try:
        done = calculate(_text(arguments, "expression"))
    except CannotCalculate as reason:
        raise BadArguments(str(reason)) from None
    return _json(expression=done.expression, value=written(done.value))


async def _search_docs(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    query = _text(arguments, "query")
    # In a thread: the index is built at the first question.
    hits = await asyncio.to_thread(lambda: library().search(query, _PAGES))
    if not hits:
        return _json(found=[], note="Nothing in the documentation fits. Its pages: " + ", ".join(library().documents()))
    return _json(found=[{"source": hit.section.source, "text": hit.section.text[:3000]} for hit in hits])


async def _query_activity(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    # The analyst's own grammar and queries, which read nothing but what the account of the turn can see.
    asked = replace(turn, message=_text(arguments, "question"), history=(), pace=0.0)
    async for step in Analyst().run(asked):
        if isinstance(step, Reply):
            return step.text
    raise BadArguments("That question has no answer.")


async def _now(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
    now = datetime.now(UTC)
    return _json(utc=now.isoformat(timespec="seconds"), weekday=f"{now:%A}")


PLATFORM_TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "calculator",
            "Calculate an arithmetic expression exactly: + - * / // % ^ and parentheses.",
            _takes("expression", "For example: (2 + 3) * 4"),
            _calculate,
        ),
        Tool(
            "search_docs",
            "Search the documentation of agentbook and the agent platform. Answers with sections and their sources.",
            _takes("query", "A question or a few words"),
            _search_docs,
        ),
        Tool(
            "query_activity",
            "Count this account's sessions, messages, replies, failures and waiting times by real queries. "
            f"Takes one question in plain English, such as: {'; '.join(EXAMPLES)}",
            _takes("question", "The question"),
            _query_activity,
        ),
        Tool(
            "now",
            "The present date, time and weekday in UTC.",
            {"type": "object", "properties": {}, "additionalProperties": False},
            _now,
        ),
    )
}


def offered(turn: TurnRequest) -> dict[str, Tool]:
    """The tools that the agent's version names, by the name the model calls them."""
    found: dict[str, Tool] = {}
    for name in turn.platform_tools:
        tool = PLATFORM_TOOLS.get(name) or _absent(name, f"The platform tool {name!r} is not part of this service")
        found.setdefault(tool.name, tool)
    for entry in turn.tools:
        integration, names = entry.get("integration"), entry.get("tools")
        for name in names if isinstance(names, list) else ():
            spelt = f"{integration}__{name}"
            tool = _absent(spelt, f"The integration {integration!r} is not connected on this service")
            found.setdefault(tool.name, tool)
    return found


def _absent(name: str, why: str) -> Tool:
    """A tool that the version names and that is not there: calling it does nothing, and says so."""

    async def run(turn: TurnRequest, arguments: Mapping[str, Any]) -> str:
        return _json(error=f"{why}, so nothing was done. Say so; do not make up a result.")

    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(callable_name(name), f"{name} (not connected)", parameters, run)


def callable_name(name: str) -> str:
    """`name` as endpoints accept it for a function: letters, digits, ``_`` and ``-``, at most 64.

    Examples
    --------
    >>> callable_name("google drive__find file")
    'google_drive__find_file'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "tool"


async def run(call: ToolCall, tools: Mapping[str, Tool], turn: TurnRequest) -> str:
    """Run what the model called; the result, or what was wrong with the call, as text for the model."""
    tool = tools.get(call.name)
    if tool is None:
        return _json(error=f"There is no tool {call.name[:_LONGEST_NAME]!r}. There are: {', '.join(tools) or 'none'}.")
    try:
        result = await tool.run(turn, read_arguments(call.arguments))
    except BadArguments as reason:
        return _json(error=str(reason))
    except Exception:
        log.exception("the tool %s of turn %s failed", tool.name, turn.task_id)
        return _json(error="The tool failed. Go on without it, and say so.")
    return result if len(result) <= _LONGEST_RESULT else result[:_LONGEST_RESULT] + "… (cut)"


def read_arguments(text: str) -> Mapping[str, Any]:
    """The arguments a model wrote as JSON; none at all count as an empty object.

    Raises
    ------
    BadArguments
        They are no JSON object, or longer than any tool takes.
    """
    if len(text) > _LONGEST_ARGUMENTS:
        raise BadArguments(f"The arguments are longer than {_LONGEST_ARGUMENTS} characters.")
    try:
        arguments = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise BadArguments("The arguments are not JSON.") from None
    if not isinstance(arguments, dict):
        raise BadArguments("The arguments must be a JSON object.")
    return arguments


def _json(**facts: object) -> str:
    return json.dumps(facts, ensure_ascii=False)

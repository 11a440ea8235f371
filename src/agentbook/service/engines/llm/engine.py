"""The loop of an LLM agent: ask the model, run the tools it calls, repeat.

Only the run limits end a loop of tools: the platform counts each `LlmCall` and each
tool run.

The texts of all rounds form one reply, because each was shown as it was written: the
drafts, joined, are the reply.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ...._text import replace_surrogates
from ..base import Draft, Failure, LlmCall, LlmUsage, Message, Reply, Step, TurnRequest
from .agent_tools import run_call
from .completion_stream import Completion
from .endpoint import Endpoint, EndpointError
from .models import Models
from .tools import Memory, callable_name, offered_tools

log = logging.getLogger("agentbook.service")

_MAX_REASON = 100  # characters of a finish reason, which is the endpoint's own text
_BYTES_PER_TOKEN = 4  # the usual rule of thumb, if the endpoint does not count

NOT_INSTALLED = Failure(
    500,
    "EngineNotInstalled",
    "A language model is configured, but the package that speaks to it is not installed. "
    "Run `pip install openai` where the service runs, and restart the service",
)


@dataclass(frozen=True, slots=True)
class LlmEngine:
    """Answers with a language model.

    Parameters
    ----------
    models
        The models that a version may name, and how to reach them.
    """

    models: Models

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Yield drafts and tool runs as they happen, then a `Reply` or a `Failure`.

        The failure says what the operator of the service can do.
        """
        settings = self.models.find(turn.model)
        if settings.problem is not None:
            yield Failure(500, "ModelNotConfigured", settings.problem)
            return
        try:
            # In a thread, because importing the package takes half a second the first
            # time.
            endpoint = await asyncio.to_thread(Endpoint, settings)
        except ImportError:
            yield NOT_INSTALLED
            return
        async with aclosing(endpoint), aclosing(self._converse(turn, endpoint, settings.model)) as steps:
            try:
                async for step in steps:
                    yield step
            except EndpointError as error:
                log.warning("turn %s, model %r at %s: %s", turn.task_id, settings.model, settings.base_url, error)
                yield error.failure if turn.prompt_is_visible else error.unquoted or error.failure

    async def _converse(self, turn: TurnRequest, endpoint: Endpoint, model: str) -> AsyncGenerator[Step, None]:
        memory = Memory(turn.state)
        tools = offered_tools(turn, memory)
        messages = initial_messages(turn)
        reply_parts: list[str] = []
        while True:
            body = {
                "model": model,
                "messages": messages,
                "stream": True,
                "stream_options": {"include_usage": True},
                **turn.sampling,
                **({"tools": [tool.as_function() for tool in tools.values()]} if tools else {}),
            }
            text = replace_surrogates(json.dumps(body, ensure_ascii=False, separators=(",", ":")))  # as on the wire
            size = len(text.encode())
            yield LlmCall(size)
            completion = Completion()
            separator = "\n\n" if reply_parts else ""
            async with aclosing(endpoint.stream(json.loads(text))) as parts:
                async for part in parts:
                    if isinstance(part, Completion):
                        completion = part
                    elif part:
                        reply_parts.append(separator + part)
                        separator = ""
                        yield Draft(reply_parts[-1])
            is_estimate = completion.tokens is None
            yield LlmUsage(_tokens(completion, size), model=model, is_estimate=is_estimate, **completion.counts)
            if not completion.tool_calls or completion.finish_reason in ("length", "content_filter"):
                yield _last_step(completion, "".join(reply_parts))
                return
            messages.append(_assistant_message(completion))
            for call in completion.tool_calls:
                result = ""
                async with aclosing(run_call(call, callable_name(call.name), tools, turn, memory)) as items:
                    async for item in items:
                        if isinstance(item, str):
                            result = item
                        else:
                            yield item
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def initial_messages(turn: TurnRequest) -> list[dict[str, Any]]:
    """The messages of the first request.

    The system prompt, the session's history in mode multi-turn, and the message.
    """
    messages = [Message("system", turn.system_prompt)] if turn.system_prompt else []
    messages += turn.history if turn.mode == "multi-turn" else ()
    messages = [*(message for message in messages if message.text), Message("user", turn.message)]
    return [{"role": message.role, "content": message.text} for message in messages]


def _tokens(completion: Completion, request_bytes: int) -> int:
    """The tokens that the endpoint counted.

    Estimated if it did not count, so that limits and budgets still apply.
    """
    if completion.tokens is not None:
        return completion.tokens
    characters = len(completion.text) + sum(len(call.arguments) for call in completion.tool_calls)
    return (request_bytes + characters) // _BYTES_PER_TOKEN


def _assistant_message(completion: Completion) -> dict[str, Any]:
    """The model's own round, as the next request repeats it."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for call in completion.tool_calls
    ]
    return {"role": "assistant", "content": completion.text or None, "tool_calls": calls}


def _last_step(completion: Completion, text: str) -> Reply | Failure:
    if text.strip():
        reason = completion.finish_reason
        return Reply(text, None if reason in (None, "stop") else replace_surrogates(reason)[:_MAX_REASON])
    if completion.finish_reason == "content_filter":
        return Failure(
            502, "ContentFiltered", "The language model's content filter withheld the reply. Ask in other words"
        )
    if completion.finish_reason == "length":
        advice = "reached its length limit before it wrote anything. Allow it more tokens, or ask for less"
    else:
        advice = "gave an empty reply. Try again, or change the system prompt"
    return Failure(502, "ModelEndpointError", f"The language model {advice}")

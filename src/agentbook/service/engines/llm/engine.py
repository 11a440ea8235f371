"""The loop of an LLM agent: ask the model, run the tools it calls, ask again, until it answers.

The text of all rounds is one reply, because all of it was shown while it was written: the drafts joined are the reply.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ..base import Draft, Failure, LlmCall, LlmUsage, Message, Reply, Step, ToolDone, ToolStarted, TurnRequest
from . import tools as toolbox
from .chunks import Answer
from .endpoint import Endpoint, EndpointError
from .settings import Settings

log = logging.getLogger("agentbook.service")

_MOST_ROUNDS = 12
_BYTES_A_TOKEN = 4  # the usual rule of thumb, where an endpoint does not count
_CUT = "\n\n*The answer was cut off at the model's length limit.*"

NOT_INSTALLED = Failure(
    500,
    "EngineNotInstalled",
    "A language model is configured, but the package that speaks to it is not installed. "
    "Run `pip install 'agentbook[llm]'` where the service runs, and restart the service",
)


@dataclass(frozen=True, slots=True)
class LlmEngine:
    """Answers with a language model.

    Parameters
    ----------
    settings
        Where the model is.
    most_rounds
        How many times in one turn the model may call tools before it has to answer.
    """

    settings: Settings
    most_rounds: int = _MOST_ROUNDS

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Drafts and tool runs as they happen, then a `Reply`, or a `Failure` that says what the operator can do."""
        if self.settings.problem is not None:
            yield Failure(500, "ModelNotConfigured", self.settings.problem)
            return
        try:
            # In a thread: loading the package takes half a second the first time.
            endpoint = await asyncio.to_thread(Endpoint, self.settings)
        except ImportError:
            yield NOT_INSTALLED
            return
        async with endpoint, aclosing(self._converse(turn, endpoint)) as steps:
            try:
                async for step in steps:
                    yield step
            except EndpointError as error:
                log.warning(
                    "turn %s, model %r at %s: %s", turn.task_id, self.settings.model, self.settings.base_url, error
                )
                yield error.failure

    async def _converse(self, turn: TurnRequest, endpoint: Endpoint) -> AsyncGenerator[Step, None]:
        tools = toolbox.offered(turn)
        messages = opening(turn)
        written: list[str] = []
        for round_ in range(self.most_rounds + 1):
            body = self._body(messages, tools, may_call=round_ < self.most_rounds)
            size = body_bytes(body)
            yield LlmCall(size)
            answer = Answer("", (), None, None)
            apart = "\n\n" if written else ""
            async with aclosing(endpoint.ask(body)) as parts:
                async for part in parts:
                    if isinstance(part, Answer):
                        answer = part
                    elif part:
                        written.append(apart + part)
                        apart = ""
                        yield Draft(written[-1])
            yield LlmUsage(_tokens(answer, size))
            if not answer.calls or answer.finish in ("length", "content_filter"):
                if answer.finish == "length" and "".join(written).strip():
                    written.append(_CUT)
                    yield Draft(_CUT)
                yield _end(answer, written)
                return
            messages.append(_said(answer))
            for call in answer.calls:
                name = toolbox.callable_name(call.name)
                yield ToolStarted(name, {"arguments": call.arguments[:200]})
                result = await toolbox.run(call, tools, turn)
                yield ToolDone(name)
                messages.append({"role": "tool", "tool_call_id": sendable(call.id), "content": sendable(result)})
        yield Failure(
            502,
            "ModelEndpointError",
            f"The language model called tools {self.most_rounds} times in a row and gave no answer",
        )

    def _body(
        self, messages: Sequence[Mapping[str, Any]], tools: Mapping[str, toolbox.Tool], *, may_call: bool
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            body["tools"] = [tool.offered() for tool in tools.values()]
            if not may_call:
                body["tool_choice"] = "none"
        return body


def opening(turn: TurnRequest) -> list[dict[str, Any]]:
    """What the model is told at first: the system prompt, in mode multi-turn what was said before, and the message."""
    told = [Message("system", turn.system_prompt)] if turn.system_prompt else []
    told += turn.history if turn.mode == "multi-turn" else ()
    told = [*(message for message in told if message.text), Message("user", turn.message)]
    return [{"role": message.role, "content": sendable(message.text)} for message in told]


def body_bytes(body: Mapping[str, Any]) -> int:
    """How long the request's body is on the wire."""
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def sendable(text: str) -> str:
    """`text` without lone surrogates, which a model may write (as half of an emoji) and no request can carry."""
    return text.encode("utf-8", "replace").decode()


def _tokens(answer: Answer, request_bytes: int) -> int:
    """As the endpoint counts them; estimated where it does not, so that limits and budgets hold all the same."""
    if answer.tokens is not None:
        return answer.tokens
    written = len(answer.text) + sum(len(call.arguments) for call in answer.calls)
    return (request_bytes + written) // _BYTES_A_TOKEN


def _said(answer: Answer) -> dict[str, Any]:
    """The model's own round, as the next request repeats it."""
    calls = [
        {
            "id": sendable(call.id),
            "type": "function",
            "function": {"name": sendable(call.name), "arguments": sendable(call.arguments) or "{}"},
        }
        for call in answer.calls
    ]
    return {"role": "assistant", "content": sendable(answer.text) or None, "tool_calls": calls}


def _end(answer: Answer, written: list[str]) -> Reply | Failure:
    text = "".join(written)
    if answer.finish == "content_filter":
        return Failure(
            502, "ContentFiltered", "The language model's content filter withheld the answer. Ask in other words"
        )
    if not text.strip():
        why = (
            "reached its length limit before it wrote anything" if answer.finish == "length" else "gave an empty answer"
        )
        return Failure(502, "ModelEndpointError", f"The language model {why}. Try again, or change the system prompt")
    return Reply(text)

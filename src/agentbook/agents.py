"""What a function gives and gets that answers as an agent.

``agentbook serve --agent acme~mine=my_agent:answer`` runs turns with a function of
yours, ``answer(request)`` in ``my_agent.py``:

    from agentbook.agents import Request, ToolDone, ToolStarted

    def answer(request: Request):
        yield ToolStarted("find_order", {"id": 7})
        yield ToolDone("find_order", {"status": "sent"})
        yield "Order 7 "
        yield "is on its way."

It may also be an async generator, or a function, async or not, that returns the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

__all__ = ["LlmUsage", "Request", "ToolDone", "ToolStarted"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


@dataclass(frozen=True, slots=True)
class Request:
    """A message that an agent is to answer, and what came before it.

    Attributes
    ----------
    message : str
        The message to answer.
    messages : list of dict
        The session so far, oldest first, with `message` at the end, in the form of
        OpenAI and others: ``{"role": "user" or "assistant", "content": text}``. Of a
        long session, the newest 400 before it.
    session_id : str
        The session, for what an agent remembers of it elsewhere.
    agent, workspace : str
        Their names.
    system_prompt : str or None
        That of the agent's version, if it was configured with one.

    Examples
    --------
    >>> from agentbook.agents import Request
    >>> messages = [{"role": "user", "content": "Where is order 7?"}]
    >>> Request("Where is order 7?", messages, "s-1", "mine", "playground").message
    'Where is order 7?'
    """

    message: str
    messages: list[dict[str, str]]
    session_id: str
    agent: str
    workspace: str
    system_prompt: str | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool run started.

    Attributes
    ----------
    name : str
        Shown live.
    arguments : mapping
        JSON values, stored with the run.
    id : str or None
        The id of the call, such as a model gives, so that the results of calls of one
        tool at the same time are told apart.

    Examples
    --------
    >>> from agentbook.agents import ToolStarted
    >>> ToolStarted("find_order", {"id": 7}).name
    'find_order'
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolDone:
    """The `ToolStarted` with this id finished; without an id, the oldest of this name.

    Becomes a ``runtime_done`` event whose ``content`` is ``{}``.

    Attributes
    ----------
    name : str
        As it started.
    result : Any
        A JSON value. None means that no result is reported.
    error : str or None
        Why the run failed.
    id : str or None
        As it started.

    Examples
    --------
    >>> from agentbook.agents import ToolDone
    >>> ToolDone("find_order", error="There is no order 7.").result is None
    True
    """

    name: str
    result: Any = None
    error: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class LlmUsage:
    """The tokens of a request to a language model, as its endpoint counts them.

    Attributes
    ----------
    tokens : int
        Prompt and answer together.
    agent_id : str or None
        Set by the platform for a sub-agent's request.
    model : str or None
        The model's name.
    input_tokens, output_tokens : int or None
        None if the endpoint does not count them separately.
    cached_tokens, cache_write_tokens : int or None
        Those of the input tokens that came from a prompt cache, and that were written
        to one; None if the endpoint does not say.
    is_estimate : bool
        True if it did not count at all.

    Examples
    --------
    >>> from agentbook.agents import LlmUsage
    >>> LlmUsage(30, model="gpt-4o-mini", input_tokens=20, output_tokens=10).tokens
    30
    """

    tokens: _Count
    agent_id: str | None = None
    model: str | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    is_estimate: bool = False
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None

"""Messages of any format as a `Message`, its tool calls, and results of earlier calls.

All formats have a role, a text or parts, calls of tools and their results, under names
of their own. Where two formats use one name, they mean the same by it, so the tables
here hold the names of all: of OpenAI's chat and responses, of the GenAI conventions and
OpenInference, of Anthropic, LangChain and ATIF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .model import Item, Message, Problems, Result, ToolCall, mapping, parsed

ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "AIMessageChunk", "model", "agent"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
_CALLS = ("tool_use", "tool_call", "function_call", "server_tool_use", "mcp_tool_use")
_RESULTS = ("tool_result", "_tool_result", "tool_call_response")
_SILENT = ("reasoning", "thinking", "redacted_thinking", "mcp_list_tools", "compaction", "ghost_snapshot", "other")
# Tools that the model's provider runs: the results are in the calls.
_HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
# Where an object has its messages, and where a single text, in the order of preference.
_HOMES: tuple[str, ...] = ("messages", "message", "choices", "generations", "input", "inputs", "output", "outputs")
_HOMES += ("question", "query", "prompt", "prompts", "user_input", "answer", "response", "result", "completion")
_HOMES += ("text", "content", "value")
_FIRST = ("choices", "generations")  # the other elements were not said
_MAX_DEPTH = 6
UNKNOWN = "unknown"  # a name or a reason to stop, for formats that need one


def items_of(message: Any, problem: Problems, role: str | None = None) -> list[Item | Result]:
    """What one message says: results of tools, its text, and calls of tools.

    `role` is that of a message that does not say its own.

    Examples
    --------
    >>> from agentbook.frames.formats.model import Problems
    >>> message = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    >>> items_of(message, Problems("a.jsonl"))[0].text
    'Hi'
    """
    whole = _unwrapped(message) if isinstance(message, dict) else {}
    if (role := _role(whole) or role) is None:
        if whole.get("type") in _SILENT:
            return []
        said = next((name for name in ("role", "type") if whole.get(name) is not None), None)
        problem(f"a message whose {said} is {whole[said]!r:.60}" if said else "a message without a role", message)
        return []
    content = first(whole, "content", "parts", "contents", "output", "refusal")
    if role == "call":
        calls = calls_of([whole], problem)
        made, error = first(whole, "output", "outputs", "results"), whole.get("error")
        is_done = whole.get("type") in _HOSTED and (whole.get("status") in (None, "completed") or made or error)
        return [*calls, *(Result(error or made, call.id, is_error=bool(error)) for call in calls if is_done)]
    id_, has_failed = text_or_none(first(whole, "tool_call_id", "call_id", "id")), whole.get("status") == "error"
    if role == "tool" and isinstance(error := whole.get("error"), dict):  # as Inspect has it
        content, has_failed = content or error.get("message"), True
    parts = content if isinstance(content, list) else [] if content is None else [content]
    if role == "tool" and (
        isinstance(content, dict) or not all(isinstance(each, str) or _kind(each) for each in parts)
    ):
        return [Result(content, id_, whole.get("name"), has_failed)]
    texts, results, calls = [], list[Result](), [*_listed(whole.get("tool_calls"))]
    for part in parts:
        part = part.get("message_content", part) if isinstance(part, dict) else part
        kind, text = _kind(part), _text(part)
        if kind in _CALLS or (isinstance(part, dict) and "tool_call" in part):
            calls.append(part)
        elif isinstance(kind, str) and kind.endswith(_RESULTS):
            of = text_or_none(first(part, "tool_use_id", "id"))
            content = first(part, "response", "result", "content")
            results.append(Result(content, of, is_error=part.get("is_error") is True))
        elif text is not None:
            texts.append(text)
        elif kind not in _SILENT:
            problem(f"a part that is not text was left out: {kind or type(part).__name__}")
    if role == "tool" and not results:
        return [Result("\n".join(texts), id_, whole.get("name"), has_failed)]
    calls += filter(None, [whole.get("function_call")])
    message = Message(role, "\n".join(texts), finish_reason=text_or_none(whole.get("finish_reason")))
    made = calls_of(calls, problem)
    own = {call.id for call in made} - {None}  # of tools that the provider ran for this message
    later = [*made, *(each for each in results if each.id in own)]
    message_ = [message] if texts or not (calls or results) else []
    return [*(each for each in results if each.id not in own), *message_, *later]


def messages_of(value: Any, role: str, problem: Problems, depth: int = 0) -> list[Item | Result]:
    """The messages in an input or output of any shape; `role` is of a mere text."""
    if isinstance(value, str):
        found = parsed(value) if depth == 0 and value.lstrip()[:1] in ("{", "[") else value
        if isinstance(found, str):
            return [Message(role, found)] if found else []
        return messages_of(found, role, problem, 1)
    if depth > _MAX_DEPTH:
        problem("messages that are nested too deeply")
    elif isinstance(value, list):
        return [item for each in value for item in messages_of(each, role, problem, depth + 1)]
    elif isinstance(value, dict):
        whole = _unwrapped(value)
        if _role(whole) is not None or whole.get("tool_calls") or "parts" in whole:
            return items_of(value, problem, role)
        for name in _HOMES:
            inner = value.get(name)
            inner = inner[:1] if name in _FIRST and isinstance(inner, list) else inner
            if inner and (items := messages_of(inner, role, problem, depth + 1)):
                return items
    return []


def _unwrapped(value: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what libraries put around it."""
    among = () if "role" in value else ("message", "kwargs", "data")
    inner: Mapping[str, Any] = next((value[name] for name in among if isinstance(value.get(name), dict)), {})
    whole = {**value, **inner}
    if isinstance(names := value.get("id"), list) and names:  # of LangChain's class
        whole["type"] = names[-1]
    if not whole.get("tool_calls"):
        whole["tool_calls"] = mapping(whole.get("additional_kwargs")).get("tool_calls")
    return whole


def _role(whole: Mapping[str, Any]) -> str | None:
    for said in (whole.get("role"), kind := whole.get("type")):
        if isinstance(said, str) and said in ROLES:
            return ROLES[said]
    if not isinstance(kind, str) or kind in _SILENT:
        return None
    return "call" if kind.endswith("_call") else "tool" if kind.endswith("_output") else None


def is_message(value: Mapping[str, Any]) -> bool:
    """Whether it is a message, or another item of a response."""
    return _role(_unwrapped(value)) is not None or value.get("type") in _SILENT


def is_agents(message: Any) -> bool:
    """Whether a message is one of the agent, or a call of it."""
    return isinstance(message, dict) and _role(_unwrapped(message)) in ("assistant", "call")


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _text(part: Any) -> str | None:
    if isinstance(part, dict) and part.get("type") not in ("blob", *_SILENT):
        part = first(part, "text", "content", "refusal")
    return part if isinstance(part, str) else None


def calls_of(calls: Iterable[Any], problem: Problems) -> list[ToolCall]:
    """The calls of tools, by whichever names."""
    found: list[ToolCall] = []
    for call in calls:
        whole = mapping(call)
        whole = mapping(whole.get("tool_call")) or whole
        function = next((whole[name] for name in ("function", "custom") if isinstance(whole.get(name), dict)), whole)
        kind = whole.get("type")
        name = first(function, "name", "function_name", "function")
        if name is None and isinstance(kind, str) and kind.endswith("_call") and kind != "function_call":
            name = kind.removesuffix("_call")
        if isinstance(name, str):
            given = parsed(first(function, "arguments", "args", "input", "action", "queries", "code"))
            found.append(ToolCall(name, given, id=text_or_none(first(whole, "call_id", "tool_call_id", "id"))))
        else:
            problem("a tool call without a name", call)
    return found


def first(values: Mapping[str, Any], *names: str) -> Any:
    """The first of these values that is not null."""
    for name in names:
        if (value := values.get(name)) is not None:
            return value
    return None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text_or_none(value: Any) -> str | None:
    """A value as text; None if it is empty or says that it is not known."""
    return None if value in (None, "", UNKNOWN) else str(value)

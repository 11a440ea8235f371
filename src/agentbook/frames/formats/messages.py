"""Messages of any format as a `Message`, its tool calls, and results of earlier calls.

All formats have a role, a text or parts, calls of tools and their results, under names
of their own. Where two formats use one name, they mean the same by it, so the tables
here hold the names of all: of OpenAI's chat and responses, of the GenAI conventions and
OpenInference, of Anthropic, Bedrock and Gemini, of LangChain, pydantic-ai and the AI
SDK, of ATIF and Inspect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .model import Item, Message, Problems, Result, ToolCall, mapping, parsed

ROLES = {
    name: role
    for role, names in {
        "user": "user human HumanMessage HumanMessageChunk request",
        "assistant": "assistant ai AIMessage AIMessageChunk model agent gemini response",
        "system": "system developer SystemMessage",
        "tool": "tool function ToolMessage FunctionMessage",
    }.items()
    for name in names.split()
}
# What stands around a part, or a call, and what the part is; else it says so itself.
_AROUND = {"tool_call": "tool_call", "toolUse": "tool_call", "functionCall": "tool_call", "toolResult": "tool_result"}
_AROUND |= {"function_call": "tool_call", "functionResponse": "tool_result", "function_response": "tool_result"}
_AROUND |= {"message_content": ""}
_CALLS = ("tool_use", "tool_call", "function_call")
_RESULTS = ("tool_result", "tool_call_response", "tool_return", "retry_prompt", "function_result")
_SILENT = ("reasoning", "thinking", "redacted_thinking", "mcp_list_tools", "ghost_snapshot", "other", "compaction",
           "compaction_summary", "step_start")  # fmt: skip
# Tools that the model's provider runs: the results are in the calls.
_HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
_CALL_IDS = ("tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "call_id", "id")
# Where a message has its text and parts, and where it has calls beside them.
CONTENTS = ("parts", "content", "contents", "output", "refusal", "text", "items")
CALLS = ("tool_calls", "toolCalls", "function_call")
# Where an object has its messages, and where a single text, in the order of preference.
_HOMES: tuple[str, ...] = (
    "messages",
    "message",
    "choices",
    "candidates",
    "generations",
    "input",
    "inputs",
    "output",
    "outputs",
)
_HOMES += ("question", "query", "prompt", "prompts", "user_input", "answer", "response", "result", "completion")
_HOMES += ("text", "content", "contents", "value", "task")
_FIRST = ("choices", "candidates", "generations")  # the other elements were not said
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
    whole = opened(message) if isinstance(message, dict) else {}
    if (role := _role(whole) or role) is None:
        if whole.get("type") in _SILENT:
            return []
        said = next((name for name in ("role", "type") if whole.get(name) is not None), None)
        problem(f"a message whose {said} is {whole[said]!r:.60}" if said else "a message without a role", message)
        return []
    if role == "call":
        return [*_run(whole, problem)]
    content, id_, has_failed = first(whole, *CONTENTS), None, whole.get("status") == "error"
    if role == "tool":
        id_ = text_or_none(first(whole, *_CALL_IDS))
    if role == "tool" and isinstance(error := whole.get("error"), dict):  # as Inspect has it
        content, has_failed = content or error.get("message"), True
    parts = content if isinstance(content, list) else [] if content is None else [content]
    if role == "tool" and (
        isinstance(content, dict) or not all(isinstance(each, str) or _part(each)[0] for each in parts)
    ):
        return [Result(content, id_, whole.get("name"), has_failed)]
    before, texts, results, calls = list[Item](), list[str](), list[Result](), list[Item | Result]()
    is_piece = False
    for each in parts:
        kind, part = _part(each)
        text = None if kind in _SILENT else _text(part)
        is_piece, was_piece = text is not None and role == "assistant", is_piece
        if kind.endswith(_RESULTS):
            made, of = first(part, "response", "result", "content", "output"), text_or_none(first(part, *_CALL_IDS))
            failed = part.get("is_error") is True or part.get("status") == "error" or kind == "retry_prompt"
            failed |= part.get("outcome") not in (None, "success")  # of pydantic-ai
            if isinstance(made, dict) and made.keys() == {"type", "value"}:  # as the AI SDK has it
                made, failed = made["value"], str(made["type"]).startswith("error")
            results.append(Result(made, of, first(part, "name", "tool_name", "toolName"), failed))
        elif kind.endswith(_CALLS) or (isinstance(part, dict) and "toolCallId" in part):
            calls += _run(part, problem)
        elif kind == "system_prompt":
            before.append(Message("system", text))
        elif text is not None and was_piece:  # what is between the texts of an agent is no line
            texts[-1] += text
        elif text is not None:
            texts.append(text)
        elif kind not in _SILENT:
            problem(f"a part that is not text was left out: {kind or type(part).__name__}")
    if role == "tool" and not results:
        return [Result("\n".join(texts), id_, whole.get("name"), has_failed)]
    known = {each.id for each in calls} - {None}  # some libraries have a call in the parts, too
    for name in CALLS:
        for call in made if isinstance(made := whole.get(name), list) else [made] if made else ():
            calls += (each for each in _run(call, problem) if each.id not in known)
    own = {call.id for call in calls if isinstance(call, ToolCall)} - {None}  # which the provider ran for this message
    calls += (each for each in results if each.id in own)
    is_picture = role == "user" and bool(parts) and not texts
    message_ = Message(
        role, None if is_picture else "\n".join(texts), finish_reason=text_or_none(whole.get("finish_reason"))
    )
    said_ = [message_] if texts or not (calls or results or before) else []
    if said_ and whole.keys().isdisjoint((*CONTENTS, *CALLS)):
        problem("a message without a text", message)
    return [*before, *(each for each in results if each.id not in own), *said_, *calls]


def _part(part: Any) -> tuple[str, Any]:
    """The kind of a part, by one spelling, and the part without what is around it."""
    if not isinstance(part, dict):
        return "", part
    around = "" if _AROUND.keys().isdisjoint(part) else next((n for n in _AROUND if isinstance(part.get(n), dict)), "")
    part = part[around] if around else part
    said = _AROUND.get(around) or first(part, "type", "part_kind", "content_type")
    said = "thinking" if part.get("thought") is True or part.get("synthetic") is True else said
    if said == "tool" and isinstance(part.get("state"), dict):  # of opencode
        said, part = "tool_call", {**part["state"], "toolName": part.get("tool"), "toolCallId": part.get("callID")}
    return said.replace("-", "_") if isinstance(said, str) else "", part


def _run(call: Any, problem: Problems) -> Iterator[ToolCall | Result]:
    """A call of a tool, and its result if it has it."""
    for made in calls_of([call], problem):
        yield made
        whole = mapping(call)
        result, error = first(whole, "output", "outputs", "results", "result"), first(whole, "error", "errorText")
        is_done = whole.get("type") in _HOSTED and whole.get("status") in (None, "completed")
        if is_done or result is not None or error:
            yield Result(error or result, made.id, is_error=bool(error))


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
        if len(value) == 2 and isinstance(value[1], str) and isinstance(value[0], str) and value[0] in ROLES:
            value = [{"role": value[0], "content": value[1]}]  # as LangChain takes messages
        return [item for each in value for item in messages_of(each, role, problem, depth + 1)]
    elif isinstance(value, dict) and value.get("type") not in _SILENT:
        whole = opened(value)
        if _role(whole) is not None or whole.get("tool_calls") or "parts" in whole:
            return items_of(value, problem, role)
        for name in _HOMES:
            inner = value.get(name)
            inner = inner[:1] if name in _FIRST and isinstance(inner, list) else inner
            if inner and (items := messages_of(inner, role, problem, depth + 1)):
                return items
    return []


def opened(value: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what libraries put around it."""
    whole = dict(value)
    for name in () if "role" in value else ("data", "kwargs", "message", "info", "content"):
        whole |= each if isinstance(each := value.get(name), dict) and (name != "content" or "role" in each) else {}
    if isinstance(names := value.get("id"), list) and names:  # of LangChain's class
        whole["type"] = names[-1]
    if "isCreatedByUser" in value:  # of LibreChat
        whole["role"] = "user" if value["isCreatedByUser"] else "assistant"
    whole["tool_calls"] = whole.get("tool_calls") or mapping(whole.get("additional_kwargs")).get("tool_calls")
    return whole


def _role(whole: Mapping[str, Any]) -> str | None:
    for said in (whole.get("role"), kind := whole.get("type"), whole.get("kind"), whole.get("sender")):
        if isinstance(said, str) and said in ROLES:
            return ROLES[said]
    if not isinstance(kind, str) or kind in _SILENT:
        return None
    return "call" if kind.endswith("_call") else "tool" if kind.endswith("_output") else None


def is_message(value: Any) -> bool:
    """Whether it is a message, or another item of a response."""
    return isinstance(value, dict) and (_role(opened(value)) is not None or value.get("type") in _SILENT)


def role_of(message: Any) -> str | None:
    """The role of a message; ``call`` for a call of the agent."""
    return _role(opened(message)) if isinstance(message, dict) else None


def is_agents(message: Any) -> bool:
    """Whether a message is one of the agent, or a call of it."""
    return role_of(message) in ("assistant", "call")


def _text(part: Any) -> str | None:
    if isinstance(part, dict) and part.get("type") != "blob":
        part = first(part, "text", "content", "refusal")
        part = part.get("value") if isinstance(part, dict) else part  # of OpenAI's threads
    return part if isinstance(part, str) and not part.startswith("<environment_details>") else None


def calls_of(calls: Iterable[Any], problem: Problems) -> list[ToolCall]:
    """The calls of tools, by whichever names."""
    found: list[ToolCall] = []
    for call in calls:
        _, whole = _part(mapping(call))
        function = next((whole[name] for name in ("function", "custom") if isinstance(whole.get(name), dict)), whole)
        kind = whole.get("type")
        name = first(function, "name", "function_name", "function", "tool_name", "toolName")
        if name is None and isinstance(kind, str) and kind not in _CALLS and kind.endswith("_call"):
            name = kind.removesuffix("_call")
        elif name is None and "toolCallId" in whole:
            name = str(kind).removeprefix("tool-")
        if isinstance(name, str):
            given = parsed(first(function, "arguments", "args", "input", "action", "queries", "code"))
            found.append(ToolCall(name, given, id=text_or_none(first(whole, *_CALL_IDS))))
        else:
            problem("a tool call without a name", call)
    return found


def first(values: Mapping[str, Any], *names: str) -> Any:
    """The first of these values that is not null."""
    for name in names:
        if (value := values.get(name)) is not None:
            return value
    return None


def text_or_none(value: Any) -> str | None:
    """A value as text; None if it is empty or says that it is not known."""
    return None if value in (None, "", UNKNOWN) else str(value)

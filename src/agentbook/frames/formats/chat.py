"""OpenAI's chat and responses: a list of messages without times.

``messages`` of fine-tuning, batches and logs, with the reply among them or beside them,
or ``input`` and ``output`` of a response. The messages may be those of other libraries,
whose names `messages` knows. Of ChatGPT's export, the branch that was shown last is
read.

https://platform.openai.com/docs/api-reference/fine-tuning/chat-input and /responses
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from ..analysis.turn_details import BY_MODEL, is_cost, is_count
from .messages import (
    CALLS,
    CONTENTS,
    first,
    is_agents,
    is_message,
    items_of,
    messages_of,
    opened,
    role_of,
    text_or_none,
)
from .model import Conversation, Item, Message, Problems, Records, Result, mapping, moment_of, parsed, said
from .spans import Traces

# What is read of a message; the rest is its ``extra``.
_KNOWN = {"role", "type", "kind", "name", "id", "status", "message", "data", "kwargs", "additional_kwargs", "children"}
_KNOWN |= {"created_at", "createdAt", "timestamp", "usage", "usage_metadata", "tokens", "model", "model_name"}
_KNOWN |= {*CONTENTS, *CALLS}
_IDS = ("conversation_id", "conversationId", "conversation_hash", "sessionId", "thread_id", "custom_id", "uuid", "id")
# Where a record has its messages, and where a response beside them.
_REQUESTS = ("proxy_server_request", "request", "request_body", "body", "params", "input", "inputs", "values", "chat")
_RESPONSES = ("response", "response_body", "output")
_MESSAGES = ("messages", "contents", "input")
_TALKS = re.compile(r"^(?!.*input).*(messages|conversation|chat|dialog|transcript|history|events|turns)", re.I)
# The column that says of which conversation a message is.
GROUP = re.compile(r"(conversation|convo?|session|thread|chat|ticket|dialogue?|case)(_?(id|hash|no|number))?", re.I)
_INSPECT = {
    "input_tokens_cache_read": "cache_read_input_tokens",
    "input_tokens_cache_write": "cache_creation_input_tokens",
}
_TIMES = ("created_at", "createdAt", "timestamp", "ts")
_COSTS = ("response_cost", "spend", "cost")
_MODELS = ("model", "model_name", "modelVersion", "modelID", "ai_model_id")
_PARTS = {"choices", "output", "role", "body", "messages"}  # of these, which no text that the model wrote has
_USAGES, _OLLAMA = ("usage", "usage_metadata", "usageMetadata", "tokens"), ("prompt_eval_count", "eval_count")
_COUNTS = {
    name: ours
    for ours, names in {
        "input_tokens": "prompt_eval_count promptTokenCount inputTokens input",
        "output_tokens": "eval_count candidatesTokenCount thoughtsTokenCount outputTokens output thoughts",
        "cached_tokens": "cachedContentTokenCount cachedInputTokens cached",
        "cache_read_input_tokens": "cacheReadInputTokens",
        "cache_creation_input_tokens": "cacheWriteInputTokens",
    }.items()
    for name in names.split()
}
_ASKED_AT = ("startTime", "start_time", "started_at", "request_created_at")
_ENDED_AT = ("endTime", "end_time", "completed_at", "response_created_at")
# What is a reply, the first that there is; and what may be one.
_REPLIES = ("choices", *_RESPONSES, "outputs", "responses", "completion", "reply", "chosen", "preferred_output", "rejected",
            "non_preferred_output")  # fmt: skip
_MAYBE = ("answer", "result", "completions", "generation", "generations", "generated_text", "prediction", "predictions",
          "model_output", "model_response", "assistant")  # fmt: skip


def is_openai(record: Mapping[str, Any]) -> bool:
    """Whether it holds messages, or the items of a response."""
    if _is_tree(record):
        return True
    record = _decoded(record)
    messages = _begin(first(_request(record), "messages", "contents"))
    if any("role" in each or is_message(each) for each in messages) or "contents" in _request(record):
        return any(opened(each).keys() & {*CONTENTS, *CALLS} for each in messages)
    is_batch = "custom_id" in record and not record.keys().isdisjoint(("response", "result", "error"))
    return is_batch or any(
        any("type" in item and is_message(item) for item in _begin(each.get("output")))
        or any("message" in choice for choice in _begin(each.get("choices")))
        or _is_reply(each)
        for each in _answers(record)
    )


def _decoded(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record, of which messages and a response may be texts of JSON, as in CSV."""
    names = ("messages", *_REQUESTS[:3], *_RESPONSES[:2])
    inner = {name: parsed(record[name]) for name in names if isinstance(record.get(name), str)}
    inner = {name: value for name, value in inner.items() if isinstance(value, list) or mapping(value).keys() & _PARTS}
    return {**record, **inner} if inner else record


def _is_tree(record: Mapping[str, Any]) -> bool:
    """Whether it is a conversation of ChatGPT's export."""
    return "current_node" in record and isinstance(record.get("mapping"), dict)


def _branch(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of ChatGPT's export that lead to the one that was shown last."""
    nodes, path = dict(record["mapping"]), list[Any]()
    at = record["current_node"] or next(reversed(nodes), None)
    while isinstance(node := nodes.pop(at, None), dict):
        path.append(node.get("message"))
        at = node.get("parent")
    for message in filter(None, reversed(path)):
        author, content, about = (mapping(message.get(name)) for name in ("author", "content", "metadata"))
        said = content.get("parts") or content.get("text")
        made = {"role": author.get("role"), "content": said, "timestamp": message.get("create_time")}
        if made["role"] == "assistant" and message.get("recipient") not in (None, "all"):
            made |= {
                "content": None,
                "tool_calls": [{"name": message["recipient"], "arguments": content.get("text", said)}],
            }
        if said not in (None, "", [""]) and not about.get("is_visually_hidden_from_conversation"):
            yield made | {"name": author.get("name"), "model": about.get("model_slug")}


def _is_reply(message: Mapping[str, Any]) -> bool:
    """Whether it is a message of Anthropic's API."""
    return message.get("type") == "message" and message.get("role") == "assistant" and "model" in message


def _begin(items: Any) -> list[dict[str, Any]]:
    return [each for each in items[:3] if isinstance(each, dict)] if isinstance(items, list) else []


def _request(record: Mapping[str, Any]) -> Mapping[str, Any]:
    among: list[Any] = [record, *(record[name] for name in _REQUESTS if isinstance(record.get(name), dict))]
    among += [each["body"] for each in among if isinstance(each.get("body"), dict)]
    for name, each in itertools.product(_MESSAGES, among):
        if isinstance(each.get(name), list | str):
            return dict(each)
    lists = [value for name, value in record.items() if _TALKS.search(name) and _are_messages(value)]
    return {**record, "messages": lists[0]} if len(lists) == 1 else record


def _are_messages(value: Any) -> bool:
    """Whether it is a list of what people and agents said, by its begin."""
    return any(role_of(each) in ("user", "assistant") and opened(each).keys() & {*CONTENTS} for each in _begin(value))


def are_several(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an unknown field may say which of these messages belong together."""
    if any(map(GROUP.fullmatch, messages[0])):
        return False
    for name in set(messages[0]).intersection(*messages[1:]) - _KNOWN:
        said: dict[Any, set[str | None]] = {}
        for each in messages:
            if isinstance(each[name], str | int):
                said.setdefault(each[name], set()).add(role_of(each))
        if sum(roles >= {"user", "assistant"} for roles in said.values()) > 1:
            return True
    return False


def grouped(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Records of the conversations whose messages are records, as rows of a table."""
    talks: dict[Any, list[Mapping[str, Any]]] = {}
    for each in messages:
        talks.setdefault(next((each[name] for name in each if GROUP.fullmatch(name)), None), []).append(each)
    for id_, talk in talks.items():
        begin, end = (moment_of(each.get("created_at")) for each in (talk[0], talk[-1]))
        is_latest_first = begin is not None and end is not None and begin > end  # as the API of threads has it
        yield {"conversation_id": id_, "messages": talk[::-1] if is_latest_first else talk}


def _answers(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    among = [record, *(record.get(name) for name in _RESPONSES), mapping(record.get("result")).get("message")]
    among.insert(2, mapping(record.get("response")).get("body"))
    return [each for each in among if isinstance(each, dict)]


def is_call(record: Mapping[str, Any]) -> bool:
    """Whether it is a call in the log of a gateway that says its session."""
    record = _decoded(record)
    has_ended = first(record, *_RESPONSES) is not None or _failure(record) is not None
    return _session(record) is not None and has_ended and is_openai(record) and _request(record) is not record


def _session(record: Mapping[str, Any]) -> Any:
    return first(record, "session_id") or mapping(record.get("request_properties")).get("Helicone-Session-Id")


def read_calls(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the calls to traces: each has what was said before in its request."""
    for record in records:
        traces.read(_call, _decoded(record))
    return ()


def _call(record: Mapping[str, Any]) -> dict[str, Any]:
    answer = next((each for each in _answers(record) if _used(each)), {})
    began, ended = (first(record, *names) for names in (_ASKED_AT, _ENDED_AT))
    return {
        **_used(answer), "id": (id_ := first(record, "request_id", "id")), "trace_id": id_, "type": "llm",
        "session_id": _session(record), "model": first({**record, **answer}, *_MODELS), "start_time": began, "end_time": ended,
        "input": first(_request(record), *_MESSAGES), "output": first(record, *_RESPONSES), "total_cost": first(record, *_COSTS),
        "user_id": first(record, "end_user", "request_user_id"), "error": _failure(record),
    }  # fmt: skip


def _failure(record: Mapping[str, Any]) -> str | None:
    error = next((each["error"] for each in _answers(record) if each.get("error")), None)
    error = error or record.get("error_str") or mapping(record.get("metadata")).get("error_information")
    return str(first(mapping(error), "message", "error_message", "type", "code") or error) if error else None


def read(records: Records, problem: Problems) -> Iterator[Conversation]:
    """A conversation for each record; for responses that continue others, of all."""
    chains: dict[Any, Conversation] = {}  # by the id of the last response
    for record in map(_decoded, records):
        if message := next((each for each in _answers(record) if _is_reply(each)), None):
            record = {**record, "response": message}
        elif (result := mapping(record.get("result"))).get("type") in ("errored", "canceled", "expired"):
            error = mapping(result.get("error"))
            record = {**record, "error": error.get("error") or error or result["type"]}
        elif _is_tree(record):
            record = {**record, "messages": [*_branch(record)]}
        holders = (record, mapping(record.get("metadata")))
        id_ = next((each[name] for name in _IDS for each in holders if each.get(name)), None)
        if record.get("epoch") not in (None, 1):  # of a sample of Inspect
            id_ = f"{id_}/{record['epoch']}"
        response = next((each for each in _answers(record) if each.get("object") == "response"), {})
        before = mapping(response.get("conversation")).get("id") or response.get("previous_response_id")
        if (talk := chains.pop(before, None)) is None:
            id_ = id_ or before or response.get("id")
            talk = Conversation(None if id_ is None else str(id_), title=text_or_none(record.get("title")))
        is_told = bool(talk.items)  # its instructions
        items = _all(record, problem)
        talk.take((item for item in items if not is_told or getattr(item, "role", "") != "system"), problem)
        _describe(talk, record, problem)
        if response:
            chains[mapping(response.get("conversation")).get("id") or response.get("id")] = talk
        else:
            yield talk
    yield from chains.values()


def _describe(talk: Conversation, record: Mapping[str, Any], problem: Problems) -> None:
    """Add what a record and its answer say of the last question and its reply."""
    answer = next((each for each in _answers(record) if _used(each)), mapping(record.get("response")))
    user = next((item for item in reversed(talk.items) if isinstance(item, Message) and item.role == "user"), None)
    began, ended = (next((name for name in names if name in record), "") for names in (_ASKED_AT, _ENDED_AT))
    if user is not None and user.at is None:
        user.at = problem.time(record.get(began), began)
    last = next((item for item in reversed(talk.items) if isinstance(item, Message)), None)
    if last is not None and last.role == "assistant":
        last.usage = _used(answer) or last.usage
        model = text_or_none(first({**record, **answer}, *_MODELS))
        for item in [last] if answer else talk.items:
            if isinstance(item, Message) and item.role == "assistant":
                item.model = model or item.model
        if counts := {  # of all calls in a sample of Inspect
            model: {_INSPECT.get(name, name): count for name, count in mapping(each).items()}
            for model, each in mapping(record.get("model_usage")).items()
        }:
            last.usage = {BY_MODEL: counts}
        if is_cost(cost := first(record, *_COSTS)):
            last.usage = {**(last.usage or {}), "reported_cost": cost}
        last.at = last.at or problem.end(None if user is None else user.at, record.get(ended), ended)
        last.at = last.at or problem.time(first(answer, "created", "created_at"), "created")


def _all(record: Mapping[str, Any], problem: Problems) -> list[Item | Result]:
    """What a record says: instructions, messages or the input, and the reply."""
    request = _request(record)
    system = first({**record, **request}, "system", "instructions")
    asked = first(request, *_MESSAGES) or []
    asked = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    messages = [*([{"role": "system", "content": system}] if system else []), *_flat(asked)]
    role = "user" if "contents" in request else None  # of a question of Gemini
    items = [item for message in messages for item in _said(message, problem, role)]
    around = zip([None, *items], items, [*items[1:], None], strict=False)
    # A picture is a part of the question before or after it.
    items = [item for a, item, b in around if not (_is_picture(item) and (_is_user(a) or _is_user(b)))]
    error = _failure(record)
    for name in _REPLIES:
        if value := record.get(name):
            if name == "responses" and isinstance(value, list) and len(value) > 1:
                problem(f"{len(value)} responses: only the first was read", value)
                value = value[:1]
            reply = _after_user(_reply({name: value} if name == "choices" else value, problem))
            known = [*map(_key, _after_user(items))]
            is_new = any(_key(item) not in known for item in reply)
            if is_new and _is_open(items):
                has_text = any(isinstance(item, Message) for item in reply)
                items += reply if has_text else [Message("assistant", is_reply=False), *reply]
            elif is_new or not (reply or error):
                problem(f"{name}, beside the messages, was left out", value)
    if error and _is_open(items):
        items.append(Message("assistant", error=error))
    elif error:
        problem("an error beside a reply was left out", error)
    for name in (each for each in _MAYBE if record.get(each) and _is_open(items)):
        problem(f"{name}, beside the messages, was left out", record[name])
    return items


def _flat(messages: Iterable[Any]) -> Iterator[Any]:
    """Messages, and those that answer them, as LibreChat nests them."""
    for each in messages:
        yield each
        yield from _flat(each.get("children") or ()) if isinstance(each, dict) else ()


def _after_user(items: list[Item | Result]) -> list[Item | Result]:
    users = [number for number, item in enumerate(items, 1) if _is_user(item)]
    return items[users[-1] :] if users else items


def _is_user(item: Any) -> bool:
    return isinstance(item, Message) and item.role == "user"


def _is_picture(item: Item | Result) -> bool:
    return isinstance(item, Message) and item.role == "user" and item.text is None


def _key(item: Item | Result) -> Any:
    return item.text if isinstance(item, Message) else (type(item), item.id)


def _is_open(items: list[Item | Result]) -> bool:
    """Whether the last message is not one of the agent."""
    return not (items and isinstance(items[-1], Message) and items[-1].role == "assistant")


def _reply(value: Any, problem: Problems) -> list[Item | Result]:
    """What a reply says: a text, a message, a response, or several of them."""
    if isinstance(value, str):
        inner = mapping(value)
        if not inner.keys() & _PARTS:  # it is JSON that the model wrote, if at all
            return [Message("assistant", value)]
        value = inner
    if isinstance(value, dict):
        for name in ("body", "response", "result"):
            if isinstance(value.get(name), dict):
                return _reply(value[name], problem)
        if isinstance(choices := value.get("choices"), list):
            if len(choices) > 1:
                problem(f"{len(choices)} choices: only the first was read", choices)
            value = [mapping(each).get("message") or each for each in choices[:1]]
        elif isinstance(value.get("output"), list):
            value = value["output"]
    items: list[Item | Result] = []
    for each in value if isinstance(value, list) else [value]:
        is_message = isinstance(each, dict) and ("role" in each or "type" in each)
        items += _said(each, problem) if is_message else messages_of(each, "assistant", problem)
    return items


def _said(message: Any, problem: Problems, role: str | None = None) -> list[Item | Result]:
    items, whole = items_of(message, problem, role), opened(message) if isinstance(message, dict) else {}
    about, is_agent = whole, is_agents(message)
    for name in ("metadata", "meta", "response_metadata"):
        about = {**inner, **about} if (inner := mapping(whole.get(name))) else about
    usage = (_used(whole) or _used(about)) if is_agent else {}
    if usage and not any(isinstance(item, Message) for item in items):  # it made calls alone
        items.insert(0, Message("assistant", is_reply=False))
    holders: list[Any] = [whole, whole.get("time"), *(whole["parts"] if isinstance(whole.get("parts"), list) else ())]
    times = (first(each, *_TIMES, "created") for each in holders if isinstance(each, dict))
    at = problem.time(next(filter(None, times), None), "created_at")
    for item in items:
        if not isinstance(item, Result):
            item.at = at
        if isinstance(item, Message):
            item.extra = {name: value for name, value in message.items() if name not in _KNOWN and value is not None}
            item.author = message.get("name") if item.role == "user" else None
            item.usage = usage or None
            item.model = text_or_none(first(about, *_MODELS)) if is_agent else None
    return items


def _used(message: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a message or a response, by the names that the analyses know."""
    used = next((each for name in _USAGES if (each := mapping(message.get(name)))), None)
    counts = {name: count for name, count in message.items() if name in _OLLAMA} if used is None else used
    if isinstance(cache := counts.get("cache"), dict):  # of opencode
        counts = {**counts, "cacheReadInputTokens": cache.get("read"), "cacheWriteInputTokens": cache.get("write")}
    sums: dict[str, int] = {}  # Gemini counts its thoughts apart
    for name, count in counts.items():
        if (ours := _COUNTS.get(name)) and is_count(count):
            sums[ours] = sums.get(ours, 0) + count
    return {**counts, **sums}


def write(conversations: Iterable[Conversation], file: BinaryIO) -> None:
    """A line of ``messages`` and ``tools`` for each conversation with a reply.

    It ends with the last reply, which is what a model is trained to write.
    """
    for talk in conversations:
        messages = [*_written(talk)]
        while messages and not (messages[-1]["role"] == "assistant" and messages[-1].get("content")):
            messages.pop()
        names = {call["function"]["name"]: None for each in messages for call in each.get("tool_calls", ())}
        nothing = {"type": "object", "properties": {}}
        tools = [{"type": "function", "function": {"name": name, "parameters": nothing}} for name in names]
        if messages:
            file.write(msgspec.json.encode({"messages": messages} | ({"tools": tools} if tools else {})) + b"\n")


def _written(talk: Conversation) -> Iterator[dict[str, Any]]:
    numbers = itertools.count(1)
    for message, calls in said(item for item in talk.items if not isinstance(item, Message) or item.text is not None):
        made: dict[str, Any] = {"role": message.role if message else "assistant", "content": message and message.text}
        results = []
        for call in calls:
            id_ = call.id or f"call_{next(numbers)}"
            function = {"name": call.name, "arguments": _text({} if call.arguments is None else call.arguments)}
            made.setdefault("tool_calls", []).append({"id": id_, "type": "function", "function": function})
            if call.has_ended:
                content = first({"error": call.error, "result": call.result}, "error", "result")
                content = "" if content is None else content if isinstance(content, str) else _text(content)
                results.append({"role": "tool", "tool_call_id": id_, "content": content})
        yield made
        yield from results


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""What to say of a file in no known format: what it holds, and how to convert it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..._text import visible
from .chat import is_openai
from .messages import ROLES

_SHOWN = 12  # names of fields
_MESSAGES, _SPANS = "OpenAI's messages", "a table of Langfuse's observations"
# Tools whose files are not read: the fields of a record, the nearest format, what is
# written, and the loop around it. Copilot's chat in VS Code; the stream of codex exec;
# traces of MLflow; Bedrock's log of invocations.
_TOOLS: tuple[tuple[set[str], str, str, str], ...] = (
    ({"requests", "responderUsername"}, _MESSAGES,
     "{'conversation_id': record.get('sessionId'), 'title': record.get('customTitle'), 'messages': [{'role': role, "
     "'content': text, 'timestamp': at, 'model': each.get('modelId')} for each in record['requests'] for took in [(("
     "each.get('result') or {}).get('timings') or {}).get('totalElapsed')] for role, at, text in (('user', "
     "each.get('timestamp'), each['message']['text']), ('assistant', took and each['timestamp'] + took, ''.join("
     "str(part.get('value', '')) for part in each.get('response') or [] if isinstance(part, dict) and 'kind' not in part))) "
     "if text]}", "record in records"),
    ({"type", "thread_id"}, _MESSAGES,
     "{'conversation_id': record[0]['thread_id'], 'usage': ([each['usage'] for each in record if 'usage' in each] or "
     "[None])[-1], 'error': next((each['error'] for each in record if each['type'] == 'turn.failed'), None), 'messages': "
     "[{'role': 'assistant', 'content': item['text']} if item['type'] == 'agent_message' else {'type': 'function_call', "
     "'call_id': item['id'], 'name': item['type'], 'arguments': {key: item[key] for key in ('command', 'tool', 'arguments', "
     "'changes', 'query') if key in item}, 'output': made, 'error': (made or 'failed') if item.get('status') == 'failed' else "
     "None} for each in record if each['type'] == 'item.completed' for item in [each['item']] if item['type'] not in "
     "('reasoning', 'todo_list', 'error') for made in [item.get('aggregated_output', item.get('result')) or '']]}",
     "record in [records]"),
    ({"info", "data"}, _SPANS,
     "{'type': {'CHAT_MODEL': 'GENERATION', 'LLM': 'GENERATION', 'AGENT': 'AGENT', 'TOOL': 'TOOL'}.get(str("
     "about.get('mlflow.spanType')).strip('\"'), 'SPAN'), 'id': span['span_id'], 'trace_id': span['trace_id'], "
     "'parent_observation_id': span.get('parent_span_id') or span.get('parent_id'), 'name': span['name'], "
     "'start_time': span.get('start_time_unix_nano') or span['start_time'], 'end_time': span.get('end_time_unix_nano') or "
     "span['end_time'], 'input': about.get('mlflow.spanInputs'), 'output': about.get('mlflow.spanOutputs'), "
     "'usage_details': about.get('mlflow.chat.tokenUsage'), 'session_id': trace['info'].get('trace_metadata', {}).get("
     "'mlflow.trace.session')}",
     "trace in records for each in trace['data']['spans'] for span in [{**each, **each.get('context', {})}] "
     "for about in [span['attributes']]"),
    ({"modelId", "requestId", "input", "output"}, _MESSAGES,
     "{'id': record['requestId'], 'startTime': record['timestamp'], 'model': record['modelId'], 'usage': {'input_tokens': "
     "record['input'].get('inputTokenCount'), 'output_tokens': record['output'].get('outputTokenCount')}, 'request': "
     "record['input'].get('inputBodyJson'), 'response': ''.join(each.get('delta', {}).get('text', '') for each in reply) "
     "if isinstance(reply, list) else reply}", "record in records for reply in [record['output'].get('outputBodyJson')]"),
)  # fmt: skip
# The names that other formats have for a message's parts, and for a span's.
_ROLE = ("role", "sender", "from", "author", "speaker", "type", "kind", "source")
_TEXT = ("content", "text", "value", "message", "parts", "body")
_WITHIN = ("content", "parts", "text", "value", "role")
_ASKED = ("prompt", "question", "instruction", "query", "request_body", "request", "item", "inputs", "input")
_REPLIED = ("completion", "answer", "reply", "response_body", "response", "sample", "outputs", "output")
_TIME = ("timestamp", "created_at", "create_time", "createdAt", "sent_at", "time", "date", "ts")
_ASKED_AT = ("asked_at", "asked", *_TIME, "start_time")
_REPLIED_AT = ("answered_at", "answered", "replied_at", "replied", "completed_at", "end_time")
_GROUP = (
    "conversation_id",
    "session_id",
    "thread_id",
    "chat_id",
    "conversation",
    "session",
    "thread",
    "chat",
    "ticket",
)
_ABOUT = {"conversation_id": ("conversation_id", "uuid", "session_id", "sessionId", "id"), "title": ("title", "name")}
_SPAN = {
    "id": ("span_id", "spanId", "spanID", "id"),
    "trace_id": ("trace_id", "traceId", "traceID", "root_span_id"),
    "parent_observation_id": ("parent_span_id", "parentSpanId", "parent_id", "parentId"),
    "start_time": ("start_time", "startTime", "start_time_unix_nano", "start", "timestamp", "created"),
    "end_time": ("end_time", "endTime", "end_time_unix_nano", "end"),
    "input": ("inputs", "input"),
    "output": ("outputs", "output"),
}


def refusal(path: str, begin: list[Any], formats: Iterable[str], why: str) -> str:
    """The error for a file that begins with these records, or has none, and `why`.

    Its first line is a sentence; the others are code that converts such a file.
    """
    if why and not begin:
        return visible(f"{path} has no conversations: it begins with what is {why}.")
    records = [each for each in begin if isinstance(each, dict)]
    nearest, *code = _conversion(records)
    seen = f"a record of {', '.join(map(str, [*records[0]][:_SHOWN]))}" if records else "no record"
    ending = path.rpartition(".")[2]
    if path == "table":
        read = "table.to_dict('records')"
    elif ending in ("csv", "parquet"):
        separator = ", sep=None, engine='python', encoding='utf-8-sig'" if ending == "csv" else ""
        read = f"pd.read_{ending}({path!r}{separator}).to_dict('records')"
    else:
        text = f"pathlib.Path({path!r}).read_text('utf-8')"
        read = f"json.loads({text})" if ending == "json" else f"[json.loads(line) for line in {text}.splitlines()]"
    sentence = (
        f"{path} has no conversations in a format that is read ({', '.join(formats)}): it begins with {seen:.300}. "
        f"The nearest is {nearest}; these lines convert it{', with its fields for ...' if '...' in code[-1] else ''}:"
    )
    lines = [
        "import json, pathlib, agentbook as ab, pandas as pd",
        f"records = {read}",
        "records = records if isinstance(records, list) else [records]",
        *code,
        "pathlib.Path('talks.jsonl').write_text('\\n'.join(lines), 'utf-8')",
        "history = ab.read_conversations('talks.jsonl')",
    ]
    return "\n".join(map(visible, (sentence, "", *lines)))


def _written(loop: str, line: str) -> str:
    return f"lines = [json.dumps({line}, default=str) for {loop}]"


def _unpaged(path: str) -> list[str]:
    return [f"records = [each for record in records for each in record{path}]"] if path else []


def _grouped(key: str, messages: str) -> list[str]:
    """Lines that join the messages of a conversation, of which a record is a part."""
    return [
        f"talks = {{each[{key!r}]: [] for each in records}}",
        f"for record in records: talks[record[{key!r}]] += {messages}",
        _written("id_, messages in talks.items()", "{'conversation_id': id_, 'messages': messages}"),
    ]


def _conversion(records: list[dict[str, Any]]) -> list[str]:
    """The nearest format, and the lines that convert records to it."""
    begin = records[0] if records else {}
    for page, each in (("", begin), *((path, found[0]) for path, found in _lists(begin, 0))):
        for names, nearest, line, loop in _TOOLS:
            if each.keys() >= names:
                return [nearest, *_unpaged(page), _written(loop, line)]
    group = next((key for key in _GROUP if isinstance(begin.get(key), str | int)), "")
    for page, path, found in _places(records):
        where, each = f"record{path}" if path else "records", found[0]
        pages = _unpaged(page)
        known = {name: next((key for key in keys if key in each), None) for name, keys in _SPAN.items()}
        if known["id"] and known["trace_id"]:
            fields = "".join(f", {name!r}: record.get({key!r})" for name, key in known.items() if key)
            loop = f"(each for record in records for each in {where})" if path else where
            return [_SPANS, *pages, _written(f"record in {loop}", f"{{'type': 'GENERATION'{fields}}}")]
        is_part = bool(group) and found is records
        if is_openai({"messages": found}):
            made = "[record]" if is_part else f"[*{where}]"
        elif not (made := _messages(found, "[record]" if is_part else where)):
            continue
        if is_part:
            return [_MESSAGES, *_grouped(group, made)]
        about = {name: next((key for key in keys if key in begin), "") for name, keys in _ABOUT.items()}
        known_ = "".join(f"{name!r}: record.get({key!r}), " for name, key in about.items() if key and path and not page)
        loop = "record in records" if path else "record in [records]"
        return [_MESSAGES, *pages, _written(loop, f"{{{known_}'messages': {made}}}")]
    asked, replied, asked_at, replied_at = (
        next((key for key in keys if key in begin), "") for keys in (_ASKED, _REPLIED, _ASKED_AT, _REPLIED_AT)
    )
    at = ", 'timestamp': at" if asked_at or replied_at else ""
    texts = [f"record[{key or '...'!r}]" for key in (asked, replied)]
    if asked == "instruction" and begin.get("input"):
        texts[0] = "'\\n'.join(filter(None, (record['instruction'], record['input'])))"
    said = [
        f"({role!r}, {text}" + (f", record[{time!r}])" if time else ", None)" if at else ")")
        for role, text, time in (("user", texts[0], asked_at), ("assistant", texts[1], replied_at))
    ]
    pairs = f"role, said{', at' if at else ''} in ({', '.join(said)})"
    made = f"[{{'role': role, 'content': str(said){at}}} for {pairs} if said and said == said]"
    return [
        _MESSAGES,
        *(_grouped(group, made) if group else [_written("record in records", f"{{'messages': {made}}}")]),
    ]


def _messages(found: list[dict[str, Any]], where: str) -> str:
    """Code for the messages in these objects; empty if they are none."""
    parts = [(_part(each, _ROLE), _part(each, _TEXT)) for each in found]
    both = [(role, text) for role, text in parts if role and text and role[0] != text[0]]
    if not both:
        return ""
    (role, first, _), (text, needed, _) = both[0]
    names = dict.fromkeys(str(name) for (_, _, name), _ in both if name not in ROLES)
    roles = {name: "user" if name == both[0][0][2] else "assistant" for name in names}
    who = f"{roles}.get({role}, {role})" if roles else role
    needs = [f"each.get({key!r})" for key in dict.fromkeys((needed, first))]
    some = " and ".join([*needs, *([text] if ".get(" in text else [])])
    when = next((time[0] for each in found if (time := _part(each, _TIME, str | int | float))), None)
    at = f", 'timestamp': {when}" if when else ""
    return f"[{{'role': {who}, 'content': {text}{at}}} for each in {where} if {some}]"


def _places(records: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Where objects are: in which list of pages, where in a record, and the objects."""
    if records:
        yield "", "", records
        for path, found in _lists(records[0]):
            yield "", path, found
            for inner, deeper in _lists(found[0]):
                yield path, inner, deeper


def _lists(value: Any, depth: int = 2) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for key, inner in value.items():
        among = list(inner.values()) if isinstance(inner, dict) else inner if isinstance(inner, list) else []
        if among and all(isinstance(each, dict) for each in among):
            yield f"[{key!r}]{'.values()' if isinstance(inner, dict) else ''}", among
        if isinstance(inner, dict) and depth:
            yield from ((f"[{key!r}]{path}", found) for path, found in _lists(inner, depth - 1))


def _part(each: dict[str, Any], names: tuple[str, ...], kinds: Any = str | list) -> tuple[str, str, Any] | None:
    """A part of a message: its code, which field it needs, and its text or parts."""
    for key in ("", "message", "info"):
        holder: Any = each.get(key) if key else each
        for name in names if isinstance(holder, dict) else ():
            code, value = f"each[{key!r}][{name!r}]" if key else f"each[{name!r}]", holder.get(name)
            while isinstance(value, dict) and (within := next((each for each in _WITHIN if each in value), None)):
                code, value = f"{code}.get({within!r})", value[within]
            if value and isinstance(value, kinds):
                return code, key or name, value
    return None

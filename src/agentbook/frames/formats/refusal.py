"""What to say of a file in no known format: what it holds, and how to convert it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..._text import visible
from .chat import is_openai
from .messages import ROLES

_SHOWN = 12  # names of fields
_GROUPED = "{'conversation_id': id_, 'messages': messages}"
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
_SPAN = {
    "id": ("span_id", "spanId", "spanID", "id"),
    "trace_id": ("trace_id", "traceId", "traceID", "root_span_id"),
    "parent_observation_id": ("parent_span_id", "parentSpanId", "parent_id", "parentId"),
    "start_time": ("start_time", "startTime", "start_time_unix_nano", "start", "timestamp", "created"),
    "end_time": ("end_time", "endTime", "end_time_unix_nano", "end"),
    "input": ("inputs", "input"),
    "output": ("outputs", "output"),
}


def refusal(path: str, begin: Iterable[Any], formats: Iterable[str], why: str) -> str:
    """The error for a file that begins with these records, or has none, and `why`.

    Its first line is a sentence; the others are code that converts such a file.
    """
    begin = [*begin]
    if why and not begin:
        return visible(f"{path} has no conversations: it begins with what is {why}.")
    records = [each for each in begin if isinstance(each, dict)]
    nearest, page, loop, line, group = _conversion(records)
    if begin and is_openai({"messages": begin[0]}):
        line = "{'messages': record}"
    seen = f"a record of {', '.join(map(str, [*records[0]][:_SHOWN]))}" if records else "no record"
    ending = path.rpartition(".")[2]
    if path == "table":
        read = "table.to_dict('records')"
    elif ending in ("csv", "parquet"):
        separator = ", sep=None, engine='python', encoding='utf-8-sig'" if ending == "csv" else ""
        read = f"pd.read_{ending}({path!r}{separator}).to_dict('records')"
    elif ending == "json":
        read = f"json.loads(pathlib.Path({path!r}).read_text('utf-8'))"
    else:
        read = f"[json.loads(line) for line in pathlib.Path({path!r}).read_text('utf-8').splitlines()]"
    each = "record"
    if group:
        each, loop = "id_, messages", "talks.items()"
    code = [
        "import json, pathlib, agentbook as ab, pandas as pd",
        f"records = {read}",
        "records = records if isinstance(records, list) else [records]",
        *([f"records = [each for record in records for each in record{page}]"] if page else []),
        *([f"talks = {{each[{group!r}]: [] for each in records}}"] if group else []),
        *([f"for record in records: talks[record[{group!r}]] += {line}"] if group else []),
        f"lines = [json.dumps({_GROUPED if group else line}, default=str) for {each} in {loop}]",
        "pathlib.Path('talks.jsonl').write_text('\\n'.join(lines), 'utf-8')",
        "history = ab.read_conversations('talks.jsonl')",
    ]
    sentence = (
        f"{path} has no conversations in a format that is read ({', '.join(formats)}): it begins with {seen:.300}. "
        f"The nearest is {nearest}; these lines convert it{', with its fields for ...' if '...' in line else ''}:"
    )
    return "\n".join(map(visible, (sentence, "", *code)))


def _conversion(records: list[dict[str, Any]]) -> tuple[str, str, str, str, str]:
    """The nearest format; where its pages are; the records to write, and how.

    And the name of their conversation, if a record is a part of one.
    """
    begin, messages = records[0] if records else {}, "OpenAI's messages"
    group = next((key for key in _GROUP if isinstance(begin.get(key), str | int)), "")
    asked, replied = (next((key for key in keys if key in begin), "...") for keys in (_ASKED, _REPLIED))
    for page, path, found in _places(records):
        where, each, one = f"record{path}" if path else "records", found[0], "records" if path else "[records]"
        known = {name: next((key for key in keys if key in each), None) for name, keys in _SPAN.items()}
        if known["id"] and known["trace_id"]:
            fields = "".join(f", {name!r}: record.get({key!r})" for name, key in known.items() if key)
            loop = f"(each for record in records for each in {where})" if path else where
            return "a table of Langfuse's observations", page, loop, f"{{'type': 'GENERATION'{fields}}}", ""
        is_part = group if found is records else ""
        if is_openai({"messages": found}):
            if is_part:
                return messages, page, one, "[record]", group
            ordered = f"sorted({where}, key=lambda each: each['created_at'])"  # the API has the latest first
            listed = ordered if all("created_at" in each for each in found) else f"[*{where}]"
            return messages, page, one, f"{{'messages': {listed}}}", ""
        parts = [(_part(each, _ROLE), _part(each, _TEXT)) for each in found]
        both = [(role, text) for role, text in parts if role and text and role[0] != text[0]]
        if both:
            (role, first, _), (text, needed, _) = both[0]
            names = dict.fromkeys(str(name) for (_, _, name), _ in both if name not in ROLES)
            roles = {name: "user" if name == both[0][0][2] else "assistant" for name in names}
            who = f"{roles}.get({role}, {role})" if roles else role
            needs = [f"each.get({key!r})" for key in dict.fromkeys((needed, first))]
            some = " and ".join([*needs, *([text] if ".get(" in text else [])])
            when = next((time[0] for each in found if (time := _part(each, _TIME, str | int | float))), None)
            at = f", 'timestamp': {when}" if when else ""
            among = "[record]" if is_part else where
            made = f"[{{'role': {who}, 'content': {text}{at}}} for each in {among} if {some}]"
            return messages, page, one, made if is_part else f"{{'messages': {made}}}", is_part
    asked_at, replied_at = (next((each for each in names if each in begin), "") for names in (_ASKED_AT, _REPLIED_AT))
    at = ", 'timestamp': at" if asked_at or replied_at else ""
    said = [
        f"({role!r}, record[{key!r}]" + (f", record[{time!r}])" if time else ", None)" if at else ")")
        for role, key, time in (("user", asked, asked_at), ("assistant", replied, replied_at))
    ]
    pairs = f"role, said{', at' if at else ''} in ({', '.join(said)})"
    made = f"[{{'role': role, 'content': str(said){at}}} for {pairs} if said and said == said]"
    return messages, "", "records", made if group else f"{{'messages': {made}}}", group


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

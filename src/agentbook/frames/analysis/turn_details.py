"""What the tool runs and sub-agents of one turn did, and the tokens that it used.

A panel reads the steps of a turn from its events, and `agentbook.steps` those of whole
histories, turn by turn.

The specification has no field for tokens. Platforms send an object ``usage`` next to
the content of an event or inside it, with the names that one model provider or another
uses. Some count what came from a prompt cache as input, some beside it; here
``input_tokens`` always includes it.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from ...events.turns import ENDS, Event, failure_of, moment_of, opens_turn, parse_moment, text_of

# The specification leaves the contents of events other than replies open, so a field is
# recognized by any of the names that platforms use for it.
# Each field of a tool run with the names that platforms send it under, the best first.
FIELDS: dict[str, tuple[str, ...]] = {
    "name": ("tool", "tool_name", "function", "function_name", "agent", "agent_name", "name"),
    "kind": ("kind", "type"),
    "arguments": ("arguments", "args", "tool_input", "tool_args", "tool_arguments", "input", "parameters", "params"),
    "result": ("result", "tool_result", "tool_output", "output", "response", "observation"),
    "error": ("error", "exception", "error_message"),
    "state": ("state", "status", "is_error"),
    "call": ("tool_call_id", "tool_use_id", "call_id", "run_id", "id"),
    "parent": ("parent_task_id", "parent_id", "parent_call_id", "parent"),
    "started_at": ("started_at", "start_time"),
    "ended_at": ("ended_at", "finished_at", "completed_at", "end_time"),
}
# Objects, or a list of objects, that hold the fields instead of the content itself.
CONTAINERS = ("step", "tool_call", "tool_use", "function_call", "tool", "function", "tool_calls")
# One of these alone shows that an event belongs to a tool run.
OF_TOOLS = ("tool", "tool_name", "function", "function_name", "tool_call_id", "tool_use_id", *CONTAINERS[1:])
# Values of a state field that mean a run has ended; `is_error` is true or false.
FAILED_STATES = ("failed", "failure", "error", "cancelled", "canceled", "timeout")
ENDED_STATES = ("done", "completed", "complete", "success", "succeeded", "finished", "ok", *FAILED_STATES)
# Words in the types of events.
TOOL_WORDS = frozenset({"tool", "tools", "function"})
FAILING_WORDS = frozenset({"error", "failed", "failure"})
ENDING_WORDS = FAILING_WORDS | {
    *("result", "output", "response", "done", "end", "ended", "finish", "finished", "complete", "completed")
}

# Column -> the names that platforms send it under, the best first: of OpenAI,
# LangChain, ATIF and Anthropic.
COUNTS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "tokens": ("total_tokens", "tokens"),
    "cached_tokens": ("cached_tokens", "cache_read", "cache_read_tokens", "cache_read_input_tokens"),
    "cache_write_tokens": (
        *("cache_write_tokens", "cache_creation", "cache_creation_tokens", "cache_creation_input_tokens"),
    ),
}
CACHE = ("cached_tokens", "cache_write_tokens")
DETAILS = ("prompt_tokens_details", "input_tokens_details", "prompt_token_details", "input_token_details")
_OUT_DETAILS = ("output_token_details", "output_tokens_details", "completion_tokens_details")
_THOUGHTS = ("reasoning", "reasoning_tokens", "thoughts_token_count")  # Gemini's are beside its output
_LASTING = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")  # written to a cache, by how long it lasts
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic: beside its ``input_tokens``
_COSTS = ("reported_cost", "cost_usd", "total_cost", "cost")
MEASURES = (*COUNTS, "reported_cost")
BY_MODEL = "usage_by_model"
_MAX_TOKENS = 1 << 50  # more in one event is an error, and would not add up exactly

Fields = Mapping[str, Any]
_OF_EVENTS = frozenset({"id", "session_id", "type", "content", "author", "task_id", "created_at", "updated_at"})
_CONTENTS = ("arguments", "result", "error")  # which stay as they were sent
_CIRCLE = -2  # a depth
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NULL = msgspec.Raw(b"null")
_DECODERS: dict[bytes, Callable[[Any], Any]] = {
    b"{": msgspec.json.Decoder(dict[str, msgspec.Raw]).decode,
    b"[": msgspec.json.Decoder(list[msgspec.Raw]).decode,
}


@dataclass(slots=True)
class Step:
    """A subtask or tool run of a turn.

    Attributes
    ----------
    task_id : str
        Its task; the id of the call if it has no task of its own.
    name : str
        Empty if no event gave one.
    done : bool
    arguments, result, error : object
        JSON values, `msgspec.Raw` where the events hold such; None if no event has any.
    duration_s : float or None
        Seconds, by the platform's clock.
    parent : str or None
        The `task_id` of the step that it ran in.
    started_at, ended_at : datetime or None
        As its events say.
    of_tool, failed : bool
        Whether it is a tool run, and whether an event says that it failed.
    depth : int
        The number of steps that contain it.
    first, begin, end : int or None
        The numbers of its first event, of the one that began it, and of the last one
        that ended it.
    """

    task_id: str
    name: str
    done: bool = False
    arguments: Any = None
    result: Any = None
    error: Any = None
    duration_s: float | None = None
    parent: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    of_tool: bool = False
    failed: bool = False
    depth: int = 0
    first: int = 0
    begin: int | None = None
    end: int | None = None

    @property
    def has_contents(self) -> bool:
        """Whether an event says what it ran with, or what the outcome was."""
        return any(value is not None for value in (self.arguments, self.result, self.error))


def add_details(steps: Sequence[Step], events: Sequence[Event]) -> list[Step]:
    """Steps with details from their turn's events, plus steps that only events name.

    Examples
    --------
    >>> event = {"type": "runtime_done", "task_id": "t1", "content": {}, "step": {
    ...     "name": "sql", "arguments": {"limit": 5}, "result": [1]}}
    >>> [step] = add_details([Step("t1", "", done=True)], [event])
    >>> step.name, step.arguments, step.result
    ('sql', {'limit': 5}, [1])
    """
    own_tasks = {event.get("task_id") for event in events if _is_of_turn(event)}
    known = {step.task_id: step for step in steps if step.name or step.task_id not in own_tasks}
    inside = [event for event in events if not _is_of_turn(event)]
    for step in read_steps(inside, own_tasks):
        begin, end = (None if number is None else moment_of(inside[number]) for number in (step.begin, step.end))
        begin, end = step.started_at or begin, step.ended_at or end
        took = math.nan if begin is None or end is None else (end - begin).total_seconds()
        step.duration_s = took if took >= 0 else None
        step.name = (known[step.task_id].name if step.task_id in known else "") or step.name
        known[step.task_id] = step
    return list(known.values())


def _is_of_turn(event: Event) -> bool:
    """Whether it opens or ends the turn."""
    is_end = event.get("type") in ENDS and (text_of(event) is not None or failure_of(event) is not None)
    return is_end or opens_turn(event)


def read_steps(events: Sequence[Event], own_tasks: Set[Any]) -> list[Step]:
    """The tasks and tool runs of a turn, in the order of their first events.

    Parameters
    ----------
    events : sequence of Event
        Without those that open or end the turn. A value may be `msgspec.Raw`, JSON that
        is not opened yet.
    own_tasks : set
        The tasks of the turn itself.
    """
    items = [
        _Item(number, each, fields, own_tasks) for number, each in enumerate(events) for fields in _fields_of(each)
    ]
    runs = _runs_of(items)
    # Each subtask is a step. If it holds a single tool run, it is that tool run.
    within: dict[str, list[_Item]] = {item.task: [] for item in items if item.task is not None}
    for each in runs:
        if each.task is not None:
            within[each.task].append(each)
    tasks = {item.task for item in items if item.is_task}
    keys = {each[0]: task for task, each in within.items() if len(each) == 1 and task not in tasks}
    merged = set(keys.values())
    for number, each in enumerate(runs):
        is_taken = each.call is None or each.call in within
        keys.setdefault(each, f"{each.task or ''}-{each.name}-{number}" if is_taken else str(each.call))
    firsts: dict[str, _Item] = {}
    members: defaultdict[str, list[_Item]] = defaultdict(list)
    for item in items:
        item.key = item.task if item.run is None else keys[item.run]
        for key in (item.task, item.key):
            if key is not None:
                firsts.setdefault(key, item)
        if item.key is not None:
            members[item.key].append(item)
    # A parent is named by its task, the id of its call, or the id of an event.
    backwards = [(item.key, item) for item in reversed(items) if item.key is not None]
    by_name: dict[Any, str] = {events[item.number].get("id"): key for key, item in backwards}
    by_name |= {item.call: key for key, item in backwards if item.call is not None}
    by_name |= {task: task for task in within}
    steps: dict[str, Step] = {}
    for key, first in firsts.items():
        run: _Item | None = first.run if first.key == key else None
        of_tool = key in merged or (run is not None and run.of_tool)
        steps[key] = step = _step(key, first, members[key], of_tool=of_tool)
        above = [by_name.get(item.text("parent")) for item in members[key]]
        above.append(None if run is None else run.task)
        step.parent = next((other for other in above if other is not None and other != key), None)
    _nest(steps)
    return list(steps.values())


class _Item:
    """What one event says about one task or tool run."""

    def __init__(self, number: int, event: Event, fields: Fields, own_tasks: Set[Any]) -> None:
        self.number, self.fields = number, fields
        words, kind = _words(str(event.get("type"))), self.text("kind") or ""
        task, call, state = event.get("task_id"), fields.get("call"), fields.get("state")
        self.task = task if isinstance(task, str) and task not in own_tasks else None
        self.call = str(call) if type(call) in (str, int) else None
        self.name = self.text("name") or ""
        self.is_task, self.is_done = kind == "task", event.get("type") == "runtime_done"
        of_tool = "of_tool" in fields or "tool" in kind or "function" in kind or not words.isdisjoint(TOOL_WORDS)
        self.of_tool = of_tool and not self.is_task
        self.started_at, self.ended_at = (parse_moment(self.text(name) or "") for name in ("started_at", "ended_at"))
        state = "failed" if state is True else state.lower() if isinstance(state, str) else None
        fails = "error" in fields or state in FAILED_STATES or not words.isdisjoint(FAILING_WORDS)
        ends = fails or "result" in fields or state in ENDED_STATES or not words.isdisjoint(ENDING_WORDS)
        of_run = self.of_tool or self.task is not None
        self.fails = of_run and fails
        self.ends = self.is_done or (of_run and (ends or self.ended_at is not None))
        self.run: _Item | None = None  # the first item of its tool run
        self.key: str | None = None  # of its step

    def text(self, name: str) -> str | None:
        """A field that is a text."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None


@lru_cache
def _words(type_: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(type_))


def _runs_of(items: Sequence[_Item]) -> list[_Item]:
    """Put items that are about a tool run into runs; returns the first item of each."""
    calls: dict[str, _Item] = {}
    for item in items:
        if item.of_tool:
            item.run = item if item.call is None else calls.setdefault(item.call, item)
    rest = _pair([item for item in items if item.of_tool and item.call is None], lambda item: (item.task, item.name))
    _pair([item for item in rest if not item.ends or not item.name], lambda item: item.task)
    # What ends nothing by its name ends the first call that is still open.
    ended = {item.run for item in items if item.ends}
    rest = [item for item in items if item.task is None and (item.run is item or (item.run is None and item.is_done))]
    rest = [item for item in rest if item.run is None or item not in ended]
    for item in rest:
        item.run = item
    _pair(rest, lambda item: None)
    return list(dict.fromkeys(item.run for item in items if item.run is not None))


def _pair(items: Sequence[_Item], key: Callable[[_Item], Any]) -> list[_Item]:
    """Pair calls with what ends them, first come, first served; returns the rest."""
    waiting: defaultdict[Any, deque[_Item]] = defaultdict(deque)
    paired: set[_Item] = set()
    for item in items:
        calls = waiting[key(item)]
        if not item.ends:
            calls.append(item)
        elif calls:
            item.run = calls[0].run
            paired |= {calls.popleft(), item}
    return [item for item in items if item not in paired]


def _step(key: str, first: _Item, items: Sequence[_Item], *, of_tool: bool) -> Step:
    def said(name: str, among: Sequence[_Item]) -> Any:
        return next((item.fields[name] for item in among if name in item.fields), None)

    backwards = items[::-1]
    end = next((item for item in backwards if item.ends), None)
    return Step(
        key, next((item.name for item in items if item.name), ""), end is not None, said("arguments", items),
        said("result", backwards), said("error", backwards), of_tool=of_tool, failed=any(item.fails for item in items),
        started_at=next((item.started_at for item in items if item.started_at is not None), None),
        ended_at=next((item.ended_at for item in backwards if item.ended_at is not None), None),
        first=first.number, begin=None if first is end else first.number, end=None if end is None else end.number,
    )  # fmt: skip


def _nest(steps: Mapping[str, Step]) -> None:
    """Set the depths; steps in a circle of parents, or below one, are at the top."""
    depths: dict[str, int] = {}
    for step in steps.values():
        path: dict[str, Step] = {}
        above: Step | None = step
        while above is not None and above.task_id not in depths and above.task_id not in path:
            path[above.task_id] = above
            above = steps[above.parent] if above.parent is not None else None
        depth = -1 if above is None else depths.get(above.task_id, _CIRCLE)
        for key in reversed(path):
            depths[key] = depth = depth if depth == _CIRCLE else depth + 1
    for key, step in steps.items():
        step.depth = max(depths[key], 0)
        step.parent = step.parent if depths[key] > 0 else None


def _fields_of(event: Event) -> Iterator[Fields]:
    """What an event says about steps: a mapping for each one named; at least one."""
    content = opened(event.get("content"))
    own = {name: value for name, value in event.items() if name not in _OF_EVENTS}
    for fields in _open(own) if own else ({},):
        for inner in _open(content) if isinstance(content, Mapping) else ({},):
            yield {**fields, **inner}


def _open(content: Mapping[str, Any], levels: int = 3) -> Iterator[Fields]:
    """The fields of a content, and of the calls in it to a limited depth."""
    named, of_tools, containers = _places(tuple(content))
    fields = {field: value for field, names in named if (value := _first(content, field, names)) is not None}
    if {"name", "arguments"} <= fields.keys() or any(_is_known(content[key]) for key in of_tools):
        fields["of_tool"] = True
    among = (opened(content[key]) for key in containers) if levels > 1 else ()
    inner = next((each for each in among if isinstance(each, Mapping | list)), None)
    # Each of several calls in a list has its own fields.
    shared = {name: True for name in fields if name == "of_tool"} if isinstance(inner, list) else fields
    calls = map(opened, inner) if isinstance(inner, list) else (inner,)
    yield from (
        [{**shared, **own} for call in calls if isinstance(call, Mapping) for own in _open(call, levels - 1)]
        or [fields]
    )


@lru_cache(1024)  # the events of a platform have few shapes
def _places(keys: tuple[str, ...]) -> tuple[list[tuple[str, list[str]]], list[str], list[str]]:
    """Which of these names are of which field, show a tool, and hold fields."""
    named = [(field, [name for name in names if name in keys]) for field, names in FIELDS.items()]
    of_tools, containers = ([name for name in each if name in keys] for each in (OF_TOOLS, CONTAINERS))
    return [(field, names) for field, names in named if names], of_tools, containers


def _first(content: Mapping[str, Any], field: str, names: Iterable[str]) -> Any:
    for value in (content[name] for name in names if _is_known(content[name])):
        if field not in _CONTENTS:
            value = opened(value)
        if field != "name" or isinstance(value, str):
            return None if field == "error" and opened(value) in (False, "", {}, []) else value
    return None


def _is_known(value: Any) -> bool:
    return value is not None and value != _NULL


def opened(value: Any) -> Any:
    """A value, or what JSON that is not opened yet holds; None if it is not JSON.

    Examples
    --------
    >>> bytes(opened(msgspec.Raw(b'{"n": [1.50]}'))["n"])
    b'[1.50]'
    """
    if not isinstance(value, msgspec.Raw):
        return value
    decode = _DECODERS.get(bytes(value)[:1], msgspec.json.decode)
    try:
        return decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def usage_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a turn's events used; see `sum_usage`.

    Examples
    --------
    >>> events = [{"usage": {"prompt_tokens": 7, "completion_tokens": 2, "model": "m"}}]
    >>> used = usage_of(events)
    >>> used["model"], used["input_tokens"], used["tokens"], used["cached_tokens"]
    ('m', 7, 9, None)
    """
    contents = ((event, event.get("content")) for event in events)
    return sum_usage(
        (event.get("usage") or (content.get("usage") if isinstance(content, Mapping) else None), event.get("model"))
        for event, content in contents
    )


def sum_usage(usages: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """The sums of ``usage`` objects, each with the model that stands beside it.

    A sum is None if no object has the number, or one of those with numbers lacks it.
    ``model`` is the last one that used something. Where a price by model needs more
    than these sums, ``usage_by_model`` has those of each model, as JSON.

    Examples
    --------
    >>> used = sum_usage([({"total_tokens": 3}, "a"), ({"total_tokens": 4}, "b")])
    >>> used["tokens"], used["model"], used["usage_by_model"]
    (7, 'b', '{"a":{"tokens":3},"b":{"tokens":4}}')
    """
    parts: dict[str | None, list[dict[str, Any]]] = {}
    named: dict[str, bool] = {}  # whether it used something, the last one at the end
    for usage, beside in usages:
        for model, part in _by_model(usage, beside) if isinstance(usage, Mapping) else ():
            numbers = numbers_of(part)
            has_used = bool(numbers) or is_estimate(part)
            if has_used:
                parts.setdefault(model, []).append(numbers)
            if model is not None:
                named[model] = named.pop(model, False) or has_used
    if len(named) == 1 and None in parts:
        parts.setdefault(next(iter(named)), []).extend(parts.pop(None))
    every = [numbers for each in parts.values() for numbers in each]
    used = {"model": next((model for model in reversed(named) if named[model]), next(reversed(named), None))}
    if len(every) == 1:
        return {**used, **{name: every[0].get(name) for name in MEASURES}, BY_MODEL: None}
    used |= {name: _sum(every, name) for name in MEASURES}
    is_partly_known = any(name in numbers for numbers in every for name in CACHE if used[name] is None)
    by_model = {
        model or "": {name: number for name in MEASURES if (number := _sum(each, name, name in CACHE)) is not None}
        for model, each in parts.items()
    }
    has_several = len(parts) > 1 or is_partly_known
    return {**used, BY_MODEL: json.dumps(by_model, separators=(",", ":")) if has_several else None}


def _by_model(usage: Mapping[str, Any], beside: Any) -> Iterable[tuple[str | None, Mapping[str, Any]]]:
    model = usage.get("model") or beside
    return models_in(usage.get(BY_MODEL)) or [(model if isinstance(model, str) else None, usage)]


def models_in(value: Any) -> list[tuple[str | None, Mapping[str, Any]]]:
    """The models in a ``usage_by_model`` with what each used; empty without any."""
    try:
        by_model = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return []
    parts = by_model.items() if isinstance(by_model, Mapping) else ()
    return [(model or None, part) for model, part in parts if isinstance(part, Mapping)]


def _sum(every: Sequence[Mapping[str, Any]], name: str, of_known: bool = False) -> Any:
    known = [numbers[name] for numbers in every if name in numbers]
    return sum(known) if known and (of_known or len(known) == len(every)) else None


def numbers_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers in one ``usage`` object, by the names of `MEASURES`.

    An estimate is no count. Thoughts are a part of the output where the total says that
    they are beside it. Tokens of a cache are a part of the input where the source
    says so, by its names or by its total, and are added to it where they are counted
    beside it, or are more than it.

    Examples
    --------
    >>> numbers_of({"prompt_tokens": 7, "completion_tokens": 2})
    {'input_tokens': 7, 'output_tokens': 2, 'tokens': 9}
    >>> beside = {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 2}
    >>> numbers_of(beside)
    {'input_tokens': 95, 'output_tokens': 2, 'cached_tokens': 90, 'tokens': 97}
    """
    if is_estimate(usage):
        return {}
    among = usage
    for details in [usage[name] for name in DETAILS if name in usage and isinstance(usage[name], Mapping)]:
        written = [count for name in _LASTING if is_count(count := details.get(name))]
        among = {**details, **({"cache_creation": sum(written)} if any(written) else {}), **usage}
    keys = {
        name: key for name, names in COUNTS.items() for key in reversed(names) if key in among and is_count(among[key])
    }
    numbers = {name: among[key] for name, key in keys.items()}
    into, out, total = (numbers.get(name) for name in ("input_tokens", "output_tokens", "tokens"))
    cache = sum(numbers.get(name, 0) for name in CACHE)
    if into is not None and cache:
        is_beside = keys["input_tokens"] == "input_tokens" and any(keys.get(name) in _BESIDE for name in CACHE)
        if out is not None and total in (into + out, into + out + cache):
            is_beside = total != into + out
        numbers["input_tokens"] = into = into + cache if is_beside or cache > into else into
    if into is not None and out is not None:
        beside = [usage, *(usage[name] for name in _OUT_DETAILS if isinstance(usage.get(name), Mapping))]
        thoughts = next((each[name] for each in beside for name in _THOUGHTS if is_count(each.get(name))), 0)
        if thoughts and total == into + out + thoughts:
            numbers["output_tokens"] = out = out + thoughts
        numbers["tokens"] = max(total or 0, into + out)
    cost = next((usage[name] for name in _COSTS if name in usage and is_cost(usage[name])), None)
    return numbers if cost is None else {**numbers, "reported_cost": cost}


def is_estimate(usage: Mapping[str, Any]) -> bool:
    """Whether the model's endpoint did not count, and the platform guessed."""
    return usage.get("estimated") is True


def is_count(value: Any) -> bool:
    """Whether a value can be a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS


def is_cost(value: Any) -> bool:
    """Whether a value can be what something cost."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


@lru_cache(4096)
def _parsed(text: str) -> str:
    """JSON with its fields in order; any other text as it is."""
    try:
        value = json.loads(text)
        return json.dumps(json.loads(value) if isinstance(value, str) else value, sort_keys=True)
    except (ValueError, RecursionError):
        return text


def as_compared(value: Any) -> str | None:
    """Arguments or a result as JSON text with its fields in order; None if not known.

    Examples
    --------
    >>> as_compared('{"b": 1, "a": 2}') == as_compared({"a": 2, "b": 1})
    True
    """
    return value if value is None else _parsed(value if isinstance(value, str) else json.dumps(value, default=str))

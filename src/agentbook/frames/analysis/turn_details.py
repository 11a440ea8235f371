"""What the tool runs and sub-agents of one turn did, and the tokens that it used.

`agentbook.steps` reads the events of whole histories at once, with Arrow, which takes
milliseconds even for a single turn. A panel reads a turn at a time, thousands when a
session opens, so this reads them one by one. The names of the fields are the same, and
a test compares the two on the same events.

The specification has no field for tokens. Platforms send an object ``usage`` next to
the content of an event or inside it, with the names that one model provider or another
uses. Some count what came from a prompt cache as input, some beside it; here
``input_tokens`` always includes it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
    *("result", "output", "response", "done", "end", "ended", "finish", "finished", "complete", "completed"),
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
_LASTING = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")  # written to a cache, by how long it lasts
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic: beside its ``input_tokens``
_COSTS = ("reported_cost", "cost_usd", "total_cost", "cost")
MEASURES = (*COUNTS, "reported_cost")
BY_MODEL = "usage_by_model"
_MAX_TOKENS = 1 << 50  # more in one event is an error, and would not add up exactly

Fields = Mapping[str, Any]
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


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
        JSON values; None if no event has any.
    duration_s : float or None
        Seconds, by the platform's clock.
    parent : str or None
        The `task_id` of the step that it ran in.
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
    own_tasks = {event.get("task_id") for event in events if _is_end_of_turn(event)}
    reader = _Reader({step.task_id: step for step in steps if step.name or step.task_id not in own_tasks})
    for event in events:
        if not (opens_turn(event) or _is_end_of_turn(event)):
            for fields in _fields_of(event):
                reader.read(event, fields, own_tasks)
    return reader.nested()


def _is_end_of_turn(event: Event) -> bool:
    if event.get("type") not in ENDS:
        return False
    return opens_turn(event) or text_of(event) is not None or failure_of(event) is not None


class _Reader:
    """Collects steps event by event."""

    def __init__(self, steps: dict[str, Step]) -> None:
        self._steps = steps
        self._parents: dict[str, str] = {}
        self._open: dict[str, Step] = {}  # by key, in the order of their events
        self._unnamed = 0

    def read(self, event: Event, fields: Fields, own_tasks: set[Any]) -> None:
        """Add what an event says about one step."""
        task_id = event.get("task_id")
        task_id = task_id if isinstance(task_id, str) and task_id not in own_tasks else None
        words = {word.lower() for word in _WORD.findall(str(event.get("type")))}
        of_tool = "of_tool" in fields or not words.isdisjoint(TOOL_WORDS)
        of_run = task_id is not None or of_tool
        ends = event.get("type") == "runtime_done" or (of_run and _ends(words, fields))
        if of_run:
            self._update(self._find(task_id, fields, ends=ends), event, fields, ends=ends)
        elif ends:
            self._update(self._first_open() or self._add_new("", None), event, fields, ends=ends)

    def _find(self, task_id: str | None, fields: Fields, *, ends: bool) -> Step:
        name = str(fields.get("name") or "")
        if isinstance(fields.get("call"), str | int):
            return self._add(str(fields["call"]), name, within=task_id)
        if task_id is None:
            step = self._first_open(name) if ends else None
            return step or self._add_new(name, None)
        task = self._steps.get(task_id)
        # A task with one tool run is that tool run; with more, they run in it.
        if task is None or name in ("", task.name) or not task.name:
            return task or self._add(task_id, name, within=None)
        step = self._first_open(name) if ends else None
        return step or self._add_new(name, task_id)

    def _add_new(self, name: str, within: str | None) -> Step:
        """A step that has neither a task nor a call of its own."""
        self._unnamed += 1
        return self._add(f"{within or ''}-{name}-{self._unnamed}", name, within=within)

    def _add(self, key: str, name: str, *, within: str | None) -> Step:
        if within is not None and key not in self._steps:
            self._parents[key] = within
        return self._steps.setdefault(key, Step(key, name))

    def _first_open(self, name: str | None = None) -> Step | None:
        return next((step for step in self._open.values() if name in (None, step.name)), None)

    def _update(self, step: Step, event: Event, fields: Fields, *, ends: bool) -> None:
        step.name = step.name or str(fields.get("name") or "")
        step.arguments = step.arguments if step.arguments is not None else fields.get("arguments")
        step.result = fields.get("result", step.result)
        step.error = fields.get("error", step.error)
        step.done = step.done or ends
        if ends:
            self._open.pop(step.task_id, None)
        else:
            self._open[step.task_id] = step
        step.started_at = step.started_at or _time(fields, "started_at") or (None if ends else moment_of(event))
        ended_at = _time(fields, "ended_at") or (moment_of(event) if ends else None)
        if step.started_at is not None and ended_at is not None:
            step.duration_s = max(0.0, (ended_at - step.started_at).total_seconds())
        if isinstance(fields.get("parent"), str):
            self._parents[step.task_id] = fields["parent"]

    def nested(self) -> list[Step]:
        """The steps, with the ones they ran in; no step is inside itself."""
        for step in self._open.values():  # whatever drafts made of it
            step.done = False
        for step in self._steps.values():
            parent = self._parents.get(step.task_id)
            step.parent = parent if parent in self._steps and not self._is_within(parent, step.task_id) else None
        return list(self._steps.values())

    def _is_within(self, task_id: str | None, ancestor: str) -> bool:
        visited: set[str] = set()
        while task_id is not None and task_id not in visited:
            if task_id == ancestor:
                return True
            visited.add(task_id)
            task_id = self._parents.get(task_id)
        return False


def _fields_of(event: Event) -> Iterator[Fields]:
    """What an event says about steps: a mapping for each one named; at least one."""
    content = event.get("content")
    own = event.get("step")
    entries = list(_open(content)) if isinstance(content, Mapping) else []
    if isinstance(own, Mapping):
        entries = [dict(fields) | dict(inner) for inner in (entries or [{}]) for fields in _open(own)]
    yield from entries or [{}]


def _open(content: Mapping[str, Any], levels: int = 3) -> Iterator[Fields]:
    """The fields of a content, and of the calls in it to a limited depth."""
    fields = {field: value for field, names in FIELDS.items() if (value := _first(content, field, names)) is not None}
    if _is_of_tool(content, fields):
        fields["of_tool"] = True
    inner = next((content[key] for key in CONTAINERS if isinstance(content.get(key), Mapping | list)), None)
    calls = [inner] if isinstance(inner, Mapping) else [call for call in inner or () if isinstance(call, Mapping)]
    if not calls or levels <= 1:
        yield fields
    for call in calls if levels > 1 else ():
        for own in _open(call, levels - 1):
            # Each of several calls in a list has its own fields.
            yield dict(own) if isinstance(inner, list) else fields | dict(own)


def _is_of_tool(content: Mapping[str, Any], fields: Fields) -> bool:
    kind = fields.get("kind")
    says_so = isinstance(kind, str) and ("tool" in kind or "function" in kind)
    named = "name" in fields and "arguments" in fields
    return kind != "task" and (says_so or named or any(content.get(key) is not None for key in OF_TOOLS))


def _first(content: Mapping[str, Any], field: str, names: Iterable[str]) -> Any:
    for name in names:
        value = content.get(name)
        if value is not None and (field != "name" or isinstance(value, str)):
            return None if field == "error" and value in (False, "", {}, []) else value
    return None


def _ends(words: Set[str], fields: Fields) -> bool:
    state = fields.get("state")
    says_so = state is True or (isinstance(state, str) and state.lower() in ENDED_STATES)
    return (
        says_so or not fields.keys().isdisjoint(("result", "error", "ended_at")) or not words.isdisjoint(ENDING_WORDS)
    )


def _time(fields: Fields, name: str) -> datetime | None:
    value = fields.get(name)
    return parse_moment(value) if isinstance(value, str) else None


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

    An estimate is no count. Tokens of a cache are a part of the input where the source
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

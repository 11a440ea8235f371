"""ATIF, the Agent Trajectory Interchange Format of Harbor, up to version 1.8.

A trajectory is a conversation, and so is each trajectory of a subagent in it. What ATIF
has no field for is written to its ``extra``, under ``agentbook``: the id of an event,
whether a message ends a turn, why a turn failed, and the author of a question.

https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from .messages import UNKNOWN, calls_of, items_of, text_or_none
from .model import Conversation, Message, Problems, Records, ToolCall, mapping, said

VERSION = "ATIF-v1.8"
_OWN = "agentbook"
_SOURCES = ("user", "agent", "system")
_KEPT = ("reasoning_content", "reasoning_effort", "llm_call_count")
_METRICS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_METRICS |= {"cached_tokens": "cached_tokens", "cost_usd": "reported_cost"}


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a trajectory."""
    return isinstance(record.get("steps"), list) and str(record.get("schema_version")).startswith("ATIF-v")


def read(records: Records, problem: Problems) -> Iterator[Conversation]:
    """The trajectory of each record, and those of its subagents."""
    for record in records:
        waiting: list[Any] = [record]
        while waiting:
            trajectory = waiting.pop()
            if not isinstance(trajectory, dict) or not isinstance(trajectory.get("steps"), list):
                problem("a trajectory without steps", trajectory)
                continue
            yield _conversation(trajectory, problem)
            waiting += reversed(_list(trajectory.get("subagent_trajectories")))


def _conversation(trajectory: Mapping[str, Any], problem: Problems) -> Conversation:
    version = re.fullmatch(r"ATIF-v1\.(\d{1,4})", str(trajectory.get("schema_version") or VERSION))
    if version is None or int(version[1]) > 8:
        problem(f"its version is not known: read as {VERSION}", trajectory["schema_version"])
    agent, own = mapping(trajectory.get("agent")), mapping(mapping(trajectory.get("extra")).get(_OWN))
    names = (own.get("session_id"), trajectory.get("trajectory_id"), trajectory.get("session_id"))
    talk = Conversation(next((name for name in names if isinstance(name, str) and name), None))
    for name, value in {**own, "agent": agent.get("name"), "agent_version": agent.get("version")}.items():
        if name in ("title", "initiator", "workspace", "agent", "agent_version"):
            setattr(talk, name, text_or_none(value))
    copied = 0
    for step in trajectory["steps"]:
        if not isinstance(step, dict) or step.get("source") not in _SOURCES:
            problem("a step without a source: user, agent or system", step)
        elif step.get("is_copied_context") is True:
            copied += 1
        else:
            _add_step(talk, step, agent.get("model_name"), problem)
    if copied:
        problem(f"{copied} steps that are copies from an earlier trajectory were left out")
    return talk


def _add_step(talk: Conversation, step: Mapping[str, Any], model: Any, problem: Problems) -> None:
    extra = {**mapping(step.get("extra")), **{name: step[name] for name in _KEPT if step.get(name) is not None}}
    own, at = mapping(extra.pop(_OWN, None)), problem.time(step.get("timestamp"), "timestamp")
    items = items_of({"role": step["source"], "content": step.get("message")}, problem)
    message = next((item for item in items if isinstance(item, Message)), Message(step["source"]))
    calls = []
    for each in _list(step.get("tool_calls")):
        times = mapping(mapping(mapping(each).get("extra")).get(_OWN))
        for call in calls_of([each], problem):
            call.at, call.started_at = at, problem.time(times.get("started_at"), "started_at")
            call.ended_at = problem.end(call.started_at, times.get("ended_at"), "ended_at")
            calls.append(call)
    results = [mapping(each) for each in _list(mapping(step.get("observation")).get("results"))]
    known = {call.id: call for call in calls}
    if others := [result for result in results if not _ends(known.get(result.get("source_call_id")), result, problem)]:
        extra["observation"] = others
    metrics = mapping(step.get("metrics"))
    usage = {
        **mapping(metrics.get("extra")),
        **{name: n for name, n in metrics.items() if isinstance(n, int | float | str)},
    }
    if message.text or usage or extra or own or not calls:
        message.at, message.usage, message.extra = at, usage or None, extra
        message.id, message.author, message.error = (text_or_none(own.get(n)) for n in ("event_id", "author", "error"))
        message.is_reply = own["is_reply"] if isinstance(own.get("is_reply"), bool) else None
        if message.role == "assistant":
            message.model = text_or_none(step.get("model_name") or model)
            message.text = message.text or (None if calls or message.error is not None else "")
        talk.items.append(message)
    talk.items += calls


def _ends(call: ToolCall | None, result: Mapping[str, Any], problem: Problems) -> bool:
    """Give a result to its call; False if it is of none."""
    if call is None:
        return False
    extra, content = mapping(result.get("extra")), result.get("content")
    if content is None:
        content = result.get("subagent_trajectory_ref")
    elif isinstance(content, list):
        content = next((each.content for each in items_of({"role": "tool", "content": content}, problem)), None)  # type: ignore[union-attr]
    if extra.get("is_error") is True:
        call.error = "" if content is None else content
    elif extra.get(_OWN) is None or content is not None:  # or it is known to have ended, and nothing else
        call.result = "" if content is None else content
    return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def write(conversations: Iterable[Conversation], file: BinaryIO) -> None:
    """A trajectory per line."""
    for talk in conversations:
        file.write(msgspec.json.encode(_written(talk)) + b"\n")


def _written(talk: Conversation) -> dict[str, Any]:
    own = {"title": talk.title, "initiator": talk.initiator, "workspace": talk.workspace}
    return {
        "schema_version": VERSION,
        "session_id": talk.id,
        "agent": {"name": talk.agent or UNKNOWN, "version": talk.agent_version or UNKNOWN},
        "steps": [{"step_id": number, **_step(number, *each)} for number, each in enumerate(said(talk.items), 1)],
        **_extra(own),
    }


def _step(step_id: int, message: Message | None, calls: list[ToolCall]) -> dict[str, Any]:
    at = message.at if message else calls[0].at or calls[0].started_at or calls[0].ended_at
    message = message or Message("assistant")
    extra, is_agent = dict(message.extra), message.role == "assistant"
    step: dict[str, Any] = {"source": "agent" if is_agent else message.role, "message": message.text or ""}
    if at is not None:
        step["timestamp"] = at.isoformat()
    if is_agent and message.model is not None:
        step["model_name"] = message.model
    if is_agent and isinstance(extra.get("reasoning_content"), str):
        step["reasoning_content"] = extra.pop("reasoning_content")
    if is_agent and message.usage:
        step["metrics"] = _metrics(message.usage)
    for number, call in enumerate(calls):
        id_ = call.id or f"call_{step_id}_{number}"
        given = call.arguments if isinstance(call.arguments, dict) else {}
        times = {name: moment for name in ("started_at", "ended_at") if (moment := getattr(call, name)) is not None}
        made = {"tool_call_id": id_, "function_name": call.name, "arguments": given, **_extra(times)}
        step.setdefault("tool_calls", []).append(made)
        if call.has_ended:
            content = call.result if call.error is None else call.error
            result: dict[str, Any] = {"source_call_id": id_}
            if content is not None:
                result["content"] = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            result |= _extra({"ended": True} if content is None else {})
            result |= {} if call.error is None else {"extra": {"is_error": True}}
            step.setdefault("observation", {"results": []})["results"].append(result)
    own = {"event_id": message.id, "is_reply": message.is_reply, "error": message.error, "author": message.author}
    return step | _extra(own, extra)


def _metrics(usage: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(usage)
    metrics: dict[str, Any] = {}
    for name, ours in _METRICS.items():
        value = rest.pop(ours, rest.pop(name, None))
        metrics |= {name: value} if isinstance(value, int | float) else {}
    return metrics | ({"extra": rest} if rest else {})


def _extra(own: Mapping[str, Any], others: Mapping[str, Any] = {}) -> dict[str, Any]:
    known = {name: value for name, value in own.items() if value is not None}
    extra = {**others, **({_OWN: known} if known else {})}
    return {"extra": extra} if extra else {}

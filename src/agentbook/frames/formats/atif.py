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

from .model import Conversation, Message, Problem, Records, ToolCall, moment_of, text_of

VERSION = "ATIF-v1.8"
_OWN = "agentbook"
_UNKNOWN = "unknown"  # ATIF requires the name and the version of an agent
_ROLES = {"user": "user", "agent": "assistant", "system": "system"}
_KEPT = ("reasoning_content", "reasoning_effort", "llm_call_count")
_METRICS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs", "extra")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a trajectory."""
    return isinstance(record.get("steps"), list) and str(record.get("schema_version")).startswith("ATIF-v")


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """The trajectory of each record, and those of its subagents."""
    for line, record in records:
        waiting = [record]
        while waiting:
            trajectory = waiting.pop()
            if not isinstance(trajectory, Mapping) or not isinstance(trajectory.get("steps"), list):
                problem(line, "a trajectory without steps", trajectory)
                continue
            yield _conversation(trajectory, line, problem)
            waiting += reversed(_list(trajectory.get("subagent_trajectories")))


def _conversation(trajectory: Mapping[str, Any], line: int, problem: Problem) -> Conversation:
    version = re.fullmatch(r"ATIF-v1\.(\d{1,4})", str(trajectory.get("schema_version") or VERSION))
    if version is None or int(version[1]) > 8:
        problem(line, f"its version is not known: read as {VERSION}", trajectory["schema_version"])
    agent, own = _object(trajectory.get("agent")), _object(_object(trajectory.get("extra")).get(_OWN))
    names = (own.get("session_id"), trajectory.get("trajectory_id"), trajectory.get("session_id"))
    talk = Conversation(next((name for name in names if isinstance(name, str) and name), None))
    talk.agent, talk.agent_version = _text(agent.get("name")), _text(agent.get("version"))
    for name in ("title", "initiator", "workspace"):
        setattr(talk, name, _text(own.get(name)))
    copied = 0
    for step in trajectory["steps"]:
        if not isinstance(step, Mapping) or step.get("source") not in _ROLES:
            problem(line, "a step without a source: user, agent or system", step)
        elif step.get("is_copied_context") is True:
            copied += 1
        else:
            _add_step(talk, step, _text(agent.get("model_name")), line, problem)
    if copied:
        problem(line, f"{copied} steps that are copies from an earlier trajectory were left out")
    return talk


def _add_step(talk: Conversation, step: Mapping[str, Any], model: str | None, line: int, problem: Problem) -> None:
    extra = dict(_object(step.get("extra")))
    own = _object(extra.pop(_OWN, None))
    extra |= {name: step[name] for name in _KEPT if step.get(name) is not None}
    at = moment_of(step.get("timestamp"))
    if at is None and step.get("timestamp") is not None:
        problem(line, "a timestamp that is not a time of ISO 8601", step["timestamp"])
    role, usage = _ROLES[step["source"]], _usage(_object(step.get("metrics")))
    calls: dict[Any, ToolCall] = {}
    for call in _list(step.get("tool_calls")):
        name = _object(call).get("function_name")
        if not isinstance(name, str):
            problem(line, "a tool call without a name", call)
            continue
        times = {name: moment_of(value) for name, value in _object(_object(call.get("extra")).get(_OWN)).items()}
        id_ = call.get("tool_call_id")
        calls[id_] = ToolCall(
            name, call.get("arguments"), id=id_ if isinstance(id_, str) else None, at=at,
            started_at=times.get("started_at"), ended_at=times.get("ended_at"),
        )  # fmt: skip
    others = [
        result
        for result in _list(_object(step.get("observation")).get("results"))
        if not _ends(calls, _object(result), line, problem)
    ]
    extra |= {"observation": others} if others else {}
    text = text_of(step.get("message"), line, problem)
    if text or usage or extra or own or not calls:
        message = talk.add(role, text, at=at, usage=usage, extra=extra, id=_text(own.get("event_id")))
        message.author, message.error = _text(own.get("author")), _text(own.get("error"))
        message.is_reply = own["is_reply"] if isinstance(own.get("is_reply"), bool) else None
        if role == "assistant":
            message.model = _text(step.get("model_name")) or model
            message.text = text or (None if calls or message.error is not None else "")
    talk.items += calls.values()


def _ends(calls: Mapping[Any, ToolCall], result: Mapping[str, Any], line: int, problem: Problem) -> bool:
    """Give a result to its call; False if it is of none."""
    call = calls.get(result.get("source_call_id"))
    if call is None:
        return False
    content, own = result.get("content"), _object(result.get("extra"))
    if content is None:
        content = result.get("subagent_trajectory_ref")
    elif not isinstance(content, str):
        content = text_of(content, line, problem)
    if own.get("is_error") is True:
        call.error = "" if content is None else content
    elif own.get(_OWN) is None or content is not None:  # or it is known to have ended, and nothing else
        call.result = "" if content is None else content
    return True


def _usage(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    usage = {name: value for name, value in metrics.items() if name not in _LISTS and isinstance(value, int | float)}
    return {**_object(metrics.get("extra")), **usage} or None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value != _UNKNOWN else None


def write(conversations: Iterable[Conversation], file: BinaryIO) -> None:
    """A trajectory per line."""
    for talk in conversations:
        file.write(msgspec.json.encode(_written(talk)) + b"\n")


def _written(talk: Conversation) -> dict[str, Any]:
    own = {"title": talk.title, "initiator": talk.initiator, "workspace": talk.workspace}
    return {
        "schema_version": VERSION,
        "session_id": talk.id,
        "agent": {"name": talk.agent or _UNKNOWN, "version": talk.agent_version or _UNKNOWN},
        "steps": [{"step_id": number, **step} for number, step in enumerate(_steps(talk), 1)],
        **_extra(own),
    }


def _steps(talk: Conversation) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    caller: dict[str, Any] | None = None
    for number, item in enumerate(talk.items, 1):
        if isinstance(item, Message):
            steps.append(_step(item))
            caller = steps[-1] if item.role == "assistant" else None
            continue
        if caller is None:
            steps.append(caller := {"source": "agent", "message": ""})
            at = item.at or item.started_at or item.ended_at
            caller |= {} if at is None else {"timestamp": at.isoformat()}
        call_id = item.id or f"call_{number}"
        arguments = item.arguments if isinstance(item.arguments, dict) else {}
        times = {name: moment for name in ("started_at", "ended_at") if (moment := getattr(item, name)) is not None}
        call = {"tool_call_id": call_id, "function_name": item.name, "arguments": arguments, **_extra(times)}
        caller.setdefault("tool_calls", []).append(call)
        if item.has_ended:
            content = item.result if item.error is None else item.error
            result: dict[str, Any] = {"source_call_id": call_id}
            if content is not None:
                result["content"] = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            result |= _extra({"ended": True} if content is None else {})
            result |= {} if item.error is None else {"extra": {"is_error": True}}
            caller.setdefault("observation", {"results": []})["results"].append(result)
    return steps


def _step(message: Message) -> dict[str, Any]:
    own = {"event_id": message.id, "is_reply": message.is_reply, "error": message.error, "author": message.author}
    extra = dict(message.extra)
    step: dict[str, Any] = {"source": "agent" if message.role == "assistant" else message.role}
    step["message"] = message.text or ""
    if message.at is not None:
        step["timestamp"] = message.at.isoformat()
    if message.role == "assistant":
        if message.model is not None:
            step["model_name"] = message.model
        if isinstance(extra.get("reasoning_content"), str):
            step["reasoning_content"] = extra.pop("reasoning_content")
        if message.usage:
            step["metrics"] = _metrics(message.usage)
    return step | _extra(own, extra)


def _metrics(usage: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(usage)
    metrics: dict[str, Any] = {}
    for name, ours in _METRICS.items():
        value = rest.pop(ours, rest.pop(name, None))
        metrics |= {name: value} if isinstance(value, int) else {}
    return metrics | ({"extra": rest} if rest else {})


def _extra(own: Mapping[str, Any], others: Mapping[str, Any] = {}) -> dict[str, Any]:
    known = {name: value for name, value in own.items() if value is not None}
    extra = {**others, **({_OWN: known} if known else {})}
    return {"extra": extra} if extra else {}

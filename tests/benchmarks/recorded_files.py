"""Files of other tools as users have them, for `load.py`: made up, always the same.

Results of tools have 2 to 20 kB, and texts the line breaks, quotes and dashes of code
and prose, because what a decoder takes depends on them.
"""

from __future__ import annotations

import itertools
import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

GOALS = {"langfuse": 11, "claude": 8, "codex": 10}  # times the CPU time of decoding the lines
_WORDS = [
    *("the", "agent", "reads", "file", "and", "finds", "test"),
    *("of", "orders", "because", "import", "is", "wrong", "so"),
]
_SIZES = (2_000, 4_000, 8_000, 20_000)
_BEGIN = datetime(2026, 9, 1, tzinfo=UTC)


def _text(rng: random.Random, size: int) -> str:
    gaps = rng.choices([" ", "\n    ", ' "x" ', " — "], (80, 12, 6, 2), k=size // 5)
    return "".join(word + gap for word, gap in zip(rng.choices(_WORDS, k=size // 5), gaps, strict=True))[:size]


def _langfuse(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """A trace: an agent that calls a model four times, and a tool between."""
    common = {
        "trace_id": f"t{number}", "project_id": "p", "environment": "default", "session_id": f"s{number // 4}",
        "user_id": f"user{number % 50}", "trace_name": "desk", "level": "DEFAULT", "status_message": "",
        "metadata": {"release": "2.3.1"}, "provided_model_name": "", "tool_calls": [], "usage_details": {},
    }  # fmt: skip

    def row(kind: str, id_: str, began: int, ended: int, **fields: Any) -> dict[str, Any]:
        begin = _BEGIN + timedelta(minutes=number)
        times = (f"{begin + timedelta(seconds=second):%Y-%m-%d %H:%M:%S.%f}" for second in (began, ended))
        span = dict(zip(("start_time", "end_time"), times, strict=True))
        return {
            **common,
            "id": f"{id_}-{number}",
            "type": kind,
            "parent_observation_id": f"root-{number}",
            **span,
            **fields,
        }

    said: list[dict[str, Any]] = [{"role": "system", "content": _text(rng, 3_000)}]
    for _ in range(number % 4):
        said.append({"role": "user", "content": _text(rng, 150)})
        said.append({"role": "assistant", "content": _text(rng, 800)})
    said.append({"role": "user", "content": _text(rng, 150)})
    for n in range(4):
        asked = json.dumps({"query": _text(rng, 60)})
        call = {"id": f"call_{number}_{n}", "type": "function", "function": {"name": "search", "arguments": asked}}
        reply = (
            {"role": "assistant", "content": _text(rng, 800)} if n == 3 else {"role": "assistant", "tool_calls": [call]}
        )
        used = {"provided_model_name": "large", "usage_details": {"input": 2000, "output": 200, "total": 2200}}
        yield row("GENERATION", f"g{n}", n * 3, n * 3 + 2, input=json.dumps(said), output=json.dumps(reply), **used)
        said.append(reply)
        if n < 3:
            result = _text(rng, rng.choice(_SIZES[:3]))
            said.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            yield row("TOOL", f"x{n}", n * 3 + 2, n * 3 + 3, name="search", input=asked, output=result)
    question = next(each["content"] for each in reversed(said) if each["role"] == "user")
    yield row("AGENT", "root", 0, 12, name="desk", parent_observation_id="", input=question, output=said[-1]["content"])


def _claude(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """A session of Claude Code: six questions, ten tool calls for each."""
    session, at, parent = str(uuid.UUID(int=rng.getrandbits(128))), _BEGIN + timedelta(hours=number), None

    def record(kind: str, message: Any, **fields: Any) -> dict[str, Any]:
        nonlocal at, parent
        at, known, parent = at + timedelta(seconds=3), parent, str(uuid.UUID(int=rng.getrandbits(128)))
        return {
            "parentUuid": known, "isSidechain": False, "userType": "external", "cwd": "/home/ada/shop",
            "sessionId": session, "version": "2.1.12", "gitBranch": "main", "type": kind, "message": message,
            "uuid": parent, "timestamp": f"{at:%Y-%m-%dT%H:%M:%S.000Z}", **fields,
        }  # fmt: skip

    def says(id_: str, part: dict[str, Any]) -> dict[str, Any]:
        usage = {"input_tokens": 3, "cache_creation_input_tokens": 500, "cache_read_input_tokens": 30_000,
                 "output_tokens": 120, "service_tier": "standard"}  # fmt: skip
        message = {"model": "claude-opus-4-6", "id": id_, "type": "message", "role": "assistant", "content": [part]}
        return record("assistant", {**message, "stop_reason": None, "usage": usage}, requestId=f"req_{id_}")

    for turn in range(6):
        yield record("user", {"role": "user", "content": _text(rng, 200)})
        for step in range(10):
            id_, call = f"msg_{number}_{turn}_{step}", f"toolu_{number}_{turn}_{step}"
            if step % 2 == 0:
                yield says(id_, {"type": "thinking", "thinking": _text(rng, 400), "signature": "E" * 600})
            given = {"command": _text(rng, 120), "description": _text(rng, 40)}
            yield says(
                id_, {"type": "tool_use", "id": call, "name": rng.choice(("Bash", "Read", "Edit")), "input": given}
            )
            result = _text(rng, rng.choice(_SIZES))
            part = {"tool_use_id": call, "type": "tool_result", "content": result, "is_error": False}
            yield record("user", {"role": "user", "content": [part]}, toolUseResult={"stdout": result, "stderr": ""})
        yield says(f"msg_{number}_{turn}", {"type": "text", "text": _text(rng, 900)})


def _codex(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """A rollout of Codex: six questions, ten tool calls for each."""
    at, total = _BEGIN + timedelta(hours=number), 0

    def line(kind: str, **payload: Any) -> dict[str, Any]:
        nonlocal at
        at += timedelta(seconds=1)
        return {"timestamp": f"{at:%Y-%m-%dT%H:%M:%S.000Z}", "type": kind, "payload": payload}

    def said(role: str, kind: str, text: str) -> dict[str, Any]:
        return line("response_item", type="message", role=role, content=[{"type": kind, "text": text}])

    yield line("session_meta", id=f"c{number}", cwd="/home/ada/shop", cli_version="0.98.0", source="cli")
    for turn in range(6):
        question = _text(rng, 200)
        yield line("turn_context", cwd="/home/ada/shop", model="gpt-5.3-codex")
        yield said("user", "input_text", question)
        yield line("event_msg", type="user_message", message=question, images=[])
        for step in range(10):
            call, total = f"call_{turn}_{step}", total + 3_000
            yield line("response_item", type="reasoning", summary=[], encrypted_content="g" * 1_200)
            given = json.dumps({"cmd": _text(rng, 120)})
            yield line("response_item", type="function_call", name="exec_command", arguments=given, call_id=call)
            used = {"input_tokens": 30_000, "cached_input_tokens": 28_000, "output_tokens": 200, "total_tokens": 30_200}
            info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": used}
            yield line("event_msg", type="token_count", info=info, rate_limits=None)
            output = f"Process exited with code 0\nOutput:\n{_text(rng, rng.choice(_SIZES))}"
            yield line("response_item", type="function_call_output", call_id=call, output=output)
        yield said("assistant", "output_text", _text(rng, 900))


_MAKE: dict[str, Callable[[random.Random, int], Iterator[dict[str, Any]]]] = {
    "langfuse": _langfuse,
    "claude": _claude,
    "codex": _codex,
}


def write(kind: str, folder: Path, size: int) -> list[Path]:
    """Files with at least so many bytes of the records of one of `GOALS`.

    Langfuse's are exports in which sessions begin and end anywhere; those of coding
    agents are a session each.
    """
    rng, files, count = random.Random(3), list[Path](), itertools.count()
    while size > 0:
        files.append(folder / f"{len(files)}.jsonl")
        with files[-1].open("wb") as file:
            for number in itertools.islice(count, 150 if kind == "langfuse" else 1):
                file.writelines(msgspec.json.encode(record) + b"\n" for record in _MAKE[kind](rng, number))
        size -= files[-1].stat().st_size
    return files

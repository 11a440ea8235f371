"""Sessions of coding agents, made up in the shapes that lie on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab

SESSION = "0b7f6a52-8a0e-4c1f-9a53-6f0c7a1d2e3f"


class Claude:
    """Writes records of Claude Code, a second apart."""

    def __init__(self, session: str = SESSION, version: str = "2.0.76", **common: Any) -> None:
        self.common = {"sessionId": session, "version": version, "cwd": "/home/ada/shop", **common}
        self.records: list[dict[str, Any]] = []
        self.parent: str | None = None

    def add(self, kind: str, message: Any = None, **fields: Any) -> Claude:
        n = len(self.records)
        uuid = fields.pop("uuid", f"{self.common['sessionId']}-{fields.get('agentId', '')}-{n}")
        at = f"2026-10-05T09:00:{n:02}.500Z"
        record = {"parentUuid": self.parent, "isSidechain": False, **self.common, "type": kind, "uuid": uuid}
        record |= {"timestamp": at, **({} if message is None else {"message": message}), **fields}
        self.records.append(record)
        self.parent = uuid
        return self

    def asks(self, content: Any, **fields: Any) -> Claude:
        return self.add("user", {"role": "user", "content": content}, **fields)

    def says(self, id_: str, *parts: Any, output: int = 5, model: str = "claude-opus-4-5", **fields: Any) -> Claude:
        for part in parts:
            usage = {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 7,
                     "output_tokens": output, "service_tier": "standard",
                     "cache_creation": {"ephemeral_5m_input_tokens": 7}}  # fmt: skip
            message = {"id": id_, "type": "message", "role": "assistant", "model": model, "content": [part]}
            self.add("assistant", {**message, "usage": usage}, requestId="req_1", **fields)
            output += 1
        return self

    def result(self, id_: str, content: Any, *, is_error: bool = False, **fields: Any) -> Claude:
        part = {"type": "tool_result", "tool_use_id": id_, "content": content, "is_error": is_error}
        return self.asks([part], toolUseResult={"stdout": content}, **fields)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def tool(id_: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def write(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def claude() -> Claude:
    """A question with tools and thoughts, a command, an interruption and an error."""
    return (
        Claude()
        .asks("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True)
        .asks("Why does the test fail?")
        .says("msg_1", {"type": "thinking", "thinking": "Hm."}, text("I look."), tool("t1", command="pytest"), tool("t2"))
        .result("t2", [text("ok")])
        .result("t1", "Exit code 1", is_error=True)
        .says("msg_2", text("It is a typo."), text("Mended."))
        .asks("<command-name>/clear</command-name>\n<command-args></command-args>")
        .asks("<local-command-stdout></local-command-stdout>")
        .asks("<command-message>review</command-message><command-name>/review</command-name><command-args>12</command-args>")
        .asks("<task-notification>done</task-notification>", origin={"kind": "task-notification"})
        .says("msg_3", text("Looks good."))
        .add("system", subtype="compact_boundary", content="Conversation compacted",
             compactMetadata={"trigger": "auto", "preTokens": 155000})
        .asks("This session is being continued ...", isCompactSummary=True, isVisibleInTranscriptOnly=True)
        .asks([text("And now?"), {"type": "image", "source": {"type": "base64", "data": "AAAA"}}])
        .asks([text("[Request interrupted by user]")])
        .add("attachment", attachment={"type": "queued_command", "prompt": "Try again.", "commandMode": "prompt"})
        .add("assistant", {"id": "x", "role": "assistant", "model": "<synthetic>", "content": [text("API Error: 529")]},
             isApiErrorMessage=True)
    )  # fmt: skip


def test_a_session_of_claude_code(tmp_path: Path) -> None:
    path = tmp_path / "-home-ada-shop" / f"{SESSION}.jsonl"
    beside = [
        {"type": "summary", "summary": "Fix a test", "leafUuid": "x"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
    ]
    write(tmp_path / "-home-ada-shop" / SESSION / "subagents/agent-1.meta.json", [{"agentType": "Explore"}])
    write(path, [*beside, *claude().records, {"type": "custom-title", "customTitle": "The typo", "sessionId": SESSION}])
    with path.open("a") as file:
        file.write('{"type":"user","sess')  # it is being written
    history = ab.read_conversations(tmp_path)
    turns = history.turns.sort_values("turn")
    asked = ["Why does the test fail?", "/review 12", "And now?", "Try again."]
    assert turns["prompt"].to_list() == asked
    assert turns["status"].to_list() == ["answered", "answered", "open", "failed"]
    assert turns["reply"].to_list()[:2] == ["It is a typo.\n\nMended.", "Looks good."]
    assert turns["latency_s"].to_list()[0] == pytest.approx(8)
    # One reply in several records has one usage, the last one.
    first = turns.iloc[0]
    counts = first[["input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens"]].to_list()
    assert counts == [200, 180, 14, 14]
    assert turns["failure_message"].to_list()[3] == "API Error: 529"
    steps = ab.steps(history)
    assert steps["name"].to_list() == ["Bash", "Bash"]
    assert sorted(steps["status"]) == ["done", "failed"]
    assert json.loads(steps["arguments"].to_list()[0]) == {"command": "pytest"}
    [row] = history.sessions.to_dict("records")
    assert (row["id"], row["name"]) == (SESSION, "The typo")
    assert {"compaction"} <= {key for extra in history.events["extra"].dropna() for key in json.loads(extra)}
    assert turns[["agent", "workspace"]].drop_duplicates().to_numpy().tolist() == [["claude-code", "shop"]]
    problems = ab.load_problems(history)["problem"].str.cat(sep="; ")
    assert "not JSON" in problems and "image" in problems  # noqa: PT018
    assert len(ab.load_problems(history)) == 2


def test_subagents_are_sessions_and_copies_count_once(tmp_path: Path) -> None:
    old = Claude(version="1.0.60").asks("Plan it.").says("m1", tool("t1", "Task", prompt="Search."))
    chain = Claude(version="1.0.60", isSidechain=True)
    chain.asks("Search.", uuid="c0").says("m2", text("Found."), uuid="c1")
    old.records += chain.records
    old.result("t1", "Found.").says("m3", text("Done."), uuid="last")
    write(tmp_path / "a.jsonl", old.records)
    resumed = [{**each, "sessionId": "resumed"} for each in old.records]
    more = Claude("resumed").asks("Go on.", uuid="r1").says("m4", text("Gone on."), uuid="r2").records
    write(tmp_path / "b.jsonl", resumed + more)
    agent = Claude(isSidechain=True, agentId="ab12cd")
    agent.asks("Look.", uuid="g1").says("m5", text("Seen."), uuid="g2")
    write(tmp_path / SESSION / "subagents" / "agent-ab12cd.jsonl", agent.records)
    history = ab.read_conversations(tmp_path)
    found = dict(zip(history.turns["prompt"], history.turns["session_id"], strict=True))
    assert found == {"Plan it.": SESSION, "Search.": f"{SESSION}/c0", "Go on.": "resumed", "Look.": f"{SESSION}/ab12cd"}
    assert len(history.turns) == 4
    assert history.turns["output_tokens"].sum() == 5 * 5
    assert "copies" in ab.load_problems(history)["problem"].str.cat(sep="; ")


def line(kind: str, at: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-10-05T09:00:{at:02}.000Z", "type": kind, "payload": payload}


def tokens(at: int, total: int, **last: int) -> dict[str, Any]:
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last, "model_context_window": 272000}
    return line("event_msg", at, type="token_count", info=info, rate_limits=None)


def said(role: str, value: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": value}]}


def rollout() -> list[dict[str, Any]]:
    used = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9, "reasoning_output_tokens": 4}
    return [
        line("session_meta", 0, id="019a2d7a", cwd="/home/ada/shop", cli_version="0.65.0", originator="codex_cli_rs",
             base_instructions={"text": "You are Codex."}),
        line("response_item", 0, **said("developer", "<permissions instructions>...")),
        line("response_item", 0, **said("user", "<environment_context>...</environment_context>")),
        line("turn_context", 1, model="gpt-5-codex", cwd="/home/ada/shop"),
        line("response_item", 1, **said("user", "Why does it fail?")),
        line("event_msg", 1, type="user_message", message="Why does it fail?", images=[]),
        line("event_msg", 2, type="agent_reasoning", text="Hm."),
        line("response_item", 2, type="reasoning", summary=[], encrypted_content="..."),
        line("response_item", 3, type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
        tokens(3, 109, **used, total_tokens=109),
        line("response_item", 4, type="function_call_output", call_id="c1",
             output=json.dumps({"output": "no", "metadata": {"exit_code": 1, "duration_seconds": 0.1}})),
        line("response_item", 5, type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        line("response_item", 6, type="custom_tool_call_output", call_id="c2", output="Success."),
        line("response_item", 7, **said("assistant", "A typo.")),
        line("event_msg", 7, type="agent_message", message="A typo."),
        tokens(7, 218, **used, total_tokens=109),
        tokens(8, 218, **used, total_tokens=109),  # the same again, with new limits
        line("compacted", 9, message="Summary."),
        line("event_msg", 10, type="user_message", message="And now?"),
        line("response_item", 10, type="function_call", name="exec_command", arguments='{"cmd":"ls"}', call_id="c3"),
        line("response_item", 10, type="function_call_output", call_id="c3", output="Process exited with code 2\nno"),
        line("response_item", 10, type="web_search_call", status="completed", action={"query": "x"}),
        line("event_msg", 11, type="turn_aborted", reason="interrupted"),
        line("session_meta", 11, id="parent"),
        line("novelty", 12, what=1),
    ]  # fmt: skip


def test_a_rollout_of_codex(tmp_path: Path) -> None:
    history = ab.read_conversations(write(tmp_path / "rollout-1.jsonl", rollout()))
    turns = history.turns
    assert turns["prompt"].to_list() == ["Why does it fail?", "And now?"]
    assert turns["status"].to_list() == ["answered", "open"]
    first = turns.iloc[0]
    assert first[["reply", "model", "agent", "agent_version", "workspace", "session_id"]].to_list() == [
        "A typo.", "gpt-5-codex", "codex", "0.65.0", "shop", "019a2d7a"
    ]  # fmt: skip
    assert first[["input_tokens", "cached_tokens", "output_tokens", "tokens"]].to_list() == [200, 120, 18, 218]
    steps = ab.steps(history)
    assert steps[["name", "status"]].to_numpy().tolist() == [
        ["shell", "failed"], ["apply_patch", "done"], ["exec_command", "failed"], ["web_search", "done"]
    ]  # fmt: skip
    assert steps["duration_s"].to_list()[:2] == pytest.approx([1, 1])
    fork, novelty = ab.load_problems(history)["raw"].fillna("parent")
    assert (fork, json.loads(novelty)["type"]) == ("parent", "novelty")


def test_a_rollout_of_2025_has_no_envelopes(tmp_path: Path) -> None:
    call = {"type": "function_call", "id": "f1", "name": "shell", "arguments": "{}", "call_id": "c1"}
    head = {"id": "old", "timestamp": "2025-07-01T10:00:00.000Z", "instructions": None, "git": {}}
    lines = [head, {"record_type": "state"}, said("user", "<environment_context>"), said("user", "Hi"), {"record_type": "state"},
             call, {"type": "function_call_output", "call_id": "c1", "output": '{"output":"x","metadata":{"exit_code":0}}'},
             {"type": "reasoning", "summary": []}, said("assistant", "Hello.")]  # fmt: skip
    history = ab.read_conversations(write(tmp_path / "rollout-old.jsonl", lines))
    assert history.turns[["session_id", "prompt", "reply"]].to_numpy().tolist() == [["old", "Hi", "Hello."]]
    assert ab.steps(history)["status"].to_list() == ["done"]
    assert pd.isna(history.turns["tokens"][0])
    assert history.complete

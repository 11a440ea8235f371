"""Sessions of coding agents, as they lie on the disk: Claude Code and Codex.

Neither has a published schema, so what a record is comes from its own fields, and what
is not known is listed. A session is read from one file; a copy of its records in a
later file, which resuming a session makes, does not count twice. What a subagent did is
a session of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import chat
from .messages import first, is_message, items_of, text_or_none
from .model import Conversation, Message, Problems, Records, Result, ToolCall, mapping, parsed

CLAUDE, CODEX = "claude-code", "codex"
_TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
# Records of Claude Code that are no part of the conversation.
_KEPT_BESIDE = frozenset(
    ("summary", "file-history-snapshot", "queue-operation", "progress", "attachment", "custom-title", "ai-title",
     "last-prompt", "tag", "agent-name", "agent-color", "agent-setting", "permission-mode", "mode", "pr-link",
     "worktree-state", "content-replacement", "turn_end", "result")
)  # fmt: skip
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>", "<bash-input>")
_INTERRUPTED = "[Request interrupted by user"
# What Codex sends in a user's name.
_CONTEXT = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<permissions instructions>", "<skill>",
            "# AGENTS.md instructions", "<subagent_notification>")  # fmt: skip
_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_HEAD = 200  # characters of an output, which say how a command ended
_EXITED = re.compile(r"(?:Exit code: |Process exited with code |exited with code )(-?[0-9]+)")


class Sessions:
    """Reads sessions file by file, and knows the records of those before."""

    def __init__(self, problem: Problems) -> None:
        self.problem = problem
        self.count = 0  # of copies
        self._seen: set[str] = set()

    def is_copy(self, record: Mapping[str, Any]) -> bool:
        """Whether a record was read before, in this file or an earlier one."""
        if not isinstance(id_ := record.get("uuid"), str):
            return False
        is_known = id_ in self._seen
        self.count += is_known
        self._seen.add(id_)
        return is_known


def is_claude(record: Mapping[str, Any]) -> bool:
    """Whether it is a record of Claude Code."""
    kind = record.get("type")
    if kind in ("user", "assistant", "system") and "sessionId" in record:
        return record.keys() >= {"uuid", "timestamp"}
    return kind in _KEPT_BESIDE and not record.keys().isdisjoint(("sessionId", "leafUuid", "snapshot", "messageId"))


def is_codex(record: Mapping[str, Any]) -> bool:
    """Whether it is a line with which a rollout of Codex may begin."""
    if record.get("type") in _ENVELOPES:
        return isinstance(record.get("payload"), dict)
    return record.keys() >= {"id", "timestamp", "instructions"} and record.keys().isdisjoint(("model", "output"))


def is_item(record: Mapping[str, Any]) -> bool:
    """Whether it is a line of a rollout of early 2025, which has no envelope."""
    return "record_type" in record or is_message(record)


class _Session:
    """A conversation that is read record by record."""

    def __init__(self, talk: Conversation, problem: Problems) -> None:
        self.talk, self._problem = talk, problem
        self.at: Any = None
        self.model: str | None = None
        self._said: dict[str, Message] = {}  # the parts of a reply have one id

    def add(self, items: Iterable[Any], *, of: str | None = None, **extra: Any) -> None:
        """Append what a record says; `of` is the id of the reply that it is part of."""
        for item in items:
            if isinstance(item, ToolCall):
                item.started_at = self.at
            else:
                item.at = self.at
            if isinstance(item, Message):
                if (known := self._said.get(of or "")) is not None:
                    known.text = item.text if known.text is None else f"{known.text}\n\n{item.text}"
                    known.at = self.at
                    continue
                item.extra.update(extra)
                if of is not None:
                    self._said[of] = item
            self.talk.take([item], self._problem)

    def used(self, usage: Mapping[str, Any], of: str | None = None) -> None:
        """Note what the model used for a reply, or for what came since the last one."""
        message = self._said.get(of or "")
        if message is None:
            self.add([message := Message("assistant")], of=of)
        message.usage, message.model = {**usage}, self.model


def _place(cwd: Any) -> dict[str, Any]:
    """A workspace: the folder in which an agent worked."""
    folder = text_or_none(cwd)
    return {"workspace_id": folder, "workspace": folder and re.split(r"[/\\]", folder.rstrip("/\\"))[-1]}


# -- Claude Code -------------------------------------------------------------------


def read_claude(records: Records, sessions: Sessions) -> Iterator[Conversation]:
    """The sessions of a file: that of a person, and those of the agents it started."""
    problem, open_, chains, copies = sessions.problem, dict[str, _Session](), dict[str, str](), 0
    for record in records:
        kind, beside = record.get("type"), mapping(record.get("attachment"))
        if beside.get("type") == "queued_command" and beside.get("commandMode", "prompt") == "prompt":
            # What was typed while the agent worked.
            kind, asked = "user", {"role": "user", "content": beside.get("prompt")}
            record = {**record, "type": kind, "message": asked}
        if kind in _KEPT_BESIDE:
            if kind in ("custom-title", "ai-title") and (session := open_.get(str(record.get("sessionId")))):
                session.talk.title = text_or_none(first(record, "customTitle", "aiTitle", "title"))
        elif sessions.is_copy(record):
            copies += 1
        else:
            id_, parent = str(record["sessionId"]), str(record.get("parentUuid"))
            if record.get("isSidechain") is True or record.get("agentId"):
                own = chains.setdefault(str(record.get("uuid")), chains.get(parent, str(record.get("uuid"))))
                id_ = f"{id_}/{record.get('agentId') or own}"
            if (session := open_.get(id_)) is None:
                about = {"agent_version": text_or_none(record.get("version")), **_place(record.get("cwd"))}
                session = open_[id_] = _Session(Conversation(id_, agent=CLAUDE, **about), problem)
            session.at = problem.time(record.get("timestamp"), "timestamp")
            _add_claude(session, record, problem)
    if copies:
        problem(f"{copies} records that are copies of earlier ones were left out")
    for session in open_.values():
        if session.talk.items:
            yield session.talk


def _add_claude(session: _Session, record: Mapping[str, Any], problem: Problems) -> None:
    message, kind = mapping(record.get("message")), record["type"]
    if kind == "system":
        if record.get("subtype") == "compact_boundary":
            compaction = mapping(record.get("compactMetadata")) or {"trigger": "unknown"}
            session.add([Message("system", text_or_none(record.get("content")) or "Compacted.")], compaction=compaction)
    elif kind == "assistant":
        of, model = text_or_none(message.get("id")) or str(record.get("uuid")), message.get("model")
        session.model = model if isinstance(model, str) and not model.startswith("<") else None
        items = [
            item
            for item in items_of({"role": "assistant", **message, "id": None}, problem)
            if not isinstance(item, Message) or item.text
        ]
        if record.get("isApiErrorMessage") is True:
            texts = [item.text or "" for item in items if isinstance(item, Message)]
            session.add([Message("assistant", error="\n".join(texts) or "API error")])
            return
        session.add(items, of=of)
        usage = mapping(message.get("usage"))
        if known := {name: usage[name] for name in _TOKENS if usage.get(name) is not None}:
            session.used(known, of)
    elif record.get("isMeta") is not True:
        is_told = mapping(record.get("origin")).get("kind") not in (None, "human")  # by the program
        for item in items_of({"role": "user", **message}, problem):
            if is_told and isinstance(item, Message):
                item.role = "system"
            _add_asked(session, item, is_summary=record.get("isCompactSummary") is True)


def _add_asked(session: _Session, item: Any, *, is_summary: bool) -> None:
    """What stands in a user's name: a question, or what Claude Code writes there."""
    text = (item.text or "").strip() if isinstance(item, Message) else ""
    if is_summary:
        session.add([Message("system", text)], compaction={"summary": True})
    elif text.startswith(_INTERRUPTED):
        session.add([Message("system", text)])
    elif text.startswith(_OUTPUTS):  # of a command that the program itself carried out
        items = session.talk.items
        if items and isinstance(items[-1], Message) and "command" in items[-1].extra:
            items.pop()
    elif found := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        asked = " ".join(filter(None, (found[1].strip(), arguments and arguments[1].strip())))
        session.add([Message("user", asked)], command=found[1].strip())
    else:
        session.add([item])


# -- Gemini CLI --------------------------------------------------------------------


def is_gemini(record: Mapping[str, Any]) -> bool:
    """Whether it is the first line of a session of Gemini CLI."""
    return record.keys() >= {"sessionId", "projectHash", "startTime"} and "messages" not in record


def read_gemini(records: Records, problem: Problems) -> Iterator[Conversation]:
    """The session of a file, in which a later record of a message replaces it."""
    about, messages = dict[str, Any](), dict[Any, Mapping[str, Any]]()
    for record in records:
        if record.get("$rewindTo") in messages:
            names = [*messages]
            for name in names[names.index(record["$rewindTo"]) :]:
                del messages[name]
        elif "type" in record:
            messages[record.get("id")] = record
        else:
            about |= record
    return chat.read(iter([{**about, "messages": [*messages.values()]}]), problem)


# -- Codex -------------------------------------------------------------------------


def read_codex(records: Records, sessions: Sessions) -> Iterator[Conversation]:
    """The session of a file."""
    problem, talk = sessions.problem, Conversation(agent=CODEX)
    session, has_events, total = _Session(talk, problem), False, None
    echoes = set[int]()  # what the model was sent, which events of the interface tell better
    for record in records:
        kind, payload = record.get("type"), mapping(record.get("payload"))
        if record.get("timestamp") is not None:
            session.at = problem.time(record["timestamp"], "timestamp")
        if kind == "session_meta" or (kind is None and "instructions" in record):
            _meet(talk, payload or record, problem)
        elif kind == "turn_context":
            session.model = text_or_none(payload.get("model")) or session.model
        elif kind == "compacted":
            summary = text_or_none(payload.get("message")) or "Compacted."
            session.add([Message("system", summary)], compaction={"trigger": "unknown"})
        elif kind == "event_msg" and payload.get("type") == "user_message":
            has_events = True
            session.add([Message("user", str(payload.get("message") or ""))])
        elif kind == "event_msg" and payload.get("type") == "token_count":
            info = mapping(payload.get("info"))
            usage = mapping(info.get("last_token_usage"))
            if usage and info.get("total_token_usage") != total:  # it is repeated with new limits
                total = info.get("total_token_usage")
                names = {"cached_input_tokens": "cached_tokens"}
                session.used({names.get(name, name): value for name, value in usage.items()})
        elif kind == "event_msg" and payload.get("type") in ("error", "turn_aborted"):
            reason = text_or_none(first(payload, "message", "reason")) or "aborted"
            is_error = payload["type"] == "error"
            session.add([Message("assistant", error=reason) if is_error else Message("system", f"Aborted: {reason}")])
        elif kind == "response_item" or ("record_type" not in record and not payload):
            items = _items(payload or record, problem)
            echoes |= {id(item) for item in items if isinstance(item, Message) and item.role == "user"}
            session.add(items)
    if has_events:
        talk.items = [item for item in talk.items if id(item) not in echoes]
    yield talk


def _meet(talk: Conversation, about: Mapping[str, Any], problem: Problems) -> None:
    """What a rollout says of its session; a fork repeats what its parent said."""
    if talk.id is not None:
        if about.get("id") != talk.id:
            problem(f"a fork of {about.get('id')!r:.60}: what it repeats of that session counts again")
        return
    talk.id, talk.agent_version = text_or_none(about.get("id")), text_or_none(about.get("cli_version"))
    for name, value in _place(about.get("cwd")).items():
        setattr(talk, name, value)
    base = about.get("base_instructions")
    text = about.get("instructions") or (base.get("text") if isinstance(base, dict) else base)
    if isinstance(text, str):
        talk.items.insert(0, Message("system", text))


def _items(item: Mapping[str, Any], problem: Problems) -> list[Any]:
    """What the model was sent by a person, or sent."""
    if item.get("type") == "message" and item.get("role") in ("developer", "system"):
        return []
    items = items_of(item, problem)
    for each in items:
        if isinstance(each, Result):
            output = parsed(each.content)
            whole, meta = mapping(output), mapping(mapping(output).get("metadata"))
            each.content = first(whole, "output", "content") if whole else output
            code = _EXITED.search(output[:_HEAD]) if isinstance(output, str) else None
            each.is_error |= whole.get("success") is False or meta.get("exit_code") not in (None, 0)
            each.is_error |= code is not None and code[1] != "0"
    texts = ((each, each.text or "" if isinstance(each, Message) and each.role == "user" else "") for each in items)
    return [each for each, text in texts if not text.startswith(_CONTEXT)]

"""A turn in the store: the request built from it, and the events written at its end."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from ..._text import replace_surrogates
from ..auth import Principal
from ..engines.base import Failure, Message, Reply, TurnRequest
from ..store import Published, Transaction, event_json, events
from ..store.tables import agent_states, agent_versions, agents, sessions, workspaces
from . import budgets
from .queue import PendingTurn, TurnQueue

# What a version sends with each request to its model, besides the messages.
SAMPLING = ("temperature", "max_tokens", "top_p")
_OF_VERSION = (
    "id",
    "version_number",
    "system_prompt",
    "mode",
    "tools_json",
    "platform_tools_json",
    "prompt_owner_id",
    "model",
    *SAMPLING,
)
_MARK_UPDATED = "UPDATE sessions SET updated_at = ? WHERE id = ?"
_HISTORY = 400  # messages besides the turn's own; an agent does not see older ones
_CHARACTERS = 8 << 20  # of them; one LLM request takes no more
_TEXTS = (
    "SELECT type, wire FROM events WHERE session_id = ? AND id <= ? AND type IN ('message', 'runtime_done') "
    "ORDER BY id DESC"
)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended.

    Attributes
    ----------
    end : Reply or Failure
        The last step.
    steps : tuple of (str, mapping)
        The tasks of its tool runs and sub-agents, and what their events say about them.
    tokens_by_agent : mapping of str to int
        The tokens used, by the id of the sub-agent; None is the turn's own agent.
    states : mapping of str to str
        The state that each of them saved, by the same ids.
    usage : mapping of str
        The tokens as the turn's last event shows them; None without any.
    request : TurnRequest or None
        What the agent was asked; None if it could not be read.
    """

    end: Reply | Failure
    steps: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    tokens_by_agent: Mapping[str | None, int] = field(default_factory=dict)
    states: Mapping[str | None, str] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    request: TurnRequest | None = None


def accept(tx: Transaction, queue: TurnQueue, session_id: str, text: str, principal: Principal) -> Published:
    """Store a message and the pending turn that answers it."""
    task_id = tx.clock.new_id()
    author = {"type": principal.author_type, "id": principal.id, "name": principal.name}
    message = events.append(
        tx,
        session_id,
        "message",
        task_id,
        lambda id_, at: event_json.message(id=id_, text=text, task_id=task_id, created_at=at, author=author),
        author_type=principal.author_type,
    )
    queue.add(tx, PendingTurn(session_id, task_id, message.id))
    return message


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """What is needed to run an agent's turn: the agent, its engine and its request."""

    agent_id: str
    workspace_id: str
    engine: str
    request: TurnRequest


def read_request(
    db: Connection, turn: PendingTurn, agent_id: str | None = None, message: str = "", *, seed: int, delay_factor: float
) -> AgentTurn:
    """Read everything that a turn may depend on.

    With `agent_id`, this is the turn of an agent that the session's agent calls: it
    answers `message` and sees no message of the session.
    """
    committed = agent_versions.alias()
    newest = (
        select(committed.c.id)
        .where(committed.c.agent_id == agents.c.id, committed.c.type == "COMMITTED")
        .order_by(committed.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    version_id = newest if agent_id else func.coalesce(sessions.c.agent_version_id, newest)
    state = select(agent_states.c.state).where(
        agent_states.c.session_id == sessions.c.id, agent_states.c.agent_id == agents.c.id
    )
    # One statement: on PostgreSQL, each is a round trip.
    query = (
        select(
            agents.c.name,
            agents.c.engine,
            agents.c.id,
            agents.c.owner_id.label("agent_owner_id"),
            state.scalar_subquery().label("state"),
            workspaces.c.id.label("workspace_id"),
            workspaces.c.name.label("workspace_name"),
            workspaces.c.owner_id,
            workspaces.c.unlimited_power_mode,
            *(agent_versions.c[name].label(f"version_{name}") for name in _OF_VERSION),
        )
        .select_from(sessions)
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(agents, agents.c.id == (agent_id or sessions.c.agent_id))
        .outerjoin(agent_versions, (agent_versions.c.id == version_id) & (agent_versions.c.agent_id == agents.c.id))
        .where(sessions.c.id == turn.session_id)
    )
    row = db.execute(query).mappings().one()
    version = {name: row[f"version_{name}"] for name in _OF_VERSION}  # each None if there is none
    engine = engine_of_version(row["engine"]) if version["id"] else row["engine"]
    *history, question = [Message("user", message)] if agent_id else _messages(db, turn)
    transcript = "\n".join(message.text for message in history)
    rng_key = f"{seed}|{row['name']}|{version['version_number']}|{transcript}|{question.text}"
    request = TurnRequest(
        session_id=turn.session_id,
        task_id=turn.task_id,
        workspace_name=row["workspace_name"],
        agent_name=row["name"],
        message=question.text,
        history=history,
        system_prompt=version["system_prompt"],
        mode=version["mode"] or "one-shot",
        tools=msgspec.json.decode(version["tools_json"] or "[]"),
        platform_tools=msgspec.json.decode(version["platform_tools_json"] or "[]"),
        unlimited_power_mode=row["unlimited_power_mode"],
        rng=random.Random(hashlib.sha256(rng_key.encode()).digest()),  # noqa: S311 - repeatable on purpose
        delay_factor=delay_factor,
        prompt_is_visible=(version["prompt_owner_id"] or row["agent_owner_id"]) == row["owner_id"],
        state=row["state"],
        model=version["model"],
        sampling={name: version[name] for name in SAMPLING if version[name] is not None},
    )
    return AgentTurn(row["id"], row["workspace_id"], engine, request)


def engine_of_version(engine: str) -> str:
    """The engine that runs a version: an agent without one of its own is an LLM agent.

    Examples
    --------
    >>> engine_of_version("blank"), engine_of_version("guide")
    ('llm', 'guide')
    """
    return "llm" if engine in ("blank", "auto_managed_state") else engine


class _Content(msgspec.Struct):
    text: str | None = None


class _TextEvent(msgspec.Struct):
    """The part of an event that contains its text."""

    content: _Content


def _messages(db: Connection, turn: PendingTurn) -> list[Message]:
    """The messages and replies up to the turn's own message, oldest first.

    The newest `_HISTORY`, and no more once `_CHARACTERS` are reached.
    """
    messages: list[Message] = []
    characters = 0
    for type_, json_text in events.execute(db, _TEXTS, turn.session_id, turn.message_id):
        text = msgspec.json.decode(json_text, type=_TextEvent).content.text
        if text is not None:
            messages.append(Message("user" if type_ == "message" else "assistant", text))
            characters += len(text)
            if len(messages) > _HISTORY or characters > _CHARACTERS:
                break
    return messages[::-1]


def write_outcome(tx: Transaction, turn: PendingTurn, outcome: TurnOutcome) -> None:
    """Store the events of a turn that has ended, and charge its tokens."""
    query = (
        select(agents.c.id, agents.c.name)
        .join(sessions, sessions.c.agent_id == agents.c.id)
        .where(sessions.c.id == turn.session_id)
    )
    agent = tx.db.execute(query).first()
    author = {"type": "agent", "id": agent.id if agent else None, "name": agent.name if agent else None}

    def append(type_: str, task_id: str, encode: Callable[..., str], **fields: Any) -> None:
        events.append(
            tx,
            turn.session_id,
            type_,
            task_id,
            lambda id_, at: encode(id=id_, task_id=task_id, created_at=at, author=author, **fields),
            author_type="agent",
        )

    for task_id, step in outcome.steps:
        if "ended_at" in step:
            append("runtime_done", task_id, event_json.done, step=step)
        else:
            append("tool_started", task_id, event_json.event, type="tool_started", content={}, step=step)
    match outcome.end:
        case Reply(text, finish_reason):
            reply = {"text": text, "finish_reason": finish_reason}
            append("runtime_done", turn.task_id, event_json.done, **reply, usage=outcome.usage)
        case Failure(status, error, message):
            fields: dict[str, Any] = {
                "status": status,
                "error": error,
                "message": replace_surrogates(message),
                "usage": outcome.usage,
            }
            append("runtime_error", turn.task_id, event_json.failed, **fields)
    if outcome.tokens_by_agent:
        budgets.spend(tx, turn.session_id, outcome.tokens_by_agent)
    if isinstance(outcome.end, Reply) and agent is not None:
        for agent_id, state in outcome.states.items():
            _save_state(tx, turn.session_id, agent_id or agent.id, state)
    mark_updated(tx, turn.session_id)


def mark_updated(tx: Transaction, session_id: str) -> None:
    """Note that a session has changed now. The same write must not read it later."""
    tx.execute_last(_MARK_UPDATED, (tx.clock.instant(), session_id))


def _save_state(tx: Transaction, session_id: str, agent_id: str, state: str) -> None:
    is_this = (agent_states.c.session_id == session_id) & (agent_states.c.agent_id == agent_id)
    values = {"state": replace_surrogates(state), "updated_at": tx.clock.instant()}
    if tx.db.execute(update(agent_states).where(is_this).values(values)).rowcount == 0:
        tx.db.execute(insert(agent_states), {"session_id": session_id, "agent_id": agent_id, **values})

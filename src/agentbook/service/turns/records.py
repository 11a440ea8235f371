"""A turn in the store: the request built from it, and the events written at its end."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from ..auth import Principal
from ..engines.base import Failure, Message, Reply, TurnRequest
from ..store import Published, Store, Transaction, events
from ..store.tables import agent_versions, agents, pending_turns, sessions, workspaces
from ..text import replace_surrogates
from . import budgets, event_json

_HISTORY = 400  # messages; an agent does not see older ones


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn that was accepted and has not ended."""

    session_id: str
    task_id: str
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The last step of a turn, the tasks of its tool runs, and the tokens it used."""

    end: Reply | Failure
    tool_task_ids: tuple[str, ...] = ()
    tokens: int = 0


def accept(tx: Transaction, session_id: str, text: str, principal: Principal) -> tuple[Published, PendingTurn]:
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
    row = {"task_id": task_id, "session_id": session_id, "message_id": message.id, "created_at": tx.clock.instant()}
    tx.db.execute(insert(pending_turns), row)
    return message, PendingTurn(session_id, task_id, message.id, text)


def unfinished_turns(db: Connection) -> list[PendingTurn]:
    """The pending turns of an earlier run of the service, in order."""
    rows = db.execute(select(pending_turns).order_by(pending_turns.c.message_id)).mappings()
    return [PendingTurn(row["session_id"], row["task_id"], row["message_id"], "") for row in rows]


def read_request(db: Connection, store: Store, turn: PendingTurn, *, seed: int, pace: float) -> tuple[str, TurnRequest]:
    """The name of the agent's engine, and everything the turn may depend on."""
    query = (
        select(
            agents.c.name,
            agents.c.engine,
            agents.c.id,
            agents.c.owner_id.label("agent_owner_id"),
            workspaces.c.name.label("workspace_name"),
            workspaces.c.owner_id,
            workspaces.c.unlimited_power_mode,
        )
        .select_from(sessions)
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(agents, agents.c.id == sessions.c.agent_id)
        .where(sessions.c.id == turn.session_id)
    )
    row = db.execute(query).mappings().one()
    version: Any = _newest_version(db, row["id"]) or {}
    history = _history(db, turn)
    transcript = "\n".join(message.text for message in history)
    rng_key = f"{seed}|{row['name']}|{version.get('version_number')}|{transcript}|{turn.text}"
    return row["engine"], TurnRequest(
        session_id=turn.session_id,
        task_id=turn.task_id,
        account_id=row["owner_id"],
        workspace_name=row["workspace_name"],
        agent_name=row["name"],
        message=turn.text,
        history=history,
        system_prompt=version.get("system_prompt"),
        mode=version.get("mode", "one-shot"),
        tools=msgspec.json.decode(version.get("tools_json", "[]")),
        platform_tools=msgspec.json.decode(version.get("platform_tools_json", "[]")),
        unlimited_power_mode=row["unlimited_power_mode"],
        activity=store.activity(row["owner_id"]),
        rng=random.Random(hashlib.sha256(rng_key.encode()).digest()),  # noqa: S311 - repeatable on purpose
        pace=pace,
        prompt_is_visible=(version.get("prompt_owner_id") or row["agent_owner_id"]) == row["owner_id"],
    )


def _newest_version(db: Connection, agent_id: str) -> RowMapping | None:
    query = (
        select(agent_versions)
        .where(agent_versions.c.agent_id == agent_id, agent_versions.c.type == "COMMITTED")
        .order_by(agent_versions.c.id.desc())
        .limit(1)
    )
    return db.execute(query).mappings().first()


def _history(db: Connection, turn: PendingTurn) -> list[Message]:
    """The messages and replies before the turn's own message, oldest first."""
    rows = events.texts_before(db, turn.session_id, turn.message_id, _HISTORY)
    return [Message("user" if type_ == "message" else "assistant", text) for type_, text in rows]


def write_outcome(tx: Transaction, turn: PendingTurn, outcome: TurnOutcome) -> None:
    """Store the events of a finished turn, charge its tokens, end its pending state."""
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

    for task_id in outcome.tool_task_ids:
        append("runtime_done", task_id, event_json.done)
    match outcome.end:
        case Reply(text):
            append("runtime_done", turn.task_id, event_json.done, text=text)
        case Failure(status, error, message):
            fields = {"status": status, "error": error, "message": replace_surrogates(message)}
            append("runtime_error", turn.task_id, event_json.failed, **fields)
    if outcome.tokens:
        budgets.spend(tx, turn.session_id, outcome.tokens)
    tx.db.execute(delete(pending_turns).where(pending_turns.c.task_id == turn.task_id))
    tx.db.execute(update(sessions).where(sessions.c.id == turn.session_id).values(updated_at=tx.clock.instant()))

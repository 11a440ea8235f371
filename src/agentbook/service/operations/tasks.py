"""Tasks of a session, derived from its events: each turn, and each tool run in it.

The scope ``sessions:read`` covers them; the specification shows no path. Specification:
"Authentication", rule 4; "Events", rule 3.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func, select

from ..store.tables import events, pending_turns
from . import access
from .registry import OperationCall, page, reads


@reads("listTasks")
def list_tasks(call: OperationCall) -> dict[str, Any]:
    """List the tasks of a session, newest first."""
    session = access.require_session(call.db, call.caller, call.path["session_id"])
    running = select(pending_turns.c.task_id).where(pending_turns.c.session_id == session["id"])
    query = (
        select(
            events.c.task_id.label("id"),
            func.min(events.c.created_at).label("created_at"),
            func.max(events.c.created_at).label("updated_at"),
            _any_is("message").label("is_turn"),
            case(
                (events.c.task_id.in_(running), "RUNNING"),
                (_any_is("runtime_error") == 1, "FAILED"),
                (_any_is("runtime_done") == 1, "DONE"),
                else_="LOST",
            ).label("status"),
        )
        .where(events.c.session_id == session["id"], events.c.task_id.is_not(None))
        .group_by(events.c.task_id)
        .order_by(func.min(events.c.id).desc())
    )
    rows, total = access.fetch_page(call, query)
    return page((_record(row, session["id"]) for row in rows), total, call.query)


def _any_is(type_: str) -> ColumnElement[int]:
    """Whether one of a task's events has this type, as 0 or 1."""
    return func.max(case((events.c.type == type_, 1), else_=0))


def _record(row: access.Row, session_id: str) -> dict[str, Any]:
    return {
        "id": row["id"],
        "session_id": session_id,
        "type": "turn" if row["is_turn"] else "tool",
        "status": row["status"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }

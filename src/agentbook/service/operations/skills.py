"""Skills: list and create."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select

from ..store.tables import skills
from . import access, records
from .registry import OperationCall, page, reads, writes


@reads("listSkills")
def list_skills(call: OperationCall) -> dict[str, Any]:
    """List the skills of an account; of other accounts only the public ones."""
    account = access.require_account(call, call.path["account_id_or_name"])
    params = call.query
    query = select(skills).where(skills.c.owner_id == account["id"])
    if account["id"] != call.caller.account_id:
        query = query.where(skills.c.is_public)
    if params["search"] is not None:
        query = query.where(*access.contains_words(params["search"], skills.c.name, skills.c.overview))
    if params["archived"] is not None:
        query = query.where(skills.c.archived_at.is_not(None) if params["archived"] else skills.c.archived_at.is_(None))
    rows, total = access.fetch_page(call, access.order_by_column(query, skills, params["sort_by"], "name"))
    return page(_records(call, rows), total, params)


@writes("createSkill")
def create_skill(call: OperationCall) -> dict[str, Any]:
    """Create a skill of the caller's account."""
    account = access.require_account(call, call.path["account_id_or_name"])
    owner_id = access.require_own_account(call, account["id"], "create a skill")
    body, caller = call.body, call.caller
    if body["is_public"]:
        access.require_admin(call, owner_id, "make a skill public")
    access.require_unused_name(call, skills, owner_id, body["name"], "Skill")
    now = call.writing.clock.instant()
    row = {
        "id": call.writing.clock.new_id(),
        "owner_id": owner_id,
        "creator_id": caller.id,
        **records.pick(body, "name", "overview", "avatar_url", "is_public"),
        "archived_at": None,
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(skills), row)
    return _records(call, [row])[0]


def _records(call: OperationCall, rows: list[access.Row] | list[dict[str, Any]]) -> list[records.Record]:
    owners = records.accounts_by_id(call.db, (row["owner_id"] for row in rows), call.caller)
    return [
        {
            **records.pick(row, "id", "name"),
            "full_name": f"{owners[row['owner_id']]['name']}~{row['name']}",
            **records.pick(row, "overview", "avatar_url", "owner_id"),
            "owner": owners[row["owner_id"]],
            **records.pick(row, "creator_id", "is_public", "archived_at", "created_at", "updated_at"),
        }
        for row in rows
    ]

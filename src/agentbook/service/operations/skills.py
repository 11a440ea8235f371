"""Skills: list and create."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select

from .. import errors
from ..store.tables import skills
from . import access, records
from .registry import Call, page, reads, writes


@reads("listSkills")
def list_skills(call: Call) -> dict[str, Any]:
    """Skills of an account; of another account than the caller's only the public ones."""
    account = access.account_or_404(call, call.path["account_id_or_name"])
    given = call.query
    query = select(skills).where(skills.c.owner_id == account["id"])
    if account["id"] != call.caller.account_id:
        query = query.where(skills.c.is_public)
    if given["search"] is not None:
        query = query.where(*access.words_in(given["search"], skills.c.name, skills.c.overview))
    if given["archived"] is not None:
        query = query.where(skills.c.archived_at.is_not(None) if given["archived"] else skills.c.archived_at.is_(None))
    rows, total = access.counted_page(call.db, access.sorted_by(query, skills, given["sort_by"], "name"), given)
    return page(_records(call, rows), total, given)


@writes("createSkill")
def create_skill(call: Call) -> dict[str, Any]:
    """A new skill of the caller's account."""
    account = access.account_or_404(call, call.path["account_id_or_name"])
    owner_id = access.own_account(call, account["id"], "create a skill")
    body, caller = call.body, call.caller
    if body["is_public"]:
        access.admin_or_403(call, owner_id, "make a skill public")
    taken = select(skills.c.id).where(skills.c.owner_id == owner_id, skills.c.name == body["name"])
    if call.db.execute(taken).first() is not None:
        raise errors.name_taken("Skill", f"{account['name']}~{body['name']}")
    now = call.writing.clock.instant()
    row = {
        "id": call.writing.clock.new_id(),
        "owner_id": owner_id,
        "creator_id": caller.id,
        "name": body["name"],
        "overview": body["overview"],
        "avatar_url": body["avatar_url"],
        "is_public": body["is_public"],
        "archived_at": None,
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(skills), row)
    return _records(call, [row])[0]


def _records(call: Call, rows: list[access.Row] | list[dict[str, Any]]) -> list[records.Record]:
    owners = records.accounts_by_id(call.db, (row["owner_id"] for row in rows), call.caller)
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "full_name": f"{owners[row['owner_id']]['name']}~{row['name']}",
            "overview": row["overview"],
            "avatar_url": row["avatar_url"],
            "owner_id": row["owner_id"],
            "owner": owners[row["owner_id"]],
            "creator_id": row["creator_id"],
            "is_public": row["is_public"],
            "archived_at": row["archived_at"],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]

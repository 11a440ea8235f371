"""Skills and their versions: list and create."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update

from .. import errors
from ..store.tables import skill_versions, skills
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
    return page(_records(call, rows), total, call.query)


@writes("createSkill")
def create_skill(call: OperationCall) -> dict[str, Any]:
    """Create a skill of the caller's account."""
    account = access.require_account(call, call.path["account_id_or_name"])
    owner_id = access.require_own_account(call, account["id"], "create a skill")
    body, caller = call.body, call.caller
    if body["is_public"]:
        access.require_admin(call, owner_id, "make a skill public")
    access.require_unused_name(call, skills, owner_id, body["name"], "Skill")
    row = call.writing.insert(
        skills,
        owner_id=owner_id,
        creator_id=caller.id,
        **records.pick(body, "name", "overview", "avatar_url", "is_public"),
        archived_at=None,
    )
    _insert_version(call, row["id"], body["overview"], "1.0.0")
    return _records(call, [row])[0]


@reads("listSkillVersions")
def list_skill_versions(call: OperationCall) -> dict[str, Any]:
    """List the versions of a skill, newest first; 404 if the skill is not visible."""
    skill = _require_skill(call)
    query = select(skill_versions).where(skill_versions.c.skill_id == skill["id"])
    rows, total = access.fetch_page(call, query.order_by(skill_versions.c.id.desc()))
    return page((_version(row) for row in rows), total, call.query)


@writes("createSkillVersion")
def create_skill_version(call: OperationCall) -> dict[str, Any]:
    """Create a version of a skill of the caller's account."""
    skill, overview = _require_skill(call), call.body["overview"]
    if skill["owner_id"] != call.caller.account_id:
        raise errors.forbidden("This skill belongs to another account")
    version = _insert_version(call, skill["id"], overview, call.body["version_number"])
    changes = {"overview": overview, "updated_at": version["created_at"]}
    call.db.execute(update(skills).where(skills.c.id == skill["id"]).values(changes))
    return version


def _require_skill(call: OperationCall) -> access.Row:
    """Return the visible skill of the path: the account's own, or a public one."""
    account = access.require_account(call, call.path["account_id_or_name"])
    query = select(skills).where(
        access.matches(skills, call.path["skill_id_or_name"]), skills.c.owner_id == account["id"]
    )
    if account["id"] != call.caller.account_id:
        query = query.where(skills.c.is_public)
    row = call.db.execute(query).mappings().first()
    if row is None:
        raise errors.not_found("Skill")
    return row


def _insert_version(call: OperationCall, skill_id: str, overview: str | None, number: str) -> records.Record:
    row = call.writing.insert(
        skill_versions, skill_id=skill_id, creator_id=call.caller.id, version_number=number, overview=overview
    )
    return _version(row)


def _version(row: access.Row | dict[str, Any]) -> records.Record:
    columns = ("id", "skill_id", "creator_id", "version_number", "overview", "created_at", "updated_at")
    return records.pick(row, *columns)


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

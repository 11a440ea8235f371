"""Rows of the store as the records of the specification ("Resources and their fields").

Records embed related entities. They are fetched for a whole page at once, never row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from ..auth import Principal
from ..store.tables import accounts, agent_versions, agents, api_keys, memberships, workspace_agents

Row = Mapping[Any, Any]
Record = dict[str, Any]

# website_url, and one for each of six external social or code-hosting networks.
LINKS = ("website_url", "github_url", "gitlab_url", "linkedin_url", "mastodon_url", "x_url", "youtube_url")


def accounts_by_id(db: Connection, wanted: Iterable[str | None], viewer: Principal | None) -> dict[str, Record]:
    """The Account records of these ids, as `viewer` sees them."""
    chosen = sorted({id_ for id_ in wanted if id_ is not None})
    if not chosen:
        return {}
    rows = db.execute(select(accounts).where(accounts.c.id.in_(chosen))).mappings().all()
    counted = _Counts(db, chosen, viewer)
    return {row["id"]: _account(row, counted) for row in rows}


class _Counts:
    """What an Account record says that is counted, for a page of accounts."""

    def __init__(self, db: Connection, chosen: Sequence[str], viewer: Principal | None) -> None:
        members = select(memberships).where(memberships.c.organization_id.in_(chosen))
        self.memberships = db.execute(members).mappings().all()
        self.viewer_id = viewer.account_id if viewer else None
        installs = (
            select(agents.c.owner_id, agents.c.is_public, func.count())
            .join(workspace_agents, workspace_agents.c.agent_id == agents.c.id)
            .where(agents.c.owner_id.in_(chosen))
            .group_by(agents.c.owner_id, agents.c.is_public)
        )
        fork = agents.alias("fork")
        forks = (
            select(agents.c.owner_id, fork.c.is_public, func.count())
            .join(agent_versions, agent_versions.c.agent_id == agents.c.id)
            .join(fork, fork.c.forked_from_version == agent_versions.c.id)
            .where(agents.c.owner_id.in_(chosen))
            .group_by(agents.c.owner_id, fork.c.is_public)
        )
        self.installs = {(owner, bool(public)): count for owner, public, count in db.execute(installs)}
        self.forks = {(owner, bool(public)): count for owner, public, count in db.execute(forks)}


def _account(row: Row, counted: _Counts) -> Record:
    id_ = row["id"]
    is_organization = row["type"] == "organization"
    members = [m for m in counted.memberships if m["organization_id"] == id_]
    own = next((m for m in members if m["user_id"] == counted.viewer_id), None)
    links: dict[str, Any] = msgspec.json.decode(row["links_json"])
    public_forks, public_installs = counted.forks.get((id_, True), 0), counted.installs.get((id_, True), 0)
    return {
        "id": id_,
        "type": row["type"],
        "name": row["name"],
        "full_name": row["full_name"],
        "creator_id": row["creator_id"],
        "bio": row["bio"],
        "avatar_url": row["avatar_url"],
        "banner_url": row["banner_url"],
        "email_domain": row["email_domain"],
        **dict.fromkeys(LINKS),
        **links,
        "cached_forks_count": public_forks + counted.forks.get((id_, False), 0),
        "cached_forks_public_count": public_forks,
        "cached_installs_count": public_installs + counted.installs.get((id_, False), 0),
        "cached_installs_public_count": public_installs,
        "cached_likes_count": 0,  # nothing in the API likes anything
        "cached_likes_public_count": 0,
        "member_count": len(members) if is_organization else None,
        "viewer_membership_id": own["id"] if own else None,
        "viewer_membership_public": own["is_public"] if own else None,
        "viewer_role": own["role"] if own else "ADMIN" if id_ == counted.viewer_id else None,
        "closure_requested_at": row["closure_requested_at"],
        "closure_requested_by_id": row["closure_requested_by_id"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


def people_by_id(db: Connection, wanted: Iterable[str | None]) -> dict[str, Record]:
    """``{id, type, name}`` of users, organizations and keys alike."""
    chosen = sorted({id_ for id_ in wanted if id_ is not None})
    if not chosen:
        return {}
    found: dict[str, Record] = {}
    for row in db.execute(select(accounts.c.id, accounts.c.type, accounts.c.name).where(accounts.c.id.in_(chosen))):
        found[row.id] = {"id": row.id, "type": row.type, "name": row.name}
    for key in db.execute(select(api_keys.c.id, api_keys.c.name).where(api_keys.c.id.in_(chosen))):
        found[key.id] = {"id": key.id, "type": "api_key", "name": key.name}
    return found


def workspaces(db: Connection, rows: Sequence[Row], viewer: Principal | None) -> list[Record]:
    """Workspace records."""
    owners = accounts_by_id(db, (row["owner_id"] for row in rows), viewer)
    people = people_by_id(db, (row[column] for row in rows for column in ("creator_id", "archived_by_id")))
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "full_name": f"{owners[row['owner_id']]['name']}~{row['name']}",
            "owner_id": row["owner_id"],
            "owner": owners[row["owner_id"]],
            "creator_id": row["creator_id"],
            "creator": people.get(row["creator_id"]) or {"id": row["creator_id"], "type": row["creator_type"]},
            "restrict_account_credentials": row["restrict_account_credentials"],
            "should_restrict_members": row["should_restrict_members"],
            "unlimited_power_mode": row["unlimited_power_mode"],
            "unlimited_power_mode_enabled": row["unlimited_power_mode"],
            "required_credentials_mode": row["required_credentials_mode"],
            "is_viewer_member": viewer is not None
            and (row["owner_id"] == viewer.account_id or owners[row["owner_id"]]["viewer_membership_id"] is not None),
            "archived_at": row["archived_at"],
            "archived_by_id": row["archived_by_id"],
            "archived_by": people.get(row["archived_by_id"]),
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]


def agents_(db: Connection, rows: Sequence[Row], viewer: Principal | None) -> list[Record]:
    """Agent records."""
    owners = accounts_by_id(db, (row["owner_id"] for row in rows), viewer)
    versions = (
        select(agent_versions.c.agent_id, agent_versions.c.version_number, agent_versions.c.published_at)
        .where(agent_versions.c.agent_id.in_([row["id"] for row in rows]), agent_versions.c.type == "COMMITTED")
        .order_by(agent_versions.c.id)
    )
    latest: dict[str, str] = {}
    published: dict[str, str] = {}
    for agent_id, number, published_at in db.execute(versions):
        latest[agent_id] = number
        if published_at is not None:
            published[agent_id] = number
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "full_name": f"{owners[row['owner_id']]['name']}~{row['name']}",
            "description": row["description"],
            "owner_id": row["owner_id"],
            "owner": owners[row["owner_id"]],
            "creator_id": row["creator_id"],
            "maintainer_id": row["maintainer_id"],
            "avatar_url": row["avatar_url"],
            "category": row["category"],
            "tags": msgspec.json.decode(row["tags_json"]),
            "template": row["template"],
            "setup_state": row["setup_state"],
            "forked_from_version": row["forked_from_version"],
            "is_public": row["is_public"],
            "is_archived": row["is_archived"],
            "is_pinned": row["is_pinned"],
            "latest_version": latest.get(row["id"]),
            "published_version": published.get(row["id"]),
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]


def version(row: Row, *, with_prompt: bool) -> Record:
    """An agent version; its system prompt is its owner's alone."""
    return {
        "id": row["id"],
        "agent_id": row["agent_id"],
        "creator_id": row["creator_id"],
        "type": row["type"],
        "version_number": row["version_number"],
        "description": row["description"],
        "summary": row["summary"],
        "system_prompt": row["system_prompt"] if with_prompt else None,
        "mode": row["mode"],
        "tools": msgspec.json.decode(row["tools_json"]),
        "platform_tools": msgspec.json.decode(row["platform_tools_json"]),
        "validation": row["validation"],
        "published_at": row["published_at"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


def sessions(db: Connection, rows: Sequence[Row]) -> list[Record]:
    """Session records; a row may carry ``turn``, the task of its running turn."""
    people = people_by_id(db, (row["initiator_id"] for row in rows))
    return [
        {
            "id": row["id"],
            "workspace_id": row["workspace_id"],
            "initiator_id": row["initiator_id"],
            "initiator": {
                "id": row["initiator_id"],
                "type": row["initiator_type"],
                "name": people.get(row["initiator_id"], {}).get("name"),
            },
            "name": row["name"],
            "type": row["type"],
            "agent_id": row["agent_id"],
            "status": "RUNNING" if row["turn"] else "IDLE",
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]


def invitations(db: Connection, rows: Sequence[Row]) -> list[Record]:
    """Invitation records."""
    people = people_by_id(db, (row["invitee_id"] for row in rows))
    return [
        {
            "id": row["id"],
            "organization_id": row["organization_id"],
            "invitee_id": row["invitee_id"],
            "invitee": people.get(row["invitee_id"]) or {"id": row["invitee_id"]},
            "creator_id": row["creator_id"],
            "role": row["role"],
            "status": row["status"],
            "type": row["type"],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]

"""Turns rows of the store into records ("Resources and their fields").

Records embed related entities, which are fetched once for a whole page.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    literal,
    select,
    true,
    union_all,
)

from ..auth import Principal
from ..store.engine import fetch
from ..store.tables import (
    accounts,
    agent_versions,
    agents,
    api_keys,
    memberships,
    workspace_agents,
    workspace_members,
)

Row = Mapping[Any, Any]
Record = dict[str, Any]

# website_url, and one URL for each of six external social or code-hosting networks.
LINKS = ("website_url", "github_url", "gitlab_url", "linkedin_url", "mastodon_url", "x_url", "youtube_url")


def pick(row: Row, *columns: str) -> Record:
    """Return these columns of a row."""
    return {column: row[column] for column in columns}


# Building these takes longer than running them, and most records need them.
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_own = memberships.alias("own")
_fork = agents.alias("fork")


def _accounts_and_counts(
    is_one_of: Callable[[ColumnElement[Any]], ColumnElement[bool]],
) -> tuple[Select[Any], Select[Any]]:
    """Queries of accounts, and of their members, installs and forks of their agents."""
    chosen = (
        select(
            accounts, _own.c.id.label("own_id"), _own.c.is_public.label("own_is_public"), _own.c.role.label("own_role")
        )
        .outerjoin(_own, (_own.c.organization_id == accounts.c.id) & (_own.c.user_id == bindparam("viewer_id")))
        .where(is_one_of(accounts.c.id))
    )
    counted = union_all(
        select(
            memberships.c.organization_id.label("id"), literal("members").label("what"), true().label("is_public")
        ).where(is_one_of(memberships.c.organization_id)),
        select(agents.c.owner_id, literal("installs"), agents.c.is_public)
        .join(workspace_agents, workspace_agents.c.agent_id == agents.c.id)
        .where(is_one_of(agents.c.owner_id)),
        select(agents.c.owner_id, literal("forks"), _fork.c.is_public)
        .join(agent_versions, agent_versions.c.agent_id == agents.c.id)
        .join(_fork, _fork.c.forked_from_version == agent_versions.c.id)
        .where(is_one_of(agents.c.owner_id)),
    ).subquery()
    return chosen, select(counted, func.count().label("count")).group_by(*counted.c)


_SOME_ACCOUNTS = _accounts_and_counts(lambda column: column.in_(_IDS))
_ONE_ACCOUNT = _accounts_and_counts(lambda column: column == bindparam("id"))  # which runs faster
_COMMITTED = (
    select(agent_versions.c.id, agent_versions.c.agent_id, agent_versions.c.created_at)
    .where(agent_versions.c.type == "COMMITTED", agent_versions.c.agent_id.in_(_IDS))
    .order_by(agent_versions.c.created_at, agent_versions.c.id)
)
_PEOPLE = select(accounts.c.id, accounts.c.type, accounts.c.name).where(accounts.c.id.in_(_IDS))
_KEYS = select(api_keys.c.id, api_keys.c.name).where(api_keys.c.id.in_(_IDS))
# Of each agent, the newest version that is published, and the newest that is not.
_NEWEST = (
    select(func.max(agent_versions.c.id))
    .where(agent_versions.c.agent_id.in_(_IDS), agent_versions.c.type == "COMMITTED")
    .group_by(agent_versions.c.agent_id, agent_versions.c.published_at.is_(None))
)
_VERSIONS = (
    select(agent_versions.c.agent_id, agent_versions.c.version_number, agent_versions.c.published_at)
    .where(agent_versions.c.id.in_(_NEWEST))
    .order_by(agent_versions.c.id)
)


def accounts_by_id(db: Connection, account_ids: Iterable[str | None], viewer: Principal | None) -> dict[str, Record]:
    """Return the Account records of these ids, as `viewer` sees them."""
    chosen = sorted({id_ for id_ in account_ids if id_ is not None})
    if not chosen:
        return {}
    viewer_id = viewer.account_id if viewer else None
    counts: Counter[tuple[str, str, bool]] = Counter()  # of an account, what is counted, and whether it is public
    parameters = {"id": chosen[0], "ids": chosen, "viewer_id": viewer_id}
    rows: Sequence[Row]
    counted: Sequence[Row]
    if len(chosen) == 1:
        rows, counted = (fetch(db, query, parameters) for query in _ONE_ACCOUNT)
    else:
        rows, counted = (db.execute(query, parameters).mappings().all() for query in _SOME_ACCOUNTS)
    for row in counted:
        counts[row["id"], row["what"], bool(row["is_public"])] = row["count"]
    return {row["id"]: _account(row, viewer_id, counts) for row in rows}


def _account(row: Row, viewer_id: str | None, counts: Counter[tuple[str, str, bool]]) -> Record:
    id_ = row["id"]
    links: dict[str, Any] = msgspec.json.decode(row["links_json"])
    return {
        **pick(row, "id", "type", "name", "full_name", "creator_id", "bio", "avatar_url", "banner_url", "email_domain"),
        **dict.fromkeys(LINKS),
        **links,
        "cached_forks_count": counts[id_, "forks", True] + counts[id_, "forks", False],
        "cached_forks_public_count": counts[id_, "forks", True],
        "cached_installs_count": counts[id_, "installs", True] + counts[id_, "installs", False],
        "cached_installs_public_count": counts[id_, "installs", True],
        "cached_likes_count": 0,  # the API has no likes
        "cached_likes_public_count": 0,
        "member_count": counts[id_, "members", True] if row["type"] == "organization" else None,
        "viewer_membership_id": row["own_id"],
        "viewer_membership_public": None if row["own_id"] is None else bool(row["own_is_public"]),
        "viewer_role": row["own_role"] or ("ADMIN" if row["id"] == viewer_id else None),
        **pick(row, "closure_requested_at", "closure_requested_by_id", "created_at", "updated_at"),
    }


def people_by_id(db: Connection, account_ids: Iterable[str | None]) -> dict[str, Record]:
    """Return ``{id, type, name}`` of users, organizations and keys."""
    chosen = sorted({id_ for id_ in account_ids if id_ is not None})
    if not chosen:
        return {}
    people = [(row.id, row.type, row.name) for row in db.execute(_PEOPLE, {"ids": chosen})]
    people += [(key.id, "api_key", key.name) for key in db.execute(_KEYS, {"ids": chosen})]
    return {id_: {"id": id_, "type": kind, "name": name} for id_, kind, name in people}


def workspace_records(db: Connection, rows: Sequence[Row], viewer: Principal | None) -> list[Record]:
    """Return Workspace records."""
    owners = accounts_by_id(db, (row["owner_id"] for row in rows), viewer)
    people = people_by_id(db, (row[column] for row in rows for column in ("creator_id", "archived_by_id")))
    member_of = _memberships(db, rows, owners, viewer)
    return [
        {
            **pick(row, "id", "name"),
            "full_name": f"{owners[row['owner_id']]['name']}~{row['name']}",
            "owner_id": row["owner_id"],
            "owner": owners[row["owner_id"]],
            "creator_id": row["creator_id"],
            "creator": people.get(row["creator_id"]) or {"id": row["creator_id"], "type": row["creator_type"]},
            **pick(row, "restrict_account_credentials", "should_restrict_members", "unlimited_power_mode"),
            "unlimited_power_mode_enabled": row["unlimited_power_mode"],
            "required_credentials_mode": row["required_credentials_mode"],
            "is_viewer_member": row["id"] in member_of,
            **pick(row, "archived_at", "archived_by_id"),
            "archived_by": people.get(row["archived_by_id"]),
            **pick(row, "created_at", "updated_at"),
        }
        for row in rows
    ]


def _memberships(
    db: Connection, rows: Sequence[Row], owners: Mapping[str, Record], viewer: Principal | None
) -> set[str]:
    """Return which of these workspaces the viewer is a member of.

    That is: those of the viewer's account, those that list it as a member, and open
    ones of its organizations.
    """
    if viewer is None:
        return set()
    listed = select(workspace_members.c.workspace_id).where(
        workspace_members.c.user_id == viewer.account_id,
        workspace_members.c.workspace_id.in_([row["id"] for row in rows]),
    )
    member_of = set(db.execute(listed).scalars())
    for row in rows:
        is_colleague = owners[row["owner_id"]]["viewer_membership_id"] is not None
        if row["owner_id"] == viewer.account_id or (is_colleague and not row["should_restrict_members"]):
            member_of.add(row["id"])
    return member_of


# Engine -> messages to begin with, which a chat offers.
_STARTERS = {
    "guide": ["What is a turn?", "How do I stream a session?", "How do I load my sessions into pandas?"],
    "scribe": ["Which is later, Monday or Sunday?", "Write to a customer whose order is late."],
    "echo": ["Hello!", "**Bold**, `code` and $x^2$"],
    "calculator": ["What is 12 * (3 + 4)?"],
    "verbose": ["Run 20 subtasks."],
    "slow": ["Wait for 5 seconds."],
    "flaky": ["Do you answer this time?"],
    "limits": ["turn_timeout"],
}


def agent_records(db: Connection, rows: Sequence[Row], viewer: Principal | None) -> list[Record]:
    """Return Agent records."""
    owners = accounts_by_id(db, (row["owner_id"] for row in rows), viewer)
    latest: dict[str, str] = {}
    published: dict[str, str] = {}
    for agent_id, number, published_at in db.execute(_VERSIONS, {"ids": [row["id"] for row in rows]}):
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
            "starter_prompts": _STARTERS.get(row["engine"], []),
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


def version_record(row: Row, owner_id: str, viewer: Principal | None) -> Record:
    """Return an AgentVersion record of an agent of this owner.

    Only the account that wrote the system prompt sees it, with agents:read. An account
    that forks another account's agent runs its prompt but cannot read it.
    """
    writer_id = row["prompt_owner_id"] or owner_id
    may_read = viewer is not None and viewer.account_id == writer_id and viewer.may("agents:read")
    return {
        **pick(row, "id", "agent_id", "creator_id", "type", "version_number", "description", "summary"),
        "system_prompt": row["system_prompt"] if may_read else None,
        "mode": row["mode"],
        "tools": msgspec.json.decode(row["tools_json"]),
        "platform_tools": msgspec.json.decode(row["platform_tools_json"]),
        "model": row["model"],
        **{name: row[name] for name in ("temperature", "max_tokens", "top_p") if row[name] is not None},
        **pick(row, "validation", "published_at", "created_at", "updated_at"),
    }


def session_records(db: Connection, rows: Sequence[Row]) -> list[Record]:
    """Return Session records; the rows have ``turn``, the task of a running turn."""
    people = people_by_id(db, (row["initiator_id"] for row in rows))
    committed: dict[str, list[tuple[str, str]]] = {}  # of each agent: when its versions were committed, and their ids
    unnamed = {row["agent_id"] for row in rows if row["agent_version_id"] is None}
    for id_, agent_id, created_at in db.execute(_COMMITTED, {"ids": list(unnamed)}):
        committed.setdefault(agent_id, []).append((created_at, id_))

    def version_of(row: Row) -> str | None:
        versions = committed.get(row["agent_id"], ())
        at_start = bisect_right(versions, row["created_at"], key=itemgetter(0))
        return row["agent_version_id"] or (versions[at_start - 1][1] if at_start else None)

    return [
        {
            **pick(row, "id", "workspace_id", "initiator_id"),
            "initiator": {
                "id": row["initiator_id"],
                "type": row["initiator_type"],
                "name": people.get(row["initiator_id"], {}).get("name"),
            },
            **pick(row, "name", "type", "agent_id"),
            "agent_version_id": version_of(row),
            "status": "RUNNING" if row["turn"] else "IDLE",
            **pick(row, "created_at", "updated_at"),
        }
        for row in rows
    ]


def invitation_records(db: Connection, rows: Sequence[Row]) -> list[Record]:
    """Return Invitation records."""
    people = people_by_id(db, (row["invitee_id"] for row in rows))
    return [
        {
            **pick(row, "id", "organization_id", "invitee_id"),
            "invitee": people.get(row["invitee_id"]) or {"id": row["invitee_id"]},
            **pick(row, "creator_id", "role", "status", "type", "created_at", "updated_at"),
        }
        for row in rows
    ]

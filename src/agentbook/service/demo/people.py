# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Who there is: accounts, who belongs to which organization, keys, invitations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .rows import as_json, insert
from .seeded_ids import DAY_MS, HOUR_MS, Mint

# name -> (full name, what the profile says)
_USERS: dict[str, tuple[str, str]] = {
    "ada": ("Ada Lindgren", "Head of support. Writes everything down."),
    "grace": ("Grace Okonkwo", "Runs operations."),
    "alan": ("Alan Brandt", "Data analyst."),
    "katherine": ("Katherine Moreau", "Data scientist, orbits and orders."),
    "edsger": ("Edsger Vos", "Platform engineer."),
    "barbara": ("Barbara Nyström", "Release manager."),
    "margaret": ("Margaret Keane", "On-call lead."),
    "tim": ("Tim Laurent", "Sales, northern region."),
    "hedy": ("Hedy Karlsson", "Radio and sensors."),
    "charles": ("Charles Abbot", ""),  # left acme; credentials of his are still there
    "radia": ("Radia Castell", "Keeps the shop of Northwind running."),
    "linus": ("Linus Hald", ""),
}
_ORGANIZATIONS: dict[str, tuple[str, str]] = {
    "acme": ("Acme Instruments", "Balances, sensors and the software around them. Demo data: nothing here is real."),
    "northwind": (
        "Northwind Goods",
        "A shop. Demo data of a second organization, whose private things acme never sees.",
    ),
}
# organization -> user -> role
_MEMBERS: dict[str, dict[str, str]] = {
    "acme": {
        "ada": "ADMIN", "grace": "ADMIN", "alan": "MEMBER", "katherine": "MEMBER", "edsger": "MEMBER", "barbara": "MEMBER",
        "margaret": "MEMBER", "tim": "MEMBER",
    },
    "northwind": {"radia": "ADMIN", "linus": "MEMBER", "edsger": "MEMBER"},
}  # fmt: skip
# (account, kind, name, scopes, days ago created, revoked)
_KEYS: tuple[tuple[str, str, str, tuple[str, ...], int, bool], ...] = (
    ("acme", "account", "support-desk", ("agents:read", "sessions:write", "workspaces:read"), 120, False),
    ("acme", "account", "nightly-report", ("agents:read", "workspaces:read", "integrations:read"), 88, False),
    ("acme", "account", "notebooks", ("agents:write", "sessions:write", "workspaces:write", "skills:read", "integrations:read"), 40, False),
    ("acme", "account", "old-laptop", ("agents:write", "sessions:write", "workspaces:write"), 300, True),
    ("acme", "account", "no-scopes", (), 12, False),
    ("acme", "trigger", "build-server", (), 90, False),
    ("acme", "trigger", "alert-relay", (), 95, False),
    ("acme", "trigger", "weekday-digest", (), 95, False),
    ("northwind", "account", "shop-front", ("agents:read", "sessions:write", "workspaces:read"), 60, False),
)  # fmt: skip
# (organization, invitee, inviter, role, status, days ago)
_INVITATIONS: tuple[tuple[str, str, str, str, str, int], ...] = (
    ("acme", "tim", "ada", "MEMBER", "ACCEPTED", 210),
    ("acme", "barbara", "grace", "MEMBER", "ACCEPTED", 190),
    ("acme", "hedy", "ada", "MEMBER", "PENDING", 3),
    ("acme", "radia", "grace", "ADMIN", "PENDING", 16),
    ("acme", "linus", "ada", "MEMBER", "DECLINED", 44),
    ("acme", "hedy", "grace", "ADMIN", "EXPIRED", 75),
    ("acme", "charles", "ada", "MEMBER", "EXPIRED", 130),
    ("northwind", "ada", "radia", "MEMBER", "PENDING", 5),
    ("northwind", "edsger", "radia", "MEMBER", "ACCEPTED", 61),
    ("northwind", "alan", "radia", "ADMIN", "DECLINED", 30),
)


@dataclass(frozen=True, slots=True)
class People:
    """Ids by name."""

    accounts: Mapping[str, str]
    keys: Mapping[str, str]

    def author(self, kind: str, name: str) -> dict[str, str]:
        """An event's author: ``kind`` is ``user``, ``api_key`` or ``trigger``."""
        return {"type": kind, "id": (self.accounts if kind == "user" else self.keys)[name], "name": name}


def write(connection: Connection, mint: Mint, now_ms: int) -> People:
    """Accounts, memberships, keys and invitations."""
    accounts = _accounts(mint, now_ms)
    ids = {row["name"]: row["id"] for row in accounts}
    insert(connection, tables.accounts, accounts)
    insert(connection, tables.memberships, _memberships(mint, now_ms, ids))
    keys = _keys(mint, now_ms, ids)
    insert(connection, tables.api_keys, keys)
    insert(connection, tables.invitations, _invitations(mint, now_ms, ids))
    return People(ids, {row["name"]: row["id"] for row in keys})


def _times(mint: Mint, created_ms: int, updated_ms: int | None = None) -> dict[str, str]:
    return {"created_at": mint.instant(created_ms), "updated_at": mint.instant(updated_ms or created_ms)}


def _accounts(mint: Mint, now_ms: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    named = [(name, "user", *facts) for name, facts in _USERS.items()]
    named += [(name, "organization", *facts) for name, facts in _ORGANIZATIONS.items()]
    first: str | None = None
    for number, (name, kind, full_name, bio) in enumerate(named):
        created = now_ms - (400 - 7 * number) * DAY_MS - mint.rng.randrange(DAY_MS)
        id_ = mint.id(created)
        first = first or id_
        links = {"website_url": f"https://{name}.example"} if kind == "organization" else {}
        rows.append(
            {
                "id": id_,
                "type": kind,
                "name": name,
                "full_name": full_name,
                "creator_id": id_ if kind == "user" else first,
                "bio": bio or None,
                "email_domain": f"{name}.example" if kind == "organization" else None,
                "links_json": as_json(links),
                **_times(mint, created, now_ms - mint.rng.randrange(30, 200) * DAY_MS),
            }
        )
    return rows


def _memberships(mint: Mint, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for organization, members in _MEMBERS.items():
        for number, (user, role) in enumerate(members.items()):
            created = now_ms - (290 - 11 * number) * DAY_MS
            rows.append(
                {
                    "id": mint.id(created),
                    "organization_id": ids[organization],
                    "user_id": ids[user],
                    "role": role,
                    "is_public": number % 3 != 2,
                    **_times(mint, created),
                }
            )
    return rows


def _keys(mint: Mint, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for account, kind, name, scopes, days, revoked in _KEYS:
        created = now_ms - days * DAY_MS - mint.rng.randrange(9 * HOUR_MS)
        rows.append(
            {
                "id": mint.id(created),
                "kind": kind,
                "account_id": ids[account],
                "name": name,
                # A digest that was drawn, not computed: no secret belongs to it, so nobody can sign in with a demo key.
                "secret_sha256": f"{mint.rng.getrandbits(256):064x}",
                "scopes_json": as_json(list(scopes)),
                "revoked_at": mint.instant(created + 90 * DAY_MS) if revoked else None,
                **_times(mint, created),
            }
        )
    return rows


def _invitations(mint: Mint, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for organization, invitee, inviter, role, status, days in _INVITATIONS:
        created = now_ms - days * DAY_MS - mint.rng.randrange(8 * HOUR_MS)
        answered = created if status == "PENDING" else created + mint.rng.randrange(HOUR_MS, 2 * DAY_MS)
        rows.append(
            {
                "id": mint.id(created),
                "organization_id": ids[organization],
                "invitee_id": ids[invitee],
                "creator_id": ids[inviter],
                "role": role,
                "status": status,
                "type": "organization",
                **_times(mint, created, answered),
            }
        )
    return rows

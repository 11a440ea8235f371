# ruff: noqa: E501 - a row of a table is one line
"""The demo's accounts, memberships of organizations, keys and invitations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .seeded_rows import DAY_MS, HOUR_MS, SeededIds, as_json, insert

# name -> (full name, bio)
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
    "charles": ("Charles Abbot", ""),  # left acme; his credentials are still there
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
# (account, kind, name, scopes, created days ago, revoked)
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
    """The ids of accounts and keys by name."""

    accounts: Mapping[str, str]
    keys: Mapping[str, str]

    def author(self, kind: str, name: str) -> dict[str, str]:
        """The author of an event; `kind` is ``user``, ``api_key`` or ``trigger``."""
        return {"type": kind, "id": (self.accounts if kind == "user" else self.keys)[name], "name": name}


def write_people(connection: Connection, seeded: SeededIds, now_ms: int) -> People:
    """Write accounts, memberships, keys and invitations."""
    accounts = _accounts(seeded, now_ms)
    ids = {row["name"]: row["id"] for row in accounts}
    insert(connection, tables.accounts, accounts)
    insert(connection, tables.memberships, _memberships(seeded, now_ms, ids))
    keys = _keys(seeded, now_ms, ids)
    insert(connection, tables.api_keys, keys)
    insert(connection, tables.invitations, _invitations(seeded, now_ms, ids))
    return People(ids, {row["name"]: row["id"] for row in keys})


def _accounts(seeded: SeededIds, now_ms: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    profiles = [(name, "user", *profile) for name, profile in _USERS.items()]
    profiles += [(name, "organization", *profile) for name, profile in _ORGANIZATIONS.items()]
    first: str | None = None
    for number, (name, kind, full_name, bio) in enumerate(profiles):
        created = now_ms - (400 - 7 * number) * DAY_MS - seeded.rng.randrange(DAY_MS)
        id_ = seeded.id(created)
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
                **seeded.timestamps(created, now_ms - seeded.rng.randrange(30, 200) * DAY_MS),
            }
        )
    return rows


def _memberships(seeded: SeededIds, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for organization, members in _MEMBERS.items():
        for number, (user, role) in enumerate(members.items()):
            created = now_ms - (290 - 11 * number) * DAY_MS
            rows.append(
                {
                    "id": seeded.id(created),
                    "organization_id": ids[organization],
                    "user_id": ids[user],
                    "role": role,
                    "is_public": number % 3 != 2,
                    **seeded.timestamps(created),
                }
            )
    return rows


def _keys(seeded: SeededIds, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for account, kind, name, scopes, days, revoked in _KEYS:
        created = now_ms - days * DAY_MS - seeded.rng.randrange(9 * HOUR_MS)
        rows.append(
            {
                "id": seeded.id(created),
                "kind": kind,
                "account_id": ids[account],
                "name": name,
                # A random digest: no secret has it, so nobody can sign in with a demo
                # key.
                "secret_sha256": f"{seeded.rng.getrandbits(256):064x}",
                "scopes_json": as_json(list(scopes)),
                "revoked_at": seeded.instant(created + 90 * DAY_MS) if revoked else None,
                **seeded.timestamps(created),
            }
        )
    return rows


def _invitations(seeded: SeededIds, now_ms: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for organization, invitee, inviter, role, status, days in _INVITATIONS:
        created = now_ms - days * DAY_MS - seeded.rng.randrange(8 * HOUR_MS)
        answered = created if status == "PENDING" else created + seeded.rng.randrange(HOUR_MS, 2 * DAY_MS)
        rows.append(
            {
                "id": seeded.id(created),
                "organization_id": ids[organization],
                "invitee_id": ids[invitee],
                "creator_id": ids[inviter],
                "role": role,
                "status": status,
                "type": "organization",
                **seeded.timestamps(created, answered),
            }
        )
    return rows

# ruff: noqa: E501 - a row of a table is one line
"""Credentials in every state that a report can find, and the agents that may use them.

Every secret here is visibly fake: it contains ``FAKE``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .people import People
from .seeded_rows import DAY_MS, HOUR_MS, SeededIds, as_json, insert
from .workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class _Credential:
    """A credential of the demo.

    Attributes
    ----------
    owner, account : str
        Names of accounts.
    days, updated_days : int
        Days since it was created and since its last update. None means never updated.
    target : tuple of str, "unknown" or None
        The workspace and agent it is for; ``"unknown"`` is an id that does not exist.
    webhook : {"unsigned", "idle", "active"} or None
    creator : str or None
        An account's name; ``""`` for the owner, ``"unknown"`` for an id that does not
        exist.
    same_as : str or None
        The credential whose auth_config and parameters it shares.
    """

    integration: str
    name: str
    owner: str
    days: int
    updated_days: int | None
    params: dict[str, Any] = field(default_factory=dict)
    target: tuple[str, str] | str | None = None
    auth: bool = True
    webhook: str | None = None
    creator: str | None = ""
    policy: tuple[str, ...] = ()
    same_as: str | None = None
    account: str = "acme"


def _key(kind: str = "api_key") -> dict[str, Any]:
    return {kind: "FAKE-not-a-secret-{serial}"}


def _login(host: str, user: str) -> dict[str, Any]:
    return {"host": host, "port": 5432, "user": user, "password": "FAKE-not-a-password-{serial}"}


def _oauth(scope: str) -> dict[str, Any]:
    return {"access_token": "FAKE-access-{serial}", "refresh_token": "FAKE-refresh-{serial}", "scope": scope}


_HELP, _DATA, _NOTES, _ALERT, _CONTRACT = ("support", "helpdesk"), ("data", "data-desk"), ("release", "release-notes"), ("on-call", "incident-helper"), ("sales", "contract-reader")  # fmt: skip

_CREDENTIALS: tuple[_Credential, ...] = (
    # Shared and in good order
    _Credential("orders", "Order system", "acme", 220, 12, _key(), _HELP),
    _Credential("mail", "Support mailbox", "acme", 210, 25, _oauth("mail.send mail.read"), _HELP),
    _Credential("snowflake", "Warehouse (reader)", "acme", 205, 8, _login("warehouse.acme.example", "reader"), _DATA, policy=("table:orders", "table:readings")),
    _Credential("github", "Release bot", "acme", 190, 30, _oauth("repo:read"), _NOTES, webhook="active"),
    _Credential("pagerduty", "Alerts", "acme", 188, 20, _key("routing_key"), _ALERT, webhook="active"),
    _Credential("metrics", "Metrics (read only)", "acme", 186, 41, _key("token"), _ALERT),
    _Credential("jira", "Issue tracker", "acme", 180, 55, _key("api_token"), _DATA, webhook="active"),
    _Credential("google_drive", "Contracts folder", "acme", 160, 33, _oauth("drive.readonly"), _CONTRACT, policy=("folder:contracts",)),
    _Credential("slack", "Company chat", "acme", 150, 15, _oauth("chat:write"), None),
    _Credential("stripe", "Payments (restricted)", "acme", 140, 18, _key("restricted_key"), ("finance", "data-desk")),
    # Stale
    _Credential("postgres", "Old reporting database", "acme", 900, 610, _login("old-db.acme.example", "report"), None),
    _Credential("salesforce", "CRM before the migration", "acme", 700, 430, _oauth("api"), None),
    _Credential("smtp", "Mail relay", "acme", 520, 400, {"host": "relay.acme.example", "user": "relay", "password": "FAKE-not-a-password-{serial}"}, _HELP),
    _Credential("github", "Mirror of the firmware", "acme", 480, 310, _oauth("repo:read"), None),
    # Never updated
    _Credential("notion", "Handbook", "acme", 390, None, _key("integration_token"), ("onboarding", "onboarding-buddy")),
    _Credential("jira", "Issue tracker (trial)", "acme", 260, None, _key("api_token"), None),
    _Credential("openweather", "Weather for the delivery page", "acme", 240, None, _key(), None),
    _Credential("slack", "Alerts channel", "acme", 130, None, {"webhook": "https://hooks.example/FAKE-{serial}"}, _ALERT, webhook="idle"),
    # Duplicates
    _Credential("snowflake", "Warehouse (reader) copy", "acme", 96, 90, _login("warehouse.acme.example", "reader"), _DATA, same_as="Warehouse (reader)"),
    _Credential("snowflake", "Warehouse (reader) 2", "acme", 44, None, _login("warehouse.acme.example", "reader"), _DATA, same_as="Warehouse (reader)"),
    _Credential("mail", "Support mailbox (new)", "acme", 6, None, _oauth("mail.send mail.read"), _HELP, same_as="Support mailbox"),
    # Unknown target or owner
    _Credential("google_drive", "Shared drive", "acme", 330, 200, _oauth("drive"), "unknown"),
    _Credential("postgres", "Analytics replica", "acme", 300, 250, _login("replica.acme.example", "etl"), "unknown", creator="unknown"),
    _Credential("github", "charles personal token", "charles", 420, 380, _key("token"), None, creator="charles"),
    _Credential("slack", "charles bot", "charles", 415, None, _oauth("chat:write"), None, creator="charles"),
    _Credential("aws", "Backups", "acme", 640, 500, {"access_key_id": "FAKE{serial}", "secret_access_key": "FAKE-not-a-secret-{serial}", "region": "eu-north-1"}, None, creator=None),
    # Webhooks to check
    _Credential("stripe", "Payment events", "acme", 110, 70, _key("signing_secret"), ("finance", "data-desk"), webhook="unsigned"),
    _Credential("github", "Issue mirror", "acme", 105, 100, _oauth("issues"), None, webhook="unsigned"),
    _Credential("shopify", "Shop events (closed shop)", "acme", 280, 240, _key(), None, webhook="idle"),
    _Credential("pagerduty", "Alerts (old service)", "acme", 350, 290, _key("routing_key"), None, webhook="idle"),
    # Owned by members
    _Credential("google_drive", "Tim's drive", "tim", 158, 9, _oauth("drive.readonly"), _CONTRACT),
    _Credential("mail", "Tim's mailbox", "tim", 157, 9, _oauth("mail.read"), _CONTRACT),
    _Credential("jira", "Alan's tracker", "alan", 145, 60, _key("api_token"), _DATA),
    _Credential("snowflake", "Katherine's warehouse login", "katherine", 122, 35, _login("warehouse.acme.example", "katherine"), _DATA),
    _Credential("github", "Edsger's token", "edsger", 66, 64, _key("token"), None),
    _Credential("github", "Barbara's token", "barbara", 64, 5, _oauth("repo"), _NOTES),
    _Credential("slack", "Margaret's chat", "margaret", 31, None, _oauth("chat:write"), _ALERT),
    # Without auth_config
    _Credential("http", "Status page", "acme", 85, None, {"header": "X-Token", "value": "FAKE-not-a-secret-{serial}"}, _ALERT, auth=False),
    _Credential("http", "Parcel tracker", "acme", 20, 19, {}, _HELP, auth=False),
    # New
    _Credential("hubspot", "CRM", "acme", 4, 2, _oauth("crm.read"), None),
    _Credential("linear", "Planning (trial)", "acme", 1, None, _key(), None),
    # Other accounts
    _Credential("shopify", "Northwind shop", "northwind", 56, 30, _key(), ("shop", "shop-assistant"), webhook="active", account="northwind"),
    _Credential("mail", "Ada's mailbox", "ada", 46, 20, _oauth("mail.read"), ("notes", "diary"), account="ada"),
)  # fmt: skip


def write_credentials(
    connection: Connection, seeded: SeededIds, now_ms: int, people: People, workspaces: Workspaces
) -> None:
    """Write credentials and their grants."""
    auth_configs: dict[str, str] = {}
    serials: dict[str, str] = {}
    rows = [_row(seeded, now_ms, people, workspaces, item, auth_configs, serials) for item in _CREDENTIALS]
    insert(connection, tables.credentials, rows)
    insert(connection, tables.credential_grants, _grants(workspaces, [row["id"] for row in rows]))


def _row(
    seeded: SeededIds,
    now_ms: int,
    people: People,
    workspaces: Workspaces,
    item: _Credential,
    auth_configs: dict[str, str],
    serials: dict[str, str],
) -> dict[str, Any]:
    rng = seeded.rng
    created = now_ms - item.days * DAY_MS - rng.randrange(9 * HOUR_MS)
    updated = created
    if item.updated_days is not None:
        updated = now_ms - item.updated_days * DAY_MS - rng.randrange(9 * HOUR_MS)
    id_ = seeded.id(created)
    serial = serials[item.name] = serials[item.same_as] if item.same_as else f"{rng.getrandbits(32):08x}"
    auth_configs[item.name] = auth_configs[item.same_as] if item.same_as else seeded.uuid()
    label = {"label": item.name}
    is_signed = item.webhook in {"active", "idle"}
    return {
        "id": id_,
        "owner_id": people.accounts[item.owner],
        "creator_id": _creator(seeded, people, item),
        "account_id": people.accounts[item.account],
        "target_id": _target(seeded, workspaces, item),
        "auth_config_id": auth_configs[item.name] if item.auth else None,
        "integration": item.integration,
        "name": item.name,
        "params_json": as_json(_with_serial(item.params, serial)),
        "extra_data_json": as_json(label if item.webhook is None else {**label, "events": ["created", "updated"]}),
        "config_params_json": as_json({"timeout_s": 30} if item.auth else {}),
        "policy_resources_json": as_json(item.policy),
        "webhook_owner_identifier": f"{item.account}:{item.integration}" if is_signed else None,
        "webhook_url": f"https://platform.example/hooks/FAKE-{serial}" if item.webhook else None,
        "signature_type": "hmac-sha256" if is_signed else None,
        "webhook_enabled": item.webhook is not None,
        "has_active_webhook_triggers": item.webhook in {"active", "unsigned"},
        **seeded.timestamps(created, updated),
    }


def _creator(seeded: SeededIds, people: People, item: _Credential) -> str | None:
    if item.creator is None:
        return None
    if item.creator == "unknown":
        return seeded.uuid()
    if item.creator:
        return people.accounts[item.creator]
    return people.accounts["ada" if item.owner == "acme" else item.owner]


def _target(seeded: SeededIds, workspaces: Workspaces, item: _Credential) -> str | None:
    if item.target is None:
        return None
    return seeded.uuid() if isinstance(item.target, str) else workspaces.workspace_agent_ids[item.target]


def _with_serial(params: dict[str, Any], serial: str) -> dict[str, Any]:
    return {
        name: value.replace("{serial}", serial) if isinstance(value, str) else value for name, value in params.items()
    }


def _grants(workspaces: Workspaces, ids: list[str]) -> list[dict[str, str]]:
    """Each credential is granted to its target, and three of them to a second agent."""
    pairs = [(id_, item.target) for id_, item in zip(ids, _CREDENTIALS, strict=True) if isinstance(item.target, tuple)]
    by_name = {item.name: id_ for id_, item in zip(ids, _CREDENTIALS, strict=True)}
    pairs += [
        (by_name["Company chat"], _NOTES),
        (by_name["Order system"], ("sales", "helpdesk")),
        (by_name["Warehouse (reader)"], ("finance", "data-desk")),
    ]
    agent_ids = workspaces.workspace_agent_ids
    return [{"credential_id": id_, "workspace_agent_id": agent_ids[agent]} for id_, agent in pairs]

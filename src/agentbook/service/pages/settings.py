"""An account's settings: its API keys, and the clients that may act for it.

A key is created here with a name and scopes, and its secret is shown once.
Specification: "Authentication", rules 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import Connection, select, update
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..oauth import grants
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations
from ..store.tables import accounts, api_keys
from ..text import is_visible
from ..web.endpoints import NO_STORE, Fields
from ..web.html import Html, el, hidden, page, row, table, text
from . import visitor as visitors
from .layout import action_button, day, page_bar
from .visitor import Row, UntrustedForm, Visitor

if TYPE_CHECKING:
    from ..state import Platform

MAX_NAME_LENGTH = 120

# What each scope allows, for people (specification: "Authentication", rule 4).
MEANINGS = {
    "agents:read": "See private agents",
    "agents:write": "Create, configure and publish agents",
    "sessions:read": "See the status of sessions and tasks",
    "sessions:write": "Start chats and send messages",
    "workspaces:read": "Read workspaces and the sessions in them",
    "workspaces:write": "Create workspaces, add agents to them",
    "skills:read": "Read skills",
    "skills:write": "Create skills",
    "integrations:read": "See integration credentials",
    "integrations:write": "Attach credentials to agents",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """The rejected form of a new key, and what was wrong with it."""

    name: str = ""
    account_id: str | None = None
    scopes: tuple[str, ...] = ()
    wrong: str | None = None


async def show(platform: Platform, request: Request) -> Response:
    """GET /settings."""
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    done = {"revoked": "The key no longer works.", "ended": "The client can no longer act for you."}
    message = done.get(request.query_params.get("done", ""))
    return await _page(
        platform, request, visitor, el("p", message, class_="note good", role="status") if message else None
    )


async def submit(platform: Platform, request: Request) -> Response:
    """POST /settings: create a key, revoke a key, or end a client's access."""
    visitor, form = await visitors.read_form(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    action, target = (form.get(name, [""])[0] for name in ("action", "id"))
    visitors.require_token(visitor, form, f"{action} {target}")
    if action == "create":
        return await _create(platform, request, visitor, form, target)
    if action == "revoke":
        await platform.store.write(lambda tx: _revoke_key(tx, visitor, target))
        return RedirectResponse(f"settings?{urlencode({'done': 'revoked'})}", 303, NO_STORE)
    if action == "end":
        await platform.store.write(lambda tx: _revoke_client(tx, visitor, target))
        return RedirectResponse(f"settings?{urlencode({'done': 'ended'})}", 303, NO_STORE)
    raise UntrustedForm("This page has no such action.")


async def _create(platform: Platform, request: Request, visitor: Visitor, form: Fields, key_id: str) -> Response:
    name, account_id = form.get("name", [""])[0].strip(), form.get("account", [visitor.accounts[0]["id"]])[0]
    scopes = tuple(scope for scope in form.get("scope", ()) if scope in auth.SCOPES)
    owner = visitor.find_account(account_id)
    wrong = None
    if not name or len(name) > MAX_NAME_LENGTH or not is_visible(name):
        wrong = f"Give the key a name of 1 to {MAX_NAME_LENGTH} characters, in one line, that says what it is for."
    elif owner is None:
        wrong = "You cannot create keys for this account."
    if wrong or owner is None:
        return await _page(platform, request, visitor, None, Draft(name, account_id, scopes, wrong), status=400)
    secret = await platform.store.write(lambda tx: _insert_key(tx, key_id, owner["id"], name, scopes))
    if secret is None:  # the form was sent twice; its first response showed the secret
        return await _page(
            platform, request, visitor, el("p", "This key was created already.", class_="note", role="status")
        )
    shown = el(
        "section",
        el("h2", f"The key “{name}” is ready"),
        el("p", "Copy it now: it is shown only once and cannot be read back."),
        el("code", f"{key_id}:{secret}", class_="secret", id="secret", tabindex="0", aria_label="API key"),
        el("p", "Use it as AGENTBOOK_API_KEY, as a Bearer token, or as user name and password.", class_="soft"),
        class_="note good",
        role="status",
    )
    return await _page(platform, request, visitor, shown)


def _insert_key(tx: Transaction, key_id: str, account_id: str, name: str, scopes: Iterable[str]) -> str | None:
    if tx.db.execute(select(api_keys.c.id).where(api_keys.c.id == key_id)).first() is not None:
        return None
    _, secret = auth.insert_key(tx, account_id=account_id, name=name, scopes=auth.parse_scopes(scopes), id=key_id)
    return secret


def _revoke_key(tx: Transaction, visitor: Visitor, key_id: str) -> None:
    now = tx.clock.instant()
    own = api_keys.c.account_id.in_([row["id"] for row in visitor.accounts])
    live = (api_keys.c.id == key_id) & own & api_keys.c.revoked_at.is_(None)
    tx.db.execute(update(api_keys).where(live).values(revoked_at=now, updated_at=now))
    tx.change_access()


def _revoke_client(tx: Transaction, visitor: Visitor, authorization_id: str) -> None:
    own = (oauth_authorizations.c.id == authorization_id) & (
        oauth_authorizations.c.person_id == visitor.accounts[0]["id"]
    )
    if tx.db.execute(select(oauth_authorizations.c.id).where(own)).first() is not None:
        grants.revoke(tx, authorization_id)


async def _page(
    platform: Platform,
    request: Request,
    visitor: Visitor,
    message: Html | None,
    draft: Draft | None = None,
    status: int = 200,
) -> Response:
    def read(db: Connection) -> tuple[Sequence[Row], Sequence[Row]]:
        owned = (
            select(api_keys, accounts.c.name.label("account"))
            .join(accounts, accounts.c.id == api_keys.c.account_id)
            .where(api_keys.c.account_id.in_([row["id"] for row in visitor.accounts]))
            .order_by(api_keys.c.id.desc())
        )
        return db.execute(owned).mappings().all(), grants.authorizations_of(db, visitor.accounts[0]["id"])

    keys, clients = await platform.store.read(read)
    live, revoked = [key for key in keys if not key["revoked_at"]], [key for key in keys if key["revoked_at"]]
    body = el(
        "main",
        el("h1", "Settings"),
        message,
        _new_key(visitor, platform.store.clock.new_id(), draft or Draft()),
        el(
            "section",
            el("h2", "API keys", id="keys"),
            _key_table(visitor, live) if live else el("p", "There are no keys yet.", class_="soft"),
            _revoked_keys(revoked),
            class_="card",
            aria_labelledby="keys",
        ),
        el(
            "section",
            el("h2", "Clients that act for you", id="clients"),
            _client_table(visitor, clients)
            if clients
            else el(
                "p",
                "No client has access. A client asks through OAuth, and you decide on a separate page.",
                class_="soft",
            ),
            class_="card",
            aria_labelledby="clients",
        ),
    )
    return page(request, "Settings", page_bar(visitor, "settings"), body, status=status)


def scope_choices(scopes: Iterable[str], ticked: Iterable[str]) -> Html:
    """Return check boxes for scopes, with what they allow."""
    chosen = set(ticked)
    return el(
        "div",
        (
            el(
                "label",
                el("input", type="checkbox", name="scope", value=scope, checked=scope in chosen),
                el("span", MEANINGS[scope], el("small", scope)),
                class_="choice",
            )
            for scope in scopes
        ),
        class_="grid",
    )


def _new_key(visitor: Visitor, key_id: str, draft: Draft) -> Html:
    options = [
        el("option", row["name"], value=row["id"], selected=row["id"] == draft.account_id) for row in visitor.accounts
    ]
    only = visitor.accounts[0]
    account = hidden("account", only["id"])
    if len(visitor.accounts) > 1:
        label = el("label", "Account it acts as", for_="account")
        account = el("div", label, el("select", options, id="account", name="account"), class_="field")
    name = el(
        "div",
        el("label", "Name", for_="name"),
        el(
            "input",
            type="text",
            id="name",
            name="name",
            value=draft.name,
            required=True,
            maxlength=MAX_NAME_LENGTH,
            autocomplete="off",
            aria_describedby="name-wrong" if draft.wrong else "name-help",
            aria_invalid="true" if draft.wrong else None,
        ),
        el("small", draft.wrong, id="name-wrong", class_="wrong", role="alert") if draft.wrong else None,
        el("small", "What the key is for. Shown in lists and next to its messages.", id="name-help"),
        class_="field",
    )
    scopes = el(
        "fieldset",
        el("legend", "Scopes"),
        el("p", el("small", "Write includes read. Without scopes, a key can only ask who it is.")),
        scope_choices(auth.SCOPES, draft.scopes),
    )
    form = el(
        "form",
        hidden("token", visitor.token(f"create {key_id}")),
        hidden("action", "create"),
        hidden("id", key_id),
        name,
        account,
        scopes,
        el("div", el("button", "Create key"), class_="actions"),
        method="post",
        action="settings",
    )
    return el("section", el("h2", "New API key", id="new"), form, class_="card", aria_labelledby="new")


def _key_table(visitor: Visitor, keys: Sequence[Row]) -> Html:
    def cells(key: Row) -> Html:
        button = action_button(visitor, "settings", "revoke", key["id"], "Revoke", key["name"])
        return row(_key_name(key), key["account"], _scope_tags(key), day(key["created_at"]), button)

    return table(["Name", "Account", "Scopes", "Created", ""], map(cells, keys))


def _revoked_keys(keys: Sequence[Row]) -> Html | None:
    if not keys:
        return None
    rows = (row(_key_name(key), key["account"], day(key["revoked_at"])) for key in keys)
    revoked = table(["Name", "Account", "Revoked"], rows)
    return el("details", el("summary", f"Revoked ({len(keys)})"), revoked, class_="off")


def _client_table(visitor: Visitor, clients: Sequence[Row]) -> Html:
    def cells(client: Row) -> Html:
        button = action_button(visitor, "settings", "end", client["id"], "End", client["client_name"])
        name = el("strong", client["client_name"])
        return row(name, client["account_name"], _scope_tags(client), day(client["created_at"]), button)

    return table(["Client", "Acts as", "Scopes", "Allowed", ""], map(cells, clients))


def _key_name(key: Row) -> Html:
    kind = el("span", " trigger", class_="tag") if key["kind"] == "trigger" else None
    return text([el("strong", key["name"]), kind, el("br"), el("small", el("code", key["id"]))])


def _scope_tags(row: Mapping[Any, Any]) -> Html:
    scopes: list[str] = msgspec.json.decode(row["scopes_json"])
    return text([el("span", scope, class_="tag") for scope in scopes] or el("span", "none", class_="soft"))

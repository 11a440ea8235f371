"""An account's settings: its API keys, and the clients that people let in.

Specification: "Authentication", rules 1 and 2: a key is created here, with a name and scopes, and its secret is shown once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import Connection, insert, select, update
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..oauth import grants
from ..store import Transaction
from ..store.tables import accounts, api_keys, oauth_authorizations
from ..web.forms import NO_STORE, Fields
from ..web.html import Html, bar, el, hidden, page, row, table, text
from . import visitor as visitors
from .visitor import Row, Unproved, Visitor

if TYPE_CHECKING:
    from ..state import Platform

MOST_NAME = 120

# What each scope lets its holder do, for people (specification: "Authentication", rule 4).
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
    """A form for a new key that was sent back: what was in it, and what was wrong."""

    name: str = ""
    account_id: str | None = None
    scopes: tuple[str, ...] = ()
    wrong: str | None = None


async def show(platform: Platform, request: Request) -> Response:
    """GET /settings."""
    who = await visitors.visitor(platform, request)
    if who.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    done = {"revoked": "The key no longer works.", "ended": "The client can no longer act for you."}
    said = done.get(request.query_params.get("done", ""))
    return await _page(platform, request, who, el("p", said, class_="note good", role="status") if said else None)


async def submit(platform: Platform, request: Request) -> Response:
    """POST /settings: create a key, revoke a key, or show a client out."""
    who, given = await visitors.posted(platform, request)
    if who.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    action, target = (given.get(name, [""])[0] for name in ("action", "id"))
    visitors.require_token(who, given, f"{action} {target}")
    if action == "create":
        return await _create(platform, request, who, given, target)
    if action == "revoke":
        await platform.store.write(lambda tx: _revoke_key(tx, who, target))
        return RedirectResponse(f"settings?{urlencode({'done': 'revoked'})}", 303, NO_STORE)
    if action == "end":
        await platform.store.write(lambda tx: _end_client(tx, who, target))
        return RedirectResponse(f"settings?{urlencode({'done': 'ended'})}", 303, NO_STORE)
    raise Unproved("There is nothing of this kind to do here.")


async def _create(platform: Platform, request: Request, who: Visitor, given: Fields, key_id: str) -> Response:
    name, account_id = given.get("name", [""])[0].strip(), given.get("account", [who.accounts[0]["id"]])[0]
    scopes = tuple(scope for scope in given.get("scope", ()) if scope in auth.SCOPES)
    owner = who.acts_as(account_id)
    wrong = None
    if not name or len(name) > MOST_NAME:
        wrong = f"Give the key a name of 1 to {MOST_NAME} characters that says what it is for."
    elif owner is None:
        wrong = "You cannot make keys for this account."
    if wrong or owner is None:
        return await _page(platform, request, who, None, Draft(name, account_id, scopes, wrong), status=400)
    secret = await platform.store.write(lambda tx: _insert_key(tx, key_id, owner["id"], name, scopes))
    if secret is None:  # the form was sent twice: the key is there, and its secret was shown the first time
        return await _page(
            platform, request, who, el("p", "This key was created already.", class_="note", role="status")
        )
    shown = el(
        "section",
        el("h2", f"The key “{name}” is ready"),
        el("p", "Copy it now: it is shown this once, and nobody can read it back."),
        el("code", f"{key_id}:{secret}", class_="secret", id="secret", tabindex="0", aria_label="API key"),
        el("p", "Use it as AGENTBOOK_API_KEY, as a Bearer token, or as user name and password.", class_="soft"),
        class_="note good",
        role="status",
    )
    return await _page(platform, request, who, shown)


def _insert_key(tx: Transaction, key_id: str, account_id: str, name: str, scopes: Iterable[str]) -> str | None:
    if tx.db.execute(select(api_keys.c.id).where(api_keys.c.id == key_id)).first() is not None:
        return None
    now, secret = tx.clock.instant(), tx.clock.secret()
    row = {
        "id": key_id,
        "account_id": account_id,
        "name": name,
        "secret_sha256": auth.hash_secret(secret),
        "scopes_json": msgspec.json.encode(auth.scopes_from(scopes)).decode(),
        "created_at": now,
        "updated_at": now,
    }
    tx.db.execute(insert(api_keys), row)
    return secret


def _revoke_key(tx: Transaction, who: Visitor, key_id: str) -> None:
    now = tx.clock.instant()
    own = api_keys.c.account_id.in_([row["id"] for row in who.accounts])
    live = (api_keys.c.id == key_id) & own & api_keys.c.revoked_at.is_(None)
    tx.db.execute(update(api_keys).where(live).values(revoked_at=now, updated_at=now))


def _end_client(tx: Transaction, who: Visitor, authorization_id: str) -> None:
    own = (oauth_authorizations.c.id == authorization_id) & (oauth_authorizations.c.person_id == who.accounts[0]["id"])
    if tx.db.execute(select(oauth_authorizations.c.id).where(own)).first() is not None:
        grants.revoke(tx, authorization_id)


async def _page(
    platform: Platform,
    request: Request,
    who: Visitor,
    said: Html | None,
    draft: Draft | None = None,
    status: int = 200,
) -> Response:
    def read(db: Connection) -> tuple[Sequence[Row], Sequence[Row]]:
        owned = (
            select(api_keys, accounts.c.name.label("account"))
            .join(accounts, accounts.c.id == api_keys.c.account_id)
            .where(api_keys.c.account_id.in_([row["id"] for row in who.accounts]))
            .order_by(api_keys.c.id.desc())
        )
        return db.execute(owned).mappings().all(), grants.allowed_by(db, who.accounts[0]["id"])

    keys, clients = await platform.store.read(read)
    live, revoked = [key for key in keys if not key["revoked_at"]], [key for key in keys if key["revoked_at"]]
    body = el(
        "main",
        el("h1", "Settings"),
        said,
        _new_key(who, platform.store.clock.new_id(), draft or Draft()),
        el(
            "section",
            el("h2", "API keys", id="keys"),
            _keys(who, live) if live else el("p", "There is no key yet.", class_="soft"),
            _revoked(revoked),
            class_="card",
            aria_labelledby="keys",
        ),
        el(
            "section",
            el("h2", "Clients that act for you", id="clients"),
            _clients(who, clients)
            if clients
            else el(
                "p",
                "No client has been let in. Clients ask by OAuth, and you decide on a page of its own.",
                class_="soft",
            ),
            class_="card",
            aria_labelledby="clients",
        ),
    )
    return page(request, "Settings", top(who, "settings"), body, status=status)


def top(who: Visitor, here: str, up: str = "") -> Html:
    """The bar of a page for somebody who is signed in; `up` leads back to where sign-in lives."""
    pages = {"settings": "Settings", "docs": "API"}
    links = [
        el("a", title, href=f"{up}{name}", aria_current="page" if name == here else None)
        for name, title in pages.items()
    ]
    name = who.account["name"] if who.account else ""
    out = el(
        "form",
        hidden("token", who.token("signout")),
        el("button", "Sign out", class_="plain small"),
        method="post",
        action=f"{up}signout",
    )
    return bar(el("nav", links, aria_label="Pages"), el("div", el("span", name), out, class_="who"))


def scope_choices(scopes: Iterable[str], ticked: Iterable[str]) -> Html:
    """Scopes to tick or untick, with what they mean."""
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


def _new_key(who: Visitor, key_id: str, draft: Draft) -> Html:
    options = [
        el("option", row["name"], value=row["id"], selected=row["id"] == draft.account_id) for row in who.accounts
    ]
    only = who.accounts[0]
    account = hidden("account", only["id"])
    if len(who.accounts) > 1:
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
            maxlength=MOST_NAME,
            autocomplete="off",
            aria_describedby="name-wrong" if draft.wrong else "name-help",
            aria_invalid="true" if draft.wrong else None,
        ),
        el("small", draft.wrong, id="name-wrong", class_="wrong", role="alert") if draft.wrong else None,
        el("small", "What the key is for; it stands in lists and beside its messages.", id="name-help"),
        class_="field",
    )
    scopes = el(
        "fieldset",
        el("legend", "Scopes"),
        el("p", el("small", "Write includes read. Without any scope, a key can only ask who it is.")),
        scope_choices(auth.SCOPES, draft.scopes),
    )
    form = el(
        "form",
        hidden("token", who.token(f"create {key_id}")),
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


def _keys(who: Visitor, keys: Sequence[Row]) -> Html:
    def cells(key: Row) -> Html:
        button = _button(who, "revoke", key["id"], "Revoke", key["name"])
        return row(_named(key), key["account"], _scopes(key), _day(key["created_at"]), button)

    return table(["Name", "Account", "Scopes", "Created", ""], map(cells, keys))


def _revoked(keys: Sequence[Row]) -> Html | None:
    if not keys:
        return None
    rows = (row(_named(key), key["account"], _day(key["revoked_at"])) for key in keys)
    listed = table(["Name", "Account", "Revoked"], rows)
    return el("details", el("summary", f"Revoked ({len(keys)})"), listed, class_="off")


def _clients(who: Visitor, clients: Sequence[Row]) -> Html:
    def cells(client: Row) -> Html:
        button = _button(who, "end", client["id"], "End", client["client_name"])
        name = el("strong", client["client_name"])
        return row(name, client["account_name"], _scopes(client), _day(client["created_at"]), button)

    return table(["Client", "Acts as", "Scopes", "Allowed", ""], map(cells, clients))


def _named(key: Row) -> Html:
    kind = el("span", " trigger", class_="tag") if key["kind"] == "trigger" else None
    return text([el("strong", key["name"]), kind, el("br"), el("small", el("code", key["id"]))])


def _scopes(row: Mapping[Any, Any]) -> Html:
    scopes: list[str] = msgspec.json.decode(row["scopes_json"])
    return text([el("span", scope, class_="tag") for scope in scopes] or el("span", "none", class_="soft"))


def _day(instant: str) -> Html:
    return el("time", instant[:10], datetime=instant)


def _button(who: Visitor, action: str, target: str, label: str, of: str) -> Html:
    return el(
        "form",
        hidden("token", who.token(f"{action} {target}")),
        hidden("action", action),
        hidden("id", target),
        el("button", label, class_="plain small danger", aria_label=f"{label} {of}"),
        method="post",
        action="settings",
    )

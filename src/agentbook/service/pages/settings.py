"""An account's settings: its API keys, and the clients that may act for it.

A key is created here with a name and scopes, and its secret is shown once.
Specification: "Authentication", rules 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..oauth import grants
from ..oauth.clients import clean_name
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations, oauth_clients
from ..store.tables import accounts, api_keys
from ..text import is_visible
from ..web.endpoints import Fields
from . import visitor as visitors
from .html import page, render
from .visitor import Row, UntrustedForm, Visitor

if TYPE_CHECKING:
    from ..state import Platform

MAX_NAME_LENGTH = 120


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
        return RedirectResponse("signin", 303)
    done = {"revoked": "The key no longer works.", "ended": "The client can no longer act for you."}
    return await _page(platform, request, visitor, done.get(request.query_params.get("done", "")))


async def submit(platform: Platform, request: Request) -> Response:
    """POST /settings: create a key, revoke a key, or end a client's access."""
    visitor, form = await visitors.read_form(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303)
    action, target = (form.get(name, [""])[0] for name in ("action", "id"))
    visitors.require_token(visitor, form, f"{action} {target}")
    if action == "create":
        return await _create(platform, request, visitor, form, target)
    if action == "revoke":
        await platform.store.write(lambda tx: _revoke_key(tx, visitor, target))
        return RedirectResponse("settings?done=revoked", 303)
    if action == "end":
        await platform.store.write(lambda tx: _revoke_client(tx, visitor, target))
        return RedirectResponse("settings?done=ended", 303)
    raise UntrustedForm("This page has no such action. Go back, reload the page, and try again.")


async def _create(platform: Platform, request: Request, visitor: Visitor, form: Fields, key_id: str) -> Response:
    name, account_id = form.get("name", [""])[0].strip(), form.get("account", [visitor.accounts[0]["id"]])[0]
    scopes = tuple(scope for scope in form.get("scope", ()) if scope in auth.SCOPES)
    owner = visitor.find_account(account_id)
    wrong = None
    if not name or len(name) > MAX_NAME_LENGTH or not is_visible(name):
        wrong = f"Give the key a name of 1 to {MAX_NAME_LENGTH} characters, in one line, that says what it is for."
    elif owner is None:
        wrong = "You cannot create keys for this account. Choose another one."
    if wrong or owner is None:
        return await _page(platform, request, visitor, draft=Draft(name, account_id, scopes, wrong))
    secret = await platform.store.write(lambda tx: _insert_key(tx, key_id, owner["id"], name, scopes))
    if secret is None:  # the form was sent twice; its first response showed the secret
        created = "This key was created already, and its secret was shown then. If you did not copy it, revoke the key."
        return await _page(platform, request, visitor, created)
    return await _page(platform, request, visitor, new_key={"name": name, "key": f"{key_id}:{secret}"})


def _insert_key(tx: Transaction, key_id: str, account_id: str, name: str, scopes: Iterable[str]) -> str | None:
    if tx.db.execute(select(api_keys.c.id).where(api_keys.c.id == key_id)).first() is not None:
        return None
    _, secret = auth.insert_key(tx, account_id=account_id, name=name, scopes=auth.known_scopes(scopes), id=key_id)
    return secret


def _revoke_key(tx: Transaction, visitor: Visitor, key_id: str) -> None:
    own = api_keys.c.account_id.in_([row["id"] for row in visitor.accounts])
    auth.revoke(tx, api_keys, api_keys.c.id == key_id, own)


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
    message: str | None = None,
    *,
    draft: Draft | None = None,
    new_key: Mapping[str, str] | None = None,
) -> Response:
    """Return the page; `new_key` is the one whose secret it shows."""

    keys, authorized = await platform.store.read(lambda db: _read(db, visitor))
    text = render(
        "settings.html",
        visitor=visitor,
        message=message,
        new_key=new_key,
        key_id=platform.store.clock.new_id(),
        draft=draft or Draft(),
        max_name_length=MAX_NAME_LENGTH,
        scopes=auth.SCOPES,
        live=[key for key in keys if not key["revoked_at"]],
        revoked=[key for key in keys if key["revoked_at"]],
        clients=[{**row, "client_name": clean_name(row["client_name"])} for row in authorized],
    )
    return page(request, text, 400 if draft else 200)


def _read(db: Connection, visitor: Visitor) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the keys of the visitor's accounts, and what clients they allowed."""
    owned = (
        select(api_keys, accounts.c.name.label("account"))
        .join(accounts, accounts.c.id == api_keys.c.account_id)
        .where(api_keys.c.account_id.in_([row["id"] for row in visitor.accounts]))
        .order_by(api_keys.c.id.desc())
    )
    authorized = (
        select(
            oauth_authorizations.c.id,
            oauth_authorizations.c.scopes_json,
            oauth_authorizations.c.created_at,
            oauth_clients.c.name.label("client_name"),
            accounts.c.name.label("account_name"),
        )
        .join(oauth_clients, oauth_clients.c.id == oauth_authorizations.c.client_id)
        .join(accounts, accounts.c.id == oauth_authorizations.c.account_id)
        .where(
            oauth_authorizations.c.person_id == visitor.accounts[0]["id"],
            oauth_authorizations.c.revoked_at.is_(None),
            oauth_authorizations.c.code_used_at.is_not(None),
        )
        .order_by(oauth_authorizations.c.id.desc())
    )
    return db.execute(owned).mappings().all(), db.execute(authorized).mappings().all()

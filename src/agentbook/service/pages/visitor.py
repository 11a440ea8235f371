"""Who looks at a page: the session behind a cookie, and proof that a form came from a page of ours.

A form is believed when the browser says it came from here (``Sec-Fetch-Site``, else ``Origin``) *and* it carries the token
that only our page, shown to this very session, could hold. The cookie has no Path and no Domain, so that it fits below any
prefix: the browser takes the directory of the page that set it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, insert, or_, select
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, errors, ids
from ..store import Transaction
from ..store.tables import accounts, memberships, page_sessions, signin_links
from ..web.forms import Fields, body, fields, is_form

if TYPE_CHECKING:
    from ..state import Platform

SESSION_S = 12 * 3_600
LINK_S = 15 * 60

Row = Mapping[Any, Any]


class Unproved(Exception):
    """A form that may have come from somewhere else. The message is for the person."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever asked for a page.

    Attributes
    ----------
    secret : str
        What the cookie holds; of somebody who has not signed in, a fresh one that only ties forms to the browser.
    account : mapping or None
        Who is signed in.
    accounts : tuple of mappings
        What that person may act as: itself first, then the organizations it administers.
    """

    secret: str
    account: Row | None
    accounts: tuple[Row, ...] = ()

    def __repr__(self) -> str:
        return f"Visitor(account={self.account and self.account['name']!r})"

    def token(self, purpose: str) -> str:
        """What a form for `purpose` must carry."""
        return hmac.new(self.secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def acts_as(self, account_id: str | None) -> Row | None:
        """The account of this id, if this person may act as it."""
        return next((row for row in self.accounts if row["id"] == account_id), None)


async def visitor(platform: Platform, request: Request) -> Visitor:
    """Who sent this request."""
    secret = request.cookies.get(cookie_name(platform), "")
    now = platform.store.clock.instant()
    found = await platform.store.read(lambda db: _visitor(db, secret, now), brief=True) if secret else None
    return found or Visitor(secret or secrets.token_urlsafe(32), None)


def _visitor(db: Connection, secret: str, now: str) -> Visitor | None:
    query = (
        select(accounts)
        .join(page_sessions, page_sessions.c.account_id == accounts.c.id)
        .where(page_sessions.c.sha256 == auth.hash_secret(secret), page_sessions.c.expires_at > now)
    )
    row = db.execute(query).mappings().first()
    if row is None:
        return None
    administered = (
        select(accounts)
        .join(memberships, memberships.c.organization_id == accounts.c.id)
        .where(memberships.c.user_id == row["id"], memberships.c.role == "ADMIN")
        .order_by(accounts.c.name)
    )
    return Visitor(secret, row, (row, *db.execute(administered).mappings()))


async def posted(platform: Platform, request: Request) -> tuple[Visitor, Fields]:
    """The form of this request and who sent it.

    Raises `Unproved` where it did not come from a page of this service, and the 400 where it is no form. Whether it carries
    the token of its purpose is asked by `require_token`.
    """
    require_same_origin(request)
    if not is_form(request):
        raise errors.invalid_input(["body: send it with Content-Type: application/x-www-form-urlencoded"])
    try:
        given = fields(await body(request))
    except ValueError as error:
        raise errors.invalid_input([f"body: {error}"]) from None
    return await visitor(platform, request), given


def require_token(who: Visitor, given: Fields, purpose: str) -> None:
    """Raise `Unproved` unless the form carries the token that this visitor's page held."""
    sent = given.get("token", [""])[0]
    if not hmac.compare_digest(sent.encode(), who.token(purpose).encode()):
        raise Unproved("This form is no longer good. Go back, reload the page, and try again.")


def require_same_origin(request: Request) -> None:
    """Raise `Unproved` where the browser says that a form came from elsewhere.

    ``Sec-Fetch-Site`` holds below a proxy that rewrites Host, too; older browsers and plain HTTP leave `Origin`. A program
    that is no browser sends neither, and has no cookie that it was not given.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    same = site == "same-origin" if site is not None else origin is None or urlsplit(origin).netloc == host
    # An origin that is told at all, and is another's, is never ours; below a proxy the Host is not what the browser saw.
    if not same:
        raise Unproved("This form was sent from another site, so nothing was done.")


def cookie_name(platform: Platform) -> str:
    """Cookies do not know ports, so two services of one machine would overwrite each other's."""
    return "agentbook_" + hashlib.sha256(platform.root_url.encode()).hexdigest()[:8]


def set_cookie(platform: Platform, request: Request, response: Response, secret: str) -> None:
    """Have the browser keep `secret`: for as long as a session lasts, out of reach of scripts and other sites."""
    secure = platform.root_url.startswith("https:") or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(
        cookie_name(platform), secret, max_age=SESSION_S, path=None, httponly=True, samesite="lax", secure=secure
    )


def forget_cookie(platform: Platform, response: Response) -> None:
    """Have the browser forget."""
    response.delete_cookie(cookie_name(platform), path=None, httponly=True, samesite="lax")  # type: ignore[arg-type]


def new_link(tx: Transaction, account_id: str) -> str:
    """The code of a fresh sign-in link: good once, for a quarter of an hour."""
    code, now_ms = tx.clock.secret(), tx.clock.milliseconds()
    tx.db.execute(delete(signin_links).where(signin_links.c.expires_at <= ids.instant_of_ms(now_ms)))
    expires_at = ids.instant_of_ms(now_ms + LINK_S * 1000)
    row = {"sha256": auth.hash_secret(code), "account_id": account_id, "expires_at": expires_at}
    tx.db.execute(insert(signin_links), row)
    return code


def sign_in(tx: Transaction, code: str, before: str) -> str | None:
    """Spend a link's code; the secret of the new session, None where the code is not good.

    `before` is what the browser's cookie held: a session of that secret ends, and its secret is never taken over.
    """
    picked = signin_links.c.sha256 == auth.hash_secret(code)
    live = select(signin_links.c.account_id).where(picked, signin_links.c.expires_at > tx.clock.instant())
    account_id = tx.db.execute(live).scalar()
    if account_id is None:
        return None
    tx.db.execute(delete(signin_links).where(picked))
    sign_out(tx, before)
    secret = tx.clock.secret()
    expires_at = ids.instant_of_ms(tx.clock.milliseconds() + SESSION_S * 1000)
    row = {"sha256": auth.hash_secret(secret), "account_id": account_id, "expires_at": expires_at}
    tx.db.execute(insert(page_sessions), row)
    return secret


def sign_out(tx: Transaction, secret: str) -> None:
    """End a session, and clear away those that are over."""
    over = page_sessions.c.expires_at <= tx.clock.instant()
    tx.db.execute(delete(page_sessions).where(or_(page_sessions.c.sha256 == auth.hash_secret(secret), over)))

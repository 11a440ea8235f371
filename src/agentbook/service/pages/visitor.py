"""Who is looking at a page, and whether a form came from one of our pages.

A form is trusted if the browser says that it came from here (``Sec-Fetch-Site``, else
``Origin``) *and* it carries the token of our page, which is shown only to this session.
The cookie has no Path and no Domain, so it works below any prefix: the browser uses the
directory of the page that set it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, or_, select
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, errors, ids
from ..store import Transaction
from ..store.sign_in_tables import page_sessions, signin_links
from ..store.tables import accounts, memberships
from ..web.endpoints import (
    COOKIE,
    KNOWN,
    Fields,
    MethodEndpoint,
    is_form,
    origin_host,
    parse_fields,
)
from .html import PageError, error_page

if TYPE_CHECKING:
    from ..state import Platform

SESSION_S = 12 * 3_600
LINK_S = 15 * 60
_MAX_BYTES = 64 * 1024  # a form of the consent page holds the client's request, encoded again

Row = Mapping[Any, Any]
Page = Callable[["Platform", Request], Awaitable[Response]]


class UntrustedForm(PageError):
    """A form that may have come from elsewhere."""

    def __init__(self, problem: str) -> None:
        super().__init__(errors.forbidden(problem), "Form rejected", problem)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who requested a page.

    Attributes
    ----------
    secret : str
        The cookie's value. For a person who is not signed in it is new, and only ties
        forms to the browser.
    account : mapping or None
        The account that is signed in.
    accounts : tuple of mappings
        The accounts that the person may act as: their own, then the organizations that
        they administer.
    """

    secret: str
    account: Row | None
    accounts: tuple[Row, ...] = ()

    def __repr__(self) -> str:
        return f"Visitor(account={self.account and self.account['name']!r})"

    def token(self, purpose: str) -> str:
        """Return the token of a form for `purpose`."""
        return hmac.new(self.secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def find_account(self, account_id: str | None) -> Row | None:
        """Return the account with this id if the person may act as it."""
        return next((row for row in self.accounts if row["id"] == account_id), None)


def endpoint(platform: Platform, **pages: Page) -> MethodEndpoint:
    """Return the endpoint of a page: what answers each method, or its error page.

    A POST from elsewhere is refused, whatever the page does with it.
    """

    async def answer(page: Page, request: Request) -> Response:
        try:
            if request.method == "POST":
                _require_same_origin(request)
            return await page(platform, request)
        except PageError as error:
            return error_page(request, error)

    return MethodEndpoint(**{method: partial(answer, page) for method, page in pages.items()})


async def load_visitor(platform: Platform, request: Request) -> Visitor:
    """Return who sent this request."""
    secret = request.cookies.get(cookie_name(platform), "")
    now = platform.store.clock.instant()
    person = await platform.store.read(lambda db: _find_session(db, secret, now)) if secret else None
    request.scope[KNOWN] = person is not None
    return person or Visitor(secret or secrets.token_urlsafe(32), None)


def _find_session(db: Connection, secret: str, now: str) -> Visitor | None:
    query = (
        select(accounts)
        .join(page_sessions, page_sessions.c.account_id == accounts.c.id)
        .where(page_sessions.c.sha256 == auth.hash_secret(secret), page_sessions.c.expires_at > now)
    )
    row = db.execute(query).mappings().first()
    if row is None:
        return None
    organizations = (
        select(accounts)
        .join(memberships, memberships.c.organization_id == accounts.c.id)
        .where(memberships.c.user_id == row["id"], memberships.c.role == "ADMIN")
        .order_by(accounts.c.name)
    )
    return Visitor(secret, row, (row, *db.execute(organizations).mappings()))


async def read_form(platform: Platform, request: Request) -> tuple[Visitor, Fields]:
    """Return the form of this request and who sent it.

    Raises the 400 if it is not a form. `require_token` checks its token.
    """
    if not is_form(request):
        raise errors.invalid_input(["body: send it with Content-Type: application/x-www-form-urlencoded"])
    try:
        form = parse_fields(await request.body(), _MAX_BYTES)
    except ValueError as error:
        raise errors.invalid_input([f"body: {error}"]) from None
    return await load_visitor(platform, request), form


def require_token(visitor: Visitor, form: Fields, purpose: str) -> None:
    """Raise `UntrustedForm` unless the form carries this visitor's token."""
    sent = form.get("token", [""])[0]
    if not hmac.compare_digest(sent.encode(), visitor.token(purpose).encode()):
        raise UntrustedForm("This form has expired. Go back, reload the page, and try again.")


def _require_same_origin(request: Request) -> None:
    """Raise `UntrustedForm` if the browser says that a form came from elsewhere.

    ``Sec-Fetch-Site`` is correct even below a proxy that rewrites Host. Older browsers
    and plain HTTP only send `Origin`. A program that is not a browser sends neither,
    and has only the cookies that it was given.
    """
    site, origin, host = (request.headers.get(name) for name in ("sec-fetch-site", "origin", "host"))
    same = site == "same-origin" if site is not None else origin is None or origin_host(origin) == (host or "").lower()
    if not same:
        raise UntrustedForm(
            "This form was sent from another site, so nothing was done. Open this service's own page instead."
        )


def cookie_name(platform: Platform) -> str:
    """Return the cookie's name, which depends on the service's address.

    Cookies ignore ports, so services on one machine would overwrite each other's.
    """
    return COOKIE + hashlib.sha256(platform.root_url.encode()).hexdigest()[:8]


def set_cookie(platform: Platform, request: Request, response: Response, secret: str) -> None:
    """Store `secret` in the browser, out of reach of scripts and other sites."""
    secure = platform.root_url.startswith("https:") or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(
        cookie_name(platform), secret, max_age=SESSION_S, path=None, httponly=True, samesite="lax", secure=secure
    )


def forget_cookie(platform: Platform, response: Response) -> None:
    """Remove the cookie from the browser."""
    response.delete_cookie(cookie_name(platform), path=None, httponly=True, samesite="lax")  # type: ignore[arg-type]


def create_link(tx: Transaction, account_id: str) -> str:
    """Create a sign-in link and return its code, which works once for 15 minutes."""
    code, now_ms = tx.clock.secret(), tx.clock.milliseconds()
    tx.db.execute(delete(signin_links).where(signin_links.c.expires_at <= ids.instant_of_ms(now_ms)))
    expires_at = ids.instant_of_ms(now_ms + LINK_S * 1000)
    row = {"sha256": auth.hash_secret(code), "account_id": account_id, "expires_at": expires_at}
    tx.db.execute(insert(signin_links), row)
    return code


def find_link_account(db: Connection, code: str, now: str) -> str | None:
    """Return the name of the account that a link signs in as; None if it is invalid."""
    is_live = (signin_links.c.sha256 == auth.hash_secret(code)) & (signin_links.c.expires_at > now)
    query = select(accounts.c.name).join(signin_links, signin_links.c.account_id == accounts.c.id).where(is_live)
    name: str | None = db.execute(query).scalar()
    return name


def start_session(tx: Transaction, code: str, previous_secret: str) -> str | None:
    """Use up a link's code; returns the new session's secret, None if it is invalid.

    `previous_secret` is the cookie's value. A session with that secret ends, and the
    secret is never reused.
    """
    has_code = signin_links.c.sha256 == auth.hash_secret(code)
    live = select(signin_links.c.account_id).where(has_code, signin_links.c.expires_at > tx.clock.instant())
    account_id = tx.db.execute(live).scalar()
    if account_id is None:
        return None
    tx.db.execute(delete(signin_links).where(has_code))
    end_session(tx, previous_secret)
    secret = tx.clock.secret()
    expires_at = ids.instant_of_ms(tx.clock.milliseconds() + SESSION_S * 1000)
    row = {"sha256": auth.hash_secret(secret), "account_id": account_id, "expires_at": expires_at}
    tx.db.execute(insert(page_sessions), row)
    return secret


def end_session(tx: Transaction, secret: str) -> None:
    """End a session, and delete expired ones."""
    expired = page_sessions.c.expires_at <= tx.clock.instant()
    tx.db.execute(delete(page_sessions).where(or_(page_sessions.c.sha256 == auth.hash_secret(secret), expired)))

"""Builds HTML that is always escaped, and pages with the right headers.

`el` builds elements. A plain `str` is text and is escaped; only what `el` returns is
markup. A page contains its style sheet, which is allowed by its hash. It loads no other
files, runs no scripts, and works below any path prefix.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from .. import errors


class Html(str):
    """Markup, in which text is already escaped."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"

# A speech bubble with two lines in it.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Cpath d='M5 5h22a3 3 0 0 1 3 3v13a3 3 0 0 1-3 3H14l-7 6v-6H5a3 3 0 0 1-3-3V8a3 3 0 0 1 3-3z' fill='%233b5bdb'/%3E"
    "%3Cpath d='M8 12h16M8 17h10' stroke='white' stroke-width='2.6' stroke-linecap='round'/%3E%3C/svg%3E"
)
_STYLE = files("agentbook.service.web").joinpath("style.css").read_text(encoding="utf-8")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def text(value: Child) -> Html:
    """Return children as markup, with text escaped.

    Examples
    --------
    >>> text(["<b>", el("i", "x"), None])
    '&lt;b&gt;<i>x</i>'
    """
    if value is None:
        return Html("")
    if isinstance(value, Html):
        return value
    if isinstance(value, str):
        return Html(html.escape(value))
    return Html("".join(text(part) for part in value))


def el(tag: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Return an element.

    Write ``class_`` and ``for_`` with a trailing underscore, and hyphens as
    underscores. False or None leaves an attribute out.

    Examples
    --------
    >>> el("a", "x < y", href='"', class_="wide")
    '<a href="&quot;" class="wide">x &lt; y</a>'
    """
    rendered = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        rendered.append(f" {key}" if value is True else f' {key}="{html.escape(str(value))}"')
    start = f"<{tag}{''.join(rendered)}>"
    return Html(start) if tag in _VOID else Html(f"{start}{text(children)}</{tag}>")


def row(*cells: Child) -> Html:
    """Return a table row."""
    return el("tr", (el("td", cell) for cell in cells))


def table(heads: Iterable[str], rows: Iterable[Html]) -> Html:
    """Return a table that becomes a list of blocks on a narrow screen.

    A heading may be empty.
    """
    cells = (el("th", head, scope="col") if head else el("td") for head in heads)
    return el("div", el("table", el("thead", el("tr", cells)), el("tbody", rows), class_="stack"), class_="scroll")


def hidden(name: str, value: str) -> Html:
    """Return a hidden form field."""
    return el("input", type="hidden", name=name, value=value)


def document(title: str, *children: Child) -> str:
    """Return a complete HTML document."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · agentbook"),
        el("link", rel="icon", href=_ICON),
        Html(f"<style>{_STYLE}</style>"),
    )
    return "<!doctype html>\n" + el("html", head, el("body", *children), lang="en")


def page(
    request: Request,
    title: str,
    *children: Child,
    status: int = 200,
    form_action: str = "'self'",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page as a response.

    Parameters
    ----------
    request
        The request to answer.
    title
        The title of the browser tab.
    children
        The body.
    status
        HTTP status.
    form_action
        Where its forms may lead, redirects included, as in a Content-Security-Policy.
    headers
        Headers to add or replace.
    """
    return Response(
        document(title, *children), status, {**safe_headers(request, form_action), **(headers or {})}, "text/html"
    )


def safe_headers(request: Request, form_action: str = "'self'") -> dict[str, str]:
    """Return the headers of every page: no framing, no storing, no referrer."""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; form-action {form_action}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    # With no-referrer, browsers send `Origin: null` even to us, and they send
    # Sec-Fetch-Site only on a trustworthy connection. On any other connection, the
    # origin must be sent to us, and to no one else.
    trustworthy = _host_name(request) in _LOOPBACK or request.headers.get("x-forwarded-proto") == "https"
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer" if trustworthy else "same-origin",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


def _host_name(request: Request) -> str | None:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None


def header_bar(*children: Child) -> Html:
    """Return the bar at the top of a page."""
    mark = el("span", "agentbook", class_="mark")
    return el("header", el("div", mark, *children, class_="bar"), class_="top")


def wants_page(request: Request) -> bool:
    """Whether an error gets a page: the request accepts HTML, or does not say."""
    return "text/html" in request.headers.get("accept", "text/html").lower()


def error_page(request: Request, status: int, title: str, *problems: str) -> Response:
    """Return an error page to a person, or raise the usual error for a program."""
    if not wants_page(request):
        raise errors.HTTPError(status, {400: "BadRequest", 403: "Forbidden"}[status], " ".join(problems))
    details = el("ul", (el("li", problem) for problem in problems)) if len(problems) > 1 else el("p", *problems)
    body = el("main", el("h1", title), el("div", details, class_="note bad", role="alert"), class_="narrow")
    return page(request, title, header_bar(), body, status=status)

"""Renders pages from their templates, and sends them with the right headers.

Everything that a template inserts is escaped. A page contains its style sheet, which is
allowed by its hash. It loads no other files, runs no scripts, and works below any path
prefix, since every address in it is relative.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .. import contract, errors
from ..proxies import LOOPBACK_HOSTS

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


@functools.cache
def _environment() -> Environment:
    # Loaded with the first page: most services in notebooks never show one.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markdown = MarkdownIt("commonmark", {"html": False})
    schemes = contract.load().document["components"]["securitySchemes"]
    made.globals["style"] = Markup(_STYLE)  # noqa: S704 - a file of ours
    made.globals["meanings"] = schemes["oauth2"]["flows"]["authorizationCode"]["scopes"]
    made.filters["from_json"] = msgspec.json.decode
    made.filters["markdown"] = lambda text: Markup(markdown.render(text))  # noqa: S704 - without HTML
    return made


def render(template: str, **values: Any) -> str:
    """Return a page as text; `values` are what its template inserts."""
    return _environment().get_template(template).render(values)


def page(request: Request, text: str, status: int = 200, form_action: str = "'self'") -> Response:
    """Return a page as a response that is neither framed nor stored.

    Parameters
    ----------
    request
        The request to answer.
    text
        The page, from `render`.
    status
        HTTP status.
    form_action
        Where its forms may lead, redirects included, as in a Content-Security-Policy.
    """
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; form-action {form_action}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    # With no-referrer, browsers send `Origin: null` even to us, and they send
    # Sec-Fetch-Site only on a trustworthy connection. On any other connection, the
    # origin must be sent to us, and to no one else.
    trustworthy = _host_name(request) in LOOPBACK_HOSTS or request.headers.get("x-forwarded-proto") == "https"
    headers = {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer" if trustworthy else "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Response(text, status, headers, "text/html")


def _host_name(request: Request) -> str | None:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None


class PageError(Exception):
    """Answered with a page to a person, and with `error` to a program.

    The page has the title and names the problems.
    """

    def __init__(self, error: errors.HTTPError, title: str, *problems: str) -> None:
        super().__init__(*problems)
        self.error = error
        self.title = title


def error_page(request: Request, error: PageError) -> Response:
    """Return the page of an error, or raise the error for a program."""
    # The request accepts HTML, or does not say.
    if "text/html" not in request.headers.get("accept", "text/html").lower():
        raise error.error from None
    return page(request, render("error.html", title=error.title, problems=error.args), error.error.status)

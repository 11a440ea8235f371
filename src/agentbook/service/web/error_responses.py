"""How an error is written: as JSON, or as a page if the request does not accept JSON.

Specification: "Errors".
"""

from __future__ import annotations

import html
import re
from http.client import responses

import msgspec

from ..errors import Headers, HTTPError

_ACCEPT_BYTES = 4_000  # of an Accept header; the rest is not read
_PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
)
_ZERO = re.compile(r"q\s*=\s*[0.]*")
_JSON_RANGES = ("application/json", "application/*", "*/*")  # the most specific first


def accepts_json(headers: Headers) -> bool:
    """Whether the Accept header accepts JSON.

    A request without an Accept header does not (specification: "Errors"). The most
    specific range decides, so ``*/*, application/json;q=0`` does not either.
    """
    accept = b",".join(value for name, value in headers if name == b"accept")[:_ACCEPT_BYTES].decode("latin-1").lower()
    accepted: dict[str, bool] = {}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        accepted[kind] = not any(map(_ZERO.fullmatch, parameters))
    return next((accepted[kind] for kind in _JSON_RANGES if kind in accepted), False)


def render_error(
    error: HTTPError, headers: Headers, root_url: str, *, oauth: bool = False
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return the status, headers and body of an error response.

    `headers` are the request's. `oauth` writes the fields of RFC 6749, always as JSON.
    """
    if oauth or accepts_json(headers):
        if oauth:
            fields = {"error": error.error or "server_error", "error_description": error.message}
        else:
            fields = {**({"error": error.error} if error.error else {}), "message": error.message}
        body, out = msgspec.json.encode(fields), [(b"content-type", b"application/json")]
    else:
        body, out = _page(error).encode(), [(b"content-type", b"text/html; charset=utf-8"), *_PAGE_HEADERS]
    out.append((b"content-length", str(len(body)).encode()))
    out += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in error.headers.items()]
    if (error.status == 401 or error.challenge) and "WWW-Authenticate" not in error.headers:
        out.append((b"www-authenticate", _challenge(error, root_url).encode()))
    return error.status, out, body


def _challenge(error: HTTPError, root_url: str) -> str:
    link = f"{root_url}/.well-known/oauth-protected-resource/v1"
    parameters = {**error.challenge, "resource_metadata": link}
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


def _page(error: HTTPError) -> str:
    title = f"{error.status} {responses.get(error.status, 'Error')}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n<h1>{title}</h1>\n<p>{html.escape(error.message)}</p>\n</body>\n</html>\n"
    )

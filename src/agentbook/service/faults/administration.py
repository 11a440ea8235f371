"""The administration of faults: ``/_admin/faults``, for this machine alone and with a token of its own.

``GET`` lists what is switched on, ``POST`` adds, ``DELETE`` switches all off (``/_admin/faults/ID``: one), and ``GET
/_admin/faults/catalogue`` lists the rows that have a name. It lies outside ``/v1``: it is no part of the API.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import errors
from .catalogue import CATALOGUE
from .switch import Switch, Wish

PREFIX = "/_admin/"
TOKEN_FILE = "admin-token"  # noqa: S105 - its name

_FAULTS = PREFIX + "faults"


@contextmanager
def admin_token(data: Path) -> Iterator[str]:
    """A new token, in a file of the data directory for its owner alone, for as long as the service runs."""
    token = secrets.token_urlsafe(32)
    fresh = data / f"{TOKEN_FILE}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token + "\n")
    fresh.replace(data / TOKEN_FILE)
    try:
        yield token
    finally:
        (data / TOKEN_FILE).unlink(missing_ok=True)


class Administration:
    """Takes every request whose path begins with `PREFIX`; passes on all others."""

    def __init__(self, app: ASGIApp, switch: Switch) -> None:
        self.app = app
        self.switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            return await self.app(scope, receive, send)
        if not self._is_allowed(scope):
            raise errors.url_not_found()  # to everybody else there is nothing here
        status, answer = self._answer(scope["method"], scope["path"], await _body(receive))
        body = msgspec.json.encode(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _is_allowed(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return (
            self.switch.opens_with(token.strip())
            and scheme.lower() == b"bearer"
            and _is_loopback((scope.get("client") or ("",))[0])
        )

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        rest = path.removeprefix(_FAULTS).strip("/") if path.startswith(_FAULTS) else None
        match method, rest:
            case "GET", "":
                return 200, {"items": [fault.shown() for fault in self.switch.all()]}
            case "GET", "catalogue":
                return 200, {"items": [_row(name) for name in CATALOGUE]}
            case "POST", "":
                return 201, self._add(body)
            case "DELETE", "":
                self.switch.clear()
                return 200, {}
            case "DELETE", str(id_):
                if not self.switch.remove(id_):
                    raise errors.not_found("Fault")
                return 200, {}
            case _, "" | "catalogue":
                raise errors.method_not_allowed(["GET", "POST", "DELETE"] if rest == "" else ["GET"])
        raise errors.url_not_found()

    def _add(self, body: bytes) -> Mapping[str, Any]:
        try:
            return self.switch.add(msgspec.json.decode(body, type=Wish)).shown()
        except (ValueError, RecursionError) as problem:  # msgspec's are ValueErrors too
            raise errors.invalid_input([f"body: {problem}"]) from None


def _row(name: str) -> dict[str, Any]:
    row = CATALOGUE[name]
    return {"row": name, "table": row.table, "path": row.path, "does": msgspec.to_builtins(row.action)}


async def _body(receive: Receive) -> bytes:
    whole, more = b"", True
    while more:
        message = await receive()
        whole += message.get("body", b"")
        more = message.get("more_body", False)
    return whole


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback

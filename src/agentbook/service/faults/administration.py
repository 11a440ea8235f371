"""The HTTP interface of faults, ``/_admin/faults``: from this machine, with a token.

``GET`` lists the active faults, ``POST`` adds one, ``DELETE`` removes all
(``/_admin/faults/ID``: one), and ``GET /_admin/faults/catalogue`` lists the named rows.
It lies outside ``/v1`` because it is not part of the API.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..._files import atomic_write
from .. import errors
from ..proxies import is_loopback
from ..web.endpoints import json_response, read_body
from .catalogue import CATALOGUE
from .switch import FaultRequest, Switch

PREFIX = "/_admin/"
TOKEN_FILE = "admin-token"  # noqa: S105 - its name

_FAULTS = PREFIX + "faults"


@contextmanager
def admin_token(data: Path) -> Iterator[str]:
    """Create a token in the data directory and remove it when the service stops.

    Only the owner of the file can read it.
    """
    token = secrets.token_urlsafe(32)
    with atomic_write(data / TOKEN_FILE, private=True) as file:
        file.write(f"{token}\n".encode())
    try:
        yield token
    finally:
        (data / TOKEN_FILE).unlink(missing_ok=True)


class FaultAdministration:
    """The ASGI application of the paths below `PREFIX`."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_allowed(scope):
            raise errors.url_not_found()  # to everyone else this path does not exist
        status, reply = self._answer(scope["method"], scope["path"], await read_body(Request(scope, receive)))
        await json_response(reply, status)(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = header.partition(b" ")
        return (
            self.switch.is_token(token.strip())
            and scheme.lower() == b"bearer"
            and is_loopback((scope.get("client") or ("",))[0])
        )

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        rest = path.removeprefix(_FAULTS).strip("/") if path.startswith(_FAULTS) else None
        match method, rest:
            case "GET", "":
                return 200, {"items": [fault.to_dict() for fault in self.switch.all()]}
            case "GET", "catalogue":
                return 200, {"items": [_describe(name) for name in CATALOGUE]}
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
            return self.switch.add(msgspec.json.decode(body, type=FaultRequest)).to_dict()
        except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
            raise errors.invalid_input([f"body: {problem}"]) from None


def _describe(name: str) -> dict[str, Any]:
    row = CATALOGUE[name]
    answer = {field: getattr(row.action, field) for field in ("status", "error", "message")}
    return {"row": name, "table": row.table, "path": row.path, "does": answer}

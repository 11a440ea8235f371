"""The HTTP interface of faults, ``/_admin/faults``: from this machine, with a token.

``GET`` lists the active faults, ``POST`` adds one, ``DELETE`` removes all
(``/_admin/faults/ID``: one), and ``GET /_admin/faults/catalogue`` lists the named rows.
It lies outside ``/v1`` because it is not part of the API.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..._files import atomic_write
from .. import errors
from ..web.endpoints import MethodEndpoint, json_response
from .catalogue import CATALOGUE
from .switch import PREFIX, FaultRequest, Switch

TOKEN_FILE = "admin-token"  # noqa: S105 - its name


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


def routes(switch: Switch) -> list[Route]:
    """Return the routes; `inject_faults` checks who asks."""
    every = MethodEndpoint(GET=partial(_list, switch), POST=partial(_add, switch), DELETE=partial(_clear, switch))
    return [
        *(Route(f"{PREFIX}faults{slash}", endpoint=every) for slash in ("", "/")),
        Route(f"{PREFIX}faults/catalogue", endpoint=MethodEndpoint(GET=_show_catalogue)),
        Route(f"{PREFIX}faults/{{id}}", endpoint=MethodEndpoint(DELETE=partial(_remove, switch))),
    ]


async def _list(switch: Switch, _request: Request) -> Response:
    return json_response({"items": [fault.to_dict() for fault in switch.faults.values()]})


async def _add(switch: Switch, request: Request) -> Response:
    try:
        fault = switch.add(msgspec.json.decode(await request.body(), type=FaultRequest))
    except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
        raise errors.invalid_input([f"body: {problem}"]) from None
    return json_response(fault.to_dict(), 201)


async def _clear(switch: Switch, _request: Request) -> Response:
    switch.faults.clear()
    return json_response({})


async def _remove(switch: Switch, request: Request) -> Response:
    if switch.faults.pop(request.path_params["id"], None) is None:
        raise errors.not_found("Fault")
    return json_response({})


async def _show_catalogue(_request: Request) -> Response:
    items = []
    for name, row in CATALOGUE.items():
        does = {field: getattr(row.action, field) for field in ("status", "error", "message")}
        items.append({"row": name, "table": row.table, "path": row.path, "does": does})
    return json_response({"items": items})

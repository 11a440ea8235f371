"""The active faults, which of them apply to a request or a turn, and what they do.

They are in memory: each process has its own. They apply to requests after the rate
limit and before anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct
from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import contract, errors
from ..engines.base import Failure
from ..proxies import is_loopback
from ..web.endpoints import has_token
from .catalogue import CATALOGUE, Action, Effect

PREFIX = "/_admin/"
ABORT = "agentbook.abort"  # in the state of a request: cuts its connection


class Match(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which requests a fault applies to; for failing turns, which agents' turns.

    A field that is left out matches anything.
    """

    method: str | None = None
    path: str | None = None
    operation: str | None = None
    agent: str | None = None


class FaultRequest(Struct, forbid_unknown_fields=True):
    """The posted JSON: a row of the catalogue or what happens, where, and how often.

    If `times` is None, the fault stays on.
    """

    row: str | None = None
    then: Effect | None = None
    match: Match | None = None
    times: Annotated[int, Meta(ge=1)] | None = 1


@dataclass(slots=True)
class Fault:
    """An active fault; `hits` is how often it has applied."""

    id: str
    request: FaultRequest
    match: Match
    action: Action
    hits: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the fault as the administration lists it."""
        fields: dict[str, object] = msgspec.to_builtins(self.request)
        match, times = msgspec.to_builtins(self.match), self.request.times
        return {"id": self.id, **fields, "match": match, "left": times and times - self.hits, "met": self.hits}


class Switch:
    """The active faults of a process by id, and the token that allows changing them."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)
        paths = {each.id: (each.method, each.path) for each in contract.load().operations.values()}
        # openapi.yaml cannot hold the socket.
        paths["streamEvents"] = ("WEBSOCKET", "/sessions/{session_id}/events/ws")
        self._operations = {id_: (method, compile_path(f"/v1{path}")[0]) for id_, (method, path) in paths.items()}

    def add(self, request: FaultRequest) -> Fault:
        """Activate a fault; raise `ValueError` if the request is invalid."""
        if (request.row is None) == (request.then is None):
            raise ValueError("name a row of the catalogue, or what is to happen in `then`")
        if request.row is not None and request.row not in CATALOGUE:
            raise ValueError(f"row: there is no row {request.row!r}; the rows are {', '.join(CATALOGUE)}")
        operation = request.match.operation if request.match is not None else None
        if operation is not None and operation not in self._operations:
            known = ", ".join(sorted(self._operations))
            raise ValueError(f"match.operation: there is no {operation!r}; there are {known}")
        if request.then is not None:
            action, match = request.then.action(), Match()
        else:
            row = CATALOGUE[request.row or ""]
            action, match = row.action, Match(path=row.path)
        fault = Fault(str(next(self._numbers)), request, request.match or match, action)
        self.faults[fault.id] = fault
        return fault

    def for_request(self, scope: Scope) -> list[errors.HTTPError | Effect]:
        """Return what applies here: all matching delays, then the first other fault."""
        actions: list[errors.HTTPError | Effect] = []
        for fault in list(self.faults.values()):
            action = fault.action
            if isinstance(action, Failure) or not self._matches(fault.match, scope):
                continue
            if isinstance(action, Effect) and action.socket_cut is not UNSET and scope["type"] != "websocket":
                continue
            self._hit(fault)
            actions.append(action)
            if not isinstance(action, Effect) or action.delay_s is None:
                break
        return actions

    async def for_turn(self, agent: str) -> Failure | None:
        """Return how a turn of the agent is to fail, or None."""
        for fault in self.faults.values():
            if isinstance(fault.action, Failure) and fnmatchcase(agent, fault.match.agent or "*"):
                self._hit(fault)
                return fault.action
        return None

    def _hit(self, fault: Fault) -> None:
        """Count one use of a fault; the last one removes it."""
        fault.hits += 1
        if fault.hits == fault.request.times:
            del self.faults[fault.id]

    def _matches(self, match: Match, scope: Scope) -> bool:
        method, path = scope.get("method", "WEBSOCKET"), scope["path"]
        if (match.method or method).upper() != method or not fnmatchcase(path, match.path or "*"):
            return False
        if match.operation is None:
            return True
        expected, pattern = self._operations[match.operation]
        return expected == ("GET" if method == "HEAD" else method) and pattern.match(path) is not None


async def inject_faults(switch: Switch, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Apply the active faults to a request, unless it manages faults itself."""
    if scope["path"].startswith(PREFIX):
        if not is_loopback((scope.get("client") or ("",))[0]) or not has_token(Headers(scope=scope), switch.token):
            raise errors.url_not_found()  # to everyone else this path does not exist
        return await app(scope, receive, send)
    for action in switch.for_request(scope):
        match action:
            case errors.HTTPError():
                raise action.with_traceback(None)  # it may be raised again
            case Effect(delay_s=float() as seconds):
                await asyncio.sleep(seconds)
            case Effect(drop="before"):
                return await _cut_connection(scope, receive)
            case Effect(drop="after"):
                with contextlib.suppress(errors.HTTPError):
                    await app(scope, receive, _discard)
                return await _cut_connection(scope, receive)
            case Effect():
                send = _cutting(action, scope, send)
    await app(scope, receive, send)


async def _cut_connection(scope: Scope, receive: Receive) -> None:
    """Cut the connection and wait until the server has noticed.

    After that, the server expects no response.
    """
    scope["state"][ABORT]()
    while not (await receive())["type"].endswith(".disconnect"):
        pass


async def _discard(_message: Message) -> None:
    """Discard a response that is not to be delivered."""


def _cutting(effect: Effect, scope: Scope, send: Send) -> Send:
    """Send a number of frames, then close or cut the socket, and discard the rest."""
    frames, is_cut = 0, False

    async def send_until_cut(message: Message) -> None:
        nonlocal frames, is_cut
        if is_cut:
            return
        await send(message)
        frames += message["type"] == "websocket.send"
        is_cut = message["type"] in ("websocket.accept", "websocket.send") and frames >= effect.after_frames
        if is_cut and effect.socket_cut is None:
            scope["state"][ABORT]()
        elif is_cut:
            await send({"type": "websocket.close", "code": effect.socket_cut, "reason": "A fault was asked for"})

    return send_until_cut

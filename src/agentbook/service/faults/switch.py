"""The active faults, and which of them apply to a request or a turn.

They are in memory: each process has its own.
"""

from __future__ import annotations

import hmac
import itertools
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.routing import compile_path
from starlette.types import Scope

from .. import contract
from ..engines.base import Failure
from ..errors import HTTPError
from .catalogue import CATALOGUE, Action, Effect

SOCKET = "streamEvents"  # the socket's name among operations; openapi.yaml cannot hold it


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
    """An active fault.

    `remaining` is how often it still applies, None for always; `hits` how often it has.
    """

    id: str
    request: FaultRequest
    match: Match
    action: Action
    remaining: int | None
    hits: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the fault as the administration lists it."""
        fields: dict[str, object] = msgspec.to_builtins(self.request)
        match = msgspec.to_builtins(self.match)
        return {"id": self.id, **fields, "match": match, "left": self.remaining, "met": self.hits}


class Switch:
    """The active faults of a process, and the token that allows changing them."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)
        paths = {each.id: (each.method, each.path) for each in contract.load().operations.values()}
        paths[SOCKET] = ("WEBSOCKET", "/sessions/{session_id}/events/ws")
        self._operations = {id_: (method, compile_path(f"/v1{path}")[0]) for id_, (method, path) in paths.items()}

    def is_token(self, token: bytes) -> bool:
        """Whether `token` is the right one."""
        return hmac.compare_digest(token, self._token)

    def add(self, request: FaultRequest) -> Fault:
        """Activate a fault; raise `ValueError` if the request is invalid."""
        action, match = self._check(request)
        fault = Fault(str(next(self._numbers)), request, match, action, request.times)
        self._faults[fault.id] = fault
        return fault

    def all(self) -> list[Fault]:
        """Return the active faults in the order they were added."""
        return list(self._faults.values())

    def remove(self, id_: str) -> bool:
        """Remove a fault, and return whether it was active."""
        return self._faults.pop(id_, None) is not None

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def for_request(self, scope: Scope) -> list[HTTPError | Effect]:
        """Return what applies here: all matching delays, then the first other fault."""
        method = str(scope.get("method", "WEBSOCKET"))
        actions: list[HTTPError | Effect] = []
        for fault in self.all():
            action = fault.action
            if isinstance(action, Failure) or not self._matches(fault.match, method, scope["path"]):
                continue
            if isinstance(action, Effect) and action.cuts_socket and scope["type"] != "websocket":
                continue
            self._hit(fault)
            actions.append(action)
            if not isinstance(action, Effect) or action.delay_s is None:
                break
        return actions

    async def for_turn(self, agent: str) -> Failure | None:
        """Return how a turn of the agent is to fail, or None."""
        for fault in self.all():
            if isinstance(fault.action, Failure) and fnmatchcase(agent, fault.match.agent or "*"):
                self._hit(fault)
                return fault.action
        return None

    def _hit(self, fault: Fault) -> None:
        """Count one use of a fault; the last one removes it."""
        fault.hits += 1
        if fault.remaining is not None:
            fault.remaining -= 1
            if not fault.remaining:
                del self._faults[fault.id]

    def _check(self, request: FaultRequest) -> tuple[Action, Match]:
        """Return what happens and where; raise `ValueError` if it is invalid."""
        if (request.row is None) == (request.then is None):
            raise ValueError("name a row of the catalogue, or what is to happen in `then`")
        if request.row is not None and request.row not in CATALOGUE:
            raise ValueError(f"row: there is no row {request.row!r}; the rows are {', '.join(CATALOGUE)}")
        operation = request.match.operation if request.match is not None else None
        if operation is not None and operation not in self._operations:
            known = ", ".join(sorted(self._operations))
            raise ValueError(f"match.operation: there is no {operation!r}; there are {known}")
        if request.then is not None:
            return request.then.action(), request.match or Match()
        row = CATALOGUE[request.row or ""]
        return row.action, request.match or Match(path=row.path)

    def _matches(self, match: Match, method: str, path: str) -> bool:
        if match.method is not None and match.method.upper() != method:
            return False
        if match.path is not None and not fnmatchcase(path, match.path):
            return False
        if match.operation is None:
            return True
        expected, pattern = self._operations[match.operation]
        return expected == ("GET" if method == "HEAD" else method) and pattern.match(path) is not None

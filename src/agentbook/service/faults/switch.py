"""The active faults, and which of them apply to a request or a turn.

They are in memory: each process has its own.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.types import Scope

from .. import contract
from ..engines.base import Failure
from .catalogue import CATALOGUE, Action, CloseSocket, Delay, Drop, EndTurn, ErrorReply

SOCKET = "streamEvents"  # the socket's name among operations; openapi.yaml cannot hold it
_MAX_FAULTS = 1000


class Match(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which requests a fault applies to; for failing turns, which agents' turns.

    A field that is left out matches anything.
    """

    method: str | None = None
    path: str | None = None
    operation: str | None = None
    agent: str | None = None


class Effect(Struct, forbid_unknown_fields=True):
    """What happens: one of an error, a delay, a dropped connection or a cut socket."""

    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    error: str | None = None
    message: str = "Something went wrong"
    delay_s: Annotated[float, Meta(ge=0, le=600)] | None = None
    drop: Literal["before", "after"] | None = None
    socket_cut: int | UnsetType | None = UNSET
    after_frames: Annotated[int, Meta(ge=0)] = 0

    def action(self) -> Action:
        """Return the `Action`; raise `ValueError` unless there is exactly one."""
        actions: list[Action] = []
        if self.status is not None:
            actions.append(ErrorReply(self.status, self.error, self.message))
        if self.delay_s is not None:
            actions.append(Delay(self.delay_s))
        if self.drop is not None:
            actions.append(Drop(self.drop))
        if self.socket_cut is not UNSET:
            if self.socket_cut is not None and not (self.socket_cut in _CLOSE_CODES or 3000 <= self.socket_cut < 5000):
                raise ValueError(f"then.socket_cut: {self.socket_cut} is no close code that may be sent")
            actions.append(CloseSocket(self.socket_cut, self.after_frames))
        if len(actions) != 1:
            raise ValueError("then: name exactly one of status, delay_s, drop and socket_cut")
        return actions[0]


_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})


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
        self._digest = hashlib.sha256(token.encode()).digest()
        self._faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)
        self._operations = [
            (operation.method, re.compile("/v1" + re.sub(r"\{[^}]+\}", "[^/]+", operation.path)), operation.id)
            for operation in contract.load().operations.values()
        ]
        self._operations.append(("WEBSOCKET", re.compile("/v1/sessions/[^/]+/events/ws"), SOCKET))

    def is_token(self, token: bytes) -> bool:
        """Whether `token` is the right one."""
        return hmac.compare_digest(hashlib.sha256(token).digest(), self._digest)

    def add(self, request: FaultRequest) -> Fault:
        """Activate a fault; raise `ValueError` if the request is invalid."""
        action, match = self._check(request)
        if len(self._faults) >= _MAX_FAULTS:
            raise ValueError(f"there are {_MAX_FAULTS} faults already; delete some")
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

    def for_request(self, scope: Scope) -> list[Action]:
        """Return what applies here: all matching delays, then the first other fault."""
        method = str(scope.get("method", "WEBSOCKET"))
        actions: list[Action] = []
        for fault in self.all():
            if isinstance(fault.action, EndTurn) or (
                isinstance(fault.action, CloseSocket) and scope["type"] != "websocket"
            ):
                continue
            if self._matches(fault.match, method, scope["path"]):
                actions.append(self._hit(fault))
                if not isinstance(fault.action, Delay):
                    break
        return actions

    async def for_turn(self, agent: str) -> Failure | None:
        """Return how a turn of the agent is to fail, or None."""
        for fault in self.all():
            if isinstance(fault.action, EndTurn) and fnmatchcase(agent, fault.match.agent or "*"):
                self._hit(fault)
                return fault.action.failure
        return None

    def _hit(self, fault: Fault) -> Action:
        """Count one use of a fault; the last one removes it."""
        fault.hits += 1
        if fault.remaining is not None:
            fault.remaining -= 1
            if not fault.remaining:
                del self._faults[fault.id]
        return fault.action

    def _check(self, request: FaultRequest) -> tuple[Action, Match]:
        """Return what happens and where; raise `ValueError` if it is invalid."""
        if (request.row is None) == (request.then is None):
            raise ValueError("name a row of the catalogue, or what is to happen in `then`")
        if request.row is not None and request.row not in CATALOGUE:
            raise ValueError(f"row: there is no row {request.row!r}; the rows are {', '.join(CATALOGUE)}")
        known = {name for _, _, name in self._operations}
        operation = request.match.operation if request.match is not None else None
        if operation is not None and operation not in known:
            raise ValueError(f"match.operation: there is no {operation!r}; there are {', '.join(sorted(known))}")
        if request.then is not None:
            return request.then.action(), request.match or Match()
        row = CATALOGUE[request.row or ""]
        return row.action, request.match or Match(path=row.path)

    def _matches(self, match: Match, method: str, path: str) -> bool:
        if match.method is not None and match.method.upper() != method:
            return False
        if match.path is not None and not fnmatchcase(path, match.path):
            return False
        return match.operation is None or match.operation == self._operation(method, path)

    def _operation(self, method: str, path: str) -> str | None:
        request_method = "GET" if method == "HEAD" else method
        return next(
            (name for m, pattern, name in self._operations if m == request_method and pattern.fullmatch(path)), None
        )

"""The active faults, and which of them apply to a request or a turn.

They are rows of the store, which every process of a platform reads for each request. So
a fault that should happen once happens once, whichever process applies it. Only a
service that was started with faults pays for that.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Connection, delete, func, insert, or_, select, update
from starlette.types import Scope

from .. import contract
from ..engines.base import Failure
from ..store import Store
from ..store.tables import faults
from .catalogue import CATALOGUE, Action, Cut, Delay, Drop, EndTurn, ErrorReply

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


class Then(Struct, forbid_unknown_fields=True):
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
            actions.append(Cut(self.socket_cut, self.after_frames))
        if len(actions) != 1:
            raise ValueError("then: name exactly one of status, delay_s, drop and socket_cut")
        return actions[0]


_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})


class FaultRequest(Struct, forbid_unknown_fields=True):
    """The posted JSON: a row of the catalogue or what happens, where, and how often.

    If `times` is None, the fault stays on.
    """

    row: str | None = None
    then: Then | None = None
    match: Match | None = None
    times: Annotated[int, Meta(ge=1)] | None = 1


@dataclass(slots=True)
class Fault:
    """An active fault."""

    id: str
    request: FaultRequest
    match: Match
    action: Action
    remaining: int | None
    times_met: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the fault as the administration lists it."""
        fields: dict[str, object] = msgspec.to_builtins(self.request)
        return {
            "id": self.id,
            **fields,
            "match": msgspec.to_builtins(self.match),
            "left": self.remaining,
            "met": self.times_met,
        }


class Switch:
    """The active faults of a service, and the token that allows changing them.

    Parameters
    ----------
    token
        The token that allows changing them.
    store
        Holds the faults. Those of an earlier run are removed, unless other processes
        use the store.
    """

    def __init__(self, token: str, store: Store) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._store = store
        if store.engine.dialect.name == "sqlite":
            store.write_now(lambda tx: tx.db.execute(delete(faults)))
        self._operations = [
            (operation.method, re.compile("/v1" + re.sub(r"\{[^}]+\}", "[^/]+", operation.path)), operation.id)
            for operation in contract.load().operations.values()
        ]
        self._operations.append(("WEBSOCKET", re.compile("/v1/sessions/[^/]+/events/ws"), SOCKET))

    def is_token(self, token: bytes) -> bool:
        """Whether `token` is the right one."""
        return hmac.compare_digest(hashlib.sha256(token).digest(), self._digest)

    async def add(self, request: FaultRequest) -> Fault:
        """Activate a fault; raise `ValueError` if the request is invalid."""
        self._check(request)
        row = {"request_json": msgspec.json.encode(request).decode(), "remaining": request.times, "times_met": 0}

        def add(db: Connection) -> int:
            if (db.execute(select(func.count()).select_from(faults)).scalar() or 0) >= _MAX_FAULTS:
                raise ValueError(f"there are {_MAX_FAULTS} faults already; delete some")
            return int(db.execute(insert(faults).returning(faults.c.number), row).scalar_one())

        number = await self._store.count(add)
        return _fault(number, request, request.times, 0)

    async def all(self) -> list[Fault]:
        """Return the active faults in the order they were added."""
        rows = await self._store.read(lambda db: db.execute(select(faults).order_by(faults.c.number)).all())
        return [
            _fault(row.number, msgspec.json.decode(row.request_json, type=FaultRequest), row.remaining, row.times_met)
            for row in rows
        ]

    async def remove(self, id_: str) -> bool:
        """Remove a fault, and return whether it was active."""
        if not id_.isascii() or not id_.isdigit():
            return False
        gone = delete(faults).where(faults.c.number == int(id_))
        return bool(await self._store.count(lambda db: db.execute(gone).rowcount))

    async def clear(self) -> None:
        """Remove all faults."""
        await self._store.count(lambda db: db.execute(delete(faults)))

    async def for_request(self, scope: Scope) -> list[Action]:
        """Return what applies here: all matching delays, then the first other fault."""
        method = str(scope.get("method", "WEBSOCKET"))
        actions: list[Action] = []
        for fault in await self.all():
            if isinstance(fault.action, EndTurn) or (isinstance(fault.action, Cut) and scope["type"] != "websocket"):
                continue
            if self._matches(fault.match, method, scope["path"]) and await self._meet(fault):
                actions.append(fault.action)
                if not isinstance(fault.action, Delay):
                    break
        return actions

    async def for_turn(self, agent: str) -> Failure | None:
        """Return how a turn of the agent is to fail, or None."""
        for fault in await self.all():
            action = fault.action
            if isinstance(action, EndTurn) and fnmatchcase(agent, fault.match.agent or "*") and await self._meet(fault):
                return action.failure
        return None

    def _check(self, request: FaultRequest) -> None:
        """Raise `ValueError` if the request is invalid."""
        if (request.row is None) == (request.then is None):
            raise ValueError("name a row of the catalogue, or what is to happen in `then`")
        if request.row is not None and request.row not in CATALOGUE:
            raise ValueError(f"row: there is no row {request.row!r}; the rows are {', '.join(CATALOGUE)}")
        if request.then is not None:
            request.then.action()
        known = {name for _, _, name in self._operations}
        operation = request.match.operation if request.match is not None else None
        if operation is not None and operation not in known:
            raise ValueError(f"match.operation: there is no {operation!r}; there are {', '.join(sorted(known))}")

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

    async def _meet(self, fault: Fault) -> bool:
        """Count one use of a fault; False if others have used it up."""
        this = faults.c.number == int(fault.id)
        active = this & or_(faults.c.remaining.is_(None), faults.c.remaining > 0)
        met = update(faults).where(active)
        met = met.values(times_met=faults.c.times_met + 1, remaining=faults.c.remaining - 1)

        def meet(db: Connection) -> bool:
            was_active = bool(db.execute(met).rowcount)
            db.execute(delete(faults).where(this, faults.c.remaining == 0))
            return was_active

        return await self._store.count(meet)


def _fault(number: int, request: FaultRequest, remaining: int | None, times_met: int) -> Fault:
    """Return a fault from the store, whose request has been checked."""
    match = request.match
    if request.row is not None:
        row = CATALOGUE[request.row]
        return Fault(str(number), request, match or Match(path=row.path), row.action, remaining, times_met)
    assert request.then is not None
    return Fault(str(number), request, match or Match(), request.then.action(), remaining, times_met)

"""The faults that were asked for, and which of them a request or a turn meets."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.types import Scope

from .. import contract
from ..engines.base import Failure
from .catalogue import CATALOGUE, Action, Answer, Cut, Delay, Drop, EndTurn

SOCKET = "streamEvents"  # the socket's name among operations; openapi.yaml cannot hold it
_MOST_FAULTS = 1000


class Match(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which requests (or, for failing turns, whose turns) a fault is for; what is left out is any."""

    method: str | None = None
    path: str | None = None
    operation: str | None = None
    agent: str | None = None


class Then(Struct, forbid_unknown_fields=True):
    """What is to happen: exactly one of an answer, a delay, a dropped connection, a cut socket."""

    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    error: str | None = None
    message: str = "Something went wrong"
    delay_s: Annotated[float, Meta(ge=0, le=600)] | None = None
    drop: Literal["before", "after"] | None = None
    socket_cut: int | UnsetType | None = UNSET
    after_frames: Annotated[int, Meta(ge=0)] = 0

    def action(self) -> Action:
        """As an `Action`. Raises `ValueError` where it is none, or several."""
        found: list[Action] = []
        if self.status is not None:
            found.append(Answer(self.status, self.error, self.message))
        if self.delay_s is not None:
            found.append(Delay(self.delay_s))
        if self.drop is not None:
            found.append(Drop(self.drop))
        if self.socket_cut is not UNSET:
            if self.socket_cut is not None and not (self.socket_cut in _CLOSE_CODES or 3000 <= self.socket_cut < 5000):
                raise ValueError(f"then.socket_cut: {self.socket_cut} is no close code that may be sent")
            found.append(Cut(self.socket_cut, self.after_frames))
        if len(found) != 1:
            raise ValueError("then: name exactly one of status, delay_s, drop and socket_cut")
        return found[0]


_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})


class Wish(Struct, forbid_unknown_fields=True):
    """What is posted: a row of the catalogue, or what is to happen; for which requests; and how often (None: always)."""

    row: str | None = None
    then: Then | None = None
    match: Match | None = None
    times: Annotated[int, Meta(ge=1)] | None = 1


@dataclass(slots=True)
class Fault:
    """One fault that is switched on."""

    id: str
    wish: Wish
    match: Match
    action: Action
    left: int | None
    met: int = 0

    def shown(self) -> dict[str, object]:
        """As the administration lists it."""
        fields: dict[str, object] = msgspec.to_builtins(self.wish)
        return {"id": self.id, **fields, "match": msgspec.to_builtins(self.match), "left": self.left, "met": self.met}


class Switch:
    """All faults of a service, and the token of those who may change them. Only its event loop uses it."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._faults: dict[str, Fault] = {}
        self._made = 0
        self._operations = [
            (operation.method, re.compile("/v1" + re.sub(r"\{[^}]+\}", "[^/]+", operation.path)), operation.id)
            for operation in contract.load().operations.values()
        ]
        self._operations.append(("WEBSOCKET", re.compile("/v1/sessions/[^/]+/events/ws"), SOCKET))

    def opens_with(self, token: bytes) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(hashlib.sha256(token).digest(), self._digest)

    def add(self, wish: Wish) -> Fault:
        """Switch a fault on. Raises `ValueError` with what is wrong with the wish."""
        match = wish.match or Match()
        if (wish.row is None) == (wish.then is None):
            raise ValueError("name a row of the catalogue, or what is to happen in `then`")
        if wish.row is not None:
            if wish.row not in CATALOGUE:
                raise ValueError(f"row: there is no row {wish.row!r}; the rows are {', '.join(CATALOGUE)}")
            row = CATALOGUE[wish.row]
            action = row.action
            if wish.match is None:
                match = Match(path=row.path)
        else:
            assert wish.then is not None
            action = wish.then.action()
        known = {name for _, _, name in self._operations}
        if match.operation is not None and match.operation not in known:
            raise ValueError(f"match.operation: there is no {match.operation!r}; there are {', '.join(sorted(known))}")
        if len(self._faults) >= _MOST_FAULTS:
            raise ValueError(f"there are {_MOST_FAULTS} faults already; delete some")
        self._made += 1
        fault = Fault(str(self._made), wish, match, action, wish.times)
        self._faults[fault.id] = fault
        return fault

    def all(self) -> list[Fault]:
        """Those that are switched on, in the order they were added."""
        return list(self._faults.values())

    def remove(self, id_: str) -> bool:
        """Switch one off; whether it was on."""
        return self._faults.pop(id_, None) is not None

    def clear(self) -> None:
        """Switch all off."""
        self._faults.clear()

    def for_request(self, scope: Scope) -> list[Action]:
        """What this request meets: every delay that fits, and the first other fault that does."""
        method = str(scope.get("method", "WEBSOCKET"))
        found: list[Action] = []
        for fault in self.all():
            if isinstance(fault.action, EndTurn) or (isinstance(fault.action, Cut) and scope["type"] != "websocket"):
                continue
            if self._fits(fault.match, method, scope["path"]):
                found.append(self._meet(fault))
                if not isinstance(fault.action, Delay):
                    break
        return found

    def for_turn(self, agent: str) -> Failure | None:
        """How the turn of an agent of this name is to fail, None where it is not."""
        for fault in self.all():
            if isinstance(fault.action, EndTurn) and fnmatchcase(agent, fault.match.agent or "*"):
                self._meet(fault)
                return fault.action.failure
        return None

    def _fits(self, match: Match, method: str, path: str) -> bool:
        if match.method is not None and match.method.upper() != method:
            return False
        if match.path is not None and not fnmatchcase(path, match.path):
            return False
        return match.operation is None or match.operation == self._operation(method, path)

    def _operation(self, method: str, path: str) -> str | None:
        asked = "GET" if method == "HEAD" else method
        return next((name for m, pattern, name in self._operations if m == asked and pattern.fullmatch(path)), None)

    def _meet(self, fault: Fault) -> Action:
        fault.met += 1
        if fault.left is not None:
            fault.left -= 1
            if not fault.left:
                del self._faults[fault.id]
        return fault.action

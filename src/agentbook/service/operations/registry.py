"""What a handler gets and gives, and the register of handlers by operationId.

A handler is a plain function of a `Call`: no awaits, no sockets. Reads run on one consistent state of the store, writes
inside the writer's transaction; the application decides where, so a handler can be read top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection

from ..auth import Principal
from ..store import Transaction

if TYPE_CHECKING:
    from ..state import Platform

Handler = Callable[["Call"], "Mapping[str, Any] | bytes"]


@dataclass(slots=True)
class Call:
    """One request, authorised and validated.

    `principal` is None for a caller without a credential. `tx` is there for writes alone, where `db` is its connection.
    """

    platform: Platform
    principal: Principal | None
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    db: Connection
    tx: Transaction | None = None

    @property
    def caller(self) -> Principal:
        """The principal, where the operation answers nobody without one."""
        assert self.principal is not None
        return self.principal

    @property
    def writing(self) -> Transaction:
        """The transaction, in a write."""
        assert self.tx is not None
        return self.tx


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler and where it runs: ``brief`` (on the loop), ``read`` (in a thread) or ``write`` (the writer thread)."""

    run: Handler
    kind: str


HANDLERS: dict[str, Registered] = {}


def _register(operation_id: str, kind: str) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        if operation_id in HANDLERS:
            raise RuntimeError(f"two handlers for {operation_id}")
        HANDLERS[operation_id] = Registered(handler, kind)
        return handler

    return add


def reads(operation_id: str, *, brief: bool = False) -> Callable[[Handler], Handler]:
    """Register a handler that only reads; `brief` ones look up rows by key and may run on the loop."""
    return _register(operation_id, "brief" if brief else "read")


def writes(operation_id: str) -> Callable[[Handler], Handler]:
    """Register a handler that writes."""
    return _register(operation_id, "write")


def page(items: Iterable[Mapping[str, Any]], total: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """The list envelope (specification: "Resources and their fields", Pagination)."""
    listed = list(items)
    return {"items": listed, "pagination": pagination(len(listed), total, query["limit"], query["offset"])}


def pagination(count: int, total: int, limit: int, offset: int) -> dict[str, Any]:
    """The envelope's second half, for a page of `count` items."""
    return {"total_count": total, "limit": limit, "offset": offset, "has_more": offset + count < total}


def page_of_wires(wires: list[str], total: int, query: Mapping[str, Any]) -> bytes:
    """The list envelope around items that are JSON texts already."""
    tail = msgspec.json.encode(pagination(len(wires), total, query["limit"], query["offset"]))
    return b'{"items":[' + ",".join(wires).encode() + b'],"pagination":' + tail + b"}"

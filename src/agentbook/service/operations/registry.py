"""What a handler receives and returns, and the handlers by operationId.

A handler is a plain function of an `OperationCall`: no awaits, no sockets. Reads see
one consistent state of the store, and writes run inside the writer's transaction. The
application decides where a handler runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection

from ..auth import Principal
from ..store import Transaction

if TYPE_CHECKING:
    from ..state import Platform

Result = Mapping[str, Any] | bytes  # a record, or JSON
Handler = Callable[["OperationCall"], Result]


@dataclass(slots=True)
class OperationCall:
    """An authorised, validated request.

    `principal` is None for a caller without a credential. `tx` is set for writes, and
    `db` is then its connection.
    """

    platform: Platform
    principal: Principal | None
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    db: Connection
    tx: Transaction | None = None

    def claim(self, key: Hashable) -> None:
        """Claim `key` until this write has been committed, or has failed.

        Several writes share one commit, so a request can see the changes of another
        that is not committed yet (`is_claimed`).
        """
        claimed = self.platform.claims
        claimed.add(key)
        self.writing.after_end(lambda: claimed.discard(key))

    def is_claimed(self, key: Hashable) -> bool:
        """Whether a write that is not committed yet has claimed `key`."""
        return key in self.platform.claims

    @property
    def caller(self) -> Principal:
        """The principal, in an operation that requires a credential."""
        assert self.principal is not None
        return self.principal

    @property
    def writing(self) -> Transaction:
        """The transaction, in a write."""
        assert self.tx is not None
        return self.tx


@dataclass(frozen=True, slots=True)
class RegisteredHandler:
    """A handler and what it does.

    `kind` is ``read`` or ``write``.
    """

    run: Handler
    kind: str


HANDLERS: dict[str, RegisteredHandler] = {}


def _register(operation_id: str, kind: str, handler: Handler) -> Handler:
    if operation_id in HANDLERS:
        raise RuntimeError(f"two handlers for {operation_id}")
    HANDLERS[operation_id] = RegisteredHandler(handler, kind)
    return handler


def reads(operation_id: str) -> Callable[[Handler], Handler]:
    """Register a handler that only reads; it may run twice (see `Store.read`)."""
    return partial(_register, operation_id, "read")


def writes(operation_id: str) -> Callable[[Handler], Handler]:
    """Register a handler that writes."""
    return partial(_register, operation_id, "write")


def page(items: Iterable[Mapping[str, Any]], total: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the list envelope.

    Specification: "Resources and their fields", Pagination.
    """
    listed = list(items)
    return {"items": listed, "pagination": _pagination(len(listed), total, query)}


def page_of_json(items: list[str], total: int, query: Mapping[str, Any]) -> bytes:
    """Return the list envelope around items that are JSON texts."""
    pagination = msgspec.json.encode(_pagination(len(items), total, query))
    return b'{"items":[' + ",".join(items).encode() + b'],"pagination":' + pagination + b"}"


def _pagination(count: int, total: int, query: Mapping[str, Any]) -> dict[str, Any]:
    limit, offset = query["limit"], query["offset"]
    has_more = offset + count < total
    if has_more:  # a page that ended early, because it is long, says where the next one begins
        limit = min(limit, count)
    return {"total_count": total, "limit": limit, "offset": offset, "has_more": has_more}

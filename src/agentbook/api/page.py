"""One page of a list: the reply of a list operation.

Loads parse the items themselves, so a page holds the bytes as they arrived.
Specification: "Pagination (list envelope)".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import compress
from typing import Any

import msgspec

from .calls import Reply
from .json import read, read_value
from .record import Record

# Larger totals are not credible, and list() would allocate memory for them.
_MAX_TOTAL = 10**8
AROUND = 2  # levels of JSON around an item (see `json.repaired`)


class _Envelope(msgspec.Struct):
    pagination: Any = None


class _Raw(msgspec.Struct):
    items: list[msgspec.Raw]
    pagination: msgspec.Raw = msgspec.Raw(b"{}")


_read_pagination = msgspec.json.Decoder(_Envelope).decode
_read_raw = msgspec.json.Decoder(_Raw).decode


class Page:
    """One reply of a list operation: its body, its envelope and its items.

    Attributes
    ----------
    body : bytes
        The JSON as it arrived.
    total_count : int or None
        Items in the whole list; None if the reply has no credible total.
    has_more : bool or None
        Whether items follow; None if the reply does not say.
    limit : int or None
        The most items that the page could have; None if the reply does not say.
    """

    __slots__ = ("_ids", "_items", "body", "has_more", "limit", "total_count")

    def __init__(self, body: bytes, pagination: Any = None, items: list[Any] | None = None) -> None:
        fields = pagination if isinstance(pagination, dict) else {}
        total, more, limit = (fields.get(name) for name in ("total_count", "has_more", "limit"))
        self.body = body
        self.total_count = total if type(total) is int and 0 <= total <= _MAX_TOTAL else None
        self.has_more = more if isinstance(more, bool) else None
        self.limit = limit if type(limit) is int and limit > 0 else None
        self._ids: list[str | None] | None = None
        self._items = items

    @classmethod
    def read(cls, reply: Reply) -> Page:
        """Read a reply: the envelope and all items."""
        envelope = _envelope(reply.body)
        return cls(reply.body, envelope.get("pagination"), envelope["items"])

    @classmethod
    def read_envelope(cls, reply: Reply) -> Page:
        """Read only the envelope, for callers that parse the items themselves."""
        return cls(reply.body, read(_read_pagination, reply.body, AROUND).pagination)

    @property
    def ids(self) -> list[str | None]:
        """The ids of the items; None for an item without one, or with an empty one."""
        if self._ids is None:
            self._ids = [_id_of(item) for item in self._read_items()]
        return self._ids

    def _read_items(self) -> list[Any]:
        if self._items is None:
            self._items = _envelope(self.body)["items"]
        return self._items

    def __len__(self) -> int:
        return len(self.ids)

    def records(self, skip: Set[str] = frozenset()) -> Iterator[Record]:
        """The items as records, without those whose id is in `skip`."""
        ids, items = self.ids, self._read_items()
        self._items = None  # a caller may change its records
        for item_id, item in zip(ids, items, strict=True):
            if item_id not in skip:
                yield Record(item) if isinstance(item, dict) else Record({"value": item})

    def only(self, keep: Sequence[bool] | None) -> Page:
        """The page with only the items flagged in `keep`; None keeps all."""
        if keep is None:
            return self
        raw = read(_read_raw, self.body, AROUND)
        items = b",".join(compress(raw.items, keep))
        body = b'{"items":[%b],"pagination":%b}' % (items, bytes(raw.pagination))
        return Page(body, read_value(bytes(raw.pagination)), list(compress(self._read_items(), keep)))


def _envelope(body: bytes) -> dict[str, Any]:
    envelope = read_value(body, AROUND)
    if not isinstance(envelope, dict) or not isinstance(envelope.get("items"), list):
        raise msgspec.ValidationError("the page has no list of items")
    return envelope


def _id_of(item: Any) -> str | None:
    item_id = item.get("id") if isinstance(item, dict) else None
    return item_id or None if isinstance(item_id, str) else None

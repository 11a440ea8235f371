"""One page of a list: the reply of a list operation, parsed as little as possible.

Loads parse the items themselves, so a page holds the bytes as they arrived.
Specification: "Pagination (list envelope)".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import compress
from typing import Any

import msgspec

from .calls import Reply
from .json import UNREADABLE, read, read_value
from .record import Record

# Larger totals are not credible, and list() would allocate memory for them.
_MAX_TOTAL = 10**8
# The end of the items, and of the envelope, if its last member is `pagination`.
_TAIL = re.compile(rb'(?:(\])\s*,\s*)?"pagination"\s*:\s*(\{[^{}]*\})\s*\}\s*\Z')
_TAIL_BYTES = 400
AROUND = 2  # levels of JSON around an item (see `json.repaired`)
_MAX_OBJECTS = 40  # how many objects in the last item to try, to read its id alone


class _PageInfo(msgspec.Struct):
    total_count: int | None = None
    has_more: bool | None = None
    limit: int | None = None


class _Id(msgspec.Struct, gc=False):
    id: Any = None


class _Ids(msgspec.Struct):
    """The envelope, with only the id of each item."""

    items: list[_Id]
    pagination: _PageInfo = msgspec.field(default_factory=_PageInfo)


class _Raw(msgspec.Struct):
    items: list[msgspec.Raw]
    pagination: msgspec.Raw = msgspec.Raw(b"{}")


_read_id = msgspec.json.Decoder(_Id).decode
_read_info = msgspec.json.Decoder(_PageInfo).decode
_read_ids = msgspec.json.Decoder(_Ids).decode
_read_raw = msgspec.json.Decoder(_Raw).decode


class Page:
    """One reply of a list operation: its body, its envelope and the ids of its items.

    Attributes
    ----------
    body : bytes
        The JSON as it arrived.
    total_count : int or None
        Items in the whole list; None if the reply has no credible total.
    has_more : bool or None
        Whether items follow; None if the reply does not say.
    """

    __slots__ = ("_ids", "_items", "_items_end", "_limit", "body", "has_more", "total_count")

    def __init__(
        self,
        body: bytes,
        total_count: int | None,
        has_more: bool | None,
        ids: list[str | None] | None = None,
        items: list[Any] | None = None,
        items_end: int = 0,
        limit: int | None = None,
    ) -> None:
        self.body = body
        self.total_count = total_count if total_count is not None and 0 <= total_count <= _MAX_TOTAL else None
        self.has_more = has_more
        self._ids = ids
        self._items = items  # kept until they are used
        self._items_end = items_end  # position in the body; 0 if it is not known
        self._limit = limit

    @classmethod
    def parse(cls, body: bytes) -> Page:
        """Parse a page: the envelope and all ids."""
        try:
            envelope = read(_read_ids, body, AROUND)
        except msgspec.ValidationError:  # a value's type differs from the specification; the rest is still used
            return cls._parse_items(body)
        ids = [item.id or None if isinstance(item.id, str) else None for item in envelope.items]
        info = envelope.pagination
        return cls(body, info.total_count, info.has_more, ids, limit=info.limit)

    @classmethod
    def _parse_items(cls, body: bytes) -> Page:
        envelope = _envelope(body)
        items, pagination = envelope["items"], envelope.get("pagination")
        pagination = pagination if isinstance(pagination, dict) else {}
        total, more, limit = (pagination.get(name) for name in ("total_count", "has_more", "limit"))
        return cls(
            body,
            total if isinstance(total, int) and not isinstance(total, bool) else None,
            more if isinstance(more, bool) else None,
            [_id_of(item) for item in items],
            items,
            limit=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        )

    @classmethod
    def read(cls, reply: Reply) -> Page:
        """Read a reply: the envelope and all items."""
        return cls._parse_items(reply.body)

    @classmethod
    def read_envelope(cls, reply: Reply) -> Page:
        """Read only the envelope, from the end of the body where possible.

        For callers that parse the items themselves, this saves a pass over the body.
        The ids are parsed when they are used.
        """
        tail = _TAIL.search(reply.body, max(len(reply.body) - _TAIL_BYTES, 0))
        if tail is not None:
            try:
                info = _read_info(tail[2])
                end = max(tail.start(1), 0)
                return cls(reply.body, info.total_count, info.has_more, items_end=end, limit=info.limit)
            except msgspec.DecodeError:
                pass
        return cls.parse(reply.body)

    @property
    def ids(self) -> list[str | None]:
        """The ids of the items; None for an item without one, or with an empty one."""
        if self._ids is None:
            self._ids = Page.parse(self.body).ids
        return self._ids

    def last_id(self) -> str | None:
        """The id of the last item, read without the others; None if that fails.

        An object that ends where the items end is the last item, because an object
        within an item ends earlier. Only a string that contains braces can mislead this
        method, so a caller must compare the id with `ids` in the end.
        """
        end = start = self._items_end
        for _ in range(_MAX_OBJECTS):
            start = self.body.rfind(b"{", 0, start)
            if start <= 0:
                break
            try:
                last_id = _read_id(self.body[start:end]).id
            except UNREADABLE:
                continue
            return last_id if isinstance(last_id, str) else None
        return None

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, asked: int) -> int:
        """How many places of the list an empty page covers.

        Parameters
        ----------
        asked : int
            The limit that was requested; the platform may have applied a smaller one.
        """
        return asked if self._limit is None else min(max(self._limit, 1), asked)

    def contradicts_total(self, end: int) -> bool:
        """Whether a page that ends before the offset `end` exceeds its own total.

        Some platforms report the size of the page as the total.
        """
        total = self.total_count
        return total is not None and (total < end or (total == end and self.has_more is True))

    def records(self, skip: Set[str] = frozenset()) -> Iterator[Record]:
        """The items as records, without those whose id is in `skip`."""
        items, self._items = self._items, None
        if items is None:
            items = _envelope(self.body)["items"]
        items.reverse()
        for item_id in self.ids:
            # Each item is freed once it is copied. With both alive, the garbage
            # collector runs a third more often.
            item = items.pop()
            if item_id not in skip:
                yield Record(item) if isinstance(item, dict) else Record({"value": item})

    def only(self, keep: Sequence[bool] | None) -> Page:
        """The page with only the items flagged in `keep`; None keeps all."""
        if keep is None:
            return self
        raw, items = read(_read_raw, self.body, AROUND), self._items
        body = b",".join(compress(raw.items, keep))
        body = b'{"items":[%b],"pagination":%b}' % (body, bytes(raw.pagination))
        return Page(
            body,
            self.total_count,
            self.has_more,
            list(compress(self.ids, keep)),
            None if items is None else list(compress(items, keep)),
        )


def _envelope(body: bytes) -> dict[str, Any]:
    envelope = read_value(body, AROUND)
    if not isinstance(envelope, dict) or not isinstance(envelope.get("items"), list):
        raise msgspec.ValidationError("a page is an object with a list of `items`")
    return envelope


def _id_of(item: Any) -> str | None:
    item_id = item.get("id") if isinstance(item, dict) else None
    return item_id or None if isinstance(item_id, str) else None

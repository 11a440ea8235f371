"""A page of events as it came: its body is kept as bytes, and only its envelope is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from ...api.calls import Reply
from ...api.pagination import Page

# What ends an envelope: `pagination` last, after which nothing but its own brace can come.
_TAIL = re.compile(rb'"pagination"\s*:\s*(\{[^{}]*\})\s*\}\s*\Z')


class _PageInfo(msgspec.Struct):
    total_count: int | None = None
    has_more: bool | None = None


class _Item(msgspec.Struct):
    id: str | None = None


class _Items(msgspec.Struct):
    items: list[_Item]


@dataclass(slots=True)
class PageBody:
    """One reply: its body, its pagination, and how long it took."""

    body: bytes
    pagination: Any
    wait_s: float = 0.0
    cost_s: float = 0.0


def read(reply: Reply) -> PageBody:
    """A reply with its pagination: taken from its end where it stands there, else from a look at all of it."""
    found = _TAIL.search(reply.body, max(len(reply.body) - 400, 0))
    if found is not None:
        try:
            return PageBody(reply.body, msgspec.json.decode(found[1], type=_PageInfo))
        except msgspec.DecodeError:
            pass
    page = Page(reply.body)
    return PageBody(reply.body, _PageInfo(page.total_count, page.has_more))


def ids_of(body: bytes) -> list[str | None]:
    """The ids of a page; none where it is not as it should be, so that it is read with care."""
    try:
        return [item.id for item in msgspec.json.decode(body, type=_Items).items]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []

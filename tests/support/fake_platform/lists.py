"""One list, paged by the specification, of any length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import httpx


def numbered(n: int) -> dict[str, Any]:
    return {"id": f"0199a0b2-0000-7000-8000-{n:012x}", "n": n, "name": f"agent {n}"}


class ListPlatform:
    """A list of `count` items at every path; records the queries.

    Where items have `weights`, a page ends before it weighs more than 10.
    """

    def __init__(self, count: int = 25, *, cap: int = 1000, weights: Sequence[int] = (), totals: bool = True) -> None:
        self.items = [numbered(n) for n in range(count)]
        self.cap, self.weights, self.totals = cap, weights, totals
        self.queries: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        self.queries.append(query)
        items = self.items
        if query.get("sort_by") == "-id":
            items = items[::-1]
        if "from_id" in query:
            items = [item for item in items if item["id"] > query["from_id"]]
        offset, limit = int(query.get("offset", 0)), min(int(query.get("limit", 20)), self.cap)
        page = items[offset : offset + limit]
        if self.weights:
            sums = list(accumulate(self.weights[item["n"] % len(self.weights)] for item in page))
            page = page[: max(1, bisect_right(sums, 10))]
            limit = len(page)
        pagination = {"limit": limit, "offset": offset, "has_more": offset + len(page) < len(items)}
        if self.totals:
            pagination["total_count"] = len(items)
        return httpx.Response(200, json={"items": page, "pagination": pagination})

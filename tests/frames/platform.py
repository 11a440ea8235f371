"""A platform in memory with lists of events, for the tests of loads and stores: late commits, faults and refusals on demand."""

from __future__ import annotations

import bisect
import json
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import httpx

import agentbook as ab

START_MS = 1_790_000_000_000


def event_id(milliseconds: int, n: int) -> str:
    """The UUIDv7 of an event so long after the platform's beginning."""
    digits = f"{START_MS + milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{n:012x}"


class FakeEvents:
    """Answers ``GET sessions/{id}/events`` and ``GET workspaces/{id}/sessions``."""

    page_limit = 1000  # items of a page at most, whatever `limit` asks for

    def __init__(
        self,
        sessions: Mapping[str, Sequence[str]],
        *,
        known_cursors_only: bool = False,
        totals: bool = True,
        ignores_from_id: bool = False,
        workspaces: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.sessions = {name: sorted(ids) for name, ids in sessions.items()}
        self.known_cursors_only = known_cursors_only
        self.totals = totals
        self.ignores_from_id = ignores_from_id
        self.workspaces = workspaces or {}
        for names in self.workspaces.values():
            self.sessions.update({name: [] for name in names if name not in self.sessions})
        self.queries: list[dict[str, str]] = []
        self.lists = 0
        self._lock = threading.Lock()

    @property
    def requests(self) -> int:
        return len(self.queries)

    def ids(self, session: str) -> list[str]:
        return list(self.sessions[session])

    def add(self, session: str, *ids: str) -> None:
        self.sessions[session] = sorted([*self.sessions.get(session, []), *ids])

    def millisecond(self, after: int) -> int:
        return START_MS + after

    def moment(self, after: int) -> datetime:
        return datetime.fromtimestamp((START_MS + after) / 1000, UTC)

    def client(self) -> ab.Client:
        return ab.Client("http://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(self.respond)))

    def respond(self, request: httpx.Request) -> httpx.Response:
        parts = [unquote(part) for part in request.url.raw_path.decode().split("?")[0].split("/")]
        if parts[2] == "workspaces":
            return self._page([{"id": name, "workspace_id": parts[3]} for name in self.workspaces[parts[3]]], 0, False)
        if parts[-1] == "openapi.yaml":
            return httpx.Response(200, text=OPENAPI)
        query = dict(request.url.params)
        with self._lock:
            self.queries.append(query)
        ids = self.sessions.get(parts[3])
        if ids is None:
            return httpx.Response(
                404, json={"status": 404, "error": "NotFound", "message": "There is no such session."}
            )
        start = query.get("from_id")
        if start and self.known_cursors_only and start not in ids:
            return httpx.Response(400, json={"status": 400, "error": "InvalidInput", "message": "from_id is unknown."})
        first = bisect.bisect_right(ids, start) if start and not self.ignores_from_id else 0
        chosen = ids[first:] if query["sort_by"] == "id" else ids[first:][::-1]
        limit = min(int(query["limit"]), self.page_limit)
        chosen, total = chosen[int(query.get("offset", 0)) :], len(chosen)
        return self._page([self.event(one) for one in chosen[:limit]], total, len(chosen) > limit)

    def event(self, event: str) -> dict[str, Any]:
        n, at = int(event[-12:], 16), int(event.replace("-", "")[:12], 16)
        when = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        kind = {"type": "message", "author": {"type": "user", "id": "u"}} if n % 2 == 0 else {"type": "runtime_done"}
        return {"id": event, **kind, "content": {"text": f"text {n}"}, "created_at": when, "updated_at": when}

    def _page(self, items: list[dict[str, Any]], total: int, more: bool) -> httpx.Response:
        pagination = {"total_count": total or len(items), "has_more": more} if self.totals else {"has_more": more}
        return httpx.Response(200, content=json.dumps({"items": items, "pagination": pagination}).encode())


OPENAPI = """
openapi: 3.1.0
paths:
  /workspaces/{workspace_id}/sessions:
    get: {parameters: []}
"""

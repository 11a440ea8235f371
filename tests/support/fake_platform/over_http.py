"""The fake platform behind httpx's mock transport, for tests of loads and stores."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

import httpx

import agentbook as ab

from .core import START_MS, Event, FakePlatform, list_page

OPENAPI = """
openapi: 3.1.0
paths:
  /workspaces/{workspace_id}/sessions:
    get: {parameters: []}
"""


def refusal(status: int, error: str, message: str) -> httpx.Response:
    return httpx.Response(status, json={"status": status, "error": error, "message": message})


class HttpPlatform(FakePlatform):
    """Answers ``GET sessions/{id}/events`` and ``GET workspaces/{id}/sessions``.

    Parameters
    ----------
    sessions : mapping of str to sequence of str
        The event ids of each session; `event` makes the events.
    known_cursors_only : bool, default False
        Reject a ``from_id`` that is not an event of the session.
    totals : bool, default True
        Report how many items a list has.
    ignores_from_id : bool, default False
        Answer each query starting with the first event.
    workspaces : mapping of str to sequence of str, optional
        The sessions of each workspace.
    """

    page_limit = 1000  # maximum items in a page, whatever `limit` asks for

    def __init__(
        self,
        sessions: Mapping[str, Sequence[str]],
        *,
        known_cursors_only: bool = False,
        totals: bool = True,
        ignores_from_id: bool = False,
        workspaces: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__()
        self.known_cursors_only = known_cursors_only
        self.totals = totals
        self.ignores_from_id = ignores_from_id
        self.workspaces = workspaces or {}
        self._lock = threading.Lock()
        self.queries: list[dict[str, str]] = []
        for name, ids in sessions.items():
            self.add(name, *ids)
        for names in self.workspaces.values():
            for name in names:
                self.add(name)

    @property
    def sessions(self) -> dict[str, list[str]]:
        """The ids of each session's events."""
        return {name: self.ids(name) for name in self.histories}

    @property
    def requests(self) -> int:
        return len(self.queries)

    def ids(self, session: str) -> list[str]:
        return [event["id"] for event in self.histories[session]]

    def add(self, session: str, *ids: str) -> None:
        self.insert(session, *map(self.event, ids))

    def millisecond(self, after: int) -> int:
        return START_MS + after

    def moment(self, after: int) -> datetime:
        return datetime.fromtimestamp((START_MS + after) / 1000, UTC)

    def client(self) -> ab.Client:
        return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(self.respond)))

    def respond(self, request: httpx.Request) -> httpx.Response:
        parts = [unquote(part) for part in request.url.raw_path.decode().split("?")[0].split("/")]
        if parts[-1] == "openapi.yaml":
            return httpx.Response(200, text=OPENAPI)
        if parts[2] == "workspaces":
            items = [{"id": name, "workspace_id": parts[3]} for name in self.workspaces[parts[3]]]
            return self.page(items, len(items), False)
        return self.list_events(parts[3], dict(request.url.params))

    def list_events(self, session: str, query: dict[str, str]) -> httpx.Response:
        with self._lock:
            self.queries.append(query)
        if session not in self.histories:
            return refusal(404, "NotFound", "There is no such session.")
        start = query.get("from_id")
        if start and self.known_cursors_only and start not in self.ids(session):
            return refusal(400, "InvalidInput", "from_id is unknown.")
        if self.ignores_from_id:
            query = {name: value for name, value in query.items() if name != "from_id"}
        limit = min(int(query.get("limit", 20)), self.page_limit)
        page = list_page(self.histories[session], query | {"limit": str(limit)})
        return self.page(page["items"], page["pagination"]["total_count"], page["pagination"]["has_more"])

    def page(self, items: list[Event], total: int, more: bool) -> httpx.Response:
        pagination = {"total_count": total, "has_more": more} if self.totals else {"has_more": more}
        return httpx.Response(200, json={"items": items, "pagination": pagination})

    def event(self, event: str) -> Event:
        n, at = int(event[-12:], 16), int(event.replace("-", "")[:12], 16)
        when = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        kind = {"type": "message", "author": {"type": "user", "id": "u"}} if n % 2 == 0 else {"type": "runtime_done"}
        return {"id": event, **kind, "content": {"text": f"text {n}"}, "created_at": when, "updated_at": when}

"""A fake platform with an account: workspaces, their sessions, agents and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import httpx

from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform, refusal

MINUTE = 60_000


class Account(HttpPlatform):
    """An account ``acme``; its lists answer with what is in these attributes.

    Attributes
    ----------
    openapi : bool
        Whether it offers a list of sessions.
    updated : dict
        When each session changed, in milliseconds after the start; None leaves
        `updated_at` out of all lists.
    sorts : bool
        Whether the list of sessions can be sorted.
    listed : sequence of str
        The workspaces that lists have; None for all.
    agents : list of dict
        None refuses the list, and the one of credentials.
    paths : Counter
        How often each path was asked for.
    """

    openapi = True
    updated: Mapping[str, int] | None = None
    sorts = True
    listed: Sequence[str] | None = None
    agents: list[dict[str, Any]] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.paths: Counter[str] = Counter()

    def respond(self, request: httpx.Request) -> httpx.Response:
        parts = unquote(request.url.path).split("/")[2:]
        self.paths["/".join(parts)] += 1
        if parts[-1] == "openapi.yaml" and not self.openapi:
            return httpx.Response(200, text="openapi: 3.1.0\npaths: {}\n")
        if parts in (["accounts", "acme", "workspaces"], ["me", "workspaces"]):
            names = self.workspaces if self.listed is None else self.listed
            items = [{"id": name, "full_name": f"acme~{name}", "owner_id": "acme"} for name in names]
            return self.page(items, len(items), False)
        if parts[0] == "workspaces" and parts[1] not in self.workspaces:
            return refusal(404, "NotFound", "no such workspace")
        if parts[0] == "workspaces" and self.updated is not None:
            return self._sessions(parts[1], dict(request.url.params))
        if parts == ["agents"] and self.agents is not None:
            return self.page(self.agents, len(self.agents), False)
        if parts[-1] == "credentials" and self.agents is not None:
            return self.page([], 0, False)
        if parts[0] in ("accounts", "agents"):
            return refusal(404, "NotFound", "Nothing here.")
        return super().respond(request)

    def _sessions(self, workspace: str, query: dict[str, str]) -> httpx.Response:
        assert self.updated is not None
        items = [
            {
                "id": name, "workspace_id": workspace, "agent_id": "a1", "name": f"chat {name}",
                "created_at": self.moment(0).isoformat(), "updated_at": self.moment(self.updated[name]).isoformat(),
            }
            for name in self.workspaces[workspace]
        ]  # fmt: skip
        if query.get("sort_by") == "-updated_at" and self.sorts:
            items.sort(key=lambda item: item["updated_at"], reverse=True)
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 20))
        page = items[offset : offset + limit]
        return self.page(page, len(items), offset + len(page) < len(items))

    def say(self, session: str, minute: int, *, workspace: str | None = None) -> None:
        """A question and its reply in a session, which a workspace may get by it."""
        number = len(self.ids(session)) if session in self.histories else 0
        self.add(session, event_id(minute * MINUTE, number), event_id(minute * MINUTE + 1000, number + 1))
        self.updated = {**(self.updated or {}), session: minute * MINUTE + 1000}
        if workspace is not None:
            self.workspaces = {**self.workspaces, workspace: [*self.workspaces.get(workspace, []), session]}

    def event_requests(self) -> dict[str, int]:
        """How often the events of each session were asked for."""
        return {path.split("/")[1]: n for path, n in self.paths.items() if path.startswith("sessions/")}


def busy_account(sessions: int = 6) -> Account:
    """Two workspaces whose sessions have a turn each, a minute apart."""
    platform = Account({})
    platform.agents = [{"id": "a1", "name": "helper", "owner": {"name": "acme"}}]
    for n in range(sessions):
        platform.say(f"s{n}", n, workspace=("lab", "desk")[n % 2])
    return platform

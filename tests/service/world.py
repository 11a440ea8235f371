"""A platform in this process with a few accounts, and shortcuts for requests.

On PostgreSQL it may be several (``AGENTBOOK_TESTS_PLATFORMS``), which share nothing but
the database: every request goes to the next, as through a proxy before so many
processes.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, select, update

from agentbook.service import admin, auth
from agentbook.service.engines.base import Engine
from agentbook.service.engines.meter import RunLimits
from agentbook.service.http.app import build
from agentbook.service.state import Platform
from agentbook.service.store import Store
from agentbook.service.store import tables as t
from agentbook.service.turns.runner import TurnSettings
from service.databases import VARIABLE, open_copy, open_store, platforms
from service.scripted import Scripted

ALL = auth.SCOPES


def one_platform(reason: str) -> pytest.MarkDecorator:
    """Skip a test where the world has several platforms, for a printed reason."""
    return pytest.mark.skipif(platforms() > 1, reason=f"one process: {reason}")


def on_sqlite(reason: str) -> pytest.MarkDecorator:
    """Skip a test where stores are in PostgreSQL, for a printed reason."""
    return pytest.mark.skipif(VARIABLE in os.environ, reason=f"SQLite: {reason}")


class RoundRobin(httpx.AsyncBaseTransport):
    """Sends each request through the next transport."""

    def __init__(self, transports: list[httpx.ASGITransport]) -> None:
        self._next = itertools.cycle(transports)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await next(self._next).handle_async_request(request)


class World:
    """``acme`` is an organization, ``ada`` a user and its admin, ``bob`` a stranger.

    With `beside`, another process on the PostgreSQL store of that world.
    """

    def __init__(
        self,
        data: Path,
        *,
        ceiling_s: float = 20.0,
        engines: Callable[[str], Engine] | None = None,
        limits: RunLimits | None = None,
        beside: World | None = None,
        **options: Any,
    ) -> None:
        if beside is None:
            self.store, (accounts, self.full) = open_copy(data, _add_accounts)
        else:
            self.store, accounts, self.full = open_store(data), beside.accounts, beside.full
        self.accounts = dict(accounts)
        self.agent = Scripted()
        settings = TurnSettings(ceiling_s=ceiling_s, delay_factor=0, limits=limits or RunLimits())
        self.platforms = [
            Platform(store, engines=engines or self.agent, settings=settings, root_url="http://test", **options)
            for store in (self.store, *(open_store(data, self.store.clock) for _ in range(1, platforms())))
        ]
        self.platform = self.platforms[0]
        self.transport = RoundRobin(
            [httpx.ASGITransport(build(platform), raise_app_exceptions=True) for platform in self.platforms]
        )
        self.http = httpx.AsyncClient(transport=self.transport, base_url="http://test/v1", headers={"Accept": "*/*"})

    def key(self, account: str, *scopes: str, trigger: str | None = None) -> str:
        return admin.create_key(self.store, account, "test key", scopes, trigger)

    def add(self, table: str, **row: Any) -> str:
        """A row, with id and times filled in; its id."""
        return _add(self.store, table, row)

    def link(self, table: str, **row: Any) -> None:
        """A row of a table without ids and times of its own."""
        self.store.write_now(lambda tx: tx.db.execute(insert(t.metadata.tables[table]), row))

    def change(self, table: str, id_: str, **values: Any) -> None:
        table_ = t.metadata.tables[table]
        self.store.write_now(lambda tx: tx.db.execute(update(table_).where(table_.c.id == id_).values(values)))

    def rows(self, table: str) -> list[dict[str, Any]]:
        query = select(t.metadata.tables[table])
        return self.store.read_now(lambda db: [dict(row) for row in db.execute(query).mappings()])

    def workspace(self, owner: str = "acme", name: str = "lab", **more: Any) -> str:
        id_ = self.accounts[owner]
        return self.add("workspaces", owner_id=id_, creator_id=id_, name=name, **more)

    def agent_row(self, owner: str = "acme", name: str = "helper", **more: Any) -> str:
        id_ = self.accounts[owner]
        return self.add("agents", owner_id=id_, creator_id=id_, name=name, **{"engine": "scripted", **more})

    async def ask(self, method: str, path: str, key: str | None = None, **kwargs: Any) -> httpx.Response:
        headers = dict(kwargs.pop("headers", {}))
        if key is not None:
            headers["Authorization"] = basic(key)
        return await self.http.request(method, path, headers=headers, **kwargs)

    async def get(self, path: str, key: str | None = None, **params: Any) -> httpx.Response:
        return await self.ask("GET", path, key, params=params)

    async def post(self, path: str, body: Any, key: str | None = None) -> httpx.Response:
        return await self.ask("POST", path, key, json=body)

    async def start(self, prompt: str, key: str | None = None, workspace: str = "lab", agent: str = "helper") -> str:
        body = {"session_type": "chat", "agent_id": agent, "initial_prompt": prompt}
        answer = await self.post(f"/workspaces/{workspace}/sessions", body, key or self.full)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def idle(self) -> None:
        """Wait until no turn is running or queued."""
        for platform in self.platforms:
            await platform.turns.wait_until_idle()
        while len(self.platforms) > 1 and self.rows("pending_turns"):
            await asyncio.sleep(0.005)

    async def events(self, session: str, key: str | None = None) -> list[dict[str, Any]]:
        """All events of a session, oldest first."""
        answer = await self.get(f"/sessions/{session}/events", key or self.full, sort_by="id", limit=1000)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    async def aclose(self) -> None:
        await self.http.aclose()
        for platform in self.platforms:
            await platform.aclose()

    async def start_platforms(self) -> None:
        """Begin what a service begins with its first request."""
        for platform in self.platforms:
            await platform.start()


def _add_accounts(store: Store) -> tuple[dict[str, str], str]:
    """The ids of the accounts by name, and a key of ``acme`` with every scope."""
    kinds = {"acme": "organization", "ada": "user", "bob": "user"}
    accounts = {name: admin.create_account(store, name, kind) for name, kind in kinds.items()}
    _add(store, "memberships", {"organization_id": accounts["acme"], "user_id": accounts["ada"], "role": "ADMIN"})
    return accounts, admin.create_key(store, "acme", "test key", ALL)


def _add(store: Store, table: str, row: dict[str, Any]) -> str:
    now = store.clock.instant()
    filled = {"id": store.clock.new_id(), "created_at": now, "updated_at": now, **row}
    store.write_now(lambda tx: tx.db.execute(insert(t.metadata.tables[table]), filled))
    return str(filled["id"])


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def basic(key: str) -> str:
    return "Basic " + base64.b64encode(key.encode()).decode()


def error(answer: httpx.Response) -> tuple[int, str | None, str]:
    """Status, error and message of a refusal."""
    body = json.loads(answer.content)
    return answer.status_code, body.get("error"), body["message"]

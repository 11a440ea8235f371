"""A scripted platform for the lab: agents with versions, and many sessions at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agentbook.api.errors import Conflict, NotFound, RateLimited
from agentbook.api.record import Record
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from support.fake_platform.in_process import InProcessPlatform

KEY = {"type": "api_key", "id": "k1", "name": "laptop"}
AGENT = {"type": "agent", "id": "a1", "name": "agent"}
NOT_READY = "Agent must be READY before it can be configured."
Reply = Callable[[Record, str], str | BaseException | None]


def refused(kind: type[Any], status: int, message: str) -> Any:
    return kind(message, operation="agents.configure_llm", status=status, message=message, request_id="req-9")


class LabPlatform(InProcessPlatform):
    """Agents whose configuration decides what they reply, each question in a session of
    its own.

    Attributes
    ----------
    reply : callable
        Takes the agent's configuration and the message. None leaves the turn open.
    calls : list of tuple
        Every request that changes something, in order.
    workspace_names : list of str
        The workspaces that the account can see.
    missing_workspaces : tuple of str
        Those that do not exist.
    offered : tuple of str
        The fields of configure-llm and of starting a session that the specification
        does not have, by their names in openapi.yaml.
    models : tuple of str
        The language models it lists.
    usage : dict
        Further content of every reply, such as its usage.
    publish_refusals : list of exception
        Raised by the next attempts to publish a version.
    start_refusals : list of exception
        Raised by the next starts of a session.
    open_now, max_open : int
        The number of open questions now, and the maximum so far.
    """

    def __init__(self, reply: Reply | None = None) -> None:
        super().__init__()
        self.reply: Reply = reply or (lambda settings, text: f"{settings.get('system_prompt')}: {text}")
        self.agents, self.sessions, self.workspaces = Agents(self), Sessions(self), Workspaces(self)
        self.me = Me(self)
        self.workspace_names: list[str] = []
        self.missing_workspaces: tuple[str, ...] = ()
        self.records: dict[str, Record] = {}
        self.history: dict[str, list[Record]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.refusals: list[BaseException] = []
        self.hides_prompts = False
        self.offered: tuple[str, ...] = ()
        self.models: tuple[str, ...] = ()
        self.usage: dict[str, Any] = {}
        self.publish_refusals: list[BaseException] = []
        self.start_refusals: list[BaseException] = []
        self.asked_of: dict[str, tuple[str, str | None]] = {}
        self.open_now = self.max_open = 0
        self.add_agent("acme~writer", system_prompt="original", description="writes", tools=[], mode="one-shot")

    def add_agent(self, name: str, **settings: Any) -> str:
        agent_id = f"0199a0b2-0000-7000-8000-{len(self.records):012x}"
        self.records[agent_id] = Record(id=agent_id, full_name=name, name=name.split("~")[1], setup_state="READY")
        self.history[agent_id] = [self.version(version_number="1.0.0", **settings)] if settings else []
        return agent_id

    def version(self, **settings: Any) -> Record:
        facts = {"id": self.next_id(), "type": "COMMITTED", "created_at": datetime.now(UTC).isoformat()}
        return Record({**facts, **settings})

    async def openapi(self) -> dict[str, Any]:
        kinds = {"type": {"enum": ["EPHEMERAL", "COMMITTED"]}}
        schema = {"properties": {name: kinds.get(name, {}) for name in self.offered}}
        post = {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}
        return {"paths": {"/agents/{id}/configure-llm": post, "/workspaces/{id}/sessions": post}}

    def find(self, agent: Any) -> str:
        agent_id = agent if isinstance(agent, str) else agent["id"]
        for record in self.records.values():
            if agent_id in (record["id"], record["full_name"], record["name"]):
                return str(record["id"])
        raise refused(NotFound, 404, "Agent not found")

    def prompts(self, agent: str = "acme~writer") -> list[str]:
        """The system prompts of the agent's versions, oldest first."""
        return [version["system_prompt"] for version in self.history[self.find(agent)]]

    def configured(self) -> list[str]:
        return [call[2]["system_prompt"] for call in self.calls if call[0] == "configure"]

    def questions(self) -> list[str]:
        return [call[2] for call in self.calls if call[0] == "start"]

    # Sessions

    async def follow(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        if session_id not in self.histories:
            raise refused(NotFound, 404, "Session not found")
        async with contextlib.aclosing(
            super().follow(client, session_id, from_id=from_id, on_state=on_state)
        ) as events:
            async for event in events:
                yield event

    def answer(self, session_id: str, text: str) -> None:
        self.append(session_id, "runtime_done", {"text": text, **self.usage}, AGENT)

    async def play(self, session_id: str, agent_id: str, prompt: str, version_id: str | None = None) -> None:
        # As on the platform, a turn runs on the newest version when it begins, unless
        # its session named another.
        runnable = [
            version
            for version in self.history[agent_id]
            if (version["type"] == "COMMITTED" if version_id is None else version["id"] == version_id)
        ]
        settings = (runnable or [Record()])[-1]
        self.open_now += 1
        self.max_open = max(self.max_open, self.open_now)
        try:
            if self.hold is not None:
                await self.hold.wait()
            await asyncio.sleep(0)
            reply = self.reply(settings, prompt)
        finally:
            self.open_now -= 1
        if isinstance(reply, BaseException):
            content = {"status": 500, "error": "ServerError", "message": str(reply)}
            self.append(session_id, "runtime_error", content, AGENT)
        elif reply is not None:
            self.answer(session_id, reply)


class Agents:
    def __init__(self, platform: LabPlatform) -> None:
        self._platform = platform

    async def get(self, agent: Any) -> Record:
        await asyncio.sleep(0)
        return Record(self._platform.records[self._platform.find(agent)])

    async def list(self, *, limit: int | None = None) -> AsyncIterator[Record]:
        await asyncio.sleep(0)
        for record in list(self._platform.records.values())[:limit]:
            yield record

    def versions(self, agent: Any, *, type: str | None = None, limit: int | None = None) -> AsyncIterator[Record]:
        return self._versions(self._platform.find(agent))

    async def _versions(self, agent_id: str) -> AsyncIterator[Record]:
        await asyncio.sleep(0)
        for version in reversed(self._platform.history[agent_id]):
            hidden = {"system_prompt": None} if self._platform.hides_prompts else {}
            yield Record({**version, **hidden})

    async def create(self, name: str, *, template: str) -> Record:
        await asyncio.sleep(0)
        self._platform.calls.append(("create", name, template))
        if self._platform.refusals:
            raise self._platform.refusals.pop(0)
        return Record(self._platform.records[self._platform.add_agent(f"acme~{name}")])

    async def models(self) -> AsyncIterator[Record]:
        await asyncio.sleep(0)
        for name in self._platform.models:
            yield Record(id=name)

    async def configure_llm(self, agent: Any, **settings: Any) -> Record:
        agent_id = self._platform.find(agent)
        await asyncio.sleep(0)
        self._platform.calls.append(("configure", agent_id, settings))
        if self._platform.refusals:
            raise self._platform.refusals.pop(0)
        version = self._platform.version(**{"mode": "one-shot", **settings})  # its default
        self._platform.history[agent_id].append(version)
        return Record({**version, "job": {"status": "COMPLETED"}})

    async def publish(self, agent: Any, version_id: str) -> Record:
        await asyncio.sleep(0)
        self._platform.calls.append(("publish", agent, version_id))
        if self._platform.publish_refusals:
            raise self._platform.publish_refusals.pop(0)
        versions = self._platform.history[self._platform.find(agent)]
        return next(version for version in versions if version["id"] == version_id)


class Me:
    def __init__(self, platform: LabPlatform) -> None:
        self._platform = platform

    async def workspaces(self, *, limit: int | None = None) -> AsyncIterator[Record]:
        await asyncio.sleep(0)
        for name in self._platform.workspace_names[:limit]:
            yield Record(id=name, full_name=name)


class Workspaces:
    def __init__(self, platform: LabPlatform) -> None:
        self._platform = platform

    async def contexts(self, workspace: str, **_: Any) -> AsyncIterator[Record]:
        await asyncio.sleep(0)
        if workspace in self._platform.missing_workspaces:
            raise refused(NotFound, 404, "Workspace not found")
        for record in ():
            yield record


class Sessions:
    def __init__(self, platform: LabPlatform) -> None:
        self._platform = platform

    async def start(self, workspace: Any, *, agent_id: Any, prompt: str, agent_version_id: str | None = None) -> Record:
        await asyncio.sleep(0)
        platform = self._platform
        if platform.start_refusals:
            raise platform.start_refusals.pop(0)
        platform.calls.append(("start", agent_id, prompt))
        session_id = f"01900000-0000-7000-9000-{len(platform.histories):012x}"
        platform.asked_of[session_id] = agent_id, agent_version_id
        platform.append(session_id, "message", {"text": prompt}, KEY)
        platform.start_task(platform.play(session_id, agent_id, prompt, agent_version_id))
        return Record(id=session_id, workspace_id=str(workspace), name=None)

    async def send(self, session_id: str, text: str) -> Record:
        await asyncio.sleep(0)
        self._platform.calls.append(("send", session_id, text))
        agent_id, version_id = self._platform.asked_of[session_id]
        event = self._platform.append(session_id, "message", {"text": text}, KEY)
        self._platform.start_task(self._platform.play(session_id, agent_id, text, version_id))
        return event


def limited() -> RateLimited:
    error: RateLimited = refused(RateLimited, 429, "This user has exceeded an allotted request count.")
    error.date = "Sun, 22 Nov 2026 15:00:30 GMT"
    return error


def not_ready(times: int) -> list[BaseException]:
    return [refused(Conflict, 409, NOT_READY) for _ in range(times)]


def make_lab(platform: LabPlatform | None = None, agent: Any = "acme~writer") -> PromptLab:
    platform = platform or LabPlatform()
    return PromptLab(platform, agent=agent, workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]


@pytest.fixture
def platform() -> LabPlatform:
    return LabPlatform()


@pytest.fixture
def lab(platform: LabPlatform) -> PromptLab:
    return make_lab(platform)


@pytest.fixture(autouse=True)
def _own_runs(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("AGENTBOOK_RUNS", str(tmp_path_factory.mktemp("runs")))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (0.0,))

"""A platform of one session that streams, answers, fails and refuses."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from agentbook.api.errors import NotFound, NotOffered
from agentbook.api.record import Record
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.exchange import Exchange
from agentbook.events.turns import Event, Turn
from support.fake_platform.in_process import InProcessPlatform

KEY = {"type": "api_key", "id": "k1", "name": "laptop"}
AGENT = {"type": "agent", "id": "a1", "name": "guide"}
SESSION = "01900000-0000-7000-8000-0000000000aa"
OTHER = "01900000-0000-7000-8000-0000000000bb"
AGENT_ID = "0199a0b2-0000-7000-8000-00000000000a"


class FakeSessions:
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def start(self, workspace: Any, *, agent_id: Any, prompt: str) -> Record:
        await self._platform.request("start")
        self._platform.receive(prompt)
        return Record(id=self._platform.next_session, workspace_id=str(workspace), name=None)

    async def send(self, session_id: str, text: str) -> Record:
        await self._platform.request("send")
        return self._platform.receive(text)

    async def events(self, session_id: str, *, from_id: str | None = None, **_: Any) -> AsyncGenerator[Record]:
        """The session's events; fails after the second one if `refusals` says so."""
        await self._platform.request("events")
        for number, event in enumerate(list(self._platform.events)):
            if number == 2 and self._platform.refusals.get("later events"):
                raise self._platform.refusals["later events"].pop(0)
            if from_id is None or event["id"] > from_id:
                yield Record(event)

    async def get(self, session_id: str) -> Record:
        """The session's record, if `records` has it; the specification shows none."""
        if session_id not in self._platform.records:
            raise NotOffered("sessions.get")
        return self._platform.records[session_id]

    async def list(self, workspace: Any, **_: Any) -> AsyncGenerator[Any]:
        """The sessions of the workspace that this panel did not start."""
        for record in self._platform.other_sessions:
            yield record


class FakeAgents:
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def get(self, name: str) -> Record:
        await self._platform.request("get")
        return self._platform.agent

    async def list(self, **_: Any) -> AsyncGenerator[Any]:
        """The agents that this key can see."""
        yield Record(id=AGENT_ID, name="guide", full_name="acme~guide")


class FakeMe:
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def get(self) -> Record:
        return self._platform.account

    async def workspaces(self, *, limit: int | None = None) -> AsyncGenerator[Any]:
        if isinstance(self._platform.own_workspaces, Exception):
            raise self._platform.own_workspaces
        for each in self._platform.own_workspaces[:limit]:
            yield each


class FakeWorkspaces:
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def contexts(self, workspace: str, **_: Any) -> AsyncGenerator[Any]:
        await self._platform.request("contexts")
        for each in ():
            yield each


class FakePlatform(InProcessPlatform):
    """One session, whatever its id.

    `answer` receives each message and plays the agent by calling `tool`, `draft`,
    `done` and `reply`.
    """

    def __init__(self, answer: Callable[[FakePlatform, str], Any] | None = None) -> None:
        super().__init__()
        self.sessions = FakeSessions(self)
        self.other_sessions: list[Record] = []
        self.records: dict[str, Record] = {}
        self.account = Record(id="p1", type="user", name="ada", credential=KEY)
        self.agent = Record(id=AGENT_ID, name="guide")
        self.agents = FakeAgents(self)
        self.me = FakeMe(self)
        self.workspaces = FakeWorkspaces(self)
        self.own_workspaces: Any = []
        self.answer = answer
        self.events = self.histories.setdefault(SESSION, [])
        self.readers = self.queues.setdefault(SESSION, [])
        self.refusals: dict[str, list[BaseException]] = {}
        self.requests: list[str] = []
        self.returns_message = True
        self.shows_first_message = True
        self.next_session = SESSION

    async def request(self, operation: str) -> None:
        self.requests.append(operation)
        await asyncio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()
        if self.refusals.get(operation):
            raise self.refusals[operation].pop(0)

    async def follow(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        self.requests.append("follow")
        if self.refusals.get("follow"):
            raise self.refusals["follow"].pop(0)
        async with contextlib.aclosing(super().follow(client, SESSION, from_id=from_id, on_state=on_state)) as events:
            async for event in events:
                yield event

    # What happens on the platform

    def now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{self._count:03d}Z"

    def persist(self, type: str, content: Any, author: Any, task_id: str = "t0") -> Record:
        return self.append(SESSION, type, content, author, task_id)

    def publish(self, item: Any) -> None:
        self.send(SESSION, item)

    def receive(self, text: str) -> Record:
        unseen = not (self.events or self.shows_first_message)
        message = Record() if unseen else self.persist("message", {"text": text}, KEY)
        if self.answer is not None:
            self.start_task(self._run_agent(text))
        return message if self.returns_message else Record()

    async def _run_agent(self, text: str) -> None:
        assert self.answer is not None
        result = self.answer(self, text)
        if asyncio.iscoroutine(result):
            await result

    def draft(self, content: dict[str, Any], task_id: str = "t0") -> None:
        self.publish(Record(id=f"draft-{self._count}", type="runtime_draft", content=content, task_id=task_id))

    def write(self, delta: str, offset: int) -> None:
        self.draft({"delta": delta, "offset": offset})

    def tool(self, name: str, task_id: str) -> None:
        self.draft({"tool": name, "state": "started"}, task_id)

    def done(self, task_id: str) -> Record:
        return self.persist("runtime_done", {}, AGENT, task_id)

    def reply(self, text: str) -> Record:
        return self.persist("runtime_done", {"text": text}, AGENT)

    def fail(self, message: str, status: int = 429) -> Record:
        return self.persist("runtime_error", {"status": status, "error": "TooManyRequests", "message": message}, AGENT)


def echo(platform: FakePlatform, text: str) -> None:
    platform.reply(f"You said: {text}")


def refused(kind: type[Any], status: int, message: str, **facts: Any) -> Any:
    return kind(message, operation="sessions.send", status=status, message=message, request_id="req-7", **facts)


NOT_OURS = refused(NotFound, 404, "Session not found")


def event(number: int, type: str, content: object, author: object, task_id: str = "t0") -> Event:
    return {
        "id": f"01900000-0000-7000-8000-{number:012x}",
        "type": type,
        "content": content,
        "author": author,
        "task_id": task_id,
        "created_at": f"2026-03-01T10:00:{number % 60:02d}Z",
    }


def recorded(*pairs: tuple[str, str]) -> Conversation:
    """A conversation of these questions and replies, each with one subtask."""
    conversation = Conversation(None, session=SESSION)
    for number, (prompt, reply) in enumerate(pairs):
        conversation.feed(event(4 * number + 1, "message", {"text": prompt}, KEY))
        conversation.feed(event(4 * number + 2, "runtime_done", {}, AGENT, "t1"))
        conversation.feed(event(4 * number + 3, "runtime_done", {"text": reply}, AGENT))
    return conversation


def make_conversation(platform: FakePlatform, **where: Any) -> Conversation:
    where = where or {"workspace": "acme~lab", "agent": "guide"}
    return Conversation(platform, follow=platform.follow, **where)  # type: ignore[arg-type]


async def until(condition: Callable[[], Any], conversation: Conversation) -> None:
    """Wait until the condition holds; checked after each change."""
    changed = asyncio.Event()
    end = conversation.listen(lambda exchange: changed.set())
    while not condition():
        changed.clear()
        await changed.wait()
    end()


async def finished(exchange: Exchange) -> Turn:
    return await asyncio.shield(asyncio.wrap_future(exchange.finished))

"""Scripted agents side by side, and the widgets of a comparison without a browser."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from agentbook.api.errors import NotFound
from agentbook.api.record import Record
from agentbook.chat.compare.compare import Compare
from chat.fakes import KEY, FakePlatform
from chat.panels import PagePerson, on_loop

Reply = Callable[[FakePlatform, str], Any]


class Agents:
    """Client and event stream of several agents, with one platform per session."""

    def __init__(self, **answers: Reply) -> None:
        self.answers = answers
        self.started: list[FakePlatform] = []
        self.sent: list[tuple[str, str]] = []
        self.refusals: dict[str, list[Exception]] = {}
        self.sessions = self.agents = self.me = self
        self.missing_workspaces: tuple[str, ...] = ()
        self.archived: tuple[str, ...] = ()
        self.records: list[Record] = []

    def asynchronous(self) -> Agents:
        return self

    async def get(self, name: str | None = None) -> Record:
        """As ``client.agents.get``, and as ``client.me.get``."""
        if name is None:
            return Record(id="p1", type="user", name="ada", credential=KEY)
        if name not in self.answers:
            raise NotFound("no", operation="agents.get", status=404, message="Agent not found", request_id="req-9")
        return Record(id=name, name=name, is_archived=name in self.archived)

    async def list(self, workspace: Any = None, **_: Any) -> AsyncGenerator[Record]:
        """The agents, or the sessions of a workspace: `records`."""
        for record in self.records if workspace is not None else [Record(id=name, name=name) for name in self.answers]:
            yield record

    @property
    def workspaces(self) -> Any:
        """As ``client.workspaces``, and as the ``workspaces`` of ``client.me``."""
        return Workspaces(self.missing_workspaces)

    async def start(self, workspace: Any, *, agent_id: str, prompt: str) -> Record:
        if self.refusals.get(agent_id):
            raise self.refusals[agent_id].pop(0)
        platform = FakePlatform(self.answers[agent_id])
        self.started.append(platform)
        self.sent.append((agent_id, prompt))
        platform.receive(prompt)
        return Record(id=f"01900000-0000-7000-8000-{len(self.started):012x}", workspace_id=workspace)

    async def send(self, session_id: str, text: str) -> Record:
        self.sent.append((session_id, text))
        return self.of(session_id).receive(text)

    def of(self, session_id: str) -> FakePlatform:
        return self.started[int(session_id[-12:], 16) - 1]

    def follow(self, client: Any, session_id: str, **options: Any) -> AsyncGenerator[Record]:
        return self.of(session_id).follow(client, session_id, **options)


class Workspaces:
    def __init__(self, missing: tuple[str, ...]) -> None:
        self._missing = missing

    async def contexts(self, workspace: str, **_: Any) -> AsyncGenerator[Record]:
        if workspace in self._missing:
            raise NotFound("no", operation="workspaces.contexts", status=404, message="Workspace not found")
        for record in ():
            yield record

    async def __call__(self, **_: Any) -> AsyncGenerator[Record]:
        yield Record(id="w1", name="lab", full_name="acme~lab")


def shout(platform: FakePlatform, text: str) -> None:
    platform.reply(f"**{text.upper()}**")


def fails(platform: FakePlatform, text: str) -> None:
    platform.fail("exceeded LLM token limit for this execution tree")


async def breaks(platform: FakePlatform, text: str) -> None:
    await never(platform, text)
    fails(platform, text)


async def never(platform: FakePlatform, text: str) -> None:
    while not platform.readers:  # a draft reaches only readers that are connected
        await asyncio.sleep(0)
    platform.write("Let me", 0)


class PageReader(PagePerson):
    """What a page is told of a comparison, and a person who uses it there."""

    def __init__(self, compare: Compare) -> None:
        super().__init__(compare)  # type: ignore[arg-type]

    @property
    def snapshot(self) -> dict[str, Any]:
        on_loop(self._panel._throttle.flush)
        return self._panel._state.snapshot()

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self.snapshot["fields"]
        return fields

    @property
    def turns(self) -> dict[str, dict[str, Any]]:
        return dict(self.snapshot["turns"])

    def round(self, number: int) -> dict[str, Any]:
        rounds = [turn for turn in self.turns.values() if "columns" in turn["data"]]
        return rounds[number]

    def columns(self, number: int = -1) -> list[dict[str, Any]]:
        """The replies of a round, from the left."""
        return [self.turns[id] for id in self.round(number)["data"]["columns"]]

    def retry_side(self, side: int) -> None:
        """Press the button below a reply of the first round, which is in order."""
        self.say(do="retry", turn=self.round(0)["data"]["columns"][side])


@dataclass
class ChoiceButton:
    """A button that prefers a side, as a page shows it."""

    page: PageReader
    values: dict[str, Any]

    @property
    def disabled(self) -> bool:
        return not self.values["enabled"]

    def click(self) -> None:
        self.page.say(do="prefer", round=self.values["round"], choice=self.values["choice"])


def words(compare: Compare) -> str:
    """The text on the page, buttons included."""
    page = PageReader(compare)
    fields = page.fields
    texts = [fields["name"], *(fields["session"] or [[]])[0], *(fields["pictures"] or ())]
    for turn in page.turns.values():
        html_, data = turn["html"], turn["data"]
        texts += [html_.get(part, "") for part in ("question", "attempts", "head")]
        texts += [
            turn.get("body", ""),
            html_.get("foot", ""),
            *(text for action in data.get("actions", ()) for text in action[1:]),
        ]
        texts += [each["label"] for each in (data.get("choice"), *data.get("choices", ())) if each]
        texts.append(data.get("verdict", ""))
    texts.append(fields["status"][0])
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(texts))).split())


def buttons(compare: Compare, round_: int = -1) -> dict[str, ChoiceButton]:
    """The buttons of a round by their labels."""
    page = PageReader(compare)
    values = [column["data"]["choice"] for column in page.columns(round_)]
    return {each["label"]: ChoiceButton(page, each) for each in (*values, *page.round(round_)["data"]["choices"])}

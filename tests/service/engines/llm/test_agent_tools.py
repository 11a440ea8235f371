"""LLM agents on a platform: sub-agents, memory, budgets; the model is on a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from agentbook.service.engines.base import Engine
from agentbook.service.engines.llm.engine import LlmEngine
from agentbook.service.engines.llm.models import Models, Settings
from agentbook.service.engines.meter import MEBIBYTE, RunLimits
from agentbook.service.store import tables
from agentbook.service.turns.subagents import MAX_DEPTH
from service.scripted import Scripted
from service.world import World
from support.fake_openai import FakeOpenAI, calls, text
from support.fake_openai import Scripted as Answer

pytestmark = pytest.mark.anyio

Ask = tuple[str, str]


class Lab:
    """A workspace with agents; those of the engine ``llm`` ask the fake."""

    def __init__(self, world: World, fake: FakeOpenAI, workspace: str) -> None:
        self.world = world
        self.fake = fake
        self.workspace = workspace
        self.ids: dict[str, str] = {}

    def agent(self, name: str, *platform_tools: str, engine: str = "llm", installed: bool = True) -> None:
        id_ = self.ids[name] = self.world.agent_row(name=name, engine=engine, description=f"About {name}.")
        tools = json.dumps(platform_tools)
        self.world.add(
            "agent_versions", agent_id=id_, creator_id="x", type="COMMITTED", version_number="1.0.0",
            system_prompt=f"You are {name}.", platform_tools_json=tools,
        )  # fmt: skip
        if installed:
            self.world.add("workspace_agents", workspace_id=self.workspace, agent_id=id_, creator_id="x")

    async def ask(self, *script: Answer, session: str | None = None, agent: str = "lead") -> list[Any]:
        """The contents of the events of one turn, without the question's."""
        self.fake.script_answers(*script)
        if session is None:
            self.session = await self.world.start("go", agent=agent)
        else:
            path = f"/sessions/{session}/events"
            assert (await self.world.post(path, {"content": "go on"}, self.world.full)).status_code == 201
        await self.world.idle()
        events = await self.world.events(self.session)
        last = max(index for index, event in enumerate(events) if event["type"] == "message")
        return [event["content"] for event in events[last + 1 :]]

    def results(self, request: int = -1) -> list[Any]:
        """The results of tools in a request that the model got."""
        messages = self.fake.bodies()[request]["messages"]
        return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


@asynccontextmanager
async def lab(data: Path, fake: FakeOpenAI, limits: RunLimits | None = None) -> AsyncIterator[Lab]:
    settings, scripted = Settings(fake.base_url, "sk-1", "fake", retry_delays_s=()), Scripted()

    def load(name: str) -> Engine:
        return LlmEngine(Models((settings,))) if name == "llm" else scripted

    world = World(data, engines=load, limits=limits)
    await world.start_platforms()
    world.agent = scripted
    made = Lab(world, fake, world.workspace())
    made.agent("lead", "call_agent", "memory")
    yield made
    await world.aclose()


def call_agent(agent: str, message: str) -> Ask:
    return "call_agent", json.dumps({"agent": agent, "message": message})


def memory(action: str, **fields: str) -> Ask:
    return "memory", json.dumps({"action": action, **fields})


async def test_an_agent_calls_another_as_a_tool(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake) as made:
        made.agent("helper", engine="scripted")
        made.agent("elsewhere", engine="scripted", installed=False)
        made.agent("gone", engine="scripted")
        made.world.change("agents", made.ids["gone"], is_archived=True)
        made.agent("private", engine="scripted")
        made.world.change("agents", made.ids["private"], owner_id=made.world.accounts["bob"])
        ends = await made.ask(calls(call_agent("helper", "draft:psst tool:look so")), text("Helper is done."))
        # The sub-agent's tool run and the sub-agent finish first, as subtasks do.
        assert ends == [{}, {}, {"text": "Helper is done."}]
        [result] = made.results()
        assert result["agent"] == "helper"
        assert "You said 'draft:psst tool:look so' after []" in result["reply"], "it knows nothing of the session"
        [function] = [
            tool["function"] for tool in fake.bodies()[0]["tools"] if tool["function"]["name"] == "call_agent"
        ]
        assert function["description"].endswith("The agents: helper: About helper.")
        assert len({event["task_id"] for event in await made.world.events(made.session)}) == 3


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (call_agent("helper", "limit"), "The agent 'helper' failed (429): exceeded LLM call limit for this execution"),
        (call_agent("helper", "open:x tool:y crash"), "The agent 'helper' failed (500): Something went wrong"),
        (call_agent("helper", "silent"), "The agent 'helper' failed (500): Something went wrong"),
        (call_agent("lead", "hello"), "There is no agent 'lead'. There are: helper."),
        (call_agent("helper", " "), "The argument 'message' must be a text that is not empty."),
        (("call_agent", "[]"), "The arguments must be a JSON object."),
    ],
)
async def test_a_sub_agents_failure_is_an_error_of_the_tool(
    tmp_path: Path, fake: FakeOpenAI, message: Ask, problem: str
) -> None:
    async with lab(tmp_path, fake) as made:
        made.agent("helper", engine="scripted")
        ends = await made.ask(calls(message), text("Never mind."))
        assert ends[-1] == {"text": "Never mind."}
        assert all(end == {} for end in ends[:-1])
        [result] = made.results()
        assert result["error"].startswith(problem)
        failed = [event["step"] for event in await made.world.events(made.session) if "step" in event][-1]
        assert (failed["error"], "result" in failed) == (result["error"], False)
        assert made.world.rows("pending_turns") == []


async def test_the_depth_is_limited(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake) as made:
        chain = ["lead", *(f"deputy-{number}" for number in range(1, MAX_DEPTH + 1))]
        for name in chain[1:]:
            made.agent(name, "call_agent")
        down = [calls(call_agent(name, "go")) for name in chain[1:]]
        up = [text(f"{name} done") for name in reversed(chain)]
        assert (await made.ask(*down, *up))[-1] == {"text": "lead done"}
        offered = [
            next(tool["function"]["description"] for tool in body["tools"] if tool["function"]["name"] == "call_agent")
            for body in fake.bodies()[: MAX_DEPTH + 1]
        ]
        assert [description.endswith("The agents: none") for description in offered] == [False] * MAX_DEPTH + [True]


async def test_calls_of_tools_without_end_exceed_the_limit(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake, RunLimits(llm_calls=3)) as made:
        ends = await made.ask(*[calls(memory("list"))] * 4)
        assert (ends[-1]["status"], ends[-1]["message"]) == (429, "exceeded LLM call limit for this execution tree")
        assert len(fake.requests) == 3


async def test_memory_lasts_from_turn_to_turn(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake) as made:
        await made.ask(calls(memory("save", name="order", text="4711 😀"), memory("list")), text("Noted."))
        assert made.results() == [{"saved": "order"}, {"names": ["order"]}]
        reading = [memory("read", name="order"), memory("read", name="x"), memory("burn"), ("memory", "[]")]
        await made.ask(calls(*reading), text("4711."), session=made.session)
        assert made.results() == [
            {"name": "order", "text": "4711 😀"},
            {"error": "Nothing is saved under 'x'. There are: order."},
            {"error": "The argument 'action' must be one of save, read, delete, list."},
            {"error": "The arguments must be a JSON object."},
        ]
        await made.ask(calls(memory("delete", name="order")), text("Gone."), session=made.session)
        await made.ask(calls(memory("list")), text("Nothing."), session=made.session)
        assert made.results() == [{"names": []}]
        await made.ask(calls(memory("list")), text("Nothing."))
        assert made.results() == [{"names": []}], "another session"


async def test_a_sub_agent_has_a_memory_of_its_own(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake) as made:
        made.agent("clerk", "memory")
        filing = calls(memory("save", name="file", text="A1")), text("Filed.")
        await made.ask(calls(call_agent("clerk", "file it")), *filing, text("Done."))
        saved = {row["agent_id"]: row["state"] for row in made.world.rows("agent_states")}
        assert saved == {made.ids["clerk"]: '{"memory": {"file": "A1"}}'}
        await made.ask(calls(memory("list")), text("Nothing of mine."), session=made.session)
        assert made.results() == [{"names": []}]


async def test_a_state_of_more_than_8_mib_ends_the_turn_and_is_not_kept(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake) as made:
        await made.ask(calls(memory("save", name="a", text="x")), text("Noted."))
        full = json.dumps({"memory": {"a": "x" * (8 * MEBIBYTE - 100)}})
        made.world.store.write_now(lambda tx: tx.db.execute(update(tables.agent_states).values(state=full)))
        ends = await made.ask(calls(memory("save", name="b", text="y" * 200)), session=made.session)
        assert (ends[-1]["status"], ends[-1]["message"]) == (413, "413 Request Entity Too Large")
        assert [row["state"] for row in made.world.rows("agent_states")] == [full]
        await made.ask(calls(memory("save", name="b", text="y")), text("It fits."), session=made.session)
        assert made.results() == [{"saved": "b"}]


async def test_a_state_that_is_too_long_ends_the_sub_agent_alone(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake, RunLimits(state_bytes=60)) as made:
        made.agent("clerk", "memory")
        filing = calls(memory("save", name="file", text="x" * 100))
        ends = await made.ask(calls(call_agent("clerk", "file it")), filing, text("He could not."))
        assert ends[-1] == {"text": "He could not."}
        assert made.world.rows("agent_states") == []


async def test_each_agent_spends_its_own_budget(tmp_path: Path, fake: FakeOpenAI) -> None:
    async with lab(tmp_path, fake, RunLimits(agent_budget=50)) as made:
        made.agent("helper")
        helps = calls(call_agent("helper", "x"), tokens=10)
        assert (await made.ask(helps, text("Yes.", tokens=50), text("He says yes.", tokens=10)))[-1] == {
            "text": "He says yes."
        }
        spent = {row["spender_id"]: row["tokens"] for row in made.world.rows("spending")}
        assert spent == {made.ids["lead"]: 20, made.ids["helper"]: 50, made.workspace: 70}
        assert (await made.ask(helps, text("He cannot.", tokens=5)))[-1] == {"text": "He cannot."}
        [result] = made.results()
        assert result == {"error": "The agent 'helper' failed (429): AGENT budget exceeded for 'helper'"}


async def test_turns_that_run_at_a_time_share_a_budget(tmp_path: Path, fake: FakeOpenAI) -> None:
    release = threading.Event()
    async with lab(tmp_path, fake, RunLimits(workspace_budget=20)) as made:
        made.agent("quick")
        fake.script_answers(calls(memory("list"), tokens=15), text("Slow", release, " and steady.", tokens=1))
        await made.world.start("go", agent="lead")
        try:
            while len(fake.requests) < 2:
                await asyncio.sleep(0.001)
            fake.script.append(text("Quick.", tokens=12))
            quick = await made.world.start("go", agent="quick")
            while len(events := await made.world.events(quick)) < 2:
                await asyncio.sleep(0.001)
            assert events[-1]["content"] == {"text": "Quick."}
            # 27 of 20 tokens are used, 12 of them by a turn that is stored.
            refused = await made.world.start("go", agent="quick")
            while len(events := await made.world.events(refused)) < 2:
                await asyncio.sleep(0.001)
            assert events[-1]["content"]["message"] == "WORKSPACE budget exceeded for 'lab'"
        finally:
            release.set()
        await made.world.idle()
        assert {row["tokens"] for row in made.world.rows("spending") if row["scope"] == "WORKSPACE"} == {28}

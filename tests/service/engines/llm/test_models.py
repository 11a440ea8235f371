"""The language models of a service: reading their variables, and running on one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.engines.base import Failure
from agentbook.service.engines.llm.engine import LlmEngine
from agentbook.service.engines.llm.models import (
    DEFAULT_BASE_URL,
    DEFAULT_MODEL,
    Models,
    Settings,
    models_from_environment,
)
from service.engines.engine_runs import run
from service.world import World, error
from support.fake_openai import FakeOpenAI, text

pytestmark = pytest.mark.anyio

KEY = "sk-swordfish-0123456789"
LOCAL = "http://127.0.0.1:11434/v1"


def test_each_model_has_its_endpoint_and_the_variable_of_its_key() -> None:
    environment = {"AGENTBOOK_LLM_MODELS": f"llama3.2:3b {LOCAL};\n gpt https://h/v1 MY_KEY ; mini", "MY_KEY": KEY}
    models = models_from_environment({**environment, "OPENAI_API_KEY": " sk-2\n", "AGENTBOOK_LLM_TIMEOUT_S": "7.5"})
    facts = {each.model: (each.base_url, each.api_key) for each in models.settings}
    assert facts == {"llama3.2:3b": (LOCAL, "no-key"), "gpt": ("https://h/v1", KEY), "mini": (DEFAULT_BASE_URL, "sk-2")}
    assert {(each.problem, each.read_timeout_s) for each in models.settings} == {(None, 7.5)}
    assert KEY not in repr(models)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        ({"AGENTBOOK_LLM_MODEL": "alone"}, ()),
        ({"OPENAI_API_KEY": KEY}, (DEFAULT_MODEL,)),
        ({"OPENAI_BASE_URL": LOCAL, "AGENTBOOK_LLM_MODEL": "llama"}, ("llama",)),
        ({"AGENTBOOK_LLM_MODELS": f"a {LOCAL}; b {LOCAL}; a {LOCAL}"}, ("a", "b")),
        ({"AGENTBOOK_LLM_MODELS": f"a {LOCAL}; b {LOCAL}", "AGENTBOOK_LLM_MODEL": "b"}, ("b", "a")),
        ({"AGENTBOOK_LLM_MODELS": f"a {LOCAL}", "AGENTBOOK_LLM_MODEL": "c", "OPENAI_BASE_URL": LOCAL}, ("c", "a")),
        ({"AGENTBOOK_LLM_MODELS": f"a {LOCAL}", "AGENTBOOK_LLM_MODEL": "c"}, ("a",)),
    ],
)
def test_the_default_is_first(environment: dict[str, str], names: tuple[str, ...]) -> None:
    assert models_from_environment(environment).names == names


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("m hunter2", "must begin with http"),
        ("m https://user:hunter2@h/v1", "must not hold a user name"),
        ("m https://h/v1 hunter2-key", "the name of a variable"),
        ("m https://h/v1 hunter2", "is not set"),
        ("m https://h/v1 KEY hunter2", "the name of a variable"),
        ("m https://h/v1 BROKEN", "cannot be sent in a header"),
    ],
)
def test_a_mistake_is_the_models_own_and_is_not_quoted(entry: str, problem: str) -> None:
    environment = {"AGENTBOOK_LLM_MODELS": f"{entry}; fine {LOCAL}", "KEY": KEY, "BROKEN": "hunter2\nx"}
    models = models_from_environment(environment)
    wrong = models.find("m")
    assert wrong.problem is not None
    assert problem in wrong.problem
    assert "hunter2" not in wrong.problem + repr(models)
    assert models.find("fine").problem is None


LLM = {"system_prompt": "Be brief.", "description": "Answers", "tools": []}


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=lambda body: text(f"from {body['model']}")) as endpoint:
        yield endpoint


@pytest.fixture
async def world(tmp_path: Path, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("AGENTBOOK_LLM_MODELS", f"small {fake.base_url}; large {fake.base_url}")
    engine = LlmEngine(models_from_environment(os.environ))
    made = World(tmp_path / "data", engines=lambda _name: engine)
    yield made
    await made.aclose()


async def reply_of(world: World, **body: Any) -> Any:
    """What the agent answers in a new session, and the request its model got."""
    started = await world.post("/workspaces/acme~lab/sessions", {
        "session_type": "chat", "agent_id": "acme~bot", "initial_prompt": "Hi", **body}, world.full)  # fmt: skip
    assert started.status_code == 201, started.text
    await world.idle()
    events = await world.get(f"/sessions/{started.json()['id']}/events", world.full, sort_by="id")
    return events.json()["items"][-1]["content"]


async def test_a_version_runs_on_its_model_with_its_parameters(world: World, fake: FakeOpenAI) -> None:
    world.workspace()
    await world.post("/agents", {"name": "bot", "template": "LLM"}, world.full)
    sampling = {"temperature": 0, "max_tokens": 50, "top_p": 0.5}
    made = await world.post("/agents/bot/configure-llm", {**LLM, "model": "large", **sampling}, world.full)
    assert {name: made.json()[name] for name in ("model", *sampling)} == {"model": "large", **sampling}
    assert (await world.get("/agents/bot/versions", world.full)).json()["items"][0]["model"] == "large"
    assert await reply_of(world) == {"text": "from large"}
    [body] = fake.bodies()
    assert {name: body[name] for name in ("model", *sampling)} == {"model": "large", **sampling}
    await world.post("/agents/bot/configure-llm", LLM, world.full)
    assert await reply_of(world) == {"text": "from small"}
    assert not sampling.keys() & fake.bodies()[1].keys()


async def test_the_models_are_listed_and_others_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.post("/agents", {"name": "bot", "template": "LLM"}, world.full)
    listed = (await world.get("/models", world.full)).json()
    assert listed["items"] == [{"id": "small", "is_default": True}, {"id": "large", "is_default": False}]
    assert (await world.get("/models", world.full, offset=1)).json()["items"] == listed["items"][1:]
    refused = await world.post("/agents/bot/configure-llm", {**LLM, "model": "huge"}, world.full)
    assert error(refused)[0] == 400
    assert "body.model: Input should be one of small, large" in error(refused)[2]
    monkeypatch.delenv("AGENTBOOK_LLM_MODELS")
    assert (await world.get("/models", world.full)).json()["items"] == []
    made = await world.post("/agents/bot/configure-llm", {**LLM, "model": "any"}, world.full)
    assert made.status_code == 201


async def test_a_draft_runs_only_where_it_is_named(world: World) -> None:
    world.workspace()
    await world.post("/agents", {"name": "bot", "template": "BLANK"}, world.full)
    draft = {**LLM, "description": "Another", "model": "large", "type": "EPHEMERAL"}
    made = (await world.post("/agents/bot/configure-llm", draft, world.full)).json()
    assert (made["type"], made["validation"]) == ("EPHEMERAL", "PENDING")
    agent = (await world.get("/agents/bot", world.full)).json()
    assert (agent["description"], agent["latest_version"]) == (None, None)
    assert await reply_of(world, agent_version_id=made["id"]) == {"text": "from large"}
    await world.post("/agents/bot/configure-llm", LLM, world.full)
    assert await reply_of(world) == {"text": "from small"}
    assert await reply_of(world, agent_version_id=made["id"]) == {"text": "from large"}
    published = await world.post(f"/agents/bot/versions/{made['id']}/publish", None, world.full)
    assert error(published) == (409, "Conflict", "Cannot publish: validation has not passed")


async def test_only_the_owner_names_a_version_and_only_of_the_agent(world: World) -> None:
    world.workspace("bob", "his")
    agent = world.agent_row(name="bot", is_public=True, engine="llm")
    other = world.agent_row(name="other", engine="llm")
    row = {"creator_id": "x", "type": "EPHEMERAL", "version_number": "1"}
    version, foreign = (world.add("agent_versions", agent_id=id_, **row) for id_ in (agent, other))
    body = {"session_type": "chat", "agent_id": "acme~bot", "initial_prompt": "Hi"}
    bob = world.key("bob", *("sessions:write", "workspaces:read"))
    answer = await world.post("/workspaces/bob~his/sessions", {**body, "agent_version_id": version}, bob)
    assert error(answer) == (403, "Forbidden", "This agent belongs to another account")
    world.workspace()
    for id_ in (foreign, "nonsense"):
        answer = await world.post("/workspaces/acme~lab/sessions", {**body, "agent_version_id": id_}, world.full)
        assert error(answer) == (404, "NotFound", "Agent version not found")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", "ollama"),
        ("OPENAI_BASE_URL", "http://[::1"),
        ("OPENAI_BASE_URL", "http://host:99999/v1"),
        ("OPENAI_BASE_URL", "https://user:hunter2@host/v1"),
        ("OPENAI_BASE_URL", "https://host/v1?api-key=hunter2"),
        ("OPENAI_BASE_URL", "https://host/v1#hunter2"),
        ("OPENAI_API_KEY", "hunter2\nX-Evil: 1"),
        ("OPENAI_API_KEY", "hunter2é"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "soon"),
        ("AGENTBOOK_LLM_TIMEOUT_S", "nan"),
    ],
)
def test_a_wrong_setting_fails_every_turn_and_names_the_variable(name: str, value: str) -> None:
    settings = models_from_environment({"OPENAI_API_KEY": KEY, name: value}).find(None)
    [failure] = run(LlmEngine(Models((settings,))), "Hello")
    assert isinstance(failure, Failure)
    assert (failure.status, failure.error) == (500, "ModelNotConfigured")
    assert name in failure.message
    assert "hunter2" not in failure.message + repr(settings)


@given(st.text(max_size=500), st.text(max_size=500))
def test_redact_masks_the_key_anywhere(before: str, after: str) -> None:
    shown = Settings(api_key="swordfish").redact(f"{before}swordfish{after}")
    assert "swordfish" not in shown
    assert len(shown) <= 300
    assert "\n" not in shown


def test_redact_masks_what_looks_like_a_secret() -> None:
    text = "key sk-abc***xyz, Bearer t0k3n, at https://me:pw@host/v1/x?sig=s3cret failed"
    assert Settings().redact(text) == "key *** Bearer *** at https://***@host/v1/x failed"

"""A language model behind a service in its own process, asked through the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import agentbook
from service.process import Service
from support.fake_openai import FakeOpenAI, calls, refuse, text

KEY = "sk-swordfish-0123456789"
ALL = ("agents:write", "workspaces:write", "sessions:write")


@dataclass
class Stack:
    fake: FakeOpenAI
    service: Service
    client: agentbook.Client
    agents: int = 0
    failed: bool = False  # has the model failed in a test that ran?

    def session(self, **configuration: Any) -> str:
        """A session with a new LLM agent that has answered "Hi" with "Hi."."""
        self.fake.script_answers(text("Hi."))
        self.agents += 1
        agent = self.client.agents.create(name=f"model-{self.agents}", template="LLM")
        defaults = {"system_prompt": "You are Acme's help.", "description": "help", "tools": []}
        self.client.agents.configure_llm(agent, **{**defaults, **configuration})
        session = str(self.client.sessions.start("playground", agent_id=agent["id"], prompt="Hi").id)
        with self.client.sessions.stream(session, since=datetime.now(UTC) - timedelta(minutes=1)) as stream:
            end = next(event for event in stream if event["type"] in ("runtime_done", "runtime_error"))
        assert end["content"] == {"text": "Hi."}
        return session

    def agent_events(self, session: str) -> list[tuple[str, Any]]:
        """The types and contents of the agent's events after its first."""
        events = self.client.sessions.events(session, sort_by="id")
        return [(event["type"], event["content"]) for event in events if event["author"]["type"] == "agent"][1:]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data: Path = tmp_path_factory.mktemp("service") / "data"
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI() as fake:
        patch.setenv("OPENAI_BASE_URL", fake.base_url)
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_LOG", "debug")
        patch.setenv("AGENTBOOK_LLM_MODEL", "fake-model")
        patch.setenv("AGENTBOOK_LLM_TIMEOUT_S", "1")
        with Service(data) as service:
            with agentbook.Client(service.base_url, credentials=agentbook.ApiKey(service.key(*ALL))) as client:
                yield (stack := Stack(fake, service, client))
            service.stop()
            assert KEY not in service.log
            assert ("model 'fake-model' at " in service.log) == stack.failed, "failures are logged"
            assert KEY.encode() not in service.stored()


def test_a_reply_that_was_cut_off_is_what_the_model_wrote(stack: Stack) -> None:
    session = stack.session(mode="multi-turn")
    stack.fake.script_answers(text("It goes ", "on and", finish="length"), text("Done."))
    drafts: list[str] = []
    with stack.client.sessions.stream(session, drafts=True) as stream:
        stack.client.sessions.send(session, "Tell me.")
        for event in stream:
            drafts.append(event["content"].get("delta", ""))
            if event["type"] == "runtime_done":
                break
    assert "".join(drafts) == "It goes on and"
    assert stack.agent_events(session) == [("runtime_done", {"text": "It goes on and", "finish_reason": "length"})]
    turn = stack.client.sessions.ask(session, "Go on.", timeout_s=60)
    assert (turn.text, turn.finish_reason) == ("Done.", None)
    assert stack.fake.bodies()[1]["messages"][-2] == {"role": "assistant", "content": "It goes on and"}


def test_the_tokens_of_a_turn_are_on_its_last_event(stack: Stack) -> None:
    session = stack.session(platform_tools=["now"])
    failing = [calls(("now", ""), tokens=5), refuse(400)]
    stack.fake.script_answers(
        calls(("now", ""), tokens=7), text("Noon.", tokens=20), text("Hm.", tokens=None), *failing
    )
    for question in ("When?", "And now?"):
        stack.client.sessions.ask(session, question, timeout_s=60)
    stack.failed = True
    with pytest.raises(agentbook.ServerError):
        stack.client.sessions.ask(session, "Now?", timeout_s=60)
    events = stack.client.sessions.events(session, sort_by="id").to_pandas()
    unknown_fields = [json.loads(extra) for extra in events["extra"].dropna()]
    usages = [fields["usage"] for fields in unknown_fields if "usage" in fields][-3:]
    assert usages[0] == {"total_tokens": 27, "input_tokens": 2, "output_tokens": 25, "model": "fake-model"}
    assert usages[1] == {"total_tokens": usages[1]["total_tokens"], "model": "fake-model", "estimated": True}
    assert usages[2] == {"total_tokens": 5, "input_tokens": 1, "output_tokens": 4, "model": "fake-model"}
    turns = agentbook.turns(events)
    tokens = turns["tokens"].fillna(-1).to_list()[-3:]
    assert tokens == [27, -1, 5], "an estimate is not a count"
    assert turns["output_tokens"].fillna(0).to_list()[-3:] == [25, 0, 4]


def test_a_failure_ends_the_turn_but_not_the_session(stack: Stack) -> None:
    session = stack.session()
    stack.fake.script_answers(refuse(401, f"Incorrect API key provided: {KEY}"), text("Here again."))
    stack.failed = True
    with pytest.raises(agentbook.ServerError) as caught:
        stack.client.sessions.ask(session, "Hello", timeout_s=60)
    assert caught.value.status == 502
    assert "swordfish" not in str(caught.value)
    [(type_, content)] = stack.agent_events(session)
    assert type_ == "runtime_error"
    assert (content["status"], content["error"]) == (502, "ModelEndpointError")
    assert "swordfish" not in content["message"]
    assert stack.client.sessions.ask(session, "And now?", timeout_s=60).text == "Here again."

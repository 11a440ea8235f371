"""A language model that calls tools without end, as the client sees it.

Specification: "Errors", runtime limit failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from service.process import Service
from support.fake_openai import FakeOpenAI, calls, raw, text

# In one piece: a loop of 250 rounds waits for each of many.
ROUND = raw(b"".join(part for part in calls(("now", "{}")).parts if isinstance(part, bytes)))


@dataclass
class Model:
    fake: FakeOpenAI
    client: ab.Client
    agent: Any

    def session(self) -> Any:
        self.fake.script_answers(text("Hi."))
        session = self.client.sessions.start("playground", agent_id=self.agent, prompt="Hi")
        with self.client.sessions.stream(session, since="2020-01-01", drafts=False) as stream:
            assert next(event.content for event in stream if event.type == "runtime_done") == {"text": "Hi."}
        return session

    def ask(self, session: Any, *script: Any) -> str | None:
        self.fake.script_answers(*script)
        return self.client.sessions.ask(session, "Go", timeout_s=200).text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    data: Path = tmp_path_factory.mktemp("service") / "data"
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI() as fake:
        patch.setenv("OPENAI_BASE_URL", fake.base_url)
        patch.setenv("OPENAI_API_KEY", "sk-none")
        patch.setenv("AGENTBOOK_LLM_MODEL", "fake-model")
        with Service(data) as service:
            key = service.key("agents:write", "workspaces:write", "sessions:write")
            with ab.Client(service.base_url, credentials=key) as client:
                agent = client.agents.create("player", template="LLM")
                tools = ["now", "calculator"]
                client.agents.configure_llm(agent, system_prompt="Play.", description="d", platform_tools=tools)
                yield Model(fake, client, agent)
            service.stop()


def test_a_model_that_calls_tools_without_end_exceeds_the_limit_of_calls(model: Model) -> None:
    message = "exceeded LLM call limit for this execution tree"
    session = model.session()
    with pytest.raises(ab.ExecutionLimit, match=message) as caught:
        model.ask(session, *[ROUND] * 250)
    assert caught.value.status == 429
    events = ab.load_events(model.client, session)
    failed = ab.turns(events)[["status", "failure", "failure_status", "failure_message"]].iloc[-1]
    assert failed.to_list() == ["failed", "llm_calls", 429, message]
    assert ab.failures(events)[["kind", "turns"]].to_numpy().tolist() == [["llm_calls", 1]]
    panel = ab.ChatPanel(model.client, session=session)
    assert panel.transcript.iloc[-1][["reason", "status"]].to_list() == [message, "failed"]
    panel.close()


def test_an_honest_agent_calls_tools_in_many_rounds(model: Model) -> None:
    assert model.ask(model.session(), *[ROUND] * 20, text("Done.")) == "Done."

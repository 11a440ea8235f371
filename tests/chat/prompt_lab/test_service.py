"""The lab against the real service: versions, the 409, and keys with few scopes."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import agentbook as ab
from agentbook.events import loop
from service.process import Service

pytestmark = pytest.mark.python_versions

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
    assert frame["version"].tolist() == ["1.2.0"] * 2 + ["1.2.1"] * 2 + ["1.2.2"] * 2
    after = lab.versions()[0]
    assert (after.number, after.system_prompt, after.settings) == ("1.2.3", before.system_prompt, before.settings)
    loaded = ab.PromptLab.load(lab.save(tmp_path / "lab.json"), client)
    assert loaded == lab
    assert len(loaded.run(progress=False)) == 6
    assert loaded.answers == lab.answers, "no question is asked again"


def test_apply_waits_until_the_agent_is_ready(service: Service, connect: Connect) -> None:
    lab = make(connect())
    lab.add_variant("brief", "Be brief.", version="3.0.0", description="writes briefly", mode="one-shot")
    arrange_fault(service, row="not_ready", times=2, match={"operation": "configureLlm"})
    version = lab.apply("brief")
    assert (version.number, version.system_prompt, version.summary) == ("3.0.0", "Be brief.", "brief")
    assert version.settings["mode"] == "one-shot"
    assert [each.number for each in lab.versions()].count("3.0.0") == 1, "one version, whatever the number of refusals"


def test_an_own_agent_runs_at_the_same_time(connect: Connect) -> None:
    lab = make(connect())
    source = next(version for version in lab.versions() if version.number == "1.0.0")
    mine = connect().agents.create("my-scribe", forked_from_version=source.id)
    lab.add_variant("mine", "Use a bulleted list of at most two points.", agent=mine)
    lab.add_variant("shared", "Answer in one sentence.")
    frame = lab.run(INPUTS[:1], progress=False).set_index("variant")
    assert frame["agent"].to_dict() == {"mine": "acme~my-scribe", "shared": "acme~scribe"}
    assert frame.loc["mine", "reply"].startswith("- ")
    assert not frame.loc["shared", "reply"].startswith("- ")


def test_a_missing_scope_is_the_reason_of_a_failed_row(connect: Connect) -> None:
    lab = make(connect("agents:read", "sessions:write", "workspaces:read"))
    lab.add_variant("now")
    lab.add_variant("brief", "Answer in at most seven words.")
    frame = lab.run(INPUTS[:1], progress=False).set_index("variant")
    assert frame.loc["now", "status"] == "answered"
    assert frame.loc["brief", "status"] == "failed"
    assert "agents:write" in frame.loc["brief", "reason"]
    assert frame.loc["brief", "request_id"]


def test_a_foreign_agent_can_be_asked_but_not_configured(connect: Connect) -> None:
    lab = make(connect(), "northwind~calculator")
    lab.add_variant("now")
    lab.add_variant("other", "Be brief.")
    with pytest.raises(ValueError, match=r"northwind~calculator cannot be read with this key.*Nothing was changed"):
        lab.run(["2 + 2"], progress=False)
    frame = lab.run(["2 + 2"], restore=False, progress=False).set_index("variant")
    assert "4" in frame.loc["now", "reply"]
    assert frame.loc["other", "status"] == "failed"


def test_failed_turns_are_asked_again_on_request(connect: Connect) -> None:
    lab = make(connect(), "acme~flaky")
    lab.add_variant("now")
    inputs = [f"please, number {n}" for n in range(24)]
    frame = lab.run(inputs, concurrency=8, progress=False).set_index("input")
    failed = frame[frame["status"] == "failed"]
    assert 0 < len(failed) < 24
    assert failed["reason"].tolist() == ["Something went wrong"] * len(failed)
    again = lab.run(concurrency=8, retry_failed=True, progress=False).set_index("input")
    moved = frame.index[frame["session_id"] != again["session_id"]]
    assert moved.tolist() == failed.index.tolist(), "only failed questions are asked again, in new sessions"

"""`platform`: a platform for tests.

How `connect` starts the embedded service is in `test_connect`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agentbook as ab
from agentbook.agents import LlmUsage, Request, ToolDone, ToolStarted
from agentbook.embedded import Platform, children, platform
from agentbook.service import discovery_file


def answer(request: Request) -> Iterator[object]:
    """Answer as an agent, in another process, which imports this module."""
    yield ToolStarted("count", {"of": request.agent})
    yield ToolDone("count", len(request.messages))
    yield LlmUsage(3, model="tiny", input_tokens=2, output_tokens=1)
    yield request.system_prompt or "You said "
    yield request.message


@pytest.fixture(scope="module")
def shared() -> Iterator[Platform]:
    with platform() as started:
        yield started


def pid(started: Platform) -> int:
    return discovery_file.read(started._data).pid


def test_it_is_a_platform_of_its_own_with_demo_data_and_a_key(shared: Platform) -> None:
    assert shared.client.me.get().name == "acme"
    with ab.connect(shared.base_url, api_key=shared.api_key) as other:
        assert len(other.workspaces.list("acme").to_pandas()) == 7
    secret = shared.api_key.partition(":")[2]
    assert secret not in f"{shared!r} {vars(shared)}"
    # The service ends by itself once no user is alive: this process is one.
    assert discovery_file.is_used(shared._data)
    assert "--until-unused" in children[-1].args  # type: ignore[operator]


def test_a_reset_after_reads_keeps_the_service_and_removes_faults(shared: Platform) -> None:
    running = pid(shared)
    shared.client.me.get()
    shared.fail({"row": "forbidden", "times": 9})
    with pytest.raises(ab.Forbidden):
        shared.client.me.get()
    shared.reset()
    assert shared.client.me.get().name == "acme"
    assert pid(shared) == running


def test_an_unknown_fault_is_refused_by_name(shared: Platform) -> None:
    with pytest.raises(ValueError, match=r"no fault 'nonsense'.*not_ready"):
        shared.fail("nonsense")


def test_a_reset_undoes_what_was_written_and_keeps_address_and_key(shared: Platform) -> None:
    before = (shared.base_url, shared.api_key)
    first = shared.client.workspaces.create("new").id
    shared.reset()
    assert (shared.base_url, shared.api_key) == before
    assert "new" not in set(shared.client.workspaces.list("acme").to_pandas()["name"])
    assert shared.client.workspaces.create("new").id == first  # the seed begins again


def test_nothing_stays_behind_after_an_error() -> None:
    with pytest.raises(ab.Forbidden), platform(bare=True, now="2026-11-01", faults=["forbidden"]) as started:  # noqa: PT012
        ended, directory = pid(started), started._data.parent
        started.client.me.get()
    assert not discovery_file.is_alive(ended)
    assert not directory.exists()
    with pytest.raises(ValueError, match="now must be a time"), platform(now="soon"):
        pass


def test_a_function_answers_as_an_agent() -> None:
    with platform(bare=True, agents={"local~mine": answer}) as own:
        agent = own.client.agents.get("local~mine")
        assert (agent.full_name, agent.is_public) == ("local~mine", False)
        own.client.workspaces.create("lab")
        session = own.client.sessions.start("lab", agent_id="mine", prompt="hi")
        events = []
        with own.client.sessions.stream(session) as stream:
            for event in stream:
                events.append(event)
                text = event.content.get("text") if event.type == "runtime_done" else None
                if text == "You said hi":
                    own.client.sessions.send(session, "hello")
                elif text is not None:
                    break
        drafts = [
            event.content for event in events if event.type == "runtime_draft" and event.task_id == events[-1].task_id
        ]
        assert "".join(each.get("delta", "") for each in drafts) == "You said hello"
        step, reply = [event for event in events if event.type == "runtime_done"][-2:]
        assert (step.step.name, dict(step.step.arguments), step.step.result) == ("count", {"of": "mine"}, 3)
        assert (reply.content.text, reply.usage.total_tokens, reply.usage.model) == ("You said hello", 3, "tiny")
        own.reset()
        own.client.workspaces.create("lab")
        draft = own.client.agents.configure_llm(
            "local~mine", type="EPHEMERAL", version_number="1.1.0", description="A draft", system_prompt="As asked: "
        )
        for version, reply_text in ((None, "You said again"), (draft, "As asked: again")):
            more = {} if version is None else {"agent_version_id": version}
            session = own.client.sessions.start("lab", agent_id="local~mine", prompt="hi", **more)
            assert own.client.sessions.ask(session, "again").text == reply_text


def test_of_the_current_folder_runs_only_what_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentbook.py").write_text("open('ran', 'w')")
    (tmp_path / "mine.py").write_text("answer = print")
    monkeypatch.chdir(tmp_path)
    with platform(bare=True, agents={"local~mine": "mine:answer"}):
        assert not (tmp_path / "ran").exists()


def test_a_function_that_no_other_process_finds_is_refused() -> None:
    for function in (lambda request: "hi", len, print):
        with pytest.raises(ValueError, match="at the top of a module"), platform(agents={"acme~mine": function}):
            pass

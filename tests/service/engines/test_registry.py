"""What holds for every engine."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.run_limits import RUN_LIMITS, run_limit
from agentbook.service.demo.agents import AGENTS
from agentbook.service.engines.base import Draft, Engine, Failure, Message, Reply
from agentbook.service.engines.meter import RUN_FAILURES
from agentbook.service.engines.registry import ENGINES
from agentbook.service.engines.registry import load_engine as load
from service.engines.engine_runs import collect, finished_tools, reply, request, run

OFFLINE = sorted({*ENGINES, *AGENTS})


def load_engine(name: str) -> Engine:
    return load(name, AGENTS)


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("name", OFFLINE)
def test_equal_requests_give_equal_steps(name: str) -> None:
    for message in ("3", "What is a turn?"):
        assert run(load_engine(name), message, seed=5) == run(load_engine(name), message, seed=5)


@pytest.mark.parametrize("name", sorted(set(OFFLINE) - {"slow"}))
@given(message=st.text(max_size=120), seed=st.integers(0, 99))
def test_any_message_ends_in_a_reply_or_a_failure(name: str, message: str, seed: int) -> None:
    run(load_engine(name), message, seed=seed, history=[Message("user", message), Message("assistant", message)])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("goose", "does not include"),
        ("no such engine", "does not know"),
        ("", "does not know"),
        ("blank", "configure-llm"),
        ("function:acme~mine", "--agent"),
    ],
)
def test_a_missing_engine_ends_the_turn_and_says_what_to_do(name: str, advice: str) -> None:
    [last] = run(load_engine(name), "Hello")
    assert isinstance(last, Failure)
    assert (last.status, last.error) == (500, "EngineNotInstalled")
    assert repr(name) in last.message
    assert advice in last.message


@pytest.mark.parametrize("name", ["llm", "scribe", "recorded"])
def test_agents_with_a_prompt_use_the_model_that_is_configured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reply(load_engine(name), "Hello", system_prompt="You are a clerk.")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    assert type(load_engine(name)).__name__ == "LlmEngine"


@pytest.mark.parametrize("kind", RUN_LIMITS)
def test_limits_exceeds_the_limit_that_the_message_names(kind: str) -> None:
    for message in (kind, f"Please exceed {kind.replace('_', ' ').upper()}!", f"limit-{kind.replace('_', '-')}"):
        last = run(load_engine("limits"), message)[-1]
        assert isinstance(last, Failure)
        assert run_limit(last.message, whole=True) == kind
        assert last.status == (413 if kind == "state_size" else 429)


def test_limits_lists_them_without_a_name() -> None:
    text = reply(load_engine("limits"), "Which are there?")
    assert all(f"`{kind}`" in text for kind in RUN_FAILURES)


def test_echo_replies_with_the_message() -> None:
    assert (
        reply(load_engine("echo"), "Grüße,  zwei Leerzeichen\n\nund ein Absatz")
        == "Grüße,  zwei Leerzeichen\n\nund ein Absatz"
    )


@pytest.mark.parametrize(("message", "count"), [("12", 12), ("run 1 subtask", 1), ("0", 0), ("999999", 200)])
def test_verbose_runs_the_requested_number_of_subtasks(message: str, count: int) -> None:
    steps = run(load_engine("verbose"), message)
    assert len(finished_tools(steps)) == count
    assert isinstance(steps[-1], Reply)


def test_flaky_fails_at_its_rate_depending_on_the_seed() -> None:
    ends = [run(load_engine("flaky"), "Hello", seed=seed)[-1] for seed in range(400)]
    assert 0.2 < sum(isinstance(end, Failure) for end in ends) / len(ends) < 0.4


def test_slow_can_be_cancelled() -> None:
    async def cancel() -> None:
        turn = asyncio.create_task(collect(load_engine("slow"), request("60", delay_factor=1.0)))
        await asyncio.sleep(0.05)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(cancel())


def test_drafts_are_single_words() -> None:
    steps = run(load_engine("echo"), "one two three four five")
    assert [step.text for step in steps if isinstance(step, Draft)] == ["one", " two", " three", " four", " five"]

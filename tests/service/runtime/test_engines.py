"""What every engine keeps to, whichever it is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbook.api.run_limits import RUN_LIMITS, run_limit
from agentbook.service.engines.base import Draft, Failure, Message, Reply
from agentbook.service.engines.registry import ENGINES, engine
from agentbook.service.engines.run_limits import RUN_FAILURES

from .turns import collect, reply, request, steps, tools

OFFLINE = sorted(set(ENGINES) - {"analyst"})


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("name", OFFLINE)
def test_equal_requests_give_equal_steps(name: str) -> None:
    for message in ("3", "What is a turn?"):
        assert steps(engine(name), message, seed=5) == steps(engine(name), message, seed=5)


@pytest.mark.parametrize("name", sorted(set(OFFLINE) - {"slow"}))
@settings(max_examples=15, deadline=None)
@given(message=st.text(max_size=120), seed=st.integers(0, 99))
def test_no_message_upsets_an_engine(name: str, message: str, seed: int) -> None:
    steps(engine(name), message, seed=seed, history=[Message("user", message), Message("assistant", message)])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("goose", "does not include"),
        ("no such engine", "does not know"),
        ("", "does not know"),
        ("blank", "configure-llm"),
    ],
)
def test_a_missing_engine_ends_the_turn_and_says_what_to_do(name: str, says: str) -> None:
    [last] = steps(engine(name), "Hello")
    assert isinstance(last, Failure)
    assert (last.status, last.error) == (500, "EngineNotInstalled")
    assert repr(name) in last.message
    assert says in last.message


def test_names_are_found_however_they_are_spelt() -> None:
    assert type(engine("Limit_LLM_Calls")) is type(engine("limit-llm-calls"))
    assert type(engine(" ECHO ")) is type(engine("echo"))


def test_llm_answers_by_the_stand_in_without_an_endpoint_and_never_hangs_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "stand-in" in reply(engine("llm"), "Hello", system_prompt="You are a clerk.")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    assert type(engine("llm")) is not type(engine("stand-in"))


@pytest.mark.parametrize("kind", RUN_LIMITS)
def test_each_run_limit_has_an_agent_that_runs_into_it(kind: str) -> None:
    last = steps(engine(f"limit-{kind.replace('_', '-')}"), "Go")[-1]
    assert isinstance(last, Failure)
    assert run_limit(last.message, whole=True) == kind
    assert last.status == (413 if kind == "state_size" else 429)


def test_no_limit_is_without_its_agent() -> None:
    assert {f"limit-{kind.replace('_', '-')}" for kind in RUN_FAILURES} == {
        name for name in ENGINES if name.startswith("limit-")
    }


def test_echo_says_back_what_it_was_told() -> None:
    assert (
        reply(engine("echo"), "Grüße,  zwei Leerzeichen\n\nund ein Absatz")
        == "Grüße,  zwei Leerzeichen\n\nund ein Absatz"
    )


@pytest.mark.parametrize(("message", "count"), [("12", 12), ("run 1 subtask", 1), ("0", 0), ("999999", 200)])
def test_verbose_runs_as_many_subtasks_as_it_is_told(message: str, count: int) -> None:
    found = steps(engine("verbose"), message)
    assert len(tools(found)) == count
    assert isinstance(found[-1], Reply)


def test_flaky_fails_about_as_often_as_it_says_and_by_seed() -> None:
    ends = [steps(engine("flaky"), "Hello", seed=seed)[-1] for seed in range(400)]
    assert 0.2 < sum(isinstance(end, Failure) for end in ends) / len(ends) < 0.4


def test_slow_takes_the_time_it_is_told_and_can_be_cancelled() -> None:
    async def cut() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        turn = asyncio.create_task(collect(engine("slow"), request("60", pace=1.0)))
        await asyncio.sleep(0.05)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return loop.time() - began

    assert asyncio.run(cut()) < 5

    async def timed(message: str) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await collect(engine("slow"), request(message, pace=0.01))
        return loop.time() - began

    assert asyncio.run(timed("30")) >= 0.3


def test_drafts_come_in_pieces_the_size_of_words() -> None:
    found = steps(engine("echo"), "one two three four five")
    assert [step.text for step in found if isinstance(step, Draft)] == ["one", " two", " three", " four", " five"]

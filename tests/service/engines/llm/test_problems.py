"""What becomes of a turn when the endpoint fails."""

from __future__ import annotations

import asyncio
import re

import pytest

from agentbook.service.engines.base import Failure, Reply
from service.engines.llm.engine_turns import KEY, last_step, llm, run, turn
from support.fake_openai import FakeOpenAI, Scripted, cut, hang, raw, refuse, text


@pytest.mark.parametrize(
    "problem",
    [
        refuse(429, "slow down", retry_after="0"),
        refuse(500, "oops"),
        refuse(503, "loading"),
        cut(),
        raw(b'data: {"error": {"message": "overloaded"}}\n\n'),
        raw(b""),
    ],
    ids=["429", "500", "503", "cut", "error in the stream", "nothing"],
)
def test_a_temporary_problem_is_retried_twice(fake: FakeOpenAI, problem: Scripted) -> None:
    assert last_step(fake, problem, problem, text("At last.")) == Reply("At last.")
    assert len(fake.requests) == 3
    assert isinstance(last_step(fake, problem, problem, problem, text("too late")), Failure)
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("problem", "status", "pattern"),
    [
        (refuse(400, "context too long"), 502, r"answered 400: .*context too long\. Shorten"),
        (refuse(400, "5 tokens exceed the available context size (4)."), 502, r"size \(4\)\. Shorten"),
        (refuse(400, "too much", "context_length_exceeded"), 502, "Shorten the message"),
        (refuse(400, "odd."), 502, r"answered 400: [^.]*odd$"),
        (refuse(401, f"Incorrect API key provided: {KEY}"), 502, r"credentials \(401\). Check OPENAI_API_KEY"),
        (refuse(404, "no model"), 502, "know the model 'fake-model'.* AGENTBOOK_LLM_MODEL"),
        (refuse(422, f"odd {KEY} at https://a:swordfish@b/?k=swordfish"), 502, "answered 422"),
        (refuse(429, "pay", "insufficient_quota"), 503, "quota"),
        (refuse(307, "there", location="http://127.0.0.1:1/elsewhere"), 502, r"redirects elsewhere \(307\)"),
        (raw(b"data: nonsense\n\n"), 502, "not a stream of chat completion chunks"),
        (raw(b'data: {"choices": 7}\n\n'), 502, "not a stream of chat completion chunks"),
        (raw(b"data: " + b"[" * 100_000 + b"\n\n"), 502, "not a stream of chat completion chunks"),
        (cut("Hel"), 502, "closed the connection"),
        (Scripted([text("Hel").parts[1]]), 502, "broke off"),
        (raw(text("Hel").parts[1], b'data: {"error": {"message": "out of memory"}}\n\n'), 502, "out of memory"),
    ],
)
def test_a_permanent_problem_fails_at_once(fake: FakeOpenAI, problem: Scripted, status: int, pattern: str) -> None:
    failure = last_step(fake, problem)
    assert isinstance(failure, Failure)
    assert failure.status == status
    assert failure.message == " ".join(failure.message.split())
    assert re.search(pattern, failure.message), failure.message
    assert "swordfish" not in failure.message
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (refuse(400, "cannot read: You are a clerk"), "endpoint answered 400"),
        (refuse(400, "no: You are a clerk", "context_length_exceeded"), "which has no earlier ones"),
        (
            raw(text("Hel").parts[1], b'data: {"error": {"message": "You are a clerk"}}\n\n'),
            "endpoint broke off with an error",
        ),
    ],
)
def test_a_failure_of_anothers_agent_does_not_quote_the_endpoint(
    fake: FakeOpenAI, problem: Scripted, message: str
) -> None:
    fake.script_answers(problem)
    failure = run(llm(fake), turn(prompt_is_visible=False))[-1]
    assert isinstance(failure, Failure)
    assert failure.message.endswith(message)


def test_retry_after_is_honoured(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def record_sleep(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("agentbook.service.engines.llm.endpoint.asyncio.sleep", record_sleep)
    last_step(fake, refuse(429, retry_after="3"), refuse(503, retry_after="9999"), text("x"))
    assert waits == [3.0, 20.0]
    waits.clear()
    last_step(fake, refuse(429, retry_after="Wed, 21 Oct"), refuse(429), text("x"), retry_delays_s=(0.25, 0.5))
    assert waits == [0.25, 0.5]


@pytest.mark.parametrize("script", [hang(), hang("Hel")])
def test_silence_times_out(fake: FakeOpenAI, script: Scripted) -> None:
    failure = last_step(fake, script, read_timeout_s=0.3)
    assert isinstance(failure, Failure)
    assert (failure.status, failure.error) == (504, "ModelTimeout")
    assert "said nothing for 0.3 s" in failure.message
    assert len(fake.requests) == 1, "a timeout is not retried"
    assert fake.disconnected.wait(60), "the connection was closed"


def test_an_endpoint_that_does_not_listen() -> None:
    with FakeOpenAI() as closed:
        engine = llm(closed)
    failure = run(engine)[-1]
    assert isinstance(failure, Failure)
    assert "cannot be reached" in failure.message

from __future__ import annotations

import asyncio
import json
import sys
import threading

import pytest

from agentbook.service.engines.base import (
    Draft,
    Failure,
    LlmCall,
    LlmUsage,
    Message,
    Reply,
    ToolDone,
    ToolStarted,
)
from service.engines.llm.engine_turns import KEY, counted, last_step, llm, run, turn
from support.fake_openai import FakeOpenAI, calls, hang, refusal, refuse, text


def test_an_answer_is_streamed_and_counted(fake: FakeOpenAI) -> None:
    fake.script_answers(text("Good", " day", " 🌍", tokens=42))
    steps = run(llm(fake))
    assert steps[-2:] == [counted(42), Reply("Good day 🌍")]
    [sent] = fake.requests
    assert steps[0] == LlmCall(sent.size), "the size that is charged is the size that is sent"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "fake-model",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_drafts_arrive_while_the_model_writes(fake: FakeOpenAI) -> None:
    signals = [threading.Event(), threading.Event()]
    fake.script_answers(text("one", signals[0], " two", signals[1], " three"))

    async def watch() -> list[str]:
        drafts = []
        async for step in llm(fake).run(turn()):
            if isinstance(step, Draft):
                drafts.append(step.text)
                if len(drafts) <= len(signals):
                    signals[len(drafts) - 1].set()  # the model continues only after its words were shown
        return drafts

    assert asyncio.run(watch()) == ["one", " two", " three"]


@pytest.mark.parametrize(("mode", "count"), [("one-shot", 1), ("multi-turn", 3)])
def test_history_is_sent_in_mode_multi_turn_only(fake: FakeOpenAI, mode: str, count: int) -> None:
    fake.script_answers(text("Ada."))
    history = [Message("user", "I am Ada \ud83d"), Message("assistant", "Hello Ada"), Message("assistant", "")]
    run(llm(fake), turn("Who am I?", history=history, mode=mode, system_prompt=None))
    messages = [
        {"role": "user", "content": "I am Ada ?"},
        {"role": "assistant", "content": "Hello Ada"},
        {"role": "user", "content": "Who am I?"},
    ]
    assert fake.bodies()[0]["messages"] == messages[-count:]


def test_a_tool_round_trip(fake: FakeOpenAI) -> None:
    arguments = '{"expression": "6 * 7"}'
    fake.script_answers(
        calls(("calculator", arguments), ("now", ""), saying="Let me see."), text("It is 42.", tokens=20)
    )
    steps = run(llm(fake), turn("What is 6 * 7?", "calculator", "now"))
    now = next(step.result for step in steps if isinstance(step, ToolDone) and step.name == "now")
    assert [step for step in steps if not isinstance(step, Draft)] == [
        LlmCall(fake.requests[0].size),
        counted(7),
        ToolStarted("calculator", {"expression": "6 * 7"}),
        ToolDone("calculator", {"expression": "6 * 7", "value": "42"}),
        ToolStarted("now", {}),
        ToolDone("now", now),
        LlmCall(fake.requests[1].size),
        counted(20),
        Reply("Let me see.\n\nIt is 42."),
    ]
    first, second = fake.bodies()
    assert [tool["function"]["name"] for tool in first["tools"]] == ["calculator", "now"]
    assert "tool_choice" not in second
    round_, result, time = second["messages"][-3:]
    assert round_ == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": arguments}},
            {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
        ],
    }
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
    assert json.loads(result["content"]) == {"expression": "6 * 7", "value": "42"}
    assert time["tool_call_id"] == "call_2"


def test_tools_that_end_with_stop_are_run_too(fake: FakeOpenAI) -> None:
    fake.script_answers(calls(("now", "{}"), finish="stop"), text("Now."))
    assert run(llm(fake), turn("x", "now"))[-1] == Reply("Now.")


def test_tokens_are_estimated_if_the_endpoint_does_not_count(fake: FakeOpenAI) -> None:
    fake.script_answers(text("x" * 400, tokens=None))
    steps = run(llm(fake))
    estimate = LlmUsage((fake.requests[0].size + 400) // 4, model="fake-model", is_estimate=True)
    assert estimate in steps


def test_the_ends_of_an_answer(fake: FakeOpenAI) -> None:
    assert last_step(fake, refusal("I cannot help with that.")) == Reply("I cannot help with that.")
    for reason in ("length", "content_filter", "their own"):
        assert last_step(fake, text("It goes", finish=reason)) == Reply("It goes", reason)
    for script, error, phrase in [
        (text("", finish="length"), "ModelEndpointError", "length limit"),
        (text(" ", finish="content_filter"), "ContentFiltered", "withheld"),
        (text(" ", "\n"), "ModelEndpointError", "empty"),
    ]:
        failure = last_step(fake, script)
        assert isinstance(failure, Failure)
        assert failure.error == error
        assert phrase in failure.message


def test_a_model_that_refuses_max_tokens_gets_the_newer_name(fake: FakeOpenAI) -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    fake.script_answers(refuse(400, message, "unsupported_parameter"), text("Hello."), text("Again."))
    limited = turn(sampling={"max_tokens": 50, "temperature": 0})
    assert run(llm(fake), limited)[-1] == Reply("Hello.")
    assert run(llm(fake), limited)[-1] == Reply("Again.")
    limits = [{name: body.get(name) for name in ("max_tokens", "max_completion_tokens")} for body in fake.bodies()]
    newer = {"max_tokens": None, "max_completion_tokens": 50}
    assert limits == [{"max_tokens": 50, "max_completion_tokens": None}, newer, newer], "it is refused only once"
    fake.script_answers(refuse(400, "max_completion_tokens is too large"))
    failure = run(llm(fake), limited)[-1]
    assert isinstance(failure, Failure)
    assert "max_completion_tokens is too large" in failure.message


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_the_end_of_a_turn_closes_the_stream(fake: FakeOpenAI, how: str) -> None:
    fake.script_answers(hang("Hel"))

    async def end_early() -> None:
        steps = llm(fake).run(turn())
        while not isinstance(await anext(steps), Draft):
            pass
        if how == "cancel":
            waiting = asyncio.create_task(anext(steps))  # type: ignore[arg-type]
            await asyncio.to_thread(fake.hanging.wait, 10)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            await steps.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(fake.disconnected.wait, 10)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(end_early())


def test_a_limit_ends_the_turn_before_anything_is_sent(fake: FakeOpenAI) -> None:
    async def stop_at_the_call() -> None:
        steps = llm(fake).run(turn())
        assert isinstance(await anext(steps), LlmCall)
        await steps.aclose()  # type: ignore[attr-defined]

    asyncio.run(stop_at_the_call())
    assert fake.requests == []


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch, fake: FakeOpenAI) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    [failure] = run(llm(fake))
    assert isinstance(failure, Failure)
    assert (failure.status, failure.error) == (500, "EngineNotInstalled")
    assert "pip install openai" in failure.message


def test_a_local_endpoint_is_reached_without_a_proxy(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert last_step(fake, text("Here.")) == Reply("Here.")

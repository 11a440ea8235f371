"""The demo's agents continue their conversations, and say that they are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentbook.service.demo.agents.recorded import NOTICE, Recorded
from agentbook.service.demo.texts import threads, versions
from agentbook.service.engines.base import Message, Reply, Step, ToolDone
from service.engines.engine_runs import collect, finished_tools, request

WHERE = "Hello, where is my order A-12345?"


def ask(message: str, history: Sequence[Message] = (), agent: str = "helpdesk", seed: int = 1) -> list[Step]:
    prompt = versions()[agent][-1].system_prompt
    turn = replace(request(message, history=history, system_prompt=prompt, seed=seed), agent_name=agent)
    return asyncio.run(collect(Recorded(), turn))


def text(steps: Sequence[Step]) -> str:
    assert isinstance(steps[-1], Reply)
    return steps[-1].text


def test_a_question_of_the_demo_gets_its_answer_and_tools() -> None:
    steps = ask(WHERE)
    assert "Order A-12345 left our warehouse" in text(steps)
    assert text(steps).endswith(NOTICE)
    assert set(finished_tools(steps)) == {"find_order", "track_parcel"}
    assert "Order A-55555 left" in text(ask("where is the order A-55555")), "in other words, too"


def test_a_conversation_stays_about_the_same_thing() -> None:
    said = text(ask(WHERE))
    history = [Message("user", WHERE), Message("assistant", said)]
    day = said.partition("planned for **")[2].partition("**")[0]
    assert f"on {day}" in text(ask("Please request it: the new office in Leeds.", history, seed=2))
    assert "A-12345" in text(ask("Can you put that in one sentence for Ada?", history)), "of its result"
    assert text(ask("What if nobody is there on Friday?", history)) == text(
        ask("What if nobody is there on Friday?", history, seed=2)
    )


def test_some_tools_fail_and_are_run_again() -> None:
    runs = [step for seed in range(60) for step in ask(WHERE, seed=seed) if isinstance(step, ToolDone)]
    failed = [step for step in runs if step.error is not None]
    assert 0 < len(failed) < len(runs) / 4
    assert len(runs) - len(failed) == 120


@pytest.mark.parametrize("message", ["What is the capital of France?", "hi", "", "Thanks, that is all for now."])
def test_an_unknown_question_is_answered_with_what_it_can_answer(message: str) -> None:
    steps = ask(message)
    assert not finished_tools(steps)
    example = text(steps).splitlines()[-1].removeprefix("- ")
    assert NOTICE in text(ask(example))


def test_every_agent_of_the_demo_answers_each_of_its_first_questions() -> None:
    for agent, workspace in {"data-desk": "data", "incident-helper": "on-call", "diary": "notes"}.items():
        for thread in threads(workspace):
            question = thread.exchanges[0].ask.translate(str.maketrans("[]{}|", "     "))
            assert NOTICE in text(ask(question, agent=agent)), question


def test_another_prompt_is_followed_by_rules() -> None:
    turn = request("What is a session?", system_prompt="Answer in one sentence. Name your sources.")
    answer = text(asyncio.run(collect(Recorded(), replace(turn, agent_name="helpdesk"))))
    assert "Source: Sessions and events" in answer
    assert NOTICE not in answer

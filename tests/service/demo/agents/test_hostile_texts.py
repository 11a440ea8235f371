"""Agents that work by rules read a bounded part of any text, and not on the loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentbook.service.demo.agents import AGENTS, scribe, streaming
from agentbook.service.demo.texts import versions
from agentbook.service.engines.base import Message, Reply
from service.engines.engine_runs import request

MIB = 1 << 20
# Texts on which a rule that is not careful takes minutes.
TEXTS = {
    "blanks": " " * MIB,
    "words": "a " * (MIB // 2),
    "one word": "a" * MIB,
    "one number": "9" * MIB,
    "zeros": "0" * MIB,
    "percentages": "1 percent of " * 80_000,
    "powers": "9^9^9^9^9",
    "parentheses": "(" * MIB,
    "opening quotes": "“a" * (MIB // 2),
    "single quotes": " 'a" * (MIB // 3),
    "backticks": "`" * MIB,
    "lists in lists": "[" * MIB,
    "items in items": "\n".join("  " * depth + "- a" for depth in range(1_400)),
    "instructions without an end": "start " * (MIB // 6),
    "words to avoid": "never mention " + ", ".join(f"w{n}" for n in range(140_000)),
    "rules": "\n".join(f"Never say w{n}." for n in range(60_000)),
}


@pytest.mark.parametrize("name", ["llm", "scribe", "recorded", "guide", "calculator", "echo", "verbose", "slow"])
def test_any_text_is_answered(name: str) -> None:
    async def run() -> None:
        for text in TEXTS.values():
            turn = request(text, history=[Message("user", text)], system_prompt=text)
            steps = [step async for step in AGENTS[name]().run(turn)]
            assert isinstance(steps[-1], Reply)

    asyncio.run(run())


QUOTES = "Prepare a quote for x" + ": x" * 60 + " units of x" * 30 + ", x" * 150


@pytest.mark.timeout(20)  # of 0.2; a pattern that tries everything takes half a minute
@pytest.mark.parametrize("agent", ["helpdesk", "contract-reader"])
def test_the_conversations_of_the_demo_are_compared_with_any_text(agent: str) -> None:
    prompt = versions()[agent][-1].system_prompt

    async def run() -> None:
        for text in (*TEXTS.values(), "writes that " * 80, "order A-12345 " * 70, QUOTES):
            history = [Message(role, text) for role in ("user", "assistant") * 20]
            turn = replace(request(text, history=history, system_prompt=prompt), agent_name=agent)
            steps = [step async for step in AGENTS["recorded"]().run(turn)]
            assert isinstance(steps[-1], Reply)

    asyncio.run(run())


def test_what_a_prompt_lists_is_bounded() -> None:
    parsed = scribe.parse_instructions("\n".join(f"Never mention w{n}." for n in range(5_000)))
    assert parsed.avoid[:2] == ("w0", "w1")
    assert len(parsed.avoid) == 100


@pytest.mark.parametrize("text", [TEXTS["words"], TEXTS["one word"], TEXTS["blanks"], "a\n" * 20_000 + "é"])
def test_a_long_reply_is_split_into_as_many_pieces_as_a_short_one(text: str) -> None:
    pieces = streaming.split_words(text)
    assert "".join(pieces) == text
    assert 1 <= len(pieces) <= 220


def test_few_of_many_earlier_messages_are_read() -> None:
    turn = request("hello", history=[Message("user", f"{number} " + "x" * MIB) for number in range(60)])
    history = streaming.readable(turn).history
    assert [message.text.split()[0] for message in history] == [str(number) for number in range(20, 60)]
    assert max(len(message.text) for message in history) == streaming.MAX_MESSAGE

"""The stand-in says what it is, and shows which parts of the prompt apply."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentbook.service.demo.agents.stand_in import NOTICE, StandIn, match_prompt
from agentbook.service.engines.base import Message
from service.engines.engine_runs import reply

PROMPT = (
    "You are the help desk of Acme. Answer in at most four sentences. "
    "Never promise refunds. Always name the order number. Use a table for lists."
)


@settings(max_examples=60, deadline=None)
@given(st.none() | st.text(max_size=300), st.text(max_size=200))
def test_every_reply_says_that_it_is_a_stand_in(prompt: str | None, message: str) -> None:
    assert reply(StandIn(), message, system_prompt=prompt).startswith(NOTICE)


def test_the_rules_that_share_words_with_the_message_come_first() -> None:
    match = match_prompt(PROMPT, "A customer demands two refunds for one order")
    assert match.role == "You are the help desk of Acme."
    assert set(match.rules) == {"Never promise refunds.", "Always name the order number."}
    assert set(match.shared_words) == {"refunds", "order"}
    assert match.forms == ("as a table", "as a list")


def test_another_prompt_gives_another_reply() -> None:
    question = "Do I get refunds?"
    strict, kind = (
        reply(StandIn(), question, system_prompt=prompt) for prompt in (PROMPT, "You are kind. Always offer refunds.")
    )
    assert "Never promise refunds" in strict
    assert "Always offer refunds" in kind


def test_history_counts_in_multi_turn_mode_only() -> None:
    history = [Message("user", "One"), Message("assistant", "Two")]
    assert "1 earlier message" in reply(StandIn(), "Three", system_prompt=PROMPT, history=history)
    assert "earlier message" not in reply(StandIn(), "Three", system_prompt=PROMPT, history=history, mode="one-shot")


def test_the_reply_says_if_there_is_no_prompt() -> None:
    assert "no system prompt" in reply(StandIn(), "Hello")

"""The stand-in says what it is, and counts which rules of the prompt apply."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents.stand_in import NOTICE, PromptMatch, StandIn, match_prompt
from agentbook.service.engines.base import Message
from service.engines.engine_runs import reply

PROMPT = (
    "You are the help desk of Acme. Answer in at most four sentences. "
    "Never promise refunds. Always name the order number. Use a table for lists."
)


@given(st.none() | st.text(max_size=300), st.text(max_size=200))
def test_every_reply_says_that_it_is_a_stand_in(prompt: str | None, message: str) -> None:
    assert reply(StandIn(), message, system_prompt=prompt).startswith(NOTICE)


def test_the_rules_that_share_words_with_the_message_are_counted() -> None:
    match = match_prompt(PROMPT, "A customer demands two refunds for one order")
    assert match == PromptMatch(has_role=True, rules=4, matching=(2, 3), forms=("as a table", "as a list"))
    assert "gives 4 rules. 2 of them share words with the message: 2, 3." in reply(
        StandIn(), "A customer demands two refunds for one order", system_prompt=PROMPT
    )


@given(st.lists(st.sampled_from(PROMPT.split()), max_size=8).map(" ".join), st.booleans())
def test_no_reply_quotes_the_prompt(message: str, visible: bool) -> None:
    text = reply(StandIn(), message, system_prompt=PROMPT, prompt_is_visible=visible)
    text = text.partition("”")[2]  # after the question, which is repeated
    assert not [sentence for sentence in PROMPT.split(". ") if sentence in text]
    assert not {"Acme", "refunds", "promise", "four"} & set(text.split())


def test_a_stranger_learns_nothing_of_the_prompt() -> None:
    prompts = (PROMPT, "Be kind.", "x")
    replies = {reply(StandIn(), "refunds?", system_prompt=prompt, prompt_is_visible=False) for prompt in prompts}
    assert len(replies) == 1
    assert "belongs to another account" in replies.pop()


def test_another_prompt_gives_another_reply() -> None:
    question = "Do I get refunds?"
    prompts = (PROMPT, "You are kind. Always offer refunds.")
    strict, kind = (reply(StandIn(), question, system_prompt=prompt) for prompt in prompts)
    assert strict != kind


def test_history_counts_in_multi_turn_mode_only() -> None:
    history = [Message("user", "One"), Message("assistant", "Two")]
    assert "1 earlier message" in reply(StandIn(), "Three", system_prompt=PROMPT, history=history)
    assert "earlier message" not in reply(StandIn(), "Three", system_prompt=PROMPT, history=history, mode="one-shot")


def test_the_reply_says_if_there_is_no_prompt() -> None:
    assert "no system prompt" in reply(StandIn(), "Hello")

"""The table of a conversation: its dtypes, and what is missing in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from agentbook.chat.html import message_html
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.transcript import COLUMNS
from chat.fakes import SESSION, FakePlatform, echo, finished, make_conversation


@pytest.mark.anyio
async def test_the_transcript_is_typed_and_complete() -> None:
    platform = FakePlatform()
    conversation = make_conversation(platform, session=SESSION)
    empty = Conversation(None).to_pandas()
    exchange = await conversation.send("How many?")
    platform.done("t1")
    reply = platform.reply("Two")
    await finished(exchange)
    frame = conversation.to_pandas()
    assert dict(empty.dtypes.astype(str)) == dict(frame.dtypes.astype(str)) == COLUMNS
    assert frame["role"].tolist() == ["user", "agent"]
    assert frame["text"].tolist() == ["How many?", "Two"]
    assert frame["event_id"].tolist() == [exchange.turn.message_id, reply["id"]]
    assert frame["status"].tolist() == ["answered", "answered"]
    assert frame["subtasks"].tolist()[1] == 1
    assert frame["time_to_reply_s"].notna().tolist() == [False, True]
    assert frame["asked_at"].notna().all()
    await conversation.aclose()


@pytest.mark.anyio
async def test_a_lone_surrogate_becomes_a_question_mark_in_the_table() -> None:
    conversation = make_conversation(FakePlatform(lambda platform, text: platform.reply("cut \ud83d")))
    await finished(await conversation.start("Hello"))
    assert list(conversation.to_pandas()["text"]) == ["Hello", "cut ?"]


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
async def test_missing_values_do_not_depend_on_pandas_options() -> None:
    conversation = make_conversation(FakePlatform(echo))
    await finished(await conversation.start("Hello"))
    with pd.option_context("future.infer_string", False):
        frame = conversation.to_pandas()
    assert frame["request_id"].isna().all()
    assert frame["text"].dtype == pd.StringDtype(na_value=np.nan)


def answer(conversation: Conversation, number: int, **fields: object) -> None:
    """A question and its reply; `fields` are on the reply's event."""
    question, reply = (f"0199a0b2-0000-7000-8000-00000000{number:03}{n}" for n in (1, 2))
    conversation.feed({"id": question, "type": "message", "content": {"text": "?"}, "author": {"type": "api_key"}})
    conversation.feed({"id": reply, "type": "runtime_done", "content": {"text": "!"}, **fields})


USAGE = {"input_tokens": 2_000, "output_tokens": 500, "model": "small"}


def test_what_a_turn_used_stands_in_the_table_under_the_reply_and_in_the_head() -> None:
    conversation = Conversation(None, session=SESSION, prices={"small": (1.0, 2.0)})
    answer(conversation, 1, usage=USAGE)
    again = Conversation.from_json(conversation.to_json())
    for each in (conversation, again):
        row = each.as_transcript().to_pandas().iloc[1]
        assert row[["model", "input_tokens", "output_tokens", "tokens", "cost"]].tolist() == [
            "small",
            2000,
            500,
            2500,
            0.003,
        ]
        assert "small · 2,500 tokens · cost 0.003" in message_html.foot(each.exchanges[0])
    assert "small · 2,500 tokens · cost 0.003" in conversation.as_transcript().to_markdown()
    assert message_html.used_in_all(conversation.exchanges) == "2,500 tokens · cost 0.003"


def test_a_turn_of_two_models_costs_their_sum_and_keeps_what_came_from_a_cache() -> None:
    cached = {"input_tokens": 500, "cache_read_input_tokens": 1_500, "output_tokens": 500}
    usage = {**USAGE, "usage_by_model": {"small": USAGE, "large": cached}, "cost": 0.01}
    conversation = Conversation(None, session=SESSION, prices={"small": (1.0, 2.0), "large": (10.0, 20.0, 1.0)})
    answer(conversation, 1, usage=usage)
    answer(conversation, 2, usage={**cached, "model": "large", "cost": 0.01})
    row, other = conversation.as_transcript().to_pandas().iloc[[1, 3]].to_dict("records")
    assert (row["tokens"], row["cost"]) == (5_000, pytest.approx(0.003 + 0.0165))
    names = ("input_tokens", "cached_tokens", "reported_cost", "cost")
    assert [other[name] for name in names] == [2_000, 1_500, 0.01, pytest.approx(0.0165)]


def test_what_is_not_known_is_not_counted_as_nothing() -> None:
    conversation = Conversation(None, session=SESSION, prices={"small": (1.0, 2.0)})
    answer(conversation, 1)
    assert message_html.used_in_all(conversation.exchanges) == ""
    assert conversation.as_transcript().to_pandas()[["model", "tokens", "cost"]].iloc[1].isna().all()
    answer(conversation, 2, usage=USAGE)
    assert message_html.used_in_all(conversation.exchanges) == "2,500 tokens · cost 0.003 (1 of 2 turns)"
    answer(conversation, 3, usage={**USAGE, "model": "other"})  # which has no price
    assert message_html.used_in_all(conversation.exchanges) == "5,000 tokens (2 of 3 turns)"
    answer(conversation, 4, usage={**USAGE, "estimated": True})
    assert conversation.exchanges[3].usage["tokens"] is None

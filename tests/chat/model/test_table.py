"""The table of a conversation: its dtypes, and what is missing in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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

"""A turn that ends early keeps the text that was streamed, and says why once."""

from __future__ import annotations

from agentbook.chat.html.message_html import CUT_OFF, UNFINISHED, exchange_html
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.transcript import Transcript
from chat.fakes import KEY, SESSION, FakePlatform


def streamed(platform: FakePlatform, conversation: Conversation) -> None:
    for event in (
        platform.persist("message", {"text": "Why?"}, KEY),
        {"id": "draft-1", "type": "runtime_draft", "content": {"delta": "Because **it", "offset": 0}, "task_id": "t0"},
    ):
        conversation.feed(event)


def test_a_failed_turn_keeps_its_text_in_every_output() -> None:
    platform, conversation = FakePlatform(), Conversation(None, session=SESSION)
    streamed(platform, conversation)
    conversation.feed(platform.fail("Out of budget"))
    exchange = conversation.exchanges[0]
    assert (exchange.status, exchange.text, exchange.turn.text) == ("failed", "Because **it", None)
    saved = conversation.to_json()
    for page in (
        conversation.to_markdown(),
        conversation.to_html(),
        exchange_html(exchange, "guide", live=True),
        Transcript.from_json(saved).to_markdown(),
    ):
        order = [page.index(part) for part in ("Because", CUT_OFF, "Failed.", "Out of budget")]
        assert order == sorted(order)
        assert page.count("Out of budget") == page.count(CUT_OFF) == 1
    assert Transcript.from_json(saved).to_json() == saved
    assert Conversation.from_json(saved) == conversation
    frame = conversation.to_pandas()
    assert frame["text"].to_list() == ["Why?", "Because **it"]
    assert frame["reason"].dropna().to_list() == ["Out of budget"]


def test_a_draft_that_is_repeated_after_a_reconnect_never_gets_shorter() -> None:
    platform, conversation = FakePlatform(), Conversation(None, session=SESSION)
    streamed(platform, conversation)
    exchange = conversation.exchanges[0]

    def replay(delta: str, offset: int) -> str:
        content = {"delta": delta, "offset": offset}
        conversation.feed(
            {"id": "draft-9", "type": "runtime_draft", "content": content, "task_id": "t0", "replayed": True}
        )
        return exchange.text

    assert replay("Because", 0) == "Because **it"
    assert replay(" **it is", 7) == "Because **it is"
    assert replay("Since", 0) == "Since"  # the agent started over


def test_an_export_says_that_a_reply_is_still_being_written() -> None:
    platform, conversation = FakePlatform(), Conversation(None, session=SESSION)
    streamed(platform, conversation)
    for page in (conversation.to_markdown(), conversation.to_html()):
        assert page.index("Because") < page.index(UNFINISHED)
    conversation.feed(platform.reply("Because."))
    assert UNFINISHED not in conversation.to_markdown()
    assert CUT_OFF not in conversation.to_markdown()
    assert '"draft": ""' in conversation.to_json()

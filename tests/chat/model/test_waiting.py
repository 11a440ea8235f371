"""What is said while a reply is awaited: after Stop, and when nothing happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentbook.chat.html.message_html import UNSENT, actions, exchange_html
from agentbook.chat.model import conversation as model
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.widgets.panel_view import describe
from chat.fakes import OTHER, SESSION, FakePlatform, echo, finished, until
from chat.panels import PagePerson, eventually, make, on_loop, shown

pytestmark = pytest.mark.anyio


class FakeClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def stopped(platform: FakePlatform, clock: FakeClock) -> Conversation:
    """A conversation in which a turn was stopped that the platform goes on with."""
    conversation = Conversation(platform, session=SESSION, follow=platform.follow, clock=clock)  # type: ignore[arg-type]
    slow = await conversation.send("Think long")
    await until(lambda: slow.confirmed, conversation)
    conversation.stop()
    return conversation


async def test_the_message_after_stop_is_held_and_sent_when_the_turn_ends() -> None:
    platform, clock = FakePlatform(), FakeClock()
    conversation = await stopped(platform, clock)
    exchange = conversation.submit("Next")
    clock.now += 12
    assert exchange.held
    assert describe(conversation) == (
        "Waiting for the previous turn to end (12 s). The platform cannot cancel it.", True
    )  # fmt: skip
    await asyncio.sleep(0)
    assert platform.requests.count("send") == 1
    platform.reply("A late one")
    await until(lambda: exchange.confirmed, conversation)
    clock.now += 3
    assert exchange.silent_s(clock.now) == 3
    platform.reply("Here")
    assert (await finished(exchange)).text == "Here"
    assert exchange.time_to_reply_s == 15, "the person waited since Enter"
    assert [each.text for each in conversation.exchanges] == ["A late one", "Here"]
    assert not conversation.withdraw(exchange), "it was sent"
    await conversation.aclose()


async def test_a_held_message_is_withdrawn_and_never_sent() -> None:
    platform = FakePlatform()
    conversation = await stopped(platform, FakeClock())
    exchange = conversation.submit("Never mind")
    assert actions(exchange) == [("retry", "Withdraw", "Take this message back; it has not been sent")]
    assert conversation.withdraw(exchange)
    assert (await finished(exchange)).status == "open"
    assert [each.prompt for each in conversation.exchanges] == ["Think long"]
    platform.reply("Late")
    await until(lambda: conversation.turns[0].text == "Late", conversation)
    assert platform.requests.count("send") == 1
    await conversation.aclose()


async def test_a_held_message_that_is_stopped_says_that_it_was_not_sent() -> None:
    platform = FakePlatform()
    conversation = await stopped(platform, FakeClock())
    exchange = conversation.submit("Never mind")
    conversation.stop()
    assert exchange.unsent
    assert UNSENT in exchange_html(exchange, "guide")
    assert UNSENT in Conversation.from_json(conversation.to_json()).to_markdown()
    await conversation.aclose()


async def test_a_turn_whose_run_died_holds_a_message_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "HOLD_S", 0.01)
    platform = FakePlatform()
    conversation = await stopped(platform, FakeClock())
    exchange = conversation.submit("Next")
    assert exchange.held
    while_held, _ = describe(conversation)
    await until(lambda: exchange.confirmed, conversation)
    assert exchange.waits_for_previous
    assert not exchange.held
    assert describe(conversation)[0].startswith("Waiting for the previous turn")
    assert describe(conversation)[0] != while_held, "it says why Withdraw has gone"
    await conversation.aclose()


async def test_a_platform_without_a_sign_of_life() -> None:
    platform, clock = FakePlatform(), FakeClock()
    conversation = Conversation(platform, session=SESSION, follow=platform.follow, clock=clock)  # type: ignore[arg-type]
    exchange = await conversation.send("Hello")
    await until(lambda: exchange.confirmed, conversation)
    clock.now += 19.9
    assert describe(conversation) == ("The agent is working…", True)
    clock.now += 0.1
    assert describe(conversation) == ("The agent is working… No response for 20 s.", True)
    platform.publish("reconnecting")
    await until(lambda: conversation.connection == "reconnecting", conversation)
    assert describe(conversation)[0] == "The connection was lost. Reconnecting… No response for 20 s."
    platform.publish("live")
    platform.write("At", 0)
    await until(lambda: exchange.text == "At", conversation)
    assert describe(conversation) == ("The agent is answering…", True)
    clock.now += 63
    assert describe(conversation)[0].endswith("No response for 1 min 3 s.")
    conversation.stop()
    await conversation.resume()
    assert "No sign" not in describe(conversation)[0], "it waits anew"
    await conversation.aclose()


def panel_after_stop() -> tuple[FakePlatform, Any, Any]:
    """A platform that goes on with a turn, a panel that was stopped, and the turn."""
    platform = FakePlatform(lambda platform, text: None)
    panel = make(platform)
    slow = on_loop(lambda: panel.conversation.submit("Think"))
    eventually(panel, lambda: slow.confirmed)
    panel.stop()
    eventually(panel, lambda: slow.status == "stopped")
    return platform, panel, slow


def test_the_panel_withdraws_by_its_button_and_from_code() -> None:
    _, panel, _ = panel_after_stop()
    first: Any = on_loop(lambda: panel.conversation.submit("First"))
    assert "Waiting for" in on_loop(lambda: describe(panel.conversation))[0]
    assert "First" in shown(panel)
    page = PagePerson(panel)
    assert page.turn(first)["data"]["actions"][0][1] == "Withdraw"
    page.retry(first)
    eventually(panel, lambda: first not in panel.conversation.exchanges)
    assert page.box["text"] == "First"
    on_loop(lambda: panel.conversation.submit("Second"))
    assert panel.withdraw() == "Second"
    assert panel.withdraw() == ""
    assert [exchange.prompt for exchange in panel.conversation.exchanges] == ["Think"]


def test_listen_again_works_while_another_message_waits() -> None:
    platform, panel, slow = panel_after_stop()
    held = on_loop(lambda: panel.conversation.submit("Next"))
    PagePerson(panel).retry(slow)
    eventually(panel, lambda: slow.pending)
    assert on_loop(lambda: held.held)
    platform.answer = echo
    on_loop(lambda: platform.reply("At last"))
    eventually(panel, lambda: held.status == "answered")
    assert [each.text for each in panel.conversation.exchanges] == ["At last", "You said: Next"]
    assert platform.requests.count("send") == 1


def test_a_held_message_is_asked_in_a_new_session() -> None:
    platform, panel, _ = panel_after_stop()
    held: Any = on_loop(lambda: panel.conversation.submit("And this?"))
    page = PagePerson(panel)
    assert [what for what, _, _ in page.turn(held)["data"]["actions"]] == ["retry", "ask_new"]
    turn = page.id_of(held)
    platform.next_session, platform.answer = OTHER, echo
    platform.events.clear()
    page.say(do="ask_new", turn=turn)
    eventually(panel, lambda: panel.session_id == OTHER and not panel.conversation.pending)
    assert [(each.prompt, each.status) for each in panel.conversation.exchanges] == [("And this?", "answered")]
    assert [each.prompt for each in panel.conversation.sessions[panel.sessions[0]]] == ["Think"], (
        "it is not left behind"
    )

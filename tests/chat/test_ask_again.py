"""A turn that is asked again in a new session, beside its first reply."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.errors import ServerError
from agentbook.chat.panel import ChatPanel
from chat.compare.agents import Agents
from chat.fakes import FakePlatform
from chat.panels import PagePerson, eventually, static_page


class Counting:
    """An agent that numbers its replies; `plan` says what else happens, by number."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.plan: dict[int, Callable[[FakePlatform, str], Any]] = {}

    def __call__(self, platform: FakePlatform, text: str) -> Any:
        number = next(self.numbers)
        other = self.plan.get(number)
        return other(platform, text) if other else platform.reply(f"Reply {number} to {text}")


@pytest.fixture
def agent() -> Counting:
    return Counting()


@pytest.fixture
def agents(agent: Counting) -> Agents:
    return Agents(guide=agent)


@pytest.fixture
def panel(agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatPanel]:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))  # other tests leave notes on sessions
    panel = ChatPanel(agents, "acme~lab", "guide", follow=agents.follow, labels=tmp_path)  # type: ignore[arg-type]
    for question in ("a", "b", "c", "d"):
        panel.ask(question)
    yield panel
    panel.close()


def limit(platform: FakePlatform, text: str) -> None:
    platform.fail("token limit")


async def silent(platform: FakePlatform, text: str) -> None:
    await asyncio.sleep(0)


def columns(panel: ChatPanel) -> list[dict[str, Any]]:
    """The replies of the only round, from the left."""
    turns = dict(PagePerson(panel).snapshot["turns"])
    (round_,) = (turn for turn in turns.values() if "columns" in turn["data"])
    return [turns[id] for id in round_["data"]["columns"]]


def bodies(panel: ChatPanel) -> list[str]:
    return [column["body"].strip() for column in columns(panel)]


def test_the_questions_before_are_sent_again_in_order(panel: ChatPanel, agents: Agents) -> None:
    before = panel.conversation.turns
    sent = len(agents.sent)
    turn = panel.ask_again(before[2])
    assert (turn.prompt, turn.text) == ("c", "Reply 7 to c")
    assert [text for _, text in agents.sent[sent:]] == ["a", "b", "c"]
    assert panel.conversation.turns == before  # the panel's session has not changed
    assert {entry.session_id: entry.facts for entry in panel.find_sessions()} == {
        before[0].session_id: "", turn.session_id: "asked again",
    }  # fmt: skip
    first, second = panel.sessions
    assert (panel.session_id, turn.session_id) == (first, second)
    assert bodies(panel) == ["<p>Reply 3 to c</p>", "<p>Reply 7 to c</p>"]
    assert [column["data"]["label"] for column in columns(panel)] == ["guide", "guide, asked again"]
    assert "Reply 7 to c" in static_page(panel)
    panel.open_session(second)
    assert [each.prompt for each in panel.conversation.turns] == ["a", "b", "c"]
    assert panel.ask("e").text == "Reply 8 to e"


def test_a_page_asks_before_anything_is_sent(panel: ChatPanel, agents: Agents) -> None:
    page, sent = PagePerson(panel), len(agents.sent)
    id = page.id_of(panel.conversation.exchanges[3])
    look = page.ask(do="again", turn=id, confirm=False)["collected"]
    assert "the 3 questions before this one are sent again, and then this one: 4 turns" in look["note"]
    assert (look["text"], look["confirm"], len(agents.sent)) == ("d", "Ask again", sent)
    assert page.ask(do="again", turn=id, confirm=True)["collected"] is None
    eventually(panel._page.alternatives[0], lambda: len(agents.sent) == sent + 4)


def test_a_failure_half_way_is_shown_and_the_rest_can_follow(panel: ChatPanel, agent: Counting) -> None:
    agent.plan[6] = limit
    with pytest.raises(ServerError, match="token limit"):
        panel.ask_again()
    first, second = columns(panel)
    assert "Reply 4 to d" in first["body"]
    assert "Question 2 of 4, sent again: b" in second["html"]["attempts"]
    assert "token limit" in second["html"]["foot"]
    page = PagePerson(panel)
    assert page.status == ("Asking again failed. See the reason in its column.", False)
    alternative = panel._page.alternatives[0]
    page.retry(alternative.exchange)
    eventually(panel._page.alternatives[0], lambda: alternative.answered == 4)
    assert bodies(panel)[1] == "<p>Reply 9 to d</p>"
    assert "token limit" in str(panel.conversation.sessions[panel.sessions[1]][1].reason), "nothing is lost"


def test_stop_ends_it_and_listening_again_goes_on(panel: ChatPanel, agent: Counting) -> None:
    agent.plan[6] = silent
    page = PagePerson(panel)
    page.ask(do="again", turn=page.id_of(panel.conversation.exchanges[3]), confirm=True)
    alternative = panel._page.alternatives[0]
    eventually(panel._page.alternatives[0], lambda: alternative.number == 2 and alternative.exchange.awaits_reply)
    assert page.status == ("Asking again: question 2 of 4…", True)
    page.write("meanwhile")
    page.press("stop")
    eventually(panel._page.alternatives[0], lambda: not alternative.running)
    assert [turn.prompt for turn in panel.conversation.turns] == ["a", "b", "c", "d"], "one thing at a time"
    assert [action[1] for action in columns(panel)[1]["data"]["actions"]] == ["Listen again"]
    assert page.composer["busy"] is False
    page.retry(alternative.exchange)
    eventually(panel._page.alternatives[0], lambda: alternative.running)
    agents_platform(panel, alternative.conversation.session_id).reply("late")
    eventually(panel._page.alternatives[0], lambda: alternative.answered == 4)


def test_closing_the_panel_ends_it(panel: ChatPanel, agent: Counting, agents: Agents) -> None:
    agent.plan[6] = silent
    page = PagePerson(panel)
    page.ask(do="again", turn=page.id_of(panel.conversation.exchanges[3]), confirm=True)
    alternative = panel._page.alternatives[0]
    eventually(panel._page.alternatives[0], lambda: alternative.number == 2 and alternative.exchange.awaits_reply)
    panel.close()
    assert alternative.conversation.state == "closed"
    eventually(panel._page.alternatives[0], lambda: not alternative.running)


def test_thumbs_choose_between_the_replies(panel: ChatPanel, tmp_path: Path) -> None:
    panel.ask_again(0)
    page, second = PagePerson(panel), panel._page.alternatives[0].exchange
    assert second is not None
    rated = threading.Event()
    panel._throttle.request_draw_of = lambda exchange: rated.set()  # type: ignore[method-assign]
    page.say(do="good", turn=page.id_of(second))
    assert rated.wait(60)
    assert [column["data"]["choice"]["pressed"] for column in columns(panel)] == [False, True]
    (label,) = ab.read_labels(tmp_path).to_dict("records")
    assert (label["session_id"], label["message_id"], label["value"]) == (
        second.turn.session_id,
        second.turn.message_id,
        "yes",
    )


@pytest.mark.parametrize("turn", [9, -9])
def test_turns_that_are_not_there(panel: ChatPanel, turn: int) -> None:
    with pytest.raises(ValueError, match=r"no such turn .* has 4"):
        panel.ask_again(turn)


def test_a_failed_turn_is_not_asked_again(panel: ChatPanel, agent: Counting, agents: Agents) -> None:
    agent.plan[5] = limit
    with pytest.raises(ServerError):
        panel.ask("e")
    sent = len(agents.sent)
    with pytest.raises(ValueError, match="Only an answered question"):
        panel.ask_again()
    assert panel.ask_again(3).text == "Reply 9 to d"
    assert len(agents.sent) == sent + 4


def agents_platform(panel: ChatPanel, session_id: str | None) -> FakePlatform:
    agents: Any = panel.conversation._client
    platform: FakePlatform = agents.of(session_id)
    return platform

"""What a page asks for: sessions, an export, a test input."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.api.record import Record
from agentbook.chat.model.transcript import Transcript
from agentbook.chat.panel import ChatPanel
from agentbook.evaluation.inputs import read_turns, to_frame
from agentbook.events import loop
from chat.fakes import OTHER, SESSION, FakePlatform
from chat.panels import PagePerson, long_history, make, static_page


class TestSet:
    """The inputs of a prompt lab."""

    __test__ = False

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.origins: list[list[Any]] = []

    def add_inputs(self, turns: Any) -> pd.DataFrame:
        rows = to_frame(read_turns(turns))
        self.inputs += rows["input"].tolist()
        self.origins += rows[["session_id", "message_id", "agent"]].values.tolist()
        return rows


def test_the_page_finds_sessions_by_words_and_time(
    platform: FakePlatform, panel: ChatPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))  # other tests leave notes on sessions
    panel.ask("What is a turn?")
    platform.other_sessions = [Record(id=OTHER, name="Refund of order 7", created_at="2020-10-03T08:15:00Z")]
    page = PagePerson(panel)
    reply = page.ask(do="find", search="")
    [session_id, title, time, is_current, who, *_], other = reply["entries"]
    assert other == [OTHER, "Refund of order 7", "2020-10-03T08:15:00+00:00", False, "", "", False, [], False]
    assert (reply["kind"], session_id, title, is_current, who) == ("sessions", SESSION, "What is a turn?", True, "")
    assert datetime.fromisoformat(time) == panel.find_sessions()[0].last_at
    assert page.ask(do="find", search="order refund")["entries"] == [other]
    assert page.ask(do="find", search="nothing like it")["entries"] == []


def test_the_page_names_and_forgets_sessions_on_this_computer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: FakePlatform, panel: ChatPanel
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    panel.ask("What is a turn?")
    platform.other_sessions = [Record(id=OTHER, name="Refund of order 7", created_at="2020-10-03T08:15:00Z")]
    page, name = PagePerson(panel), "<img src=x>  \u202eDraft \ud83d"

    def named(reply: dict[str, Any]) -> list[Any]:
        return [[session_id, title, name, kept] for session_id, title, *_, name, kept, _, _ in reply["entries"]]

    assert named(page.ask(do="find", search=""))[0] == [SESSION, "What is a turn?", "", True]
    written = "<img src=x> \u27e8U+202E\u27e9Draft ?"
    mine, theirs = [SESSION, "What is a turn?", written, True], [OTHER, "Refund of order 7", written, True]
    assert named(page.ask(do="rename", session=SESSION, name=name, search="")) == [mine, [*theirs[:2], "", False]]
    assert page.session[0][0] == written
    assert named(page.ask(do="rename", session=OTHER, name=name, search="draft")) == [mine, theirs]
    opened = make(platform, session=SESSION)
    loop.run(opened.conversation.attach(), 60)
    assert PagePerson(opened).session[0][0] == written
    opened.close()
    later = make(platform)  # in another kernel
    assert [entry.session_id for entry in later.find_sessions("refund draft")] == [OTHER]
    assert later.find_sessions("draft")[0].label.startswith("<img src=x> ")
    loop.run(later.conversation._read_welcome(), 60)
    assert "&lt;img src=x&gt;" in PagePerson(later).empty
    later.forget(OTHER)
    assert later.find_sessions("draft") == []
    later.close()

    assert "What is a turn?" in static_page(panel)
    assert named(page.ask(do="rename", session=SESSION, name=None, search=""))[0] == [*mine[:2], "", False]
    assert page.session[0][0] == "What is a turn?"
    assert "What is a turn?" not in static_page(panel)
    assert "was not shown here" in page.ask(do="rename", session=OTHER, name=None, search="")["error"]
    (tmp_path / "data" / "sessions.json").write_text('{"damaged')
    assert page.ask(do="rename", session=SESSION, name="Draft", search="draft")["entries"]
    panel.rename(SESSION, " ")
    assert panel.find_sessions("draft") == []


def test_a_hit_opens_its_session_at_the_turn(
    monkeypatch: pytest.MonkeyPatch, platform: FakePlatform, panel: ChatPanel
) -> None:
    monkeypatch.setattr("agentbook.chat.widgets.page_log.CHUNK", 4)
    long_history(platform, 250)  # more than are drawn at once
    message = platform.events[2 * 7]["id"]
    missing, send = [], panel._view.send

    def note(reply: dict[str, Any], buffers: Any = None) -> None:
        if reply.get("kind") == "opened":
            missing.append(panel._page.log.missing)
        send(reply, buffers)

    panel._view.send = note
    page = PagePerson(panel)
    answer = page.ask(do="session", session=SESSION, turn=message)
    exchange = panel.conversation.exchanges[7]
    assert (exchange.turn.message_id, answer["turn"]) == (message, page.id_of(exchange))
    assert missing == [0], "nothing moves the turn any more"
    assert page.ask(do="session", session=SESSION, turn="gone")["turn"] == ""
    [[session_id, *_, [hit], _]] = page.ask(do="find", search="answer **7**")["entries"]
    assert (session_id, hit[0], hit[2:4]) == (SESSION, message, ["", "Answer"])


@pytest.mark.parametrize("suffix", [".md", ".html", ".json", ".ipynb"])
def test_the_page_gets_the_conversation_as_a_file(platform: FakePlatform, panel: ChatPanel, suffix: str) -> None:
    page = PagePerson(panel)
    assert not page.exports
    assert ".md, .html, .json, .ipynb" in page.ask(do="export", suffix="../../x")["error"]
    panel.ask("What is a turn?")
    assert page.exports
    file = page.ask(do="export", suffix=suffix)
    assert file["name"].startswith("guide-20")
    assert file["name"].endswith(suffix)
    assert file["text"] == panel.conversation.as_transcript().to_text(suffix)
    assert "You said: What is a turn?" in file["text"]
    if suffix == ".json":
        assert Transcript.from_data(json.loads(file["text"])) == panel.conversation.as_transcript()


def test_a_turn_becomes_a_test_input_after_a_look(platform: FakePlatform) -> None:
    test_set = TestSet()
    panel = ChatPanel(platform, workspace="acme~lab", agent="guide", follow=platform.follow, lab=test_set)  # type: ignore[arg-type]
    asked = panel.ask("I am ada@acme.test. Why?")
    page = PagePerson(panel)
    assert page.collects
    turn = page.id_of()
    look = page.ask(do="collect", turn=turn, confirm=False)
    assert look["collected"] == {"text": "I am […]. Why?", "masked": "an e-mail address", "added": False, "inputs": 0}
    assert test_set.inputs == []
    assert page.ask(do="collect", turn=turn, confirm=True)["collected"]["inputs"] == 1
    assert test_set.inputs == ["I am […]. Why?"]
    assert test_set.origins == [[SESSION, asked.message_id, "guide"]]
    panel.close()


def test_without_a_test_set_nothing_is_offered(platform: FakePlatform) -> None:
    panel = make(platform)
    panel.ask("Why?")
    page = PagePerson(panel)
    assert not page.collects
    sent = page.record()
    page.say(do="collect", turn=page.id_of(), confirm=True, number="v1")
    assert sent == []

"""A comparison is left, opened, named and exported."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentbook.api.record import Record
from agentbook.chat.compare import comparison
from agentbook.chat.panel import ChatPanel
from chat.compare.agents import Agents, PageReader
from chat.fakes import KEY
from chat.panels import eventually


def test_a_comparison_is_left_and_opened_again_with_its_preferences(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    compare.ask("Second")
    compare.prefer("shout", round=1)
    page = PageReader(compare)
    left = compare.session_ids
    page.say(do="new")
    eventually(compare, lambda: not compare.rounds)
    assert page.fields["fresh"] is False
    compare.ask("Other")
    assert set(compare.session_ids.values()).isdisjoint(left.values())
    entries = PageReader(compare).ask(do="find", search="")["entries"]
    ids = {(title, is_current): id for id, title, _, is_current, *_ in entries}
    assert ids.keys() == {("Other", True), ("First", False)}
    page.say(do="session", session=ids["First", False])
    eventually(compare, lambda: len(compare.rounds) == 2)
    assert compare.session_ids == left
    assert compare.preferences["preferred"].to_list() == ["shout"]
    assert compare.ask("Third")["echo"].text == "You said: Third"
    assert {session for session, text in agents.sent if text == "Third"} <= set(left.values())


def test_a_name_of_a_comparison_is_that_of_each_of_its_sessions(
    make: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))
    compare = make("echo", "shout")
    compare.ask("First")
    [[session_id, *_]] = PageReader(compare).ask(do="find", search="")["entries"]
    reply = PageReader(compare).ask(do="rename", session=session_id, name="Kumquat", search="kumquat")
    assert [(title, name, forgets) for _, title, *_, name, forgets, _, _ in reply["entries"]] == [
        ("First", "Kumquat", True)
    ]
    assert set(json.loads((tmp_path / "sessions.json").read_text())["names"]) == set(compare.session_ids.values())
    [entry] = PageReader(compare).ask(do="rename", session=session_id, name=None, search="")["entries"]
    assert entry[5:7] == ["", False]


def test_a_list_has_one_row_of_a_comparison(
    make: Any, agents: Agents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))
    noted, note = threading.Event(), comparison.note_comparison

    def note_and_tell(session_ids: list[str]) -> None:
        note(session_ids)
        if len(session_ids) == 3:
            noted.set()

    monkeypatch.setattr(comparison, "note_comparison", note_and_tell)
    compare = make("echo", "shout", "fails")
    compare.ask("First")
    assert noted.wait(60)
    made = {"another": "echo"} | {str(id): agent for agent, id in compare.session_ids.items()}
    agents.records = [
        Record(id=id, name="Which is it?", agent={"name": agent}, agent_id=agent, initiator=KEY)
        for id, agent in made.items()
    ]
    for agent, search in itertools.product(("shout", "never"), ("", "which")):
        panel = ChatPanel(agents, workspace="acme~lab", agent=agent, follow=agents.follow)  # type: ignore[arg-type]
        listed = [(made[entry.session_id], entry.compared) for entry in panel.find_sessions(search)]
        assert sorted(listed) == sorted([("echo", False), ("shout" if agent == "shout" else "echo", True)])
        panel.close()


@pytest.mark.parametrize("suffix", [".html", ".json"])
def test_exports_from_the_page(make: Any, suffix: str) -> None:
    compare = make("echo", "shout")
    compare.ask("<b>Hello</b>")
    file = PageReader(compare).ask(do="export", suffix=suffix)
    assert file["name"].startswith("comparison-echo-shout-2")
    assert file["name"].endswith(suffix)
    if suffix == ".json":
        assert json.loads(file["text"])["format"] == "agentbook-comparison"
    else:
        assert file["text"].count("&lt;b&gt;Hello&lt;/b&gt;") >= 2
        assert "<script" not in file["text"]
        assert '<h1 class="ab-who ab-heading">' in file["text"]
    assert "choose .html or .json" in PageReader(compare).ask(do="export", suffix=".md")["error"]

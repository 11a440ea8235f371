"""A comparison whose agents join later, and which is left, opened and exported."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentbook.chat.compare.compare import Compare
from agentbook.chat.compare.text import JOINED, static_html
from agentbook.events import loop
from chat.compare.agents import Agents, PageReader, eventually


def ask(compare: Compare, **message: Any) -> dict[str, Any]:
    """What the kernel answers to a request of the page."""
    arrived, answers = threading.Event(), []
    send = compare._view.send

    def listen(reply: dict[str, Any], buffers: Any = None) -> None:
        if reply.get("number") == "a1":
            answers.append(reply)
            arrived.set()

    compare._view.send = listen
    PageReader(compare).say(**message, number="a1")
    assert arrived.wait(60)
    compare._view.send = send
    return answers[0]


def names(compare: Compare, word: str = "") -> list[str]:
    entries = ask(compare, do="complete", word=word)["entries"]
    return [name for kind, name, _ in entries if kind == "agent"]


def test_an_agent_joins_with_the_next_message(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    page = PageReader(compare)
    until_known(compare)
    assert names(compare) == ["fails", "breaks", "never"]
    assert names(compare, "fai") == ["fails"]
    assert "error" not in ask(compare, do="mention", kind="agent", name="fails")
    assert "error" not in ask(compare, do="mention", kind="agent", name="never")
    chips = page.fields["files"]
    assert "<strong>fails</strong></bdi> joins with this message" in chips
    page.say(do="detach", file=chips.partition('data-file="')[2].partition('"')[0])
    assert "fails" not in page.fields["files"]
    assert page.fields["name"] == "echo · shout", "nothing has changed yet"
    page.write("Second")
    eventually(compare, lambda: len(compare.rounds) == 2)
    assert page.fields["files"] == ""
    assert [column["data"]["label"] for column in page.columns()] == ["echo", "shout", "never"]
    assert [JOINED in column["html"].get("attempts", "") for column in page.columns()] == [False, False, True]
    assert len(page.columns(0)) == 2
    assert JOINED in static_html(compare.comparison, "ap-0")
    frame = compare.to_pandas()
    assert frame[["round", "agent"]].values.tolist() == [
        [1, "echo"], [1, "shout"], [2, "echo"], [2, "shout"], [2, "never"],
    ]  # fmt: skip
    again = Compare.from_json(compare.to_json())
    assert [len(round_.exchanges) for round_ in again.rounds] == [2, 3]
    again.close()


def until_known(compare: Compare) -> None:
    """Wait until the agents that may join are known."""
    loop.run(compare.comparison.read_start(), 60)


def test_an_agent_that_has_gone_is_one_sentence(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    until_known(compare)
    del agents.answers["never"]
    assert ask(compare, do="mention", kind="agent", name="never")["error"] == (
        "never no longer exists, or is hidden from this key: no column is added."
    )
    assert PageReader(compare).fields["files"] == ""


def test_a_comparison_is_left_and_opened_again_with_its_preferences(make: Any, agents: Agents) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    compare.comparison.add("never")
    page = PageReader(compare)
    page.write("Second")
    eventually(compare, lambda: len(compare.rounds) == 2 and bool(compare.rounds[1].exchanges[2].text))
    page.say(do="stop")
    eventually(compare, lambda: not compare.comparison.pending)
    compare.prefer("shout", round=1)
    left = compare.session_ids
    page.say(do="new")
    eventually(compare, lambda: not compare.rounds)
    assert page.fields["fresh"] is False
    compare.ask("Other", timeout_s=0.1)
    assert set(compare.session_ids.values()).isdisjoint(left.values())
    entries = ask(compare, do="find", search="")["entries"]
    ids = {(title, is_current): id for id, title, _, is_current, *_ in entries}
    assert ids.keys() == {("Other", True), ("First", False)}
    page.say(do="session", session=ids["First", False])
    eventually(compare, lambda: len(compare.rounds) == 2)
    assert compare.session_ids == left
    assert compare.preferences["preferred"].to_list() == ["shout"]
    assert [len(round_.exchanges) for round_ in compare.rounds] == [2, 3]
    assert compare.ask("Third", timeout_s=0.1)["echo"].text == "You said: Third"
    assert {session for session, text in agents.sent if text == "Third"} <= set(left.values())


def test_a_name_of_a_comparison_is_that_of_each_of_its_sessions(
    make: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path))
    compare = make("echo", "shout")
    compare.ask("First")
    [[session_id, *_]] = ask(compare, do="find", search="")["entries"]
    reply = ask(compare, do="rename", session=session_id, name="Kumquat", search="kumquat")
    assert [(title, name, forgets) for _, title, *_, name, forgets, _ in reply["entries"]] == [
        ("First", "Kumquat", True)
    ]
    assert set(json.loads((tmp_path / "session-names.json").read_text())) == set(compare.session_ids.values())
    [entry] = ask(compare, do="rename", session=session_id, name=None, search="")["entries"]
    assert entry[5:7] == ["", False]


def test_another_comparison_reads_the_rounds_from_the_sessions(make: Any, agents: Agents) -> None:
    first = make("echo", "breaks")
    first.ask("First")
    page = PageReader(first)
    page.retry(1)
    eventually(first, lambda: len(first.comparison.conversations[1].exchanges) == 2 and not first.comparison.pending)
    first.ask("Second")
    second = make("echo", "breaks")
    ids = list(first.session_ids.values())
    loop.run(second.comparison.open(tuple(ids)), 60)
    assert [(round_.message, [each.status for each in round_.exchanges]) for round_ in second.rounds] == [
        ("First", ["answered", "failed"]),
        ("Second", ["answered", "failed"]),
    ]


@pytest.mark.parametrize("suffix", [".html", ".json"])
def test_exports_from_the_page(make: Any, suffix: str) -> None:
    compare = make("echo", "shout")
    compare.ask("<b>Hello</b>")
    file = ask(compare, do="export", suffix=suffix)
    assert file["name"].startswith("comparison-echo-shout-2")
    assert file["name"].endswith(suffix)
    if suffix == ".json":
        assert json.loads(file["text"])["format"] == "agentbook-comparison"
    else:
        assert file["text"].count("&lt;b&gt;Hello&lt;/b&gt;") >= 2
        assert "<script" not in file["text"]
        assert '<h1 class="ab-who ab-heading">' in file["text"]
    assert "choose .html or .json" in ask(compare, do="export", suffix=".md")["error"]

"""What a page and a saved notebook show of a comparison."""

from __future__ import annotations

import contextvars
import re
from typing import Any

import pytest

from agentbook.chat.compare.text import static_html
from agentbook.chat.html import static_transcript
from agentbook.chat.html.message_html import NOT_READY
from chat.compare.agents import Agents, PageReader
from chat.panels import eventually


def test_pictures_load_when_the_reader_allows_it(make: Any) -> None:
    compare = make("echo", "shout")

    page = PageReader(compare)

    def pictures() -> tuple[int, bool]:
        return sum(turn.get("body", "").count("<img ") for turn in page.turns.values()), page.fields["pictures"]

    compare.ask("![cat](https://e.test/cat.png)")
    assert pictures() == (0, False)
    page.say(do="pictures")
    assert pictures() == (2, True)
    page.say(do="pictures")
    assert pictures() == (0, False)
    assert "<img" not in static_html(compare.comparison, "uid")
    assert make("echo", "shout", images=True).ask("![cat](https://e.test/cat.png)")


def test_a_page_is_told_of_each_round_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    page = PageReader(compare)
    assert page.fields  # all is drawn
    patches: list[dict[str, Any]] = []
    monkeypatch.setattr(compare._view, "send", patches.append)
    compare.ask("Second")
    assert page.fields["status"][0] == "All answered. Which is better?"
    known = {"r1", "t1", "t2"}
    changed = [op[1] for patch in patches for op in patch["ops"] if op[0] in ("html", "data", "body")]
    assert changed
    assert not known & set(changed)
    questions = [op for patch in patches for op in patch["ops"] if op[:1] == ["html"] and op[2] == "question"]
    assert [op[1] for op in questions] == ["r2"], "the question is sent once, not with each column"


@pytest.mark.parametrize(
    "message",
    [
        {"do": "prefer"},
        {"do": "prefer", "round": "r9", "choice": 0},
        {"do": "prefer", "round": "r1", "choice": 7},
        {"do": "prefer", "round": "r1", "choice": None},
        {"do": "retry", "turn": "r1"},
        {"do": "send", "text": None, "number": "1"},
        {"do": "session", "session": "x"},
        "prefer",
    ],
)
def test_garbage_from_a_page_is_ignored(make: Any, message: Any) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    compare._view._handle_custom_msg(message, [])
    assert PageReader(compare).fields["session"] is None
    assert len(compare.rounds) == 1


def test_the_static_html_is_not_typeset(make: Any) -> None:
    compare = make("echo", r"$\let\hr\href$")
    empty = static_html(compare.comparison, "ap-0")
    compare.ask("Hello")
    for html_text in (empty, static_html(compare.comparison, "ap-0")):
        assert re.match(r'<div class="ap-0-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html_text)


def test_the_static_transcript_shows_answers_side_by_side(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, sent = contextvars.ContextVar("cell", default=0), list[tuple[str, dict[str, Any], int]]()
    record = lambda bundle, **options: sent.append((bundle.get("text/html", ""), options, cell.get()))  # noqa: E731
    monkeypatch.setattr(static_transcript, "show_bundle", record)
    monkeypatch.setattr(static_transcript, "in_kernel", lambda: True)
    compare = make("echo", "shout")
    compare._ipython_display_()
    cell.set(1)
    compare.ask("Hello")
    cell.set(2)
    compare.prefer("echo")
    final = sent[-1][0]
    assert sent[-1][1]["update"]
    assert {at: "echo was preferred." in text for text, _, at in sent} == {0: False, 1: False, 2: True}
    assert re.search(
        r'<div class="ab-columns"><div class="ab-column ab-chosen">.*<div class="ab-column">', final, re.DOTALL
    )
    assert "onload" not in final
    assert not any(session in final for session in compare.session_ids.values())


def test_a_comparison_says_it_of_each_side(make: Any, agents: Agents) -> None:
    agents.missing_workspaces = ("acme~lab",)
    compare = make("echo", "ehco", "nobody at all")
    compare._ipython_display_()
    eventually(compare, lambda: bool(compare.comparison.start_errors))
    page = PageReader(compare)
    empty = page.fields["empty"]
    assert "Agent &#x27;ehco&#x27; was not found" in empty
    assert "Did you mean &#x27;echo&#x27;?" in empty
    assert "Agent &#x27;nobody at all&#x27; was not found" in empty
    assert empty.count("Workspace &#x27;acme~lab&#x27; was not found") == 1
    assert page.fields["status"] == (NOT_READY, False)
    compare.ask("Hi")
    assert compare.comparison.start_errors == []
    assert "echo · ehco · nobody at all" in page.fields["empty"]


def test_a_comparison_says_that_an_agent_is_archived(make: Any, agents: Agents) -> None:
    agents.archived = ("echo",)
    compare = make("echo", "echo")
    compare._ipython_display_()
    eventually(compare, lambda: bool(compare.comparison.start_errors))
    page = PageReader(compare)
    assert "Agent &#x27;echo&#x27; is archived" in page.fields["empty"]
    assert page.fields["status"] == (NOT_READY, False)

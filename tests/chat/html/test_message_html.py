"""The HTML of a live message: its buttons, and what its folded steps say."""

from __future__ import annotations

import re

import pytest

from agentbook.chat.html.message_html import body, rendered, steps
from agentbook.chat.model.conversation import Conversation
from chat.fakes import AGENT, KEY, SESSION, FakePlatform


@pytest.mark.parametrize(
    ("language", "kind"),
    [
        ("", "python"),
        ("Python", "python"),
        ("bash", "bash"),
        ("sh", "sh"),
        ("md", "markdown"),
        ("sql", ""),
        ("json", ""),
    ],
)
def test_a_block_of_code_can_become_a_cell_if_there_is_one_of_its_kind(language: str, kind: str) -> None:
    html = rendered(f"```{language}\ncode\n```\n")
    assert re.findall(r"ab-insert ab-as-(\w+)", body([html], live=True)) == ([kind] if kind else [])
    assert ("ab-copy" in body([html], live=True), "ab-act" in body([html])) == (True, False)


def test_each_table_can_become_a_frame() -> None:
    html = rendered("| a |\n|--|\n| 1 |\n\nThen:\n\n| b |\n|--|\n| 2 |\n")
    assert body([html], live=True).count("As DataFrame") == 2
    assert "As DataFrame" not in body([html])


def test_folded_steps_say_how_many_failed() -> None:
    talk, platform = Conversation(None, session=SESSION), FakePlatform()
    talk.feed(platform.persist("message", {"text": "Again"}, KEY))
    for number, outcome in enumerate(({"result": 1}, {"error": "no such table"}, {"status": "failed"})):
        talk.feed(platform.persist("runtime_done", {"tool": "query", **outcome}, AGENT, f"t{number}"))
    talk.feed(platform.reply("None."))
    summary = re.search("<summary>(.*?)</summary>", steps(talk.exchanges[0]))
    assert summary is not None
    assert summary[1] == '3 steps, <strong class="ab-failures">2 failed</strong>'

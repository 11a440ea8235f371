"""The HTML of a live message: what its folded steps say."""

from __future__ import annotations

import re

from agentbook.chat.html.message_html import steps
from agentbook.chat.model.conversation import Conversation
from chat.fakes import AGENT, KEY, SESSION, FakePlatform


def test_folded_steps_say_how_many_failed() -> None:
    talk, platform = Conversation(None, session=SESSION), FakePlatform()
    talk.feed(platform.persist("message", {"text": "Again"}, KEY))
    for number, outcome in enumerate(({"result": 1}, {"error": "no such table"})):
        talk.feed(platform.persist("runtime_done", {"tool": "query", **outcome}, AGENT, f"t{number}"))
    talk.feed(platform.reply("Neither."))
    summary = re.search("<summary>(.*?)</summary>", steps(talk.exchanges[0]))
    assert summary is not None
    assert summary[1] == '2 steps, <strong class="ab-failures">1 failed</strong>'

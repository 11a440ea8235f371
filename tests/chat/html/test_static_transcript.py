"""The static transcript: what a saved notebook shows of a chat."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentbook.chat.html import static_transcript
from agentbook.chat.html.static_transcript import StaticTranscript, static_html
from agentbook.chat.html.style import live_style
from agentbook.chat.model.conversation import Conversation
from chat.fakes import KEY, SESSION, FakePlatform

pytestmark = pytest.mark.python_versions

UID = "ap-0123456789ab"
# How the notebook tests reduce the static transcript to one token.
SANITIZED = re.compile(r'(?s)<div class="ap-[0-9a-f]{6,}-static.*</div>')


def conversation() -> Conversation:
    talk, platform = Conversation(None, session=SESSION), FakePlatform()
    talk.feed(platform.persist("message", {"text": "<b>What</b> is 2+2?"}, KEY))
    talk.feed(platform.done("t1"))
    talk.feed(platform.reply("It is **4**. <script>alert(1)</script>"))
    talk.feed(platform.persist("message", {"text": "And more?"}, KEY))
    talk.feed(platform.fail("exceeded LLM token limit for this execution tree"))
    return talk


def test_the_transcript_is_one_safe_element() -> None:
    talk = conversation()
    shown = static_html(talk.exchanges, talk.agent_name, UID)
    assert SANITIZED.fullmatch(shown)
    for part in (
        "&lt;b&gt;What&lt;/b&gt;",
        "<strong>4</strong>",
        "1 step",
        "Failed.",
        "exceeded LLM token limit",
        "guide",
    ):
        assert part in shown
    assert "<script" not in shown
    assert "onload" not in shown
    assert SESSION not in shown


def test_an_unused_panel_replaces_the_error_about_the_missing_widget() -> None:
    page = static_html([], "<guide>", UID)
    assert "A chat with &lt;guide&gt;. Nothing was said yet." in page
    assert "jupyter-widgets-error" in page


def test_mathjax_ignores_names_and_prompts() -> None:
    talk = conversation()
    for html in (static_html([], r"$\let\hr\href$", UID), static_html(talk.exchanges, r"$\let\hr\href$", UID)):
        assert re.match(rf'<div class="{UID}-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html)


def test_a_live_panel_hides_only_its_own_static_transcript() -> None:
    assert f".{UID}-static {{ display: none; }}" in live_style(UID)
    assert ".ab-static { display: none; }" not in live_style(UID)


def test_updates_go_to_the_output_that_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(static_transcript, "show_bundle", lambda bundle, **options: sent.append((bundle, options)))
    monkeypatch.setattr(static_transcript, "_in_kernel", lambda: True)
    talk, static = conversation(), StaticTranscript(UID)
    static.update(talk.exchanges, "guide")  # never shown: nothing to update
    static.show([], "guide")
    static.update(talk.exchanges, "guide")
    static.update(talk.exchanges, "guide")  # nothing new
    assert [options for _, options in sent] == [{"display_id": UID}, {"display_id": UID, "update": True}]
    assert sent[1][0] == {"text/plain": "", "text/html": static_html(talk.exchanges, "guide", UID)}


def test_outside_a_notebook_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    StaticTranscript(UID).show(conversation().exchanges, "guide")
    assert capsys.readouterr().out == ""

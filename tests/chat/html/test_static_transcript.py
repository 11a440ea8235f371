"""The static transcript: what a saved notebook shows of a chat."""

from __future__ import annotations

import contextvars
import re
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook.chat.html import message_html, static_transcript
from agentbook.chat.html.static_transcript import StaticTranscript, static_html
from agentbook.chat.model.conversation import Conversation
from agentbook.events import loop
from chat.fakes import KEY, SESSION, FakePlatform, event
from chat.panels import draw_now, eventually, make, on_loop

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


def bare(html: str) -> str:
    """The HTML that JupyterLab leaves in a notebook that is not trusted, or less."""
    return re.sub(r'(?s)<style>.*?</style>| (?:class|dir|tabindex)="[^"]*"', "", html)


def test_elements_say_who_speaks_where_styles_are_removed() -> None:
    talk = conversation()
    talk.feed(event(900, "message", {"text": "One\n two\n\n```csv\na,b\n1,2\n```\nend `x`"}, KEY))
    shown = bare(static_html(talk.exchanges, talk.agent_name, UID))
    assert re.findall(r"<h(\d)><strong>(.+?)</strong></h\1>", shown) == [
        ("4", "Conversation with guide"),
        *[("5", name) for name in ("laptop", "guide", "laptop", "guide", "laptop")],
    ]  # fmt: skip
    assert re.findall(r"<blockquote>(.*?)</blockquote>", shown, re.DOTALL)[1:] == [
        "And more?", "One<br> two<br><pre>a,b\n1,2</pre>end `x`",
    ]  # fmt: skip
    page = talk.to_html()
    assert "<h1 " in page
    assert "<h2 " in page


def test_a_widget_leaves_no_text_beside_its_static_element(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(static_transcript, "show_bundle", lambda bundle, **_: sent.append(bundle))
    panel = make(FakePlatform())
    for in_kernel in (True, False):
        monkeypatch.setattr(static_transcript, "in_kernel", lambda in_kernel=in_kernel: in_kernel)
        static_transcript.show_live(panel)
    panel.close()
    static_transcript.show_live(panel)
    assert [bundle["text/plain"] for bundle in sent] == ["", *["ChatPanel(agent='guide')"] * 2]
    assert all("application/vnd.jupyter.widget-view+json" in bundle for bundle in sent[:2])


def test_colab_is_told_to_show_widgets_of_others_before_each(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(static_transcript, "show_bundle", lambda *_: done.append("shown"))
    panel = make(FakePlatform())
    manager = SimpleNamespace(enable_custom_widget_manager=lambda: done.append("enabled"))
    monkeypatch.setitem(sys.modules, "google.colab.output", manager)
    static_transcript.show_live(panel)
    assert done == ["enabled", "shown"]


def test_an_unused_panel_replaces_the_error_about_the_missing_widget() -> None:
    page = static_html([], "<guide>", UID)
    assert "A chat with &lt;guide&gt;." in page
    assert "jupyter-widgets-error" in page


def test_mathjax_ignores_names_and_prompts() -> None:
    talk = conversation()
    for html in (static_html([], r"$\let\hr\href$", UID), static_html(talk.exchanges, r"$\let\hr\href$", UID)):
        assert re.match(rf'<div class="{UID}-static ab-static [^"]*\bmathjax_ignore tex2jax_ignore"', html)


def test_updates_go_to_the_output_that_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(static_transcript, "show_bundle", lambda bundle, **options: sent.append((bundle, options)))
    monkeypatch.setattr(static_transcript, "in_kernel", lambda: True)
    talk, static = conversation(), StaticTranscript(UID)
    static.update(talk.exchanges, "guide")  # never shown: nothing to update
    static.show([], "guide")
    static.update(talk.exchanges, "guide")
    static.update(talk.exchanges, "guide")  # nothing new
    assert [options for _, options in sent] == [{"display_id": UID}, {"display_id": UID, "update": True}]
    assert sent[1][0] == {"text/plain": "", "text/html": static_html(talk.exchanges, "guide", UID)}
    with static.published_here():  # what was sent before may not have counted
        pass
    assert sent[2] == sent[1]


def test_what_code_asks_for_is_published_by_the_cell_that_asks(
    platform: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a page, a kernel's updates count only while their cell runs."""
    cell, sent = contextvars.ContextVar("cell", default=0), dict[str, int]()
    monkeypatch.setattr(static_transcript, "in_kernel", lambda: True)
    monkeypatch.setattr(
        static_transcript, "show_bundle", lambda bundle, **_: sent.update({bundle.get("text/html", ""): cell.get()})
    )
    panel = make(platform)
    turns: list[Any] = []
    for number, run in enumerate(
        (
            panel._ipython_display_,
            lambda: turns.append(panel.ask("first")),
            lambda: turns.append(panel.ask_again(0)),
            panel.new_session,
            lambda: loop.run(panel.conversation.start("typed in the page")).finished.result(10),
        )
    ):
        context = contextvars.copy_context()
        context.run(cell.set, number)
        context.run(run)
        draw_now(panel)
        newest = list(sent)[-1]
        assert sent[newest] == (0 if number == 4 else number)
    panel.close()


def test_a_kernel_that_dies_leaves_the_turn_in_the_notebook(
    platform: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []
    monkeypatch.setattr(static_transcript, "show_bundle", lambda bundle, **_: saved.append(bundle.get("text/html", "")))
    monkeypatch.setattr(static_transcript, "in_kernel", lambda: True)
    platform.answer = None
    panel = make(platform)
    panel._ipython_display_()
    asking = threading.Thread(target=panel.ask, args=("What is a turn?",))
    asking.start()
    eventually(panel, lambda: any(exchange.confirmed for exchange in panel.conversation.exchanges))
    draw_now(panel)
    assert "What is a turn?" in saved[-1]
    assert "There is no reply yet." in saved[-1]
    before = len(saved)
    for n in range(200):
        on_loop(lambda n=n: platform.write(f"word{n:03} " * 10, 80 * n))
    eventually(panel, lambda: "word199" in panel.conversation.exchanges[0].text)
    draw_now(panel)
    on_loop(lambda: platform.write("x" * 60_000, 16_000))
    eventually(panel, lambda: len(panel.conversation.exchanges[0].text) > 70_000)
    draw_now(panel)
    assert "Incomplete: the reply was still being written here." in saved[-1]
    assert "word199" in saved[-1]
    assert len(saved) - before < 8
    on_loop(lambda: platform.reply("The end."))
    asking.join(60)
    draw_now(panel)
    assert "Incomplete" not in saved[-1]
    panel.close()


def test_a_saved_history_is_not_rendered_again(platform: FakePlatform) -> None:
    for n in range(5):
        platform.persist("message", {"text": f"Question {n}?"}, KEY)
        platform.reply(f"Reply *{n}* to a saved history.")
    panel = make(platform, session=SESSION)
    panel.conversation.load()
    draw_now(panel)
    before = message_html._render_cached.cache_info().misses
    assert static_html(panel.conversation.exchanges, "guide", UID).count("<em>") == 5
    assert message_html._render_cached.cache_info().misses == before + 1  # the last is drawn in parts
    panel.close()


def test_outside_a_notebook_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    StaticTranscript(UID).show(conversation().exchanges, "guide")
    assert capsys.readouterr().out == ""


def test_a_transcript_brings_the_rules_that_it_uses() -> None:
    talk, platform = Conversation(None, session=SESSION), FakePlatform()
    talk.feed(platform.persist("message", {"text": "Numbers?"}, KEY))
    talk.feed(platform.reply("None."))
    short = static_html(talk.exchanges, "guide", UID)
    talk.feed(platform.persist("message", {"text": "Numbers?"}, KEY))
    talk.feed(platform.reply("```python\nimport x\n```\n\n| a |\n|---|\n| 1 |\n\n$x^2$"))
    rich = static_html(talk.exchanges, "guide", UID)
    for used in (".ab-said", ".ab-me .ab-who", ".ab-static", ".jupyter-widgets-error"):
        assert used in short
    for used in (".ab-lang", ".hl-kn"):
        assert used in rich.partition("</style>")[0]
        assert used not in short
        assert ".ab-typing" not in rich

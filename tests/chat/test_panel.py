"""`ChatPanel` without a browser: ask, wait, stop, retry and switch sessions."""

from __future__ import annotations

import asyncio
import html
import os
import re
import threading
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    ExecutionLimit,
    Forbidden,
    InsufficientScope,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    ServerError,
    StreamClosed,
    Unauthorized,
)
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets import chat_widget
from agentbook.chat.widgets.panel_view import describe
from chat.fakes import AGENT, KEY, NOT_OURS, OTHER, SESSION, FakePlatform, echo, event, refused
from chat.panels import (
    PagePerson,
    eventually,
    htmls,
    long_history,
    make,
    on_loop,
    shown,
    static_page,
)


def test_a_thumb_is_a_label_and_can_be_taken_back(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = make(platform, workspace="acme~lab", agent=AGENT, labels=tmp_path)
    turn = panel.ask("Hello")
    page, drawn = PagePerson(panel), threading.Event()
    monkeypatch.setattr(panel._throttle, "request_draw_of", lambda exchange: drawn.set())

    def press(thumb: str) -> tuple[list[str], list[Any]]:
        """What is pressed then, and what the folder holds."""
        drawn.clear()
        page.say(do=thumb, turn=page.id_of())
        assert drawn.wait(60)
        pressed = [what for what, *_, said in page.turn()["data"]["actions"] if said]
        labels = ab.read_labels(tmp_path)[["session_id", "message_id", "question", "value", "source"]]
        return pressed, labels.values.tolist()

    assert press("good") == (["good"], [[SESSION, turn.message_id, "good", "yes", "person"]])
    assert press("bad") == (["bad"], [[SESSION, turn.message_id, "good", "no", "person"]])
    assert press("bad") == ([], [])


def test_a_thumb_that_cannot_be_stored_says_so(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = make(platform, workspace="acme~lab", agent=AGENT, labels=tmp_path / "labels")
    panel.ask("Hello")
    (tmp_path / "labels").rmdir()
    (tmp_path / "labels").write_text("in the way")
    page, drawn = PagePerson(panel), threading.Event()
    monkeypatch.setattr(panel._throttle, "request_draw", drawn.set)
    page.say(do="good", turn=page.id_of())
    assert drawn.wait(60)
    assert "not stored" in on_loop(panel._page._fields)["notice"]
    assert panel.conversation.exchanges[0].thumb is None


def test_a_panel_without_a_folder_of_labels_has_no_thumbs(panel: ChatPanel, tmp_path: Path) -> None:
    panel.ask("Hello")
    page = PagePerson(panel)
    assert page.turn()["data"]["actions"] == []
    page.say(do="good", turn=page.id_of())
    assert panel.conversation.exchanges[0].thumb is None
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="folder"):
        ChatPanel(None, session=SESSION, labels=tmp_path / "file")


def test_a_row_of_a_frame_names_the_agent(platform: FakePlatform) -> None:
    row = pd.DataFrame({"id": ["a1"], "name": ["guide"], "is_public": [True]}).iloc[0]
    for agent in (row, {"id": "a1", "name": "guide"}, next(pd.DataFrame(row).T.itertuples())):
        panel = make(platform, workspace="acme~lab", agent=agent)
        assert repr(panel) == "ChatPanel(agent='guide')"
        panel.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_panel_asked_in_a_forked_child_says_so(panel: ChatPanel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what notebooks do
        child = os.fork()
    if child == 0:
        try:
            panel.ask("Hello", timeout_s=30)
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert panel.ask("Hello").status == "answered"


def test_ask_returns_the_turn_and_shows_it(panel: ChatPanel) -> None:
    turn = panel.ask("Hello")
    assert (turn.status, turn.text) == ("answered", "You said: Hello")
    assert panel.session_id == SESSION
    words = shown(panel)
    assert "Hello" in words
    assert "You said: Hello" in words
    assert "reply after" in words.lower()
    page = PagePerson(panel)
    assert page.name == "guide"
    label, tooltip, at = page.session
    assert datetime.fromisoformat(at) == turn.asked_at
    assert label[0] == "Hello"
    assert tooltip == f"Session {SESSION}"
    assert page.status == ("Answered.", False)
    assert panel.transcript["text"].tolist() == ["Hello", "You said: Hello"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [("length", "cut off"), ("content_filter", "filtered"), ("<i>own</i>", "&lt;i&gt;own&lt;/i&gt;")],
)
def test_a_reply_that_is_not_complete_says_so_everywhere(
    platform: FakePlatform, panel: ChatPanel, tmp_path: Path, reason: str, words: str
) -> None:
    def cut_off(platform: FakePlatform, text: str) -> None:
        platform.persist("runtime_done", {"text": "It goes", "finish_reason": reason}, AGENT)

    platform.answer = cut_off
    turn = panel.ask("Hello")
    assert (turn.text, turn.finish_reason) == ("It goes", reason)
    assert shown(panel).count(html.unescape(words)) == 1
    for page in (static_page(panel), panel.export(tmp_path / "a.html").read_text()):
        assert page.count(f">{words}<") == 1
    assert panel.transcript["text"].tolist() == ["Hello", "It goes"]
    assert panel.transcript["finish_reason"].tolist()[1:] == [reason]
    assert panel.transcript["finish_reason"].isna().tolist() == [True, False]
    assert html.unescape(words) in html.unescape(panel.export(tmp_path / "a.md").read_text())
    again = ab.replay(panel.export(tmp_path / "a.json"))
    assert again.transcript["finish_reason"].tolist()[1:] == [reason]
    again.close()


def test_what_a_model_thinks_is_folded_above_its_reply(platform: FakePlatform, panel: ChatPanel) -> None:
    text = "<think>\n**One** & one\n</think>\n\nTwo."
    platform.answer = lambda platform, _: platform.reply(text)
    panel.ask("1 + 1?")
    page = PagePerson(panel)
    again = make(platform, session=SESSION)
    eventually(again, lambda: again.conversation.connection == "live")
    for shown_html in ("".join(htmls(panel)), static_page(panel), "".join(htmls(again))):
        thoughts, reply = shown_html.split("<summary>Thinking</summary>")[1].split("</details>")
        assert "**One** &amp; one" in thoughts
        assert "Two." in reply
        assert "think&gt;" not in shown_html
    assert page.pieces() == ["<p>Two.</p>\n"]
    assert panel.transcript["text"].tolist()[1] == text
    again.close()
    talk = Conversation(None)
    talk.feed(event(1, "message", {"text": "1 + 1?"}, KEY))
    for offset, delta, words in ((0, "<think>One", "thinking"), (10, "</think>Two", "answering")):
        talk.feed({"id": f"draft-{offset}", "type": "runtime_draft", "content": {"delta": delta, "offset": offset}})
        assert describe(talk) == (f"The agent is {words}…", True)


@pytest.mark.parametrize("reason", [None, "stop", 7, " ", "because " * 900])
def test_a_reply_that_is_complete_or_may_be_has_no_remark_and_a_remark_is_short(
    platform: FakePlatform, panel: ChatPanel, reason: Any
) -> None:
    def answer(platform: FakePlatform, text: str) -> None:
        platform.persist("runtime_done", {"text": "Done.", "finish_reason": reason}, AGENT)

    platform.answer = answer
    panel.ask("Hello")
    pages = "".join(htmls(panel)), static_page(panel).partition("</style>")[2]
    assert ["ab-finish" in page for page in pages] == ["because" in str(reason)] * 2
    assert max(page.count("because") for page in (*pages, panel.conversation.to_markdown())) < 20


def test_while_a_reply_streams_send_is_off_and_stop_is_there(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    page = PagePerson(panel)
    sent = page.record()
    page.write("Slowly", "v1")
    page.write("Slowly", "v2")  # a double click sends once
    page.write("Slowly", "v1")  # and so does a page that has not heard the answer
    eventually(panel, lambda: any(exchange.confirmed for exchange in panel.conversation.exchanges))
    on_loop(lambda: (platform.tool("search_docs", "t1"), platform.write("Half a **sent", 0)))
    eventually(panel, lambda: panel.conversation.exchanges[0].text != "")
    words = shown(panel)
    assert "search docs" in words
    assert "Half a **sent" in words
    assert page.status == ("guide is running search docs…", True)
    assert page.composer["busy"]
    answers = [(each["number"], each["accepted"]) for each in sent if each.get("kind") == "answer"]
    assert answers == [("v1", True), ("v2", False), ("v1", True)]
    assert platform.requests.count("start") == 1

    page.press("stop")
    eventually(panel, lambda: panel.conversation.state == "idle")
    assert "The agent may still finish" in shown(panel)
    assert not page.composer["busy"]

    on_loop(lambda: platform.reply("Half a **sentence**."))
    eventually(panel, lambda: panel.conversation.exchanges[0].status == "answered")
    assert "sentence ." in shown(panel)


@pytest.mark.parametrize(
    "ask", [ChatPanel.ask, lambda *a, **k: asyncio.run(ChatPanel.aask(*a, **k))], ids=["ask", "aask"]
)
def test_a_late_reply_after_the_timeout_appears(platform: FakePlatform, panel: ChatPanel, ask: Any) -> None:
    platform.answer = None
    with pytest.raises(DeadlineExceeded, match="may still finish"):
        ask(panel, "Slow", timeout_s=0.2)
    eventually(panel, lambda: panel.conversation.exchanges[0].status == "stopped")
    on_loop(lambda: platform.reply("At last"))
    eventually(panel, lambda: panel.conversation.exchanges[0].status == "answered")
    assert "At last" in shown(panel)


def test_a_failed_turn_is_raised_shown_and_retried(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = lambda platform, text: platform.fail("exceeded LLM call limit for this execution tree")
    with pytest.raises(ExecutionLimit) as caught:
        panel.ask("Try")
    assert caught.value.turn.status == "failed"
    assert "Failed. exceeded LLM call limit" in re.sub(r"\s+", " ", shown(panel))
    page = PagePerson(panel)
    assert page.turn()["data"]["actions"][0][1] == "Try again"

    platform.answer = echo
    page.retry()
    eventually(panel, lambda: [each.status for each in panel.conversation.exchanges] == ["failed", "answered"])
    assert "You said: Try" in shown(panel)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused(Unauthorized, 401, "Invalid API key"), "did not accept the credential"),
        (
            refused(
                InsufficientScope, 403, "This credential lacks the sessions:write scope", missing_scope="sessions:write"
            ),
            "lacks the scope sessions:write",
        ),
        (
            refused(Forbidden, 403, "This workspace is restricted"),
            "refused the request (403): This workspace is restricted",
        ),
        (refused(RateLimited, 429, "exceeded an allotted request count"), "Counts reset each minute"),
        (ConnectionFailed("sessions.start: no route", operation="sessions.start"), "could not be reached"),
        (OutcomeUnknown("sessions.start: timed out", operation="sessions.start"), "it may have arrived"),
        (refused(ServerError, 503, "Something went wrong"), "503: Something went wrong"),
        (refused(NotFound, 404, "Workspace not found"), "Workspace not found"),
        (ValueError("odd <b>thing</b>"), "odd <b>thing</b>"),
    ],
)
def test_a_refusal_is_raised_and_shown_and_the_panel_stays_usable(
    platform: FakePlatform, panel: ChatPanel, error: Exception, words: str
) -> None:
    platform.refusals["start"] = [error]
    with pytest.raises(type(error)):
        panel.ask("Hello")
    assert words in shown(panel)
    assert ("Request req-7" in shown(panel)) == bool(getattr(error, "request_id", None))
    assert not PagePerson(panel).composer["busy"]
    assert panel.ask("Hello again").text == "You said: Hello again"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused(NotFound, 404, "Session not found"), "Not found: Session not found"),
        (refused(ServerError, 502, "Bad <b>gateway"), "502: Bad &lt;b&gt;gateway"),
        (ConnectionFailed("sessions.stream: no route", operation="sessions.stream"), "platform could not be reached"),
        (StreamClosed("sessions.stream: gone", operation="sessions.stream"), "connection to the session was lost"),
    ],
)
def test_an_unreachable_session_shows_a_notice_and_reconnects(
    platform: FakePlatform, error: Exception, words: str
) -> None:
    platform.refusals["follow"] = [error]
    panel = make(platform, session=SESSION)
    with pytest.warns(UserWarning, match="may lack turns"):
        assert len(panel.transcript) == 0
    page = PagePerson(panel)
    assert words in page.notice
    assert page.status == ("Not connected.", False)
    page.press("reconnect")
    eventually(panel, lambda: panel.conversation.connection == "live")
    assert page.notice == ""


def test_a_message_sent_while_switching_goes_to_the_next_session(platform: FakePlatform, panel: ChatPanel) -> None:
    panel.ask("First words")
    platform.next_session = OTHER
    platform.events.clear()
    page = PagePerson(panel)
    sent = page.record()
    page.press("new")
    page.write("Second words", "v1")
    eventually(
        panel,
        lambda: [turn.status for turn in panel.conversation.turns if turn.prompt != "First words"] == ["answered"],
    )
    assert panel.sessions[-1] == panel.session_id == OTHER
    assert platform.requests.count("start") == 2
    assert {"kind": "answer", "number": "v1", "accepted": True} in sent


def test_a_panel_with_only_a_session_cannot_start_a_new_one(platform: FakePlatform) -> None:
    panel = make(platform, session=SESSION)
    panel.ask("Hello")
    assert not PagePerson(panel).fresh
    with pytest.raises(ValueError, match="workspace= and agent="):
        panel.new_session()


def test_the_repr_names_the_agent_passed_in_and_never_changes(platform: FakePlatform) -> None:
    # A notebook's outputs are compared, and the history may or may not be read by then.
    first = make(platform)
    first.ask("Hello")
    on_loop(lambda: platform.reply("and more"))
    second = make(platform, session=SESSION)
    before = repr(second)
    assert len(second.transcript) > 0
    assert second.conversation.agent_name == "guide"
    assert (before, repr(second), repr(first)) == ("ChatPanel()", "ChatPanel()", "ChatPanel(agent='guide')")


def test_a_session_of_another_key_becomes_read_only(platform: FakePlatform) -> None:
    platform.refusals["send"] = [NOT_OURS]
    panel = make(platform, session=SESSION)
    with pytest.raises(NotFound):
        panel.ask("Me too")
    assert PagePerson(panel).composer["closed"]
    assert "can be read here" in shown(panel)


@pytest.mark.parametrize("author", [KEY, {**KEY, "id": "k2"}], ids=["own", "another key"])
def test_without_a_record_of_the_session_its_events_say_who_started_it(
    platform: FakePlatform, author: dict[str, str]
) -> None:
    platform.records.clear()  # the specification shows no operation that reads one
    platform.persist("message", {"text": "Hi"}, author)
    platform.reply("Hello")
    panel = make(platform, session=SESSION)
    assert panel.transcript["author"].to_list() == ["You" if author is KEY else "laptop", "guide"]
    assert PagePerson(panel).composer["closed"] is (author is not KEY)


def test_two_panels_on_one_session_show_the_same(platform: FakePlatform) -> None:
    long_history(platform, 3)
    first, second = make(platform, session=SESSION), make(platform, session=SESSION)
    assert len(first.transcript) == len(second.transcript) == 6
    first.ask("From the first")
    eventually(second, lambda: [turn.text for turn in second.conversation.turns][-1:] == ["You said: From the first"])
    latency = re.compile(r"(First event|Reply) after [^<]*?(\d s)", re.IGNORECASE)
    assert latency.sub("", shown(first)).split() == latency.sub("", shown(second)).split()


def test_missing_arguments_are_reported_at_once(platform: FakePlatform) -> None:
    with pytest.raises(ValueError, match="workspace= and agent="):
        make(platform, agent="guide")
    panel = make(platform)
    with pytest.raises(ValueError, match="empty"):
        panel.ask("   ")


def test_closing_is_final(platform: FakePlatform, panel: ChatPanel) -> None:
    panel.ask("Hello")
    panel.close()
    panel.close()
    assert panel.conversation.state == "closed"
    assert platform.readers == []
    with pytest.raises(ValueError, match="closed"):
        panel.ask("Hello?")
    assert len(panel.transcript) == 2


def test_a_panel_that_no_page_shows_has_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_widget, "REST_S", 0.0)
    monkeypatch.setattr(chat_widget, "UNSEEN_S", 0.0)
    platform = FakePlatform()
    platform.persist("message", {"text": "Before"}, KEY)
    platform.reply("Yes")
    for n in range(5):  # a cell runs again and again
        panel = make(platform, session=SESSION)
        PagePerson(panel).say(do="shown", page=f"p{n}", open=True)
        eventually(panel, lambda conversation=panel.conversation: conversation.connection == "live")  # type: ignore[misc]
        PagePerson(panel).say(do="shown", page=f"p{n}", open=False)
    eventually(panel, lambda: not platform.readers)
    platform.persist("message", {"text": "Meanwhile"}, KEY)
    platform.answer = lambda platform, text: None
    page = PagePerson(panel)
    page.say(do="shown", page="last", open=True)
    eventually(panel, lambda: len(panel.conversation.exchanges) == 2)
    assert len(platform.readers) == 1
    page.write("Will it wait?")
    eventually(panel, lambda: len(panel.conversation.exchanges) == 3 and panel.conversation.exchanges[-1].confirmed)
    page.say(do="shown", page="last", open=False)
    on_loop(lambda: platform.reply("No"))
    on_loop(lambda: platform.reply("Yes"))
    eventually(panel, lambda: not panel.conversation.pending and not platform.readers)
    assert panel.conversation.exchanges[-1].text == "Yes"


def test_a_panel_without_a_page_rests_after_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_widget, "REST_S", 0.0)
    monkeypatch.setattr(chat_widget, "UNSEEN_S", 0.0)
    platform = FakePlatform(echo)
    panel = make(platform)
    for _ in range(2):
        assert panel.ask("Hello").text == "You said: Hello"
        eventually(panel, lambda: not platform.readers)

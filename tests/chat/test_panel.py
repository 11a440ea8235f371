"""The panel without a browser: what its widgets hold while a platform of one process answers."""

from __future__ import annotations

import asyncio
import html
import re
import threading
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from ipywidgets import HTML, HTMLMath, VBox

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
from agentbook.chat.panel import ChatPanel
from agentbook.chat.static import panel_html
from agentbook.chat.view import Block, LiveView
from agentbook.events import loop

from .fakes import AGENT, KEY, NOT_OURS, OTHER, SESSION, FakePlatform, echo, refused


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform(echo)


@pytest.fixture
def panel(platform: FakePlatform) -> Iterator[ChatPanel]:
    panel = make(platform)
    yield panel
    panel.close()


def make(platform: FakePlatform, **where: Any) -> ChatPanel:
    return ChatPanel(platform, **(where or {"workspace": "acme~lab", "agent": "guide"}), follow=platform.follow)  # type: ignore[arg-type]


def on_loop(work: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return work()

    return loop.run(call(), 10)


def widgets_in(widget: Any) -> list[Any]:
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in widgets_in(child))]


def shown(panel: ChatPanel) -> str:
    """The words in the log, as a person reads them."""
    on_loop(panel._pace.flush)
    values = (inner.value for inner in widgets_in(panel._frame.inner) if hasattr(inner, "value"))
    return html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))


def eventually(panel: ChatPanel, condition: Callable[[], bool]) -> None:
    """Wait until the panel's state meets the condition, woken by its changes."""
    changed = threading.Event()
    end = panel.conversation.listen(lambda exchange: changed.set())
    until = time.monotonic() + 60
    while not condition():
        assert changed.wait(max(0.0, until - time.monotonic())), "nothing changed in 60 s"
        changed.clear()
    end()


def hidden(widget: Any) -> bool:
    return "ab-hidden" in widget._dom_classes


def click(button: Any) -> None:
    button.click()


def test_ask_returns_the_turn_and_shows_it(panel: ChatPanel) -> None:
    turn = panel.ask("Hello")
    assert (turn.status, turn.text) == ("answered", "You said: Hello")
    assert panel.session_id == SESSION
    words = shown(panel)
    assert "Hello" in words
    assert "You said: Hello" in words
    assert "reply after" in words.lower()
    assert "guide" in panel._frame.head.value
    assert f"…{SESSION[-8:]}" in panel._frame.head.value
    assert "Answered." in panel._frame.status.value
    assert panel.transcript["text"].tolist() == ["Hello", "You said: Hello"]


def test_aask_on_another_loop(panel: ChatPanel) -> None:
    turn = asyncio.run(panel.aask("Hello"))
    assert turn.text == "You said: Hello"


def test_send_by_the_button(panel: ChatPanel) -> None:
    panel._frame.input.value = "Typed"
    click(panel._frame.send)
    eventually(
        panel, lambda: bool(panel.conversation.exchanges) and panel.conversation.exchanges[0].status == "answered"
    )
    assert "You said: Typed" in shown(panel)
    assert panel._frame.input.value == ""
    assert (panel._frame.send.disabled, hidden(panel._frame.stop)) == (False, True)


def test_while_a_reply_streams_send_is_off_and_stop_is_there(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    panel._frame.input.value = "Slowly"
    click(panel._frame.send)
    click(panel._frame.send)  # a double click sends once
    eventually(panel, lambda: any(exchange.bound for exchange in panel.conversation.exchanges))
    on_loop(lambda: (platform.tool("search_docs", "t1"), platform.write("Half a **sent", 0)))
    eventually(panel, lambda: panel.conversation.exchanges[0].text != "")
    words = shown(panel)
    assert "search docs" in words
    assert "Half a **sent" in words
    assert "guide is running search docs" in panel._frame.status.value
    assert (panel._frame.send.disabled, hidden(panel._frame.stop)) == (True, False)
    assert platform.requests.count("start") == 1

    click(panel._frame.stop)
    eventually(panel, lambda: panel.conversation.state == "idle")
    assert "The agent may still finish" in shown(panel)
    assert (panel._frame.send.disabled, hidden(panel._frame.stop)) == (False, True)

    on_loop(lambda: platform.reply("Half a **sentence**."))
    eventually(panel, lambda: panel.conversation.exchanges[0].status == "answered")
    assert "sentence ." in shown(panel)


def test_stop_ends_an_ask_in_a_cell(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = lambda platform, text: panel.stop()
    turn = panel.ask("Never answered")
    assert turn.status == "open"
    assert panel.conversation.exchanges[0].status == "stopped"


@pytest.mark.parametrize(
    "ask", [ChatPanel.ask, lambda *a, **k: asyncio.run(ChatPanel.aask(*a, **k))], ids=["ask", "aask"]
)
def test_time_runs_out_and_the_late_reply_appears(platform: FakePlatform, panel: ChatPanel, ask: Any) -> None:
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
    view = panel._history.views[panel.conversation.exchanges[0]]
    assert isinstance(view, LiveView)
    assert not hidden(view._retry)

    platform.answer = echo
    click(view._retry)
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
        (refused(Forbidden, 403, "This workspace is restricted"), "refused (403): This workspace is restricted"),
        (refused(RateLimited, 429, "exceeded an allotted request count"), "Counts reset each minute"),
        (ConnectionFailed("sessions.start: no route", operation="sessions.start"), "could not be reached"),
        (OutcomeUnknown("sessions.start: timed out", operation="sessions.start"), "it may have arrived"),
        (refused(ServerError, 503, "Something went wrong"), "503: Something went wrong"),
        (refused(NotFound, 404, "Workspace not found"), "Workspace not found"),
        (ValueError("odd <b>thing</b>"), "odd <b>thing</b>"),
    ],
)
def test_a_refusal_is_raised_and_shown_and_the_panel_goes_on(
    platform: FakePlatform, panel: ChatPanel, error: Exception, words: str
) -> None:
    platform.refusals["start"] = [error]
    with pytest.raises(type(error)):
        panel.ask("Hello")
    assert words in shown(panel)
    assert ("Request req-7" in shown(panel)) == bool(getattr(error, "request_id", None))
    assert not panel._frame.send.disabled
    assert panel.ask("Hello again").text == "You said: Hello again"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused(Unauthorized, 401, "Invalid API key"), "Invalid API key"),
        (refused(InsufficientScope, 403, "lacks a scope", missing_scope="sessions:read"), "scope sessions:read"),
        (refused(NotFound, 404, "Session not found"), "Not found: Session not found"),
        (refused(RateLimited, 429, "exceeded an allotted request count"), "Counts reset each minute"),
        (refused(ServerError, 502, "Bad gateway"), "502: Bad gateway"),
        (ConnectionFailed("sessions.stream: no route", operation="sessions.stream"), "platform was not reached"),
        (StreamClosed("sessions.stream: gone", operation="sessions.stream"), "connection to the session was lost"),
    ],
)
def test_a_session_out_of_reach_shows_a_notice_and_reconnects(
    platform: FakePlatform, error: Exception, words: str
) -> None:
    platform.refusals["follow"] = [error]
    panel = make(platform, session=SESSION)
    assert len(panel.transcript) == 0
    on_loop(panel._pace.flush)
    assert not hidden(panel._frame.notice)
    assert words in panel._frame.notice_text.value
    assert "Not connected." in panel._frame.status.value
    click(panel._frame.reconnect)
    eventually(panel, lambda: panel.conversation.connection == "live")
    on_loop(panel._pace.flush)
    assert hidden(panel._frame.notice)
    panel.close()


def test_stopped_is_listened_for_again(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = lambda platform, text: panel.stop()
    panel.ask("Slow")
    on_loop(panel._pace.flush)
    exchange = panel.conversation.exchanges[0]
    view = panel._history.views[exchange]
    assert isinstance(view, LiveView)
    assert (view._retry.description, hidden(view._retry)) == ("Listen again", False)
    click(view._retry)
    eventually(panel, lambda: exchange.status == "waiting")
    on_loop(panel._pace.flush)
    assert hidden(view._retry)
    panel.stop()
    eventually(panel, lambda: exchange.status == "stopped")
    panel.resume()
    eventually(panel, lambda: exchange.status == "waiting")
    on_loop(lambda: platform.reply("There it is"))
    eventually(panel, lambda: exchange.status == "answered")
    assert "There it is" in shown(panel)
    assert platform.requests.count("start") == 1
    assert "send" not in platform.requests


def test_new_session_and_back(platform: FakePlatform, panel: ChatPanel) -> None:
    on_loop(panel._pace.flush)
    assert (hidden(panel._frame.new), hidden(panel._frame.session)) == (True, True)
    panel.ask("First words")
    assert (hidden(panel._frame.new), hidden(panel._frame.session)) == (False, True)
    first = panel.session_id
    click(panel._frame.new)
    eventually(panel, lambda: panel.session_id is None)
    assert "First words" not in shown(panel)
    assert "No messages yet" in shown(panel)
    assert [each for _, each in panel._frame.session.options] == [first, ""]

    platform.next_session = OTHER
    platform.events.clear()
    panel.ask("Second words")
    assert panel.sessions == [first, OTHER]
    assert "First words" not in shown(panel)
    assert panel._frame.session.value == OTHER
    twin = panel_html(*panel._said(), "x")
    assert twin.index(f"<summary>Session {first}</summary>") < twin.index("First words") < twin.index("Second words")

    platform.events.clear()
    panel._frame.session.value = first  # as a person chooses it
    eventually(panel, lambda: panel.session_id == first and panel.conversation.connection == "live")
    assert "First words" in shown(panel)
    panel.new_session()
    panel.open_session(OTHER)
    assert "Second words" in shown(panel)
    assert platform.requests.count("start") == 2


def test_a_panel_of_a_session_alone_starts_no_new_one(platform: FakePlatform) -> None:
    panel = make(platform, session=SESSION)
    panel.ask("Hello")
    assert hidden(panel._frame.new)
    with pytest.raises(ValueError, match="workspace and an agent"):
        panel.new_session()
    panel.close()


def test_formulas_are_typeset_once_they_stand(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    asking = threading.Thread(target=panel.ask, args=("Area?",))
    asking.start()
    eventually(panel, lambda: any(exchange.bound for exchange in panel.conversation.exchanges))
    on_loop(lambda: platform.write("It is $x^2$, for $5.", 0))
    eventually(panel, lambda: panel.conversation.exchanges[0].text != "")
    assert r"\(x^2\), for $5." in shown(panel).replace(" ,", ",")
    view = panel._history.views[panel.conversation.exchanges[0]]
    assert isinstance(view, LiveView)
    assert [type(widget) for widget in view._body.children] == [HTML, HTML]
    on_loop(lambda: platform.reply("It is $x^2$, for $5."))
    asking.join(60)
    on_loop(panel._pace.flush)
    assert [type(widget) for widget in view._body.children] == [HTML, HTMLMath]
    assert view._body.children[1].value.startswith('<div class="ab-md mathjax_ignore')


@pytest.mark.parametrize("images", [False, True])
def test_pictures_load_only_where_allowed(platform: FakePlatform, images: bool) -> None:
    platform.persist("message", {"text": "Old"}, KEY)
    platform.reply("![old](https://e.test/old.png)")
    platform.answer = lambda p, text: p.reply("![new](https://e.test/new.png)")
    panel = ChatPanel(platform, session=SESSION, follow=platform.follow, images=images)  # type: ignore[arg-type]
    panel.ask("New")
    on_loop(panel._pace.flush)
    values = "".join(each.value for each in widgets_in(panel._frame.inner) if isinstance(each, HTML | HTMLMath))
    assert values.count("<img ") == (2 if images else 0)
    assert "<img" not in panel_html(*panel._said(), "x")  # whoever opens the notebook later has allowed nothing
    panel.close()


def pictures_in(panel: ChatPanel) -> int:
    on_loop(panel._pace.flush)
    values = (each.value for each in widgets_in(panel._frame.inner) if isinstance(each, HTML | HTMLMath))
    return "".join(values).count("<img ")


def test_a_person_allows_the_pictures_of_a_panel_and_takes_that_back(platform: FakePlatform) -> None:
    for number in range(3):  # what is older shares a widget
        platform.persist("message", {"text": "Old"}, KEY)
        platform.reply(f"![old {number}](https://e.test/{number}.png)")
    platform.answer = lambda p, text: p.reply(text)
    panel = make(platform, session=SESSION)
    panel.ask("![new](https://e.test/new.png)")
    button = panel._frame.pictures
    assert pictures_in(panel) == 0
    assert (hidden(button), button.description) == (False, "Load pictures")
    click(button)
    assert pictures_in(panel) == 4
    assert button.description == "Hide pictures"
    panel.ask("![next](https://e.test/next.png)")
    assert pictures_in(panel) == 5
    assert "<img" not in panel_html(*panel._said(), "x")
    click(button)
    assert pictures_in(panel) == 0
    panel.close()


def test_its_repr_says_what_it_was_made_with_and_never_changes(platform: FakePlatform) -> None:
    # A notebook's outputs are compared: what is known only once the history was read would be there or not.
    first = make(platform)
    first.ask("Hello")
    on_loop(lambda: platform.reply("and more"))
    second = make(platform, session=SESSION)
    before = repr(second)
    assert len(second.transcript) > 0
    assert second.conversation.agent_name == "guide"
    assert (before, repr(second), repr(first)) == ("ChatPanel()", "ChatPanel()", "ChatPanel(agent='guide')")
    first.close()
    second.close()


def test_no_pictures_no_switch(panel: ChatPanel) -> None:
    panel.ask("a picture? ![no](relative.png) ![nor](data:image/png;base64,eA==)")
    on_loop(panel._pace.flush)
    assert hidden(panel._frame.pictures)


def test_a_foreign_session_becomes_read_only(platform: FakePlatform) -> None:
    platform.refusals["send"] = [NOT_OURS]
    panel = make(platform, session=SESSION)
    with pytest.raises(NotFound):
        panel.ask("Me too")
    on_loop(panel._pace.flush)
    assert (panel._frame.input.disabled, panel._frame.send.disabled) == (True, True)
    assert "can be read here" in shown(panel)
    panel.close()


def long_history(platform: FakePlatform, turns: int) -> None:
    for n in range(turns):
        platform.persist("message", {"text": f"Question {n}"}, KEY)
        platform.reply(f"Answer **{n}**.\n\n" + "word " * 50)


def test_a_panel_of_a_long_session_has_few_widgets_and_all_the_text(platform: FakePlatform) -> None:
    long_history(platform, 500)
    panel = make(platform, session=SESSION)
    assert len(panel.transcript) == 1000
    words = shown(panel)
    assert all(f"Question {n}" in words and f"Answer  {n} ." in words for n in (0, 250, 499))
    assert words.index("Question 7 ") < words.index("Question 8 ") < words.index("Question 499")
    assert len(panel._frame.inner.children) < 20
    blocks = [view for view in panel._history.views.values() if isinstance(view, Block)]
    assert len(set(blocks)) > 1
    assert panel.ask("And now?").text == "You said: And now?"
    assert shown(panel).rstrip().endswith("s") or "And now?" in shown(panel)
    panel.close()


def test_two_panels_on_one_session_show_the_same(platform: FakePlatform) -> None:
    long_history(platform, 3)
    one, two = make(platform, session=SESSION), make(platform, session=SESSION)
    assert len(one.transcript) == len(two.transcript) == 6
    one.ask("From one")
    eventually(two, lambda: [turn.text for turn in two.conversation.turns][-1:] == ["You said: From one"])
    latency = re.compile(r"(First sign|Reply) after [^<]*?(\d s)", re.IGNORECASE)
    assert latency.sub("", shown(one)).split() == latency.sub("", shown(two)).split()
    one.close()
    two.close()


def test_a_burst_is_drawn_in_few_flushes_and_ends_with_the_exact_text(platform: FakePlatform) -> None:
    words = [f"word{n} " for n in range(3_000)]

    async def stream(platform: FakePlatform, text: str) -> None:
        at = 0
        for word in words:
            platform.write(word, at)
            at += len(word)
            await asyncio.sleep(0)
        platform.reply("".join(words) + "end")

    platform.answer = stream
    panel = make(platform)
    flushes: list[float] = []
    draw = panel._pace._draw
    panel._pace._draw = lambda: (flushes.append(time.monotonic()), draw())  # type: ignore[func-returns-value]
    begin = time.monotonic()
    turn = panel.ask("Much")
    took = time.monotonic() - begin
    assert turn.text == "".join(words) + "end"
    assert len(flushes) <= took * 20 + 3
    assert re.findall(r"word\d+", shown(panel)) == re.findall(r"word\d+", "".join(words))
    panel.close()


def test_what_is_finished_is_not_sent_again(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    asking = threading.Thread(target=panel.ask, args=("Long",))
    asking.start()
    eventually(panel, lambda: any(exchange.bound for exchange in panel.conversation.exchanges))
    text = "".join(f"## Part {n}\n\n{'word ' * 60}\n\n" for n in range(60))

    def write(begin: int, end: int) -> None:
        on_loop(lambda: platform.write(text[begin:end], begin))
        eventually(panel, lambda: len(panel.conversation.exchanges[0].text) == end)
        on_loop(panel._pace.flush)

    write(0, 15_000)
    view = panel._history.views[panel.conversation.exchanges[0]]
    assert isinstance(view, LiveView)
    frozen = view._body.children[: len(view._chunks.frozen)]
    assert len(frozen) == 5
    sent: list[Any] = []
    for widget in frozen:
        widget.observe(sent.append)
    write(15_000, len(text))
    assert sent == []
    assert view._body.children[:5] == frozen
    on_loop(lambda: platform.reply(text))
    asking.join(60)
    assert sent == []


HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>\u202e"


def handlers(markup: str) -> list[str]:
    """The inline handlers in some HTML, as a browser would read it."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))

    Reader().feed(markup)
    return found


def test_nothing_hostile_reaches_a_widget(platform: FakePlatform) -> None:
    agent = {**AGENT, "name": HOSTILE}
    platform.answer = lambda p, text: p.persist("runtime_done", {"text": HOSTILE}, agent)
    panel = ChatPanel(
        platform,  # type: ignore[arg-type]
        workspace="acme~lab",
        agent={"id": "a1", "name": HOSTILE},
        follow=platform.follow,
    )
    panel.ask(HOSTILE)
    platform.answer = lambda p, text: (p.tool(HOSTILE, "t1"), p.persist(HOSTILE, {}, agent), p.fail(HOSTILE))
    with pytest.raises(ServerError):
        panel.ask("again")
    platform.refusals["send"] = [refused(Unauthorized, 401, HOSTILE)]
    with pytest.raises(Unauthorized):
        panel.ask("once more")
    on_loop(panel._pace.flush)
    texts = [inner.value for inner in widgets_in(panel) if isinstance(getattr(inner, "value", None), str)]
    assert any("&lt;img src=x" in text for text in texts)
    for text in texts:
        assert "<img" not in text
        assert "<script" not in text
        assert "\u202e" not in text
        assert handlers(text) in ([], ["style onload"])
    panel.close()


def test_what_a_panel_needs_is_said_at_once(platform: FakePlatform) -> None:
    with pytest.raises(ValueError, match="workspace= and agent="):
        make(platform, agent="guide")
    panel = make(platform)
    with pytest.raises(ValueError, match="empty"):
        panel.ask("   ")
    panel.close()


def test_the_repr_is_stable_and_closing_is_final(platform: FakePlatform) -> None:
    panel = make(platform)
    assert repr(panel) == "ChatPanel(agent='guide')"
    panel.ask("Hello")
    assert repr(panel) == "ChatPanel(agent='guide')"
    panel.close()
    panel.close()
    assert panel.conversation.state == "closed"
    assert platform.readers == []
    with pytest.raises(ValueError, match="closed"):
        panel.ask("Hello?")
    assert len(panel.transcript) == 2


def test_every_control_has_a_name(panel: ChatPanel) -> None:
    assert panel._frame.input.description == "Message"
    assert (panel._frame.send.description, panel._frame.stop.description) == ("Send", "Stop")
    style = panel.children[0].value
    for part in ("setAttribute('role', 'log')", "setAttribute('role', 'status')", "'aria-live', 'polite'"):
        assert part in style
    assert style.count('"') == 2 + style.split('">', 1)[1].count(
        '"'
    )  # the inline handler holds no quote that would end it


def test_no_attribute_hides_one_of_the_widget_it_extends(panel: ChatPanel) -> None:
    assert not (set(vars(panel)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(ChatPanel).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}

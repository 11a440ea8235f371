"""Use a panel without a browser: read its page, and do what a person does."""

from __future__ import annotations

import html
import itertools
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from agentbook.chat.model.exchange import Exchange
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets.panel_view import panel_html
from agentbook.events import loop
from chat.fakes import KEY, FakePlatform

MADE: list[ChatPanel] = []  # which a fixture closes when the test has ended


def make(platform: FakePlatform, **where: Any) -> ChatPanel:
    panel = ChatPanel(platform, **(where or {"workspace": "acme~lab", "agent": "guide"}), follow=platform.follow)  # type: ignore[arg-type]
    MADE.append(panel)
    return panel


_numbers = itertools.count()


def answer(view: Any, **message: Any) -> dict[str, Any]:
    """What the kernel answers to a request of the page."""
    arrived, answers, send = threading.Event(), list[Any](), view.send
    number = f"a{next(_numbers)}"

    def listen(reply: dict[str, Any], buffers: Any = None) -> None:
        send(reply, buffers)
        if reply.get("number") == number:
            answers.append(reply)
            arrived.set()

    view.send = listen
    view._handle_custom_msg({**message, "number": number}, [])
    assert arrived.wait(60)
    view.send = send
    reply: dict[str, Any] = answers[0]
    return reply


def on_loop(work: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return work()

    return loop.run(call(), 60)


# A panel has no public names for its parts, and a person sees nothing else of it.


class PagePerson:
    """What a page is told of a panel, and a person who uses it there."""

    def __init__(self, panel: ChatPanel) -> None:
        self._panel = panel
        self._numbers = itertools.count()

    @property
    def snapshot(self) -> dict[str, Any]:
        draw_now(self._panel)
        return self._panel._state.snapshot()

    def __getattr__(self, name: str) -> Any:
        """A field, such as `status`."""
        return self.snapshot["fields"][name]

    def say(self, **message: Any) -> None:
        """A message of the page, as it comes from its socket."""
        self._panel._view._handle_custom_msg(message, [])

    def ask(self, **message: Any) -> dict[str, Any]:
        """A request of the page, and its answer."""
        return answer(self._panel._view, **message)

    def turn(self, exchange: Exchange | None = None) -> dict[str, Any]:
        """A turn with its parts, by default the first."""
        turns = dict(self.snapshot["turns"])
        turn: dict[str, Any] = turns[self.id_of(exchange)]
        return turn

    def id_of(self, exchange: Exchange | None = None) -> str:
        turns = self._panel._page.log._turns
        return turns[exchange or self._panel.conversation.exchanges[0]].id

    def pieces(self, exchange: Exchange | None = None) -> list[str]:
        """The pieces of a reply; its text has no characters beyond the first plane."""
        turn = self.turn(exchange)
        cuts = turn.get("cuts", [])
        return [turn["body"][begin:end] for begin, end in zip([0, *cuts], cuts, strict=False)]

    def write(self, text: str, number: str = "") -> None:
        """Write a message and press Enter."""
        self.say(do="send", text=text, number=number or f"n{next(self._numbers)}")

    def press(self, do: str) -> None:
        self.say(do=do)

    def retry(self, exchange: Exchange | None = None) -> None:
        self.say(do="retry", turn=self.id_of(exchange))

    def record(self) -> list[dict[str, Any]]:
        """The messages that the page gets from now on."""
        sent: list[dict[str, Any]] = []
        widget = self._panel._view
        send = widget.send

        def record(message: dict[str, Any], buffers: Any = None) -> None:
            sent.append(message)
            send(message, buffers)

        widget.send = record
        return sent


def draw_now(panel: ChatPanel) -> None:
    """Draw all of the panel."""
    on_loop(panel._throttle.flush)
    while panel._page.log.missing:
        on_loop(panel._throttle.flush)


def static_page(panel: ChatPanel) -> str:
    """The static transcript of a panel."""
    return panel_html(*panel._content(), "x")


def htmls(panel: ChatPanel) -> list[str]:
    """All HTML in the log."""
    turns = [turn for _, turn in PagePerson(panel).snapshot["turns"]]
    return [
        part
        for turn in turns
        for part in (
            *(turn["html"].get(name, "") for name in ("whole", "question", "head")),
            turn.get("body", ""),
            turn["html"].get("foot", ""),
            *(label for _, label, _ in turn["data"].get("actions", ())),
        )
    ]


def shown(panel: ChatPanel) -> str:
    """The text in the log."""
    values = htmls(panel) or [PagePerson(panel).empty]
    return html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))


def eventually(shown: Any, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; checked after each change, and at times.

    `shown` is a panel, a comparison, or another reply of a panel.
    """
    changed = threading.Event()
    talk = shown.comparison if hasattr(shown, "comparison") else shown.conversation
    end = talk.listen(lambda exchange: changed.set())
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not come about in 60 s"
        changed.wait(0.1)  # a connection that ends changes nothing that is shown
        changed.clear()
    if end is not None:  # a comparison is listened to until it is closed
        end()


def long_history(platform: FakePlatform, turns: int) -> None:
    for n in range(turns):
        platform.persist("message", {"text": f"Question {n}"}, KEY)
        platform.reply(f"Answer **{n}**.\n\n" + "word " * 50)

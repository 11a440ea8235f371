"""Use a panel's widgets without a browser."""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from agentbook.chat.html.static_transcript import panel_html
from agentbook.chat.model.exchange import Exchange
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets.history import LiveView
from agentbook.chat.widgets.layout import PanelLayout
from agentbook.chat.widgets.parts import Composer
from agentbook.events import loop
from chat.fakes import KEY, FakePlatform


def make(platform: FakePlatform, **where: Any) -> ChatPanel:
    return ChatPanel(platform, **(where or {"workspace": "acme~lab", "agent": "guide"}), follow=platform.follow)  # type: ignore[arg-type]


def on_loop(work: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return work()

    return loop.run(call(), 60)


def widgets_in(widget: Any) -> list[Any]:
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in widgets_in(child))]


# A panel has no public names for its parts, and a person sees nothing else of it.


def layout_of(panel: ChatPanel) -> PanelLayout:
    return panel._panel_layout


def composer_of(panel: ChatPanel) -> Composer:
    return panel._panel_layout.composer


def live_view(panel: ChatPanel, exchange: Exchange | None = None) -> LiveView:
    """The view of an exchange, by default of the first one."""
    view = panel._history.views[exchange or panel.conversation.exchanges[0]]
    assert isinstance(view, LiveView)
    return view


def draw_now(panel: ChatPanel) -> None:
    on_loop(panel._throttle.flush)


def static_page(panel: ChatPanel) -> str:
    """The static transcript of a panel."""
    return panel_html(*panel._static_content(), "x")


def shown(panel: ChatPanel) -> str:
    """The text in the log."""
    draw_now(panel)
    values = (inner.value for inner in widgets_in(layout_of(panel).inner) if hasattr(inner, "value"))
    return html.unescape(re.sub(r"<[^>]*>", " ", " ".join(values)))


def eventually(panel: ChatPanel, condition: Callable[[], bool]) -> None:
    """Wait until the panel meets the condition; checked after each change."""
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


def long_history(platform: FakePlatform, turns: int) -> None:
    for n in range(turns):
        platform.persist("message", {"text": f"Question {n}"}, KEY)
        platform.reply(f"Answer **{n}**.\n\n" + "word " * 50)

"""The widgets of a panel's log: text, formulas and pictures, and nothing that runs."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from ipywidgets import HTML, HTMLMath, VBox

from agentbook.api.errors import ServerError, Unauthorized
from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets.history import Block
from chat.fakes import AGENT, KEY, SESSION, FakePlatform, refused
from chat.panels import (
    click,
    composer_of,
    draw_now,
    eventually,
    hidden,
    layout_of,
    live_view,
    long_history,
    make,
    on_loop,
    shown,
    static_page,
    widgets_in,
)

pytestmark = pytest.mark.python_versions


def test_formulas_are_typeset_once_the_turn_ends(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    asking = threading.Thread(target=panel.ask, args=("Area?",))
    asking.start()
    eventually(panel, lambda: any(exchange.bound for exchange in panel.conversation.exchanges))
    on_loop(lambda: platform.write("It is $x^2$, for $5.", 0))
    eventually(panel, lambda: panel.conversation.exchanges[0].text != "")
    assert r"\(x^2\), for $5." in shown(panel).replace(" ,", ",")
    view = live_view(panel)
    assert [type(widget) for widget in view.body.children] == [HTML, HTML]
    on_loop(lambda: platform.reply("It is $x^2$, for $5."))
    asking.join(60)
    draw_now(panel)
    assert [type(widget) for widget in view.body.children] == [HTML, HTMLMath]
    assert view.body.children[1].value.startswith('<div class="ab-md mathjax_ignore')


@pytest.mark.parametrize("images", [False, True])
def test_pictures_load_only_if_allowed(platform: FakePlatform, images: bool) -> None:
    platform.persist("message", {"text": "Old"}, KEY)
    platform.reply("![old](https://e.test/old.png)")
    platform.answer = lambda p, text: p.reply("![new](https://e.test/new.png)")
    panel = ChatPanel(platform, session=SESSION, follow=platform.follow, images=images)  # type: ignore[arg-type]
    panel.ask("New")
    draw_now(panel)
    values = "".join(each.value for each in widgets_in(layout_of(panel).inner) if isinstance(each, HTML | HTMLMath))
    assert values.count("<img ") == (2 if images else 0)
    assert "<img" not in static_page(panel)  # whoever opens the notebook later has allowed nothing
    panel.close()


def pictures_in(panel: ChatPanel) -> int:
    draw_now(panel)
    values = (each.value for each in widgets_in(layout_of(panel).inner) if isinstance(each, HTML | HTMLMath))
    return "".join(values).count("<img ")


def test_the_switch_loads_and_hides_pictures(platform: FakePlatform) -> None:
    for number in range(3):  # what is older shares a widget
        platform.persist("message", {"text": "Old"}, KEY)
        platform.reply(f"![old {number}](https://e.test/{number}.png)")
    platform.answer = lambda p, text: p.reply(text)
    panel = make(platform, session=SESSION)
    panel.ask("![new](https://e.test/new.png)")
    button = layout_of(panel).pictures
    assert pictures_in(panel) == 0
    assert (hidden(button), button.description) == (False, "Load pictures")
    click(button)
    assert pictures_in(panel) == 4
    assert button.description == "Hide pictures"
    panel.ask("![next](https://e.test/next.png)")
    assert pictures_in(panel) == 5
    assert "<img" not in static_page(panel)
    click(button)
    assert pictures_in(panel) == 0
    panel.close()


def test_no_pictures_no_switch(panel: ChatPanel) -> None:
    panel.ask("a picture? ![no](relative.png) ![nor](data:image/png;base64,eA==)")
    draw_now(panel)
    assert hidden(layout_of(panel).pictures)


def test_a_panel_of_a_long_session_has_few_widgets_and_all_the_text(platform: FakePlatform) -> None:
    long_history(platform, 500)
    panel = make(platform, session=SESSION)
    assert len(panel.transcript) == 1000
    words = shown(panel)
    assert all(f"Question {n}" in words and f"Answer  {n} ." in words for n in (0, 250, 499))
    assert words.index("Question 7 ") < words.index("Question 8 ") < words.index("Question 499")
    assert len(layout_of(panel).inner.children) < 20
    blocks = [view for view in panel._history.views.values() if isinstance(view, Block)]
    assert len(set(blocks)) > 1
    assert panel.ask("And now?").text == "You said: And now?"
    assert shown(panel).rstrip().endswith("s") or "And now?" in shown(panel)
    panel.close()


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
    draw = panel._throttle._draw
    panel._throttle._draw = lambda: (flushes.append(time.monotonic()), draw())  # type: ignore[func-returns-value]
    begin = time.monotonic()
    turn = panel.ask("Much")
    took = time.monotonic() - begin
    assert turn.text == "".join(words) + "end"
    assert len(flushes) <= took * 20 + 3
    assert re.findall(r"word\d+", shown(panel)) == re.findall(r"word\d+", "".join(words))
    panel.close()


def test_finished_chunks_are_not_sent_again(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    asking = threading.Thread(target=panel.ask, args=("Long",))
    asking.start()
    eventually(panel, lambda: any(exchange.bound for exchange in panel.conversation.exchanges))
    text = "".join(f"## Part {n}\n\n{'word ' * 60}\n\n" for n in range(60))

    def write(begin: int, end: int) -> None:
        on_loop(lambda: platform.write(text[begin:end], begin))
        eventually(panel, lambda: len(panel.conversation.exchanges[0].text) == end)
        draw_now(panel)

    write(0, 15_000)
    view = live_view(panel)
    frozen = view.body.children[: len(view.reply.frozen)]
    assert len(frozen) == 5
    sent: list[Any] = []
    for widget in frozen:
        widget.observe(sent.append)
    write(15_000, len(text))
    assert sent == []
    assert view.body.children[:5] == frozen
    on_loop(lambda: platform.reply(text))
    asking.join(60)
    assert sent == []


HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>\u202e"


def handlers(markup: str) -> list[str]:
    """The inline handlers in some HTML, as a browser would read it."""
    names: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            names.extend(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))

    Reader().feed(markup)
    return names


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
    draw_now(panel)
    texts = [inner.value for inner in widgets_in(panel) if isinstance(getattr(inner, "value", None), str)]
    assert any("&lt;img src=x" in text for text in texts)
    for text in texts:
        assert "<img" not in text
        assert "<script" not in text
        assert "\u202e" not in text
        assert handlers(text) in ([], ["style onload"])
    panel.close()


def test_every_control_has_a_name(panel: ChatPanel) -> None:
    assert composer_of(panel).input.description == "Message"
    assert (composer_of(panel).send.description, composer_of(panel).stop.description) == (
        "Send",
        "Stop",
    )
    style = panel.children[0].value
    for part in ("setAttribute('role', 'log')", "setAttribute('role', 'status')", "'aria-live', 'polite'"):
        assert part in style
    assert style.count('"') == 2 + style.split('">', 1)[1].count(
        '"'
    )  # the inline handler holds no quote that would end it


def test_no_attribute_shadows_one_of_vbox(panel: ChatPanel) -> None:
    assert not (set(vars(panel)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(ChatPanel).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}

"""What a page shows of a log: text, formulas, pictures, and nothing that runs."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from html.parser import HTMLParser

import pytest
from ipywidgets import VBox

from agentbook.api.errors import ServerError, Unauthorized
from agentbook.chat.panel import ChatPanel
from chat.fakes import AGENT, KEY, SESSION, FakePlatform, refused
from chat.panels import (
    PagePerson,
    draw_now,
    eventually,
    htmls,
    long_history,
    make,
    on_loop,
    shown,
    static_page,
)


def test_formulas_are_typeset_once_the_turn_ends(platform: FakePlatform, panel: ChatPanel) -> None:
    platform.answer = None
    asking = threading.Thread(target=panel.ask, args=("Area?",))
    asking.start()
    eventually(panel, lambda: any(exchange.confirmed for exchange in panel.conversation.exchanges))
    on_loop(lambda: platform.write("It is $x^2$, for $5.", 0))
    eventually(panel, lambda: panel.conversation.exchanges[0].text != "")
    assert r"\(x^2\), for $5." in shown(panel).replace(" ,", ",")
    page = PagePerson(panel)
    assert (page.turn()["data"]["pending"], page.turn()["final"]) == (True, 0)
    assert 'class="ab-math mathjax_process' in page.turn()["body"]
    on_loop(lambda: platform.reply("It is $x^2$, for $5."))
    asking.join(60)
    assert page.turn()["data"]["pending"] is False  # and the page typesets it


@pytest.mark.parametrize("images", [False, True])
def test_pictures_load_only_if_allowed(platform: FakePlatform, images: bool) -> None:
    platform.persist("message", {"text": "Old"}, KEY)
    platform.reply("![old](https://e.test/old.png)")
    platform.answer = lambda p, text: p.reply("![new](https://e.test/new.png)")
    panel = ChatPanel(platform, session=SESSION, follow=platform.follow, images=images)  # type: ignore[arg-type]
    panel.ask("New")
    assert pictures_in(panel) == (2 if images else 0)
    assert "<img" not in static_page(panel)  # whoever opens the notebook later has allowed nothing
    panel.close()


def pictures_in(panel: ChatPanel) -> int:
    return "".join(htmls(panel)).count("<img ")


def test_the_switch_loads_and_hides_pictures(platform: FakePlatform) -> None:
    for number in range(3):  # what is older shares a widget
        platform.persist("message", {"text": "Old"}, KEY)
        platform.reply(f"![old {number}](https://e.test/{number}.png)")
    platform.answer = lambda p, text: p.reply(text)
    panel = make(platform, session=SESSION)
    panel.ask("![new](https://e.test/new.png)")
    page = PagePerson(panel)
    assert pictures_in(panel) == 0
    assert page.pictures[0] == "Load pictures"
    page.press("pictures")
    assert pictures_in(panel) == 4
    assert page.pictures[0] == "Hide pictures"
    panel.ask("![next](https://e.test/next.png)")
    assert pictures_in(panel) == 5
    assert "<img" not in static_page(panel)
    page.press("pictures")
    assert pictures_in(panel) == 0
    panel.close()


def test_no_pictures_no_switch(panel: ChatPanel) -> None:
    panel.ask("a picture? ![no](relative.png) ![nor](data:image/png;base64,eA==)")
    assert PagePerson(panel).pictures is None


def test_a_panel_of_a_long_session_has_one_part_for_each_turn_and_all_the_text(platform: FakePlatform) -> None:
    long_history(platform, 500)
    panel = make(platform, session=SESSION)
    assert len(panel.transcript) == 1000
    words = shown(panel)
    assert all(f"Question {n}" in words and f"Answer  {n} ." in words for n in (0, 250, 499))
    assert words.index("Question 7 ") < words.index("Question 8 ") < words.index("Question 499")
    turns = [turn for _, turn in PagePerson(panel).snapshot["turns"]]
    assert [list(turn["html"]) for turn in turns[:-1]] == [["whole"]] * 499
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
    eventually(panel, lambda: any(exchange.confirmed for exchange in panel.conversation.exchanges))
    text = "".join(f"## Part {n}\n\n{'word ' * 60}\n\n" for n in range(60))

    def write(begin: int, end: int) -> None:
        on_loop(lambda: platform.write(text[begin:end], begin))
        eventually(panel, lambda: len(panel.conversation.exchanges[0].text) == end)
        draw_now(panel)

    write(0, 15_000)
    page = PagePerson(panel)
    assert page.turn()["final"] == 5
    frozen = page.turn()["cuts"][4]
    sent = page.record()
    write(15_000, len(text))
    on_loop(lambda: platform.reply(text))
    asking.join(60)
    draw_now(panel)
    bodies = [op for each in sent for op in each.get("ops", ()) if op[0] == "body"]
    assert bodies
    assert min(start for _, _, start, *_ in bodies) >= frozen


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
    texts = [*htmls(panel), PagePerson(panel).notice]
    assert any("&lt;img src=x" in text for text in texts)
    for text in texts:
        assert "<img" not in text
        assert "<script" not in text
        assert "\u202e" not in text
        assert handlers(text) == []
    panel.close()


def test_no_attribute_shadows_one_of_vbox(panel: ChatPanel) -> None:
    assert not (set(vars(panel)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(ChatPanel).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}

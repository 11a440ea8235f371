"""What a page shows of a log: text, formulas, pictures, and nothing that runs."""

from __future__ import annotations

import threading

from ipywidgets import VBox

from agentbook.chat.panel import ChatPanel
from chat.fakes import KEY, SESSION, FakePlatform
from chat.panels import (
    PagePerson,
    draw_now,
    eventually,
    htmls,
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


def pictures_in(panel: ChatPanel) -> int:
    assert "<img" not in static_page(panel)  # whoever opens the notebook later has allowed nothing
    return "".join(htmls(panel)).count("<img ")


def test_pictures_load_only_if_allowed(platform: FakePlatform) -> None:
    for number in range(3):  # what is older shares a widget
        platform.persist("message", {"text": "Old"}, KEY)
        platform.reply(f"![old {number}](https://e.test/{number}.png)")
    platform.answer = lambda p, text: p.reply(text)
    panel = make(platform, session=SESSION)
    panel.ask("![new](https://e.test/new.png)")
    page = PagePerson(panel)
    assert (pictures_in(panel), page.pictures) == (0, False)
    assert "".join(htmls(panel)).count('aria-label="Load pictures"') == 4
    page.press("pictures")
    assert (pictures_in(panel), page.pictures) == (4, True)
    assert "Load pictures" not in "".join(htmls(panel))
    panel.ask("![next](https://e.test/next.png)")
    assert pictures_in(panel) == 5
    page.press("pictures")
    assert pictures_in(panel) == 0
    allowed = ChatPanel(platform, session=SESSION, follow=platform.follow, images=True)  # type: ignore[arg-type]
    allowed.ask("![newer](https://e.test/newer.png)")
    assert pictures_in(allowed) == 6
    allowed.close()


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
    assert page.turn()["final"] == 15
    frozen = page.turn()["cuts"][14]
    sent = page.record()
    write(15_000, len(text))
    on_loop(lambda: platform.reply(text))
    asking.join(60)
    draw_now(panel)
    bodies = [op for each in sent for op in each.get("ops", ()) if op[0] == "body"]
    assert bodies
    assert min(start for _, _, start, *_ in bodies) >= frozen


def test_no_attribute_shadows_one_of_vbox(panel: ChatPanel) -> None:
    assert not (set(vars(panel)) - set(vars(VBox()))) & set(dir(VBox))
    methods = {name for name, value in vars(ChatPanel).items() if callable(value) or isinstance(value, property)}
    assert {name for name in methods if not name.startswith("__")} & set(dir(VBox)) == {"close"}

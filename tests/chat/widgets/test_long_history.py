"""A long history reaches a page from its end, and each turn is rendered once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from agentbook.chat.html import message_html
from agentbook.chat.model.exchange import Exchange
from agentbook.chat.widgets import page_log
from agentbook.chat.widgets.page_log import CHUNK, CHUNK_CHARACTERS, PageLog
from agentbook.chat.widgets.page_view import PageState
from agentbook.events.turns import Turn
from chat.fakes import SESSION, FakePlatform
from chat.panels import long_history, make, on_loop


def answered(n: int, text: str = "") -> Exchange:
    return Exchange(Turn(SESSION, status="answered", prompt=f"Question {n}", text=text or f"Answer **{n}**."))


@dataclass
class Page:
    """The patches of a log, drawn until nothing is missing."""

    exchanges: list[Exchange]

    def __post_init__(self) -> None:
        self.state = PageState()
        self.log = PageLog()
        self.patches: list[dict[str, Any]] = []

    def draw(self, changed: set[Exchange] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
        self.log.draw(self.state, self.exchanges, set(changed), "guide", True)
        patch = self.state.take_patch()
        assert patch is not None
        self.patches.append(patch)
        return patch

    def finish(self) -> None:
        while self.log.missing:
            self.draw()

    @property
    def order(self) -> list[str]:
        return [turn for turn, _ in self.state.snapshot()["turns"]]

    @property
    def whole(self) -> list[str]:
        """The HTML of the turns that have one part."""
        return [turn["html"]["whole"] for _, turn in self.state.snapshot()["turns"] if "whole" in turn["html"]]


def test_two_thousand_turns_are_rendered_once_and_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: Counter[str] = Counter()
    render = message_html.render

    def record(text: str, *options: Any) -> str:
        rendered[text] += 1
        return render(text, *options)

    message_html._render_cached.cache_clear()
    monkeypatch.setattr(message_html, "render", record)
    page = Page([answered(n) for n in range(2000)])
    first = page.draw()
    [arranged] = [op for op in first["ops"] if op[0] == "turns"]
    assert len(arranged[3]) == CHUNK
    assert [page.log.exchange(turn) for turn in page.order] == page.exchanges[-CHUNK:]
    page.draw()
    assert [page.log.exchange(turn) for turn in page.order] == page.exchanges
    assert sum("ab-source" in html for html in page.whole) == 2000 - 2 * CHUNK
    assert "Answer **7**." in page.whole[7]  # it can be read and found
    page.finish()
    assert len(page.patches) == 2000 / CHUNK
    assert [page.log.exchange(turn) for turn in page.order] == page.exchanges
    assert not any("ab-source" in html for html in page.whole)
    htmls = Counter(op[1] for patch in page.patches for op in patch["ops"] if op[0] == "html" and op[2] == "whole")
    assert set(htmls.values()) == {1, 2}
    # The last turn is drawn in parts, whatever its status.
    assert len(rendered) == 1999
    assert set(rendered.values()) == {1}


def test_a_part_has_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_log, "SOURCE_CHARACTERS", CHUNK_CHARACTERS)
    long = "word " * (CHUNK_CHARACTERS // 20)
    page = Page([answered(n, f"{n} {long}") for n in range(30)])
    first = page.draw()
    assert 1 <= len(page.order) <= 5
    assert len(str(first)) < 3 * CHUNK_CHARACTERS  # the text, its HTML, and the tags
    second = page.draw()
    assert len(page.order) < 20
    assert len(str(second)) < 6 * CHUNK_CHARACTERS
    page.finish()
    assert len(page.order) == 30
    assert not any("ab-source" in html for html in page.whole)


def test_what_was_rendered_stays_so_when_many_turns_follow() -> None:
    page = Page([answered(n) for n in range(150)])
    page.draw()
    page.finish()
    before = page.whole[:100]
    page.exchanges += [answered(n) for n in range(150, 150 + 2 * CHUNK + 50)]
    page.draw()
    assert page.whole[:100] == before
    assert page.log.missing
    page.finish()
    assert not any("ab-source" in html for html in page.whole)
    assert [page.log.exchange(turn) for turn in page.order] == page.exchanges


def test_what_is_asked_before_the_history_is_complete_stays_last() -> None:
    page = Page([answered(n) for n in range(3 * CHUNK)])
    page.draw()
    page.exchanges.append(answered(9999))
    page.draw({page.exchanges[-1]})
    assert page.log.exchange(page.order[-1]) is page.exchanges[-1]
    assert len(page.order) == 3 * CHUNK + 1
    page.finish()
    assert [page.log.exchange(turn) for turn in page.order] == page.exchanges
    page.exchanges[:] = [answered(n) for n in range(2 * CHUNK)]  # another session
    page.draw()
    assert len(page.order) == CHUNK


def test_a_panel_completes_its_history_by_itself(platform: FakePlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_log, "CHUNK", 10)
    long_history(platform, 45)
    panel = make(platform, session=SESSION)
    panel.ask("One more")
    state = panel._state
    for _ in range(20):  # each time, what the toolkit's thread has planned comes before
        on_loop(lambda: None)
    turns = state.snapshot()["turns"]
    assert len(turns) == 46
    assert "One more" in turns[-1][1]["html"]["question"]

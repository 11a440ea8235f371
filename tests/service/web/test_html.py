from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.web.html import Html, el, text


@given(st.text(), st.text())
def test_text_and_attributes_are_always_escaped(inside: str, attribute: str) -> None:
    made = el("p", inside, title=attribute)
    start, _, rest = made.partition(">")
    assert start.count('"') == 2
    assert html.unescape(start.partition('"')[2].rstrip('"')) == attribute
    assert html.unescape(rest.removesuffix("</p>")) == inside
    assert "<" not in rest.removesuffix("</p>")


def test_elements_are_not_escaped_twice() -> None:
    assert el("ul", (el("li", part) for part in ("a", "<b>"))) == "<ul><li>a</li><li>&lt;b&gt;</li></ul>"
    assert isinstance(text("x"), Html)


def test_attributes() -> None:
    made = el("input", class_="a", aria_label="b", checked=True, disabled=False, value=None, maxlength=3)
    assert made == '<input class="a" aria-label="b" checked maxlength="3">'

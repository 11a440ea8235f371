"""Footnotes keep their place and label; diagrams are code."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from agentbook.chat.html.incremental import IncrementalMarkdown
from agentbook.chat.html.markdown import render
from agentbook.chat.html.sanitize import quote


def test_a_footnote_and_its_note() -> None:
    assert render("Sun[^1] and moon[^b-2].\n\n[^1]: A *star*.\nSo it is.\n[^b-2]: Not.\n\nEnd") == (
        '<p>Sun<sup class="ab-ref">1</sup> and moon<sup class="ab-ref">b-2</sup>.</p>\n'
        '<div class="ab-note"><sup>1</sup> A <em>star</em>.\nSo it is.</div>\n'
        '<div class="ab-note"><sup>b-2</sup> Not.</div>\n<p>End</p>\n'
    )


@pytest.mark.parametrize("text", ["[^0-9] matches no digit", "`[^1]`\n\n[^1]: x", "\\[^1]\n\n[^1]: x"])
def test_what_is_no_reference_stays_text(text: str) -> None:
    assert "ab-ref" not in render(text)


def test_a_note_ends_where_another_block_begins() -> None:
    html = render("a[^1]\n\n[^1]: one\n```python\nx\n```\n> [^2]: two\n")
    assert '<div class="ab-note"><sup>1</sup> one</div>' in html
    assert '<pre><code><span class="hl-n">x</span>' in html
    assert "<blockquote>\n" + '<div class="ab-note"><sup>2</sup> two</div>' in html


def test_a_note_far_below_its_reference_is_found_once_the_reply_is_complete() -> None:
    text = "Claim[^1].\n\n" + "word " * 30 + "\n\n" + "more " * 30 + "\n\n[^1]: The source.\n"
    message = IncrementalMarkdown(size=100)
    for end in range(0, len(text), 7):
        message.update(text[:end])
    assert "ab-ref" not in "".join(message.frozen)
    message.update(text, complete=True)
    assert '<sup class="ab-ref">1</sup>' in "".join((*message.frozen, message.tail))
    assert "".join((*message.frozen, message.tail)) == render(text)


@pytest.mark.parametrize("text", ["[^1]" * 20_000 + "\n\n[^1]: x", "[^1]: x\n" * 8_000, "[^1]:\n" + "[^" * 30_000])
@pytest.mark.timeout(60)
def test_many_footnotes_take_linear_time(text: str) -> None:
    assert render(text)


@pytest.mark.parametrize("opening", ["```mermaid", "~~~ Mermaid x", "- ```mermaid", "> ````geojson", "1. ```STL"])
def test_no_export_asks_a_reader_to_draw_a_diagram(opening: str) -> None:
    fence = opening.lstrip("->1. ")[:3]
    quoted = quote(f"See:\n\n{opening}\ngraph TD\n{fence}\n")
    fences = [token for token in MarkdownIt().parse(quoted) if token.type == "fence"]
    assert fences[0].info.split()[0] == "text"
    assert {token.info for token in fences[1:]} <= {""}
    assert "graph TD" in quoted

"""The hostile corpus in every HTML and Markdown output, each read by a parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentbook.chat.compare import text as compare
from agentbook.chat.compare.comparison import Comparison, Round
from agentbook.chat.html.markdown import IMAGES, render
from agentbook.chat.html.message_html import exchange_html
from agentbook.chat.html.sanitize import clean, escape, quote, visible
from agentbook.chat.html.static_transcript import static_html
from agentbook.chat.html.style import live_style, static_style
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.replay import replay
from chat.fakes import event
from chat.panels import PagePerson, draw_now, htmls
from support.hostile import CORPUS, LONG_LINE

TAGS = set(
    re.findall(
        r"\w+",
        """a blockquote br code details div del em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong summary sup table tbody td th
        thead tr ul html head meta time title body button""",
    )
)
ATTRIBUTES = {"href", "title", "target", "rel", "class", "start", "dir", "open", "tabindex"}
# The page around a transcript and our own buttons: no other element may have these.
OWN = {
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "body": {"style"},
    "button": {"type", "data-text", "aria-label"},
    "details": {"data-source"},
    "time": {"datetime"},
}
ADDRESS = re.compile(r"(?i)https?://|mailto:")
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2060-\u206f\ufeff]")
UID = "ap-0123456789ab"


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.others: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    handle_pi = unknown_decl = handle_comment


def assert_harmless(page: str, *, images: bool = False) -> None:
    """Only known elements, attributes and addresses, besides our own style elements."""
    for style in (live_style(UID), static_style(UID, page), static_style("transcript", page), compare.STYLE):
        page = page.replace(style, "")
    read = Reader(page)
    assert read.others == []
    for tag, attributes in read.tags:
        assert tag in TAGS | ({"img"} if images else set()), tag
        allowed = (
            ATTRIBUTES | OWN.get(tag, set()) | ({"src", "alt", "loading", "referrerpolicy"} if tag == "img" else set())
        )
        assert set(attributes) <= allowed, (tag, attributes)
        for name in ("href", "src"):
            assert ADDRESS.match(attributes.get(name, "https://")), attributes
        if tag == "a":
            assert attributes["target"] == "_blank"
            assert {"noopener", "noreferrer"} <= set(attributes["rel"].split())
        assert attributes.get("tabindex", "0") == "0"
        if tag == "button":
            assert attributes["type"] == "button"
        for word in attributes.get("class", "").split():
            assert re.match(rf"(ab|hl)-|jp-toc-ignore$|(mathjax|tex2jax)_|{UID}-static$|transcript-static$", word), word
    assert not HIDDEN.search(page)


def in_every_place(text: str) -> Conversation:
    """A conversation with `text` in every field: messages, names, errors, tools."""
    conversation = Conversation(None, session="01900000-0000-7000-8000-0000000000aa")
    person, agent = {"type": text, "name": text}, {"type": "agent", "name": text}
    conversation.feed(event(1, "message", {"text": text}, person))
    conversation.feed(
        {"id": "draft-1", "type": "runtime_draft", "content": {"tool": text, "state": "started"}, "task_id": "t1"}
    )
    conversation.feed(event(2, text or "x", {"text": text}, agent))
    contents = {"arguments": {text: text, "sql": text}, "result": text, "error": [text]}
    conversation.feed({**event(7, "runtime_done", {}, agent, "t1"), "step": {"name": text, **contents}})
    conversation.feed(event(8, "runtime_done", {"text": text}, agent))
    conversation.feed(event(9, "message", {"text": text}, person))
    conversation.feed(event(10, "runtime_error", {"status": 500, "error": text, "message": text}, agent))
    conversation.feed(event(11, "message", {"text": text}, person))
    conversation.feed({"id": "draft-2", "type": "runtime_draft", "content": {"delta": text, "offset": 0}})
    conversation.exchanges[-1].request_id = text
    return conversation


def compared(*sides: Conversation) -> Comparison:
    comparison = Comparison(list(sides), recorded=True)
    for n, exchanges in enumerate(zip(*(side.exchanges for side in sides), strict=True), 1):
        made = Round(n, exchanges[0].prompt, list(exchanges), list(range(len(sides))))
        comparison.rounds.append(made)
        if made.allows(0):
            comparison.prefer(made, 0)
    return comparison


def assert_every_output_is_harmless(text: str) -> None:
    conversation = in_every_place(text)
    for exchange in conversation.exchanges:
        assert_harmless(exchange_html(exchange, text, live=True, source=True))
    assert_harmless(static_html(conversation.exchanges, conversation.agent_name, UID))
    assert_harmless(conversation.to_html())
    assert_markdown_is_harmless(conversation.to_markdown())
    comparison = compared(conversation, in_every_place(text))
    assert_harmless(compare.static_html(comparison, UID))


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS)
def test_no_output_runs_or_fetches_anything(text: str) -> None:
    assert_every_output_is_harmless(text)
    for around in (
        "{}",
        "> - {}",
        "# {}",
        "| a |\n|---|\n| {} |",
        "**{}**",
        "word {} word\n\n{}",
        "`{}",
        "<{}",
        "[x]({})",
    ):
        shown = render(around.replace("{}", text))
        assert_harmless(shown)
        assert Reader(clean(shown)).tags == Reader(shown).tags, "a second reading would read it otherwise"
    assert Reader(escape(text)).tags == []
    assert_harmless(re.sub("</?b>", "", clean(visible(text))))  # raw HTML, which may be bold
    assert "<img" not in render(text), "pictures need permission"
    assert_harmless(render(text, {IMAGES: True}), images=True)


def test_the_whole_corpus_at_once_and_a_line_of_a_megabyte() -> None:
    assert_every_output_is_harmless("\n\n".join(CORPUS.values()))
    assert_every_output_is_harmless(LONG_LINE[450_000:-450_000])
    assert_harmless(render(LONG_LINE))


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from([*CORPUS.values(), "\n", "- ", "```", "|", "> ", "*", "$", "\\"])).map("".join)
)
def test_no_output_of_any_text_runs_or_fetches_anything(text: str) -> None:
    assert_every_output_is_harmless(text)
    assert_harmless(render(text))


def test_widgets_are_harmless_too() -> None:
    corpus = "\n\n".join(CORPUS.values())
    events = [{**each, "session_id": "s"} for turn in in_every_place(corpus).turns for each in turn.events]
    panel = replay(events, speed=float("inf"))
    panel.played.result(60)
    draw_now(panel)
    values = [*htmls(panel), PagePerson(panel).notice]
    assert any("top.hit(" in value for value in values)
    for value in values:
        assert_harmless(value)
    panel.close()


# Markdown


def permissive() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    reader.validateLink = lambda address: True  # type: ignore[method-assign]
    return reader


def flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or ())


def assert_markdown_is_harmless(text: str) -> None:
    """No HTML, no pictures, no addresses but web and mail, for the laxest parser."""
    env: dict[str, dict[str, dict[str, str]]] = {}
    for token in flat(permissive().parse(text, env)):
        assert token.type not in ("html_block", "html_inline", "image"), token.content
        if token.type == "link_open":
            assert ADDRESS.match(str(token.attrs["href"])), token.attrs
    assert all(ADDRESS.match(reference["href"]) for reference in env.get("references", {}).values())


def test_harmless_markdown_stays_as_it_was_written() -> None:
    table = "| a | b |\n|---|---|\n| `<div>` | $x < 1$ |"
    text = f"# Title\n\n{table}\n\n```html\n<b>&amp;</b>\n```\n\n[link](https://e.test) 1 < 2 & 3"
    assert quote(text) == "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def test_tags_are_escaped_and_pictures_become_links() -> None:
    shown = permissive().render(quote('http://a.test<b onclick="x">bold</b> ![cat](https://e.test/c.png)'))
    link = '<a href="https://e.test/c.png">cat</a>'
    text = f"<p>http://a.test&lt;b onclick=&quot;x&quot;&gt;bold&lt;/b&gt; !{link}</p>"
    assert shown == f"<blockquote>\n{text}\n</blockquote>\n"


def test_other_dangerous_messages_become_code() -> None:
    text = "see ``` [a](javascript:b)\n> quoted"
    tokens = permissive().parse(quote(text))
    assert [(token.type, token.content) for token in tokens] == [("fence", text + "\n")]

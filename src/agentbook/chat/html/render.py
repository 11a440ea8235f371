"""Agent text to HTML that is safe to put into a notebook page.

JupyterLab's HTML widgets, and its HTML and Markdown outputs, run what they are given; so everything a person or an agent
says passes through here: Markdown by markdown-it-py without raw HTML, code colours by Pygments classes, and then an allow-list
(nh3) over the result, our own markup included. No `style` attribute, no link but http, https and mailto, no
picture that the page would fetch unless the reader has allowed it.
"""

from __future__ import annotations

import html
import re
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments import lex
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ..text import whole
from .formulas import TYPESET, mathematics

# Inline Markdown is not linear in the worst case: a longer block, or a longer line, is shown as the plain text it is.
MAX_BLOCK = 64_000
MAX_LINE = 8_000
# A lexer is a pile of regular expressions; colour is not worth a kernel that hangs on somebody's clever code block.
MAX_HIGHLIGHTED = 16_000
_LEXERS = frozenset(
    re.findall(
        r"\w+",
        """bash c console cpp css diff go html ini java javascript js json julia markdown md pycon python py r rust sh
        shell sql toml ts typescript xml yaml yml""",
    )
)

# Characters that reorder or hide text: bidirectional embeddings, overrides and isolates, invisible operators, tag characters,
# control characters. Joiners and directional marks stay, since scripts need them; so do the tags inside a flag emoji.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

_TAGS = set(
    re.findall(
        r"\w+",
        """a abbr b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s span strong
        sub summary sup table tbody td th thead tr ul""",
    )
)
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "details": {"open"}, "*": {"class", "dir"}}
_ADDRESS = re.compile(r"(?i)\A(?:https?://|mailto:)")
_PICTURE_ADDRESS = re.compile(r"(?i)\Ahttps?://")
_OWN_CLASS = re.compile(rf"\A(?:(?:ab|hl)-[a-z0-9-]+|{TYPESET.replace(' ', '|')})\Z")
# A key of `env`: the reader has allowed pictures to be fetched.
IMAGES = "agentbook_images"
_PICTURE = {"src", "alt", "title", "loading", "referrerpolicy"}
# How pictures begin in what `render` returns, fetched or not; no text can, as it would be escaped.
_PICTURES = ('<img class="ab-img"', '<a class="ab-picture"')


def visible(text: str) -> str:
    r"""`text` with the characters that hide or reorder others written out, such as ``⟨U+202E⟩``.

    Examples
    --------
    >>> visible("invoice\u202efdp.exe")
    'invoice⟨U+202E⟩fdp.exe'
    """
    text = whole(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda found: found[0] if len(found[0]) > 1 else f"⟨U+{ord(found[0]):04X}⟩", text)


def plain(text: str) -> str:
    """`text` as HTML that shows it character by character: for names, prompts and errors.

    Examples
    --------
    >>> plain("<b>hi</b>")
    '&lt;b&gt;hi&lt;/b&gt;'
    """
    return html.escape(visible(text), quote=True)


def clean(fragment: str, *, images: bool = False) -> str:
    """`fragment` with everything removed that is not on the allow-list; on it are pictures only with `images`.

    Examples
    --------
    >>> clean('<p onclick="run()">hi<script>run()</script></p>')
    '<p>hi</p>'
    """
    return nh3.clean(
        fragment,
        tags=_TAGS | {"img"} if images else _TAGS,
        attributes={**_ATTRIBUTES, "img": _PICTURE} if images else _ATTRIBUTES,
        attribute_filter=_keep,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",  # a relative address would lead into the notebook server itself
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _keep(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if _ADDRESS.match(value) else None
    if name == "src":
        return value if _PICTURE_ADDRESS.match(value) else None
    if name == "class":
        return " ".join(word for word in value.split() if _OWN_CLASS.match(word)) or None
    return value


def has_pictures(html: str) -> bool:
    """Whether there are pictures in what `render` returned, be they loaded or not."""
    return any(beginning in html for beginning in _PICTURES)


def render(text: str, env: MutableMapping[str, Any] | None = None) -> str:
    r"""Markdown as safe HTML.

    Parameters
    ----------
    text : str
        CommonMark with tables, strikethrough, task lists and mathematics. Raw HTML in it is shown, not obeyed.
    env : dict, optional
        Pass the same one for the pieces of one message, so that link definitions reach across them. With `IMAGES` true in it
        pictures become pictures, which the page fetches; else each is a link.

    Returns
    -------
    str
        HTML without scripts, styles, forms, frames or any address but http, https and mailto.

    Notes
    -----
    Any text gives a result, in time about proportional to its length: what no reader could take in as formatted text (a line of
    a megabyte) is shown as the plain text it is.

    Examples
    --------
    >>> render("**42** <script>alert(1)</script>")
    '<p><strong>42</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\n'
    """
    env = {} if env is None else env
    text = visible(text)
    return "".join(_formatted(piece, env) for piece in _short_and_long(text))


def _short_and_long(text: str) -> list[str]:
    """The text in pieces, each either without overlong lines or a single one of them."""
    if len(text) <= MAX_LINE:
        return [text]
    pieces: list[str] = []
    short: list[str] = []
    for line in text.split("\n"):
        if len(line) <= MAX_LINE:
            short.append(line)
            continue
        pieces += ["\n".join(short), line]
        short = []
    return [piece for piece in (*pieces, "\n".join(short)) if piece]


def _formatted(text: str, env: MutableMapping[str, Any]) -> str:
    starts = [0] if len(text) <= MAX_BLOCK else block_starts(text)
    out: list[str] = []
    begin = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if end - start > MAX_BLOCK or (end - start > MAX_LINE and "\n" not in text[start:end].strip("\n")):
            out += [
                _markdown(text[begin:start], env),
                clean(f'<div class="ab-plain">{html.escape(text[start:end])}</div>'),
            ]
            begin = end
        elif end - begin > MAX_BLOCK:
            out.append(_markdown(text[begin:start], env))
            begin = start
    return "".join((*out, _markdown(text[begin:], env)))


def _markdown(text: str, env: MutableMapping[str, Any]) -> str:
    return clean(_parser().render(text, env), images=bool(env.get(IMAGES))) if text.strip() else ""


def block_starts(text: str) -> list[int]:
    r"""Offsets at which the top-level blocks of a Markdown text begin; the first is 0.

    Cutting a text at one of them never falls inside a list, a table, a quotation or a code block.

    Examples
    --------
    >>> block_starts("one\n\n- two\n- three\n\nfour\n")
    [0, 5, 20]
    """
    lines = [0]
    lines += [found.end() for found in re.finditer("\n", text)]
    starts = {0}
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(text, parser, {}, tokens)
    starts.update(lines[token.map[0]] for token in tokens if token.map and token.level == 0 and token.nesting >= 0)
    return sorted(starts)


class _Renderer(RendererHTML):
    """The renderings that differ from markdown-it's own."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        # The page must not fetch anything because an agent said so: a picture is a link the reader may follow.
        token = tokens[idx]
        alt = escapeHtml(self.renderInlineAsText(token.children or [], options, env) or "image")
        address = str(token.attrs.get("src", ""))
        if not _PICTURE_ADDRESS.match(address):  # there is nothing that could be fetched or followed
            return f"🖼 {alt}"
        source = escapeHtml(address)
        if env.get(IMAGES):
            return f'<img class="ab-img" src="{source}" alt="{alt}" loading="lazy" referrerpolicy="no-referrer">'
        return f'<a class="ab-picture" href="{source}" title="A picture, not loaded: follow the link to see it">🖼 {alt}</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        token = tokens[idx]
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        label = f'<div class="ab-lang">{escapeHtml(language[:40])}</div>' if language else ""
        return f'<div class="ab-code">{label}<pre><code>{highlight(token.content, language)}</code></pre></div>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return f'<div class="ab-code"><pre><code>{escapeHtml(tokens[idx].content)}</code></pre></div>\n'

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return '<div class="ab-table"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return "</table></div>\n"


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 100}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    mathematics(parser)
    parser.core.ruler.push("agentbook", _task_lists_and_alignment)
    return parser


def _task_lists_and_alignment(state: StateCore) -> None:
    for before, token in zip([None, None, *state.tokens], state.tokens, strict=False):
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            # `text-align` as a class, since no style attribute passes.
            token.attrs = {"class": f"ab-{str(token.attrs['style']).removeprefix('text-align:')}"}
        if token.type == "inline" and before is not None and before.type == "list_item_open" and token.children:
            first = token.children[0]
            if first.type == "text" and (mark := re.match(r"\[([ xX])\]\s", first.content)):
                first.content = ("☐ " if mark[1] == " " else "☑ ") + first.content[mark.end() :]
                before.attrJoin("class", "ab-task")


@lru_cache(maxsize=256)
def highlight(code: str, language: str) -> str:
    """Code as HTML with Pygments' short classes, prefixed ``hl-``; plain where the language is unknown or the code long."""
    if language.lower() not in _LEXERS or len(code) > MAX_HIGHLIGHTED:
        return escapeHtml(code)
    try:
        lexer = get_lexer_by_name(language.lower(), stripnl=False)
    except ClassNotFound:
        return escapeHtml(code)
    return _format(HtmlFormatter(nowrap=True, classprefix="hl-"), lex(code, lexer))


def _format(formatter: HtmlFormatter[str], tokens: Any) -> str:
    from io import StringIO

    out = StringIO()
    formatter.format(tokens, out)
    return out.getvalue()

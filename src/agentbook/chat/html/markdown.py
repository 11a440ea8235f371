"""Markdown to HTML that is safe to put into a notebook page.

markdown-it-py renders without raw HTML, Pygments classes colour the code, and the
allow-list of `sanitize.clean` filters the result, including our own markup.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache, partial
from typing import Any

import pygments
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml, isWhiteSpace
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from .formulas import add_mathematics
from .sanitize import NOT_LISTED, PICTURE_ADDRESS, clean, visible

# Inline Markdown does not take linear time in the worst case: longer blocks and lines
# are shown as plain text.
MAX_BLOCK = 64_000
MAX_LINE = 8_000
_LONG_LINE = re.compile(rf"(?m)^(.{{{MAX_LINE + 1},}})$")
# A lexer is a set of regular expressions: longer code is not coloured, so that no code
# block can hang the kernel.
MAX_HIGHLIGHTED = 16_000
_LEXERS = frozenset(
    re.findall(
        r"\w+",
        """bash c console cpp css diff go html ini java javascript js json julia markdown md pycon python py r rust sh
        shell sql toml ts typescript xml yaml yml""",
    )
)

_CELLS = {
    **dict.fromkeys(("", "python", "python3", "py", "ipython", "pycon"), "python"),
    **dict.fromkeys(("markdown", "md"), "markdown"),
    **dict.fromkeys(("bash", "shell", "zsh"), "bash"), "sh": "sh",
}  # fmt: skip

# A key of `env`: the labels that have a note.
FOOTNOTES = "agentbook_footnotes"
_LABEL = r"\[\^([\w-]{1,40})\]"
_REFERENCE = re.compile(_LABEL)
_DEFINITION = re.compile(rf"{_LABEL}:[ \t]*")

# A key of `env`: whether the text may go on.
GROWING = "agentbook_growing"
_FENCE = re.compile(r"(`{3,})[ \t]*([^`]*)\Z")
# A key of `env`: whether a block of Markdown has no end of its own.
_ENDLESS = "agentbook_endless"

# Letters that are written from right to left.
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")

# A key of `env`: whether the reader has allowed pictures to be fetched.
IMAGES = "agentbook_images"


def render(text: str, env: MutableMapping[str, Any] | None = None) -> str:
    r"""Markdown as safe HTML.

    Parameters
    ----------
    text : str
        CommonMark with tables, strikethrough, task lists, footnotes and mathematics.
        Raw HTML in it is shown as text, and so are diagrams such as Mermaid's.
    env : dict, optional
        Pass the same one for all pieces of a message, so that link definitions apply
        across them. With ``env[IMAGES]`` true, pictures become `img` elements, which
        the page fetches; otherwise each becomes a link.

    Returns
    -------
    str
        HTML without scripts, styles, forms, frames or any address but http, https and
        mailto.

    Notes
    -----
    Any text gives a result, in time roughly proportional to its length. Text that
    nobody could read as formatted, such as a line of a megabyte, is shown as plain
    text.

    Examples
    --------
    >>> render("**42** <script>alert(1)</script>")
    '<p><strong>42</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\n'
    """
    env = {} if env is None else env
    text = visible(text)
    return "".join(
        _render_markdown(piece, env) if is_short else clean(f'<div class="ab-plain">{html.escape(piece)}</div>')
        for piece, is_short in _pieces(text)
    )


def cell_kind(language: str) -> str | None:
    """What a block of code becomes in a notebook, by its language.

    ``python``, ``markdown``, ``bash`` or ``sh``; None if it is no cell.
    """
    return _CELLS.get(language.lower())


def cell_sources(text: str) -> list[str]:
    r"""The blocks of code in a Markdown text that can be code cells, in order.

    Examples
    --------
    >>> cell_sources("```bash\nls\n```\n```sql\nSELECT 1\n```\n\n- then\n\n      z\n")
    ['%%bash\nls', 'z']
    """
    tokens = [token for piece, is_short in _pieces(visible(text)) if is_short for token in _parser().parse(piece)]
    codes = [token for token in tokens if token.type in ("fence", "code_block")]
    kinds = [cell_kind("".join(token.info.split(maxsplit=1)[:1])) for token in codes]
    return [
        (f"%%{kind}\n" if kind in ("bash", "sh") else "") + token.content.removesuffix("\n")
        for token, kind in zip(codes, kinds, strict=True)
        if kind not in (None, "markdown")
    ]


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each can be read as Markdown in due time."""
    for n, part in enumerate(_LONG_LINE.split(text)):
        begin = before = 0
        for start in [*block_starts(part)[1:], len(part)] if len(part) > MAX_BLOCK and n % 2 == 0 else [len(part)]:
            if start - begin > MAX_BLOCK and before > begin:
                yield part[begin:before], before - begin <= MAX_BLOCK
                begin = before
            before = start
        yield part[begin:], n % 2 == 0 and len(part) - begin <= MAX_BLOCK


def _render_markdown(text: str, env: MutableMapping[str, Any]) -> str:
    return clean(_parser().render(text, env), images=bool(env.get(IMAGES))) if text.strip() else ""


def block_starts(text: str, env: MutableMapping[str, Any] | None = None) -> list[int]:
    r"""Offsets of the top-level blocks of a Markdown text; the first is 0.

    Cutting the text there never splits a list, a table, a quotation or a code block.

    Examples
    --------
    >>> block_starts("one\n\n- two\n- three\n\nfour\n")
    [0, 5, 20]
    """
    lines = [0]
    lines += [match.end() for match in re.finditer("\n", text)]
    starts = {0}
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(text, parser, {} if env is None else env, tokens)
    starts.update(lines[token.map[0]] for token in tokens if token.map and token.level == 0 and token.nesting >= 0)
    return sorted(starts)


class _Renderer(RendererHTML):
    """The elements that are rendered differently from markdown-it's own."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        # The page must not fetch anything because an agent says so: a picture is a link
        # that the reader may follow.
        token = tokens[idx]
        alt = escapeHtml(self.renderInlineAsText(token.children or [], options, env) or "image")
        address = str(token.attrs.get("src", ""))
        if not PICTURE_ADDRESS.match(address):  # not an address that could be fetched or followed
            return f"🖼 {alt}"
        source = escapeHtml(address)
        if env.get(IMAGES):
            return f'<img class="ab-img" src="{source}" alt="{alt}" loading="lazy" referrerpolicy="no-referrer">'
        return f'<a class="ab-picture" href="{source}" title="A picture, not loaded: follow the link to see it">🖼 {alt}</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        token = tokens[idx]
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        label = f'<div class="ab-lang"><em>{escapeHtml(language[:40])}</em></div>' if language else ""
        return f'<div class="ab-code">{label}<pre><code>{highlight(token.content, language)}</code></pre></div>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return f'<div class="ab-code"><pre><code>{escapeHtml(tokens[idx].content)}</code></pre></div>\n'


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 100}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    add_mathematics(parser)
    _add_footnotes(parser)
    parser.block.ruler.before("fence", "fenced_markdown", _parse_fenced_markdown, {"alt": ["paragraph", "blockquote"]})
    parser.core.ruler.push("agentbook", _adapt)
    for rule in (emphasis, strikethrough):
        parser.inline.ruler.at(rule.__name__.rpartition(".")[2], partial(_tokenize_emphasis, rule.tokenize))
    return parser


def _tokenize_emphasis(tokenize: Any, state: StateInline, silent: bool) -> bool:
    state.scanDelims = partial(_scan_delimiters, state)  # type: ignore[method-assign]
    return bool(tokenize(state, silent))


def _scan_delimiters(state: StateInline, start: int, can_split_word: bool) -> Scanned:
    """Whether ``**`` and such can begin and end emphasis.

    CommonMark looks for spaces beside punctuation. Beside a wide character, as in
    ``**注意：**请``, there are none, so all of it counts, as in markdown-cjk-friendly.
    """
    found = StateInline.scanDelims(state, start, can_split_word)
    end = start + found.length
    before, after = state.src[start - 1 : start] or " ", state.src[end : end + 1] or " "
    if not can_split_word or not any(unicodedata.east_asian_width(each) in "WFH" for each in (before, after)):
        return found
    return Scanned(not isWhiteSpace(ord(after)), not isWhiteSpace(ord(before)), found.length)


def _open_table(renderer: Any, tokens: Sequence[Token], idx: int, *_: Any) -> str:
    return f'<div class="ab-table"><table{renderer.renderAttrs(tokens[idx])}>\n'


def _parse_fenced_markdown(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Markdown between fences, with fences in it, as models write it.

    CommonMark ends it at the first end of a block in it. Here it ends at its own; if it
    has none, CommonMark's rule applies once the text is complete.
    """
    opening = _match(_FENCE, state, start)
    if opening is None or opening[2].split(maxsplit=1)[:1] not in (["markdown"], ["md"]):
        return False
    if silent or (state.env.get(_ENDLESS) and not state.env.get(GROWING)):
        return silent
    line, depth = start, 1
    while depth and line + 1 < end and not (state.sCount[line + 1] < state.blkIndent and not state.isEmpty(line + 1)):
        line += 1
        fence = _match(_FENCE, state, line)
        if fence is not None and len(fence[1]) >= len(opening[1]):
            depth += 1 if fence[2].strip() else -1
    if depth and not state.env.get(GROWING):
        state.env[_ENDLESS] = True  # reading on for each such block would not be linear
        return False
    token = state.push("fence", "code", 0)
    token.info, token.map = opening[2], [start, line + 1]
    token.content = state.getLines(start + 1, line if not depth else line + 1, state.sCount[start], True)
    state.line = line + 1
    return True


def _match(pattern: re.Pattern[str], state: StateBlock, line: int) -> re.Match[str] | None:
    if state.is_code_block(line):
        return None
    return pattern.match(state.src, state.bMarks[line] + state.tShift[line], state.eMarks[line])


def _adapt(state: StateCore) -> None:
    """Task lists, alignment, directions, and headings below those of a notebook."""
    if _RIGHT_TO_LEFT.search(state.src):
        _set_directions(state)
    for before, token in zip([None, None, *state.tokens], state.tokens, strict=False):
        if token.type.startswith("heading_"):
            if token.nesting > 0:
                token.attrSet("class", f"ab-{token.tag} {NOT_LISTED}")
            token.tag = "h5" if token.tag == "h1" else "h6"  # the heading of a saved conversation is an h4
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            # `text-align` as a class, since style attributes are removed.
            token.attrs = {"class": f"ab-{str(token.attrs['style']).removeprefix('text-align:')}"}
        if token.type == "inline" and before is not None and before.type == "list_item_open" and token.children:
            first = token.children[0]
            if first.type == "text" and (mark := re.match(r"\[([ xX])\]\s", first.content)):
                first.content = ("☐ " if mark[1] == " " else "☑ ") + first.content[mark.end() :]
                before.attrJoin("class", "ab-task")


def _set_directions(state: StateCore) -> None:
    """Let each block with letters from right to left find its own direction."""
    lines = state.src.split("\n")
    for token in state.tokens:
        first, end = token.map or (0, 0)
        if token.level == 0 and token.nesting > 0 and _RIGHT_TO_LEFT.search("\n".join(lines[first:end])):
            token.attrSet("dir", "auto")


@lru_cache(maxsize=256)
def highlight(code: str, language: str) -> str:
    """Code as HTML with Pygments' short classes, prefixed ``hl-``.

    Plain if the language is unknown or the code too long.
    """
    if language.lower() not in _LEXERS or len(code) > MAX_HIGHLIGHTED:
        return escapeHtml(code)
    try:
        lexer = get_lexer_by_name(language.lower(), stripnl=False)
    except ClassNotFound:
        return escapeHtml(code)
    return pygments.highlight(code, lexer, HtmlFormatter(nowrap=True, classprefix="hl-"))


# Footnotes


def _add_footnotes(parser: MarkdownIt) -> None:
    """Make a parser read footnotes: ``[^1]``, and ``[^1]: The note.`` elsewhere.

    A note keeps its place and its label. Nothing is numbered or moved, so a message can
    be rendered in pieces while it grows. There are no links within the page, because
    they would lead to the notebook server's own addresses.
    """
    # Before link definitions, which look the same.
    parser.block.ruler.before("reference", "footnote", _parse_note, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "footnote_reference", _parse_reference)
    parser.add_render_rule("footnote_reference", lambda *args: f'<sup class="ab-ref">{_label_of(*args)}</sup>')
    parser.add_render_rule("footnote_open", _open_note)
    parser.add_render_rule("footnote_close", lambda *_: "</div>\n")


def _open_note(renderer: Any, tokens: Any, idx: int, *_: Any) -> str:
    return f'<div class="ab-note"{renderer.renderAttrs(tokens[idx])}><sup>{_label_of(renderer, tokens, idx)}</sup> '


def _label_of(renderer: Any, tokens: Any, idx: int, *_: Any) -> str:
    return escapeHtml(tokens[idx].meta["label"])


def _parse_note(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    match = _match(_DEFINITION, state, start)
    if match is None:
        return False
    if silent:
        return True
    line = start + 1
    while line < end and not _ends_note(state, line, end):
        line += 1
    state.env.setdefault(FOOTNOTES, {})[match[1]] = True
    lines = state.getLines(start + 1, line, state.blkIndent, False)
    first = state.src[match.end() : state.eMarks[start]]
    state.push("footnote_open", "div", 1).meta = {"label": match[1]}
    state.tokens[-1].map = [start, line]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = "\n".join(filter(None, (first, lines))).strip(), [start, line], []
    state.push("footnote_close", "div", -1)
    state.line = line
    return True


def _ends_note(state: StateBlock, line: int, end: int) -> bool:
    """Whether a line is not part of the note above it."""
    if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
        return True
    rules = state.md.block.ruler.getRules("paragraph")
    return any(rule(state, line, end, True) for rule in rules)


def _parse_reference(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[^", state.pos):
        return False
    match = _REFERENCE.match(state.src, state.pos, state.posMax)
    notes: dict[str, Any] = state.env.get(FOOTNOTES, {})
    if match is None or match[1] not in notes:
        return False
    if not silent:
        state.push("footnote_reference", "", 0).meta = {"label": match[1]}
    state.pos = match.end()
    return True

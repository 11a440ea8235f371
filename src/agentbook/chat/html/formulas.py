r"""Mathematics in Markdown: ``$…$``, ``$$…$$``, ``\(…\)`` and ``\[…\]``.

Amounts of money are told apart from formulas.

A formula becomes TeX in its own element, which JupyterLab's bundled MathJax typesets
where the panel asks for it. Elsewhere the element shows readable TeX source. MathJax is
told to ignore all other text, so it only ever sees the formulas detected here. Only TeX
that an allow-list admits is typeset (`tex_commands`). Everything else stays source,
because it could define commands for the whole page, or address or style something
outside itself.
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from .tex_commands import is_unsafe_tex

MAX_INLINE = 500
LONG = 60  # an inline formula this long may have to scroll
MAX_BLOCK = 4_000

# Class names that MathJax 3 and 2 recognize: it ignores text in elements with the first
# class and typesets text in elements with the second.
NOT_TYPESET = "mathjax_ignore tex2jax_ignore"
TYPESET = "mathjax_process tex2jax_process"

# Where a formula of several lines may begin.
OPENING = re.compile(r"^ {0,3}(?:\$\$|\\\[)", re.MULTILINE)

# A label is registered for the whole page, and a second one with the same name is an
# error. Nothing may refer to it, so it is left out.
_LABEL = re.compile(r"\\label\s*+\{[^{}\\%$]*+\}|(\\.)", re.DOTALL)
_SIGNS = re.compile(r"[\\^_={}<>+]")
_WORD = re.compile(r"[A-Za-z]{3}")
_AMOUNT = re.compile(r"\d[\d.,]*(?:\s|[a-zA-Z]{2}|[-–—]$)")


def add_mathematics(parser: MarkdownIt) -> None:
    """Make a parser detect mathematics.

    It takes precedence over backslash escapes and emphasis, but not over code.
    """
    parser.block.ruler.before(
        "fence", "math_block", _parse_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.inline.ruler.before("escape", "math_inline", _parse_inline)
    parser.add_render_rule("math_block", _render_math)
    parser.add_render_rule("math_inline", _render_math)


def _render_math(renderer: Any, tokens: Any, idx: int, options: Any, env: Any) -> str:
    token = tokens[idx]
    source = token.content.strip()
    unlabelled = _LABEL.sub(r"\1", source)
    display = token.markup in ("$$", r"\[")
    if is_unsafe_tex(unlabelled):
        close = {"$": "$", "$$": "$$", r"\(": r"\)", r"\[": r"\]"}[token.markup]
        code = f"<code>{token.markup}{escapeHtml(source)}{close}</code>"
        return f"<p>{code}</p>\n" if token.block else code
    tex = escapeHtml(unlabelled)
    if not display:
        kind = "ab-math ab-long" if len(tex) > LONG else "ab-math"
        return rf'<span class="{kind} {TYPESET}">\({tex}\)</span>'
    if token.block:
        return f'<div class="ab-math ab-display {TYPESET}">\\[{tex}\\]</div>\n'
    return rf'<span class="ab-math ab-display {TYPESET}">\[{tex}\]</span>'


# Inline


def _parse_inline(state: StateInline, silent: bool) -> bool:
    match_delimiters = _match_dollars if state.src[state.pos] == "$" else _match_brackets
    formula = match_delimiters(state.src, state.pos)
    if formula is None:
        return False
    markup, content, end = formula
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content, token.markup = content, markup
    state.pos = end
    return True


def _match_dollars(text: str, at: int) -> tuple[str, str, int] | None:
    if at and (text[at - 1].isalnum() or text[at - 1] in "$\\"):
        return None
    markup = "$$" if text.startswith("$$", at) else "$"
    begin = at + len(markup)
    if begin >= len(text) or (markup == "$" and text[begin].isspace()):
        return None
    end = text.find("$", begin, begin + MAX_INLINE)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("$", end + 1, begin + MAX_INLINE)
    if end < 0 or not text.startswith(markup, end):
        return None
    content, after = text[begin:end], text[end + len(markup) : end + len(markup) + 1]
    if not content.strip() or "`" in content or (markup == "$" and not _is_formula(content, after)):
        return None
    return markup, content, end + len(markup)


def _is_formula(content: str, after: str) -> bool:
    """Whether text between single dollars is a formula, not an amount of money."""
    if content[-1].isspace() or after.isalnum() or after == "$":
        return False
    return bool(_SIGNS.search(content)) or not (_AMOUNT.match(content) or _WORD.search(content))


def _match_brackets(text: str, at: int) -> tuple[str, str, int] | None:
    markup = text[at : at + 2]
    if markup not in (r"\(", r"\["):
        return None
    end = text.find(r"\)" if markup == r"\(" else r"\]", at + 2, at + 2 + MAX_BLOCK)
    if end < 0 or (end > 0 and text[end - 1] == "\\"):
        return None
    content = text[at + 2 : end]
    # Markdown also writes literal brackets this way: "\[1\]", "\(see below\)".
    literal = not _SIGNS.search(content) and (markup == r"\[" or _WORD.search(content))
    if not content.strip() or "`" in content or literal:
        return None
    return markup, content, end + 2


# Blocks


def _parse_block(state: StateBlock, begin_line: int, end_line: int, silent: bool) -> bool:
    if state.is_code_block(begin_line):
        return False
    markup, closing = _opening(_line(state, begin_line))
    if not markup:
        return False
    lines, size = [_line(state, begin_line).strip()[2:]], 0
    line = begin_line
    while not lines[-1].rstrip().endswith(closing):
        line += 1
        if line >= end_line or state.sCount[line] < state.blkIndent:
            return False
        lines.append(_line(state, line))
        size += len(lines[-1])
        # Another opening also ends the search, so that no line is scanned twice,
        # however many openings there are.
        if not lines[-1].strip() or size > MAX_BLOCK or markup in lines[-1].rstrip().removesuffix(closing):
            return False
    content = "\n".join(lines).rstrip().removesuffix(closing)
    if not content.strip() or closing in content or "`" in content:
        return False
    if silent:
        return True
    token = state.push("math_block", "math", 0)
    token.block, token.content, token.markup, token.map = True, content, markup, [begin_line, line + 1]
    state.line = line + 1
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _opening(line: str) -> tuple[str, str]:
    if line.startswith("$$"):
        return "$$", "$$"
    return (r"\[", r"\]") if line.startswith(r"\[") else ("", "")

"""Footnotes in Markdown: ``[^1]`` in the text, and ``[^1]: The note.`` elsewhere.

A note keeps its place and its label. Nothing is numbered or moved, so a message can be
rendered in pieces while it grows. There are no links within the page, because they
would lead to the notebook server's own addresses.
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# A key of `env`: the labels that have a note.
FOOTNOTES = "agentbook_footnotes"
_LABEL = r"\[\^([\w-]{1,40})\]"
_REFERENCE = re.compile(_LABEL)
_DEFINITION = re.compile(rf"{_LABEL}:[ \t]*")


def add_footnotes(parser: MarkdownIt) -> None:
    """Make a parser read footnotes."""
    # Before link definitions, which look the same.
    parser.block.ruler.before("reference", "footnote", _definition, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "footnote_reference", _reference)
    parser.add_render_rule("footnote_reference", lambda *args: f'<sup class="ab-ref">{_label_of(*args)}</sup>')
    parser.add_render_rule("footnote_open", lambda *args: f'<div class="ab-note"><sup>{_label_of(*args)}</sup> ')
    parser.add_render_rule("footnote_close", lambda *_: "</div>\n")


def _label_of(renderer: Any, tokens: Any, idx: int, *_: Any) -> str:
    return escapeHtml(tokens[idx].meta["label"])


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    match = _match_definition(state, start)
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


def _match_definition(state: StateBlock, line: int) -> re.Match[str] | None:
    if state.is_code_block(line):
        return None
    return _DEFINITION.match(state.src, state.bMarks[line] + state.tShift[line], state.eMarks[line])


def _ends_note(state: StateBlock, line: int, end: int) -> bool:
    """Whether a line is not part of the note above it."""
    if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
        return True
    rules = state.md.block.ruler.getRules("paragraph")
    return any(rule(state, line, end, True) for rule in rules)


def _reference(state: StateInline, silent: bool) -> bool:
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

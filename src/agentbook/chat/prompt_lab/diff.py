"""What changed from one prompt to another: sentence by sentence, and within a sentence word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from ..html.render import clean, plain

Piece = tuple[str, str]  # (" " | "-" | "+", text)
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?]+[ \t]*|\n+|\Z)")
_WORD = re.compile(r"\s+|[^\W_]+(?:['’_-][^\W_]+)*|.", re.DOTALL)
_ALIKE = 0.5  # of the shorter one's words; sentences less alike are shown as one that went and one that came


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """The difference of two prompts.

    Attributes
    ----------
    old, new : str
    old_label, new_label : str
        What the two are called.

    Examples
    --------
    >>> PromptDiff("Be kind. Be brief.", "Be kind. Be very brief.", "1.0.0", "1.0.1").pieces
    [(' ', 'Be kind. Be'), ('+', ' very'), (' ', ' brief.')]
    """

    old: str
    new: str
    old_label: str = "old"
    new_label: str = "new"

    @property
    def pieces(self) -> list[Piece]:
        """The new prompt with what went marked ``-`` and what came marked ``+``; the rest is marked with a space."""
        joined: list[Piece] = []
        for mark, text in _pieces(self.old, self.new):
            if not text:
                continue
            if joined and joined[-1][0] == mark:
                joined[-1] = (mark, joined[-1][1] + text)
            else:
                joined.append((mark, text))
        return joined

    @property
    def text(self) -> str:
        """A unified diff, a sentence a line; empty where nothing changed."""
        old, new = ([part.strip() for part in _sentences(prompt)] for prompt in (self.old, self.new))
        return "\n".join(unified_diff(old, new, self.old_label, self.new_label, lineterm="", n=1))

    def to_html(self) -> str:
        """It as safe HTML: what went struck through, what came underlined, both also said to screen readers."""
        said = "".join(_html(mark, text) for mark, text in self.pieces)
        head = (
            f'<div class="ab-who">From {plain(self.old_label)} to {plain(self.new_label)}: no difference</div>'
            if self.old == self.new
            else f'<div class="ab-who">From {plain(self.old_label)} to {plain(self.new_label)}: '
            '<span class="ab-del">removed</span>, <span class="ab-ins">added</span></div>'
        )
        return clean(f'{head}<div class="ab-diff" dir="auto">{said}</div>')

    def __repr__(self) -> str:
        return self.text or f"No difference between {self.old_label} and {self.new_label}."


def _html(mark: str, text: str) -> str:
    if mark == " ":
        return plain(text)
    kind, word = ("del", "removed") if mark == "-" else ("ins", "added")
    return f'<span class="ab-{kind}"><span class="ab-unseen">[{word}: </span>{plain(text)}<span class="ab-unseen">]</span></span>'


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE.findall(text) if part.strip()]


def _parts(text: str) -> list[str]:
    return [part for part in _SENTENCE.findall(text) if part]


def _pieces(old: str, new: str) -> Iterator[Piece]:
    before, after = _parts(old), _parts(new)
    matcher = SequenceMatcher(None, [part.strip() for part in before], [part.strip() for part in after], autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        gone, come = "".join(before[i:j]), "".join(after[k:m])
        if kind == "equal":
            yield " ", come
        elif kind == "replace":
            yield from _words(gone, come)
        else:
            yield "-", gone
            yield "+", come


def _words(old: str, new: str) -> Iterator[Piece]:
    before, after = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if _kept(before, matcher) < _ALIKE * min(_weight(before), _weight(after)):
        yield "-", old
        yield "+", new
        return
    gone = come = ""
    for kind, i, j, k, m in matcher.get_opcodes():
        old, new = "".join(before[i:j]), "".join(after[k:m])
        # A space that stayed between two words that did not belongs to the change: it reads as one, not as three.
        if kind == "equal" and (not new.isspace() or not (gone or come)):
            yield "-", gone
            yield "+", come
            yield " ", new
            gone = come = ""
        else:
            gone, come = gone + old, come + new
    yield "-", gone
    yield "+", come


def _kept(before: list[str], matcher: SequenceMatcher[str]) -> int:
    return sum(_weight(before[block.a : block.a + block.size]) for block in matcher.get_matching_blocks())


def _weight(words: list[str]) -> int:
    return sum(word.isalnum() for word in words)

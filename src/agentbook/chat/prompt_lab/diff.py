"""The difference between two configurations, by sentence and, within one, by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from ..html.sanitize import clean, escape

Piece = tuple[str, str]  # (" " | "-" | "+", text)
_SENTENCE = re.compile(r"[^\n]*?(?:[.!?](?=\s|\Z)[ \t]*|\n+|\Z)")
_WORD = re.compile(r"\s+|[^\W_]+(?:['’_-][^\W_]+)*|.", re.DOTALL)
# Share of the shorter sentence's words that two sentences must have in common; less
# similar sentences are shown as one removed and one added.
MIN_SIMILARITY = 0.5
# Of two texts that differ, the most pairs of parts to compare: two replies of a model
# that repeats itself would take minutes. Longer ones are shown whole.
MAX_PAIRS = 4_000_000


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """The difference between two configurations.

    Attributes
    ----------
    old, new : str
        The prompts, each followed by the settings in which they differ.
    old_label, new_label : str
        Labels of the two.

    Examples
    --------
    >>> PromptDiff("Be kind. Be brief.", "Be kind. Be very brief.").pieces
    [(' ', 'Be kind. Be'), ('+', ' very'), (' ', ' brief.')]
    """

    old: str
    new: str
    old_label: str = "old"
    new_label: str = "new"

    @classmethod
    def between(cls, old: Mapping[str, str], new: Mapping[str, str], old_label: str, new_label: str) -> PromptDiff:
        r"""The difference of two configurations, as the texts of `format_settings`.

        Raises
        ------
        ValueError
            If a prompt is not known.

        Examples
        --------
        >>> cold = {"system_prompt": "Be kind.", "temperature": "0"}
        >>> PromptDiff.between(cold, {**cold, "temperature": "1"}, "a", "b").pieces
        [(' ', 'Be kind.\ntemperature: '), ('-', '0'), ('+', '1')]
        """
        names = [name for name in old if name != "system_prompt" and old[name] != new[name]]
        texts = []
        for settings, label in ((old, old_label), (new, new_label)):
            if not settings["system_prompt"]:
                raise ValueError(f"The system prompt of {label!r} is not known, so it cannot be compared.")
            lines = [f"{name}: {settings[name] or 'not set'}" for name in names]
            texts.append("\n".join([settings["system_prompt"], *lines]))
        return cls(texts[0], texts[1], old_label, new_label)

    @property
    def pieces(self) -> list[Piece]:
        """Pieces of text with a mark: ``-`` removed, ``+`` added, a space unchanged."""
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
        """A unified diff with one sentence per line; empty if nothing changed."""
        old, new = ([part.strip() for part in _parts(prompt) if part.strip()] for prompt in (self.old, self.new))
        if _is_too_long(old, new):
            lines = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
            return "" if old == new else "\n".join([f"--- {self.old_label}", f"+++ {self.new_label}", *lines])
        return "\n".join(unified_diff(old, new, self.old_label, self.new_label, lineterm="", n=1))

    def to_html(self) -> str:
        """Safe HTML: removed text struck through, added text underlined.

        Hidden words say the same to screen readers.
        """
        body = "".join(_html(mark, text) for mark, text in self.pieces)
        head = (
            f'<div class="ab-who">From {escape(self.old_label)} to {escape(self.new_label)}: no difference</div>'
            if self.old == self.new
            else f'<div class="ab-who">From {escape(self.old_label)} to {escape(self.new_label)}: '
            '<span class="ab-del">removed</span>, <span class="ab-ins">added</span></div>'
        )
        return clean(f'{head}<div class="ab-diff" dir="auto">{body}</div>')

    def __repr__(self) -> str:
        return self.text or f"No difference between {self.old_label} and {self.new_label}."


def _html(mark: str, text: str) -> str:
    if mark == " ":
        return escape(text)
    kind, word = ("del", "removed") if mark == "-" else ("ins", "added")
    begin, end = (f'<span class="ab-unseen">{part}</span>' for part in (f"[{word}: ", "]"))
    return f'<span class="ab-{kind}">{begin}{escape(text)}{end}</span>'


def _parts(text: str) -> list[str]:
    return [part for part in _SENTENCE.findall(text) if part]


def _is_too_long(before: Sequence[str], after: Sequence[str]) -> bool:
    return len(before) * len(after) > MAX_PAIRS


def _pieces(old: str, new: str) -> Iterator[Piece]:
    before, after = _parts(old), _parts(new)
    start, end = _shared_ends(before, after)
    yield " ", "".join(after[:start])
    yield from _middle_pieces(before[start : len(before) - end], after[start : len(after) - end])
    yield " ", "".join(after[len(after) - end :])


def _shared_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The number of equal parts at the beginning, and of others at the end."""
    shortest = min(len(before), len(after))
    start = next((n for n in range(shortest) if before[n] != after[n]), shortest)
    rest = shortest - start
    return start, next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)


def _middle_pieces(before: Sequence[str], after: Sequence[str]) -> Iterator[Piece]:
    if _is_too_long(before, after):
        yield from (("-", "".join(before)), ("+", "".join(after)))
        return
    matcher = SequenceMatcher(None, [part.strip() for part in before], [part.strip() for part in after])
    for kind, i, j, k, m in matcher.get_opcodes():
        removed, added = "".join(before[i:j]), "".join(after[k:m])
        if kind == "equal":
            yield " ", added
        elif kind == "replace":
            yield from _word_pieces(removed, added)
        else:
            yield "-", removed
            yield "+", added


def _word_pieces(old: str, new: str) -> Iterator[Piece]:
    before, after = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, before, after)
    if _is_too_long(before, after) or not _is_similar(matcher, before, after):
        yield from (("-", old), ("+", new))
        return
    removed = added = ""
    for kind, i, j, k, m in matcher.get_opcodes():
        old, new = "".join(before[i:j]), "".join(after[k:m])
        # Unchanged space between two changed words belongs to the change, so that it
        # reads as one change rather than two.
        if kind == "equal" and (not new.isspace() or not (removed or added)):
            yield "-", removed
            yield "+", added
            yield " ", new
            removed = added = ""
        else:
            removed, added = removed + old, added + new
    yield "-", removed
    yield "+", added


def _is_similar(matcher: SequenceMatcher[str], before: list[str], after: list[str]) -> bool:
    common = sum(_count_words(before[block.a : block.a + block.size]) for block in matcher.get_matching_blocks())
    return common >= MIN_SIMILARITY * min(_count_words(before), _count_words(after))


def _count_words(tokens: list[str]) -> int:
    return sum(token.isalnum() for token in tokens)

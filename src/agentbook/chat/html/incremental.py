"""Render a growing Markdown text incrementally.

Sending a whole reply again for every few new words costs the square of its length. So
text that can no longer change is frozen in chunks of about 1 kB of HTML, cut where
Markdown begins a new block. When a block ends, the finished blocks after the last chunk
are rendered again; each time the text grows, only the block being written.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .formulas import OPENING
from .markdown import FOOTNOTES, GROWING, IMAGES, block_starts, render
from .sanitize import visible

CHUNK_SIZE = 800  # characters
# Where markdown-it keeps the link addresses that a text defines, and where we keep its
# footnotes.
DEFINITIONS = ("references", FOOTNOTES)


class IncrementalMarkdown:
    r"""The HTML of one message while it grows.

    Attributes
    ----------
    frozen : list of str
        HTML of the finished chunks. Only ever appended to, unless the text is replaced.
    recent : str
        HTML of the finished blocks after them.
    last : str
        HTML of the block being written.

    Examples
    --------
    >>> message = IncrementalMarkdown()
    >>> message.update("Hello")
    >>> message.update("Hello **you**")
    >>> message.frozen, message.tail
    ([], '<p>Hello <strong>you</strong></p>\n')
    """

    def __init__(self, size: int = CHUNK_SIZE, *, images: bool = False) -> None:
        self.size = size
        self._images = images
        self.text = ""
        self.frozen: list[str] = []
        self.recent = self.last = ""
        self._complete = False
        self._read, self._shown = "", ""  # whole lines of the text as received, and as shown
        self._env: MutableMapping[str, Any] = {}
        self._reset()

    @property
    def tail(self) -> str:
        """HTML of everything that is not frozen."""
        return self.recent + self.last

    @property
    def open_characters(self) -> int:
        """How many characters each update renders again."""
        return len(self.text) - self._open

    def update(self, text: str, *, complete: bool = False) -> None:
        """Set the whole current text; this method works out the difference.

        With `complete`, nothing more will come: links whose addresses are defined
        further down become links, and footnotes references.
        """
        text = self._visible(text)
        if text == self.text and complete == self._complete:
            return
        if not text.startswith(self.text[: self._open]):
            # The persisted reply is not a continuation of the drafts: start over.
            self._reset()
        self.text, self._complete = text, complete
        definitions = self._render_open()
        if complete and any(definitions.values()) and self._open:
            self._reset(definitions)
            self._render_open()

    def _visible(self, text: str) -> str:
        """`visible(text)`; if the text only grew, only its last line is read again."""
        if not text.startswith(self._read):
            self._read = self._shown = ""
        begin, end = len(self._read), text.rfind("\n") + 1  # no hidden character extends beyond a line
        if end > begin:
            self._shown += visible(text[begin:end])
            self._read = text[:end]
        return self._shown + visible(text[len(self._read) :])

    def _render_open(self) -> dict[str, dict[str, Any]]:
        """Render what is new; returns the links and footnotes that the text defines."""
        self._close_blocks()
        # A copy: a definition in the open block may still change and must not stay.
        env = {**_copy_env(self._recent_env), GROWING: not self._complete}
        self.last = render(self.text[self._open :], env)
        return {name: env.get(name, {}) for name in DEFINITIONS}

    def _reset(self, definitions: dict[str, dict[str, Any]] | None = None) -> None:
        self.frozen, self._env = [], {IMAGES: self._images, **(definitions or {name: {} for name in DEFINITIONS})}
        self._chunk_start = self._open = self._stable = 0
        self.recent = ""
        self._recent_env: MutableMapping[str, Any] = self._env

    def _close_blocks(self) -> None:
        """Finish all blocks but the last; freeze those that fill a chunk."""
        stable = _stable_length(self.text)
        if stable == self._stable:
            return
        self._stable = stable
        starts = [self._open + start for start in block_starts(self.text[self._open : stable], {GROWING: True})]
        if len(starts) == 1:
            return
        for start in starts[1:]:
            if start - self._chunk_start >= self.size:
                self.frozen.append(render(self.text[self._chunk_start : start], self._env))
                self._chunk_start = start
        self._open, self._recent_env = starts[-1], _copy_env(self._env)
        self.recent = render(self.text[self._chunk_start : self._open], self._recent_env)


def _stable_length(text: str) -> int:
    """The length of the text whose division into blocks can no longer change."""
    last_line = text.rfind("\n") + 1
    # An incomplete line can become anything: "-" may start an item, or underline the
    # line above. But a word after an empty line belongs to a paragraph, or to a fence.
    if text.endswith("\n\n", 0, last_line) and text[last_line : last_line + 1].isalpha():
        return last_line + 1
    # Lines after an opening belong to a formula once its end has arrived, whatever they
    # look like. No formula extends beyond an empty line.
    formula = OPENING.search(text, text.rfind("\n\n", 0, last_line) + 1, last_line)
    return formula.start() if formula else last_line


def _copy_env(env: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in env.items()}

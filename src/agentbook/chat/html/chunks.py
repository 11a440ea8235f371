"""A growing text, in pieces: finished ones that are rendered once, and the open end.

Re-sending a whole reply for every few new words costs the square of its length on the wire. So whatever can no longer change is
frozen in chunks of about 4 kB of HTML, cut where Markdown begins a new block. Of what has ended since, gathered in parts of a
third of that, the last part is sent anew when a block ends, and only the block that is being said each time it grows.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .formulas import OPENING
from .render import IMAGES, block_starts, render, visible

CHUNK = 2_500  # characters: some 4 kB of HTML
PARTS = 3
REFERENCES = "references"  # where markdown-it keeps the addresses that a text defines


class Chunks:
    r"""The HTML of one message while it grows.

    Attributes
    ----------
    frozen : list of str
        HTML of the finished chunks; only ever appended to, unless the text was replaced.
    recent : list of str
        HTML of the finished blocks after them, in at most `PARTS` parts; when a block ends the last that is not empty changes,
        and when a chunk is frozen all of them. Never fewer than there were.
    last : str
        HTML of the block that is being said.

    Examples
    --------
    >>> chunks = Chunks()
    >>> chunks.update("Hello")
    >>> chunks.update("Hello **you**")
    >>> chunks.frozen, chunks.tail
    ([], '<p>Hello <strong>you</strong></p>\n')
    """

    def __init__(self, size: int = CHUNK, *, images: bool = False) -> None:
        self.size = size
        self._images = images
        self.text = ""
        self.frozen: list[str] = []
        self.recent: list[str] = [""]
        self.last = ""
        self._whole = False
        self._env: MutableMapping[str, Any] = {}
        self._begin_again()

    @property
    def tail(self) -> str:
        """HTML of what is not frozen."""
        return "".join(self.recent) + self.last

    @property
    def open_characters(self) -> int:
        """How much text is rendered anew at each update."""
        return len(self.text) - self._open

    def update(self, text: str, *, whole: bool = False) -> None:
        """Take in the text as it stands now, all of it; what differs from the last is worked out here.

        With `whole`, nothing more will come: links whose addresses are defined further down are made links.
        """
        text = visible(text)
        if text == self.text and whole == self._whole:
            return
        if not text.startswith(self.text[: self._open]):
            # The persisted reply is not the drafts' text with more at the end: begin again.
            self._begin_again()
        self.text, self._whole = text, whole
        defined = self._take_in()
        if whole and defined and self._open:
            self._begin_again(defined)
            self._take_in()

    def _take_in(self) -> dict[str, Any]:
        """Render what has come; the addresses of links that the text defines."""
        self._close_blocks()
        # A copy: a definition in the open end may still change, so what was read of it must not stay.
        env = _copied(self._recent_env)
        self.last = render(self.text[self._open :], env)
        defined: dict[str, Any] = env.get(REFERENCES, {})
        return defined

    def _begin_again(self, defined: dict[str, Any] | None = None) -> None:
        self.frozen, self._env = [], {IMAGES: self._images, REFERENCES: defined or {}}
        self._open = self._looked = 0
        self._begin_chunk(0)

    def _begin_chunk(self, start: int) -> None:
        self._cut = start
        self.recent = [""] * len(self.recent)
        self._part = 0
        self._begin_part(start, self._env)

    def _begin_part(self, start: int, env: MutableMapping[str, Any]) -> None:
        self._part_start, self._part_env = start, env
        self._recent_env = env

    def _close_blocks(self) -> None:
        """Let all but the last block be as they are; freeze them where they have come to a chunk."""
        settled = _settled(self.text)
        if settled == self._looked:
            return
        self._looked = settled
        lines = self.text[self._open : settled]
        starts = [self._open + start for start in block_starts(lines)]
        if len(starts) == 1:
            return
        for start in starts[1:]:
            if start - self._cut >= self.size:
                self.frozen.append(render(self.text[self._cut : start], self._env))
                self._begin_chunk(start)
            elif start - self._part_start >= self.size / PARTS:
                self._render_part(start)
                self._begin_part(start, self._recent_env)
                self._part += 1
        self._open = starts[-1]
        self._render_part(self._open)

    def _render_part(self, end: int) -> None:
        if end > self._part_start:
            if self._part == len(self.recent):
                self.recent.append("")
            self._recent_env = _copied(self._part_env)
            self.recent[self._part] = render(self.text[self._part_start : end], self._recent_env)


def _settled(text: str) -> int:
    """Up to where it is settled which block each line belongs to."""
    begin = text.rfind("\n") + 1
    # Of a line that is not complete nobody can say what it will be: "-" may be an item, or underline what is above it. But a
    # word after an empty line is a paragraph's, or what is fenced in.
    if text.endswith("\n\n", 0, begin) and text[begin : begin + 1].isalpha():
        return begin + 1
    # Lines after an opening are a formula's once its end has come, whatever they look like; no formula goes beyond an empty line.
    formula = OPENING.search(text, text.rfind("\n\n", 0, begin) + 1, begin)
    return formula.start() if formula else begin


def _copied(env: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in env.items()}

"""A growing text, in pieces: finished ones that are rendered once, and the open end.

Re-sending a whole reply for every few new words costs the square of its length on the wire. So whatever can no longer change is
frozen in chunks of about 4 kB of HTML, cut where Markdown begins a new block; what has ended since is sent anew when a block
ends, and only the block that is being said each time it grows.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .render import IMAGES, block_starts, render, visible

CHUNK = 2_500  # characters: some 4 kB of HTML


class Chunks:
    r"""The HTML of one message while it grows.

    Attributes
    ----------
    frozen : list of str
        HTML of the finished chunks; only ever appended to, unless the text was replaced.
    recent : str
        HTML of the finished blocks after them; changes when a block ends.
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
        self.recent = ""
        self.last = ""
        self._cut = self._open = 0
        self._env: MutableMapping[str, Any] = {IMAGES: images}
        self._recent_env: MutableMapping[str, Any] = self._env

    @property
    def tail(self) -> str:
        """HTML of what is not frozen."""
        return self.recent + self.last

    @property
    def open_characters(self) -> int:
        """How much text is rendered anew at each update."""
        return len(self.text) - self._open

    def update(self, text: str) -> None:
        """Take in the whole text as it stands now; what differs from the last is worked out here."""
        text = visible(text)
        if text == self.text:
            return
        if not text.startswith(self.text[: self._open]):
            # The persisted reply is not the drafts' text with more at the end: begin again.
            self.frozen, self._cut, self._env = [], 0, {IMAGES: self._images}
            self.recent, self._open, self._recent_env = "", 0, self._env
        self.text = text
        self._close_blocks()
        # A copy: a definition in the open end may still change, so what was read of it must not stay.
        self.last = render(text[self._open :], _copied(self._recent_env))

    def _close_blocks(self) -> None:
        """Let all but the last block be as they are; freeze them where they have come to a chunk."""
        # Of a line that is not complete nobody can say what it will be: "-" may be an item, or underline what is above it.
        lines = self.text[self._open : self.text.rfind("\n") + 1]
        starts = [self._open + start for start in block_starts(lines)]
        if len(starts) == 1:
            return
        for start in starts[1:]:
            if start - self._cut >= self.size:
                self.frozen.append(render(self.text[self._cut : start], self._env))
                self._cut = start
        self._open = starts[-1]
        self._recent_env = _copied(self._env)
        self.recent = render(self.text[self._cut : self._open], self._recent_env)


def _copied(env: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in env.items()}

"""A growing text, in pieces: finished ones that are rendered once, and the open end.

Re-sending a whole reply for every few new words costs the square of its length on the wire. So whatever can no longer change is
frozen in chunks of about 4 kB, cut where Markdown begins a new block, and the rest is rendered again as it grows.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .render import IMAGES, block_starts, render, visible

CHUNK = 4_000


class Chunks:
    r"""The HTML of one message while it grows.

    Attributes
    ----------
    frozen : list of str
        HTML of the finished chunks; only ever appended to, unless the text was replaced.
    tail : str
        HTML of what may still change.

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
        self.tail = ""
        self._cut = 0
        self._env: MutableMapping[str, Any] = {IMAGES: images}

    @property
    def open_characters(self) -> int:
        """How much text is rendered anew at each update."""
        return len(self.text) - self._cut

    def update(self, text: str) -> None:
        """Take in the whole text as it stands now; what differs from the last is worked out here."""
        text = visible(text)
        if text == self.text:
            return
        if not text.startswith(self.text[: self._cut]):
            # The persisted reply is not the drafts' text with more at the end: begin again.
            self.frozen, self._cut, self._env = [], 0, {IMAGES: self._images}
        self.text = text
        self._freeze()
        # A copy: a definition in the open end may still change, so what was read of it must not stay.
        self.tail = render(text[self._cut :], _copied(self._env))

    def _freeze(self) -> None:
        if self.open_characters < self.size:
            return
        rest = self.text[self._cut :]
        begin = 0
        # The last block may still grow, so it stays open, whatever its size.
        for start in block_starts(rest)[1:]:
            if start - begin >= self.size:
                self.frozen.append(render(rest[begin:start], self._env))
                begin = start
        self._cut += begin


def _copied(env: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in env.items()}

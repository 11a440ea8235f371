"""Decoding of compressed replies, in pieces of bounded size.

httpx decodes everything that has arrived in one go, and also stacked encodings: 5 kB
that were compressed twice can fill the memory before anyone counts the result.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

ACCEPTED = "gzip, deflate"  # what requests ask for

_PIECE_BYTES = 1 << 20
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_FORMATS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}

Decoder = Callable[[bytes], Iterator[bytes]]


class Undecodable(Exception):
    """A reply that is not encoded as its header says."""


def decoder_of(content_encoding: str) -> Decoder:
    """Return a decoder for the chunks of a body. One piece may need several chunks.

    Names other than compressions are ignored: some servers put a character set there.

    Parameters
    ----------
    content_encoding
        The reply's header.

    Raises
    ------
    Undecodable
        For stacked encodings. The decoder raises it too, if the body is damaged.

    Examples
    --------
    >>> b"".join(decoder_of("deflate")(zlib.compress(b"[]")))
    b'[]'
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    formats = [_FORMATS[name] for name in names if name in _FORMATS]
    if len(formats) > 1:
        raise Undecodable(f"{len(formats)} encodings, one over another")
    return _Inflater(formats[0]) if formats else lambda chunk: iter((chunk,))


class _Inflater:
    """Decodes gzip or deflate; data after the end is ignored."""

    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)
        self._may_be_bare = wbits == _ZLIB  # some servers send deflate without zlib's header

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        while chunk and not self._inflate.eof:
            piece = self._decoded(chunk)
            chunk = self._inflate.unconsumed_tail
            if piece:
                yield piece

    def _decoded(self, chunk: bytes) -> bytes:
        may_be_bare, self._may_be_bare = self._may_be_bare, False
        try:
            return self._inflate.decompress(chunk, _PIECE_BYTES)
        except zlib.error as error:
            if not may_be_bare:
                raise Undecodable(str(error)) from None
        self._inflate = zlib.decompressobj(_BARE)
        return self._decoded(chunk)

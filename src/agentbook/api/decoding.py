"""Decoding of compressed replies, in pieces of bounded size.

httpx decodes all that arrives at once, and one encoding over another: 5 kB that were
compressed twice can fill the memory before anybody counts them.
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
    """A reply that is not encoded as it says."""


def decoder_of(content_encoding: str) -> Decoder:
    """Return what decodes the chunks of a body; a piece may follow from several.

    Names that are no compression are ignored: some servers put a character set there.

    Parameters
    ----------
    content_encoding
        The reply's header.

    Raises
    ------
    Undecodable
        For one encoding over another; from the decoder, if the body is damaged.

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
    """Decodes gzip or deflate; what follows the end is ignored."""

    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)
        self._may_be_bare = wbits == _ZLIB  # some servers send deflate without the header of zlib

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

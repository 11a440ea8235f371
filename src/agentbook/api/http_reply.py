"""The replies on a connection: their heads, and where their bodies end (RFC 9112).

The end of a reply must be beyond doubt. Otherwise part of it could be read as the next
reply, or a reply that was cut short could be taken for a complete one. So this module
accepts nothing that h11 does not accept. The standard library's `http.client` accepts
more: "+5" and "0x5" as the size of a chunk, and the end of the connection as the end of
a head.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

PIECE_BYTES = 1 << 20
MAX_HEAD_BYTES = 100 << 10  # as in httpcore
MAX_HEADS = 100  # informational replies, such as "103 Early Hints", plus the reply itself

# Each of these can match a text in only one way, so none takes long.
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [^\x00\n-\r]*)?\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00\n-\r]*)\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")  # a header that continues on the next line
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n]*)?[ \t]*\r\n")

Fields = list[tuple[bytes, bytes]]


class BrokenReply(Exception):
    """A reply that is not HTTP, contradicts itself, or is cut short.

    The message quotes no part of it.
    """


class HttpReply:
    """A reply. Its head has been read; its body can be read once.

    Parameters
    ----------
    reader
        Reads from the connection.
    method
        The request's method: a reply to HEAD has no body.

    Raises
    ------
    OSError, BrokenReply
        If the head does not arrive in time, or is malformed.
    """

    def __init__(self, reader: io.BufferedReader, method: str) -> None:
        self._reader = reader
        self._is_whole = False
        for _ in range(MAX_HEADS):
            minor_version, self.status = _read_status(reader)
            self.headers = _read_fields(reader)
            if self.status == 101:
                raise BrokenReply("it changes to another protocol")
            if self.status >= 200:
                break
        else:
            raise BrokenReply("too many informational replies")
        codings = [value.lower() for value in self._values(b"transfer-encoding")]
        lengths = set(self._items(b"content-length"))
        if codings not in ([], [b"chunked"]):
            raise BrokenReply("its transfer encoding is unknown")
        if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            raise BrokenReply("its content length is not a number")
        self._is_chunked = bool(codings)
        self._length = int(lengths.pop()) if lengths else None
        # A reply with both is read by its chunks. Nothing is read after it: it may have
        # been crafted to end elsewhere for another program.
        is_delimited = self._is_chunked != (self._length is not None)
        if method == "HEAD" or self.status in (204, 304):
            self._is_chunked, self._length, is_delimited = False, 0, True
        closes = minor_version == 0 or b"close" in map(bytes.lower, self._items(b"connection"))
        self._may_be_followed = is_delimited and not closes

    def _values(self, name: bytes) -> list[bytes]:
        """The values of all headers with this name."""
        return [value for each, value in self.headers if each.lower() == name]

    def _items(self, name: bytes) -> list[bytes]:
        """The items of all these values, read as lists."""
        return [item.strip(b" \t") for value in self._values(name) for item in value.split(b",")]

    def may_be_followed(self) -> bool:
        """Whether it was read to its end and the connection can carry another one."""
        return self._is_whole and self._may_be_followed

    def body(self) -> Iterator[bytes]:
        """The pieces of the body.

        Raises
        ------
        OSError, BrokenReply
            If the body ends too early, or does not arrive in time.
        """
        if self._is_chunked:
            while size := _read_chunk_size(self._reader):
                yield from self._read(size)
                if self._reader.read(2) != b"\r\n":
                    raise BrokenReply("a chunk of its body does not end where it should")
            _read_fields(self._reader)
        elif self._length is None:
            while piece := self._reader.read1(PIECE_BYTES):
                yield piece
        else:
            yield from self._read(self._length)
        self._is_whole = True

    def _read(self, size: int) -> Iterator[bytes]:
        while expected := min(size, PIECE_BYTES):
            piece = self._reader.read(expected)
            if len(piece) < expected:
                raise BrokenReply("the connection was closed before the end of the body")
            yield piece
            del piece  # may repeat the credential, and a traceback would show it
            size -= expected


def _read_status(reader: io.BufferedReader) -> tuple[int, int]:
    """Read the first line; return HTTP's minor version and the status."""
    # Data that is not HTTP may have no line ends, so do not wait for one.
    start = reader.peek(1)[:5]
    if not start:
        raise BrokenReply("the connection was closed without a reply")
    line = _read_line(reader, MAX_HEAD_BYTES) if b"HTTP/".startswith(start) else b""
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BrokenReply("the reply is not HTTP")
    return int(match[1]), int(match[2])


def _read_fields(reader: io.BufferedReader) -> Fields:
    """Read the headers of a head, or the trailers of a body, to the empty line."""
    lines: list[bytes] = []
    limit = MAX_HEAD_BYTES
    while (line := _read_line(reader, limit)) not in (b"\r\n", b"\n"):
        lines.append(line)
        limit -= len(line)
    fields = []
    for line in _FOLD.sub(b" ", b"".join(lines)).splitlines(keepends=True):
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BrokenReply("a line of its head is not a header")
        fields.append((field[1], field[2].strip(b" \t")))
    return fields


def _read_chunk_size(reader: io.BufferedReader) -> int:
    match = _CHUNK_LINE.fullmatch(_read_line(reader, MAX_HEAD_BYTES))
    if match is None:
        raise BrokenReply("the size of a chunk of its body is not a number")
    return int(match[1], 16)


def _read_line(reader: io.BufferedReader, limit: int) -> bytes:
    line = reader.readline(limit)
    if not line.endswith(b"\n"):
        raise BrokenReply("its head is too long" if len(line) == limit else "the connection was closed within it")
    return line


__all__ = ["BrokenReply", "HttpReply"]

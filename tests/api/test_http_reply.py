"""The bytes of a reply: what is read of them, and what is refused."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import tracemalloc
from collections.abc import Iterable
from typing import Any

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentbook.api import http_reply
from agentbook.api.http_reply import BrokenReply, HttpReply

pytestmark = pytest.mark.python_versions

BODY = b'{"id":"a1"}'
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + BODY
CHUNKS = b'5;a="b"\r\n{"id"\r\n06  \r\n:"a1"}\r\n0\r\nx-sum: 1\r\n\r\n'
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nserver: x\r\n\r\n"


def reply_with(*lines: bytes, body: bytes = BODY, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([status, *lines, b"", body])


def read(data: bytes, method: str = "GET") -> tuple[HttpReply, bytes, bytes]:
    """A reply, its body and what follows it."""
    reader = io.BufferedReader(io.BytesIO(data), 4096)  # type: ignore[arg-type]
    reply = HttpReply(reader, method)
    return reply, b"".join(reply.body()), reader.read()


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        CHUNKED,
        HINTS + HINTS + b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
        PLAIN.replace(b"\r\n", b"\n"),
        reply_with(b"Content-Length:11"),
        reply_with(b"content-length:\t 11 \t"),
        reply_with(b"content-length: 11", b"Content-Length: 11"),
        reply_with(b"content-length: 11, 11"),
        reply_with(b"content-length:", b" 11"),
        reply_with(b"Transfer-Encoding: Chunked ", body=CHUNKS),
        reply_with(b"content-length: 11", b"content-type: multipart/mixed"),
        reply_with(b"content-length: 11", *(b"x-%d: y" % n for n in range(1000))),
        reply_with(b"content-length: 11", b"x: " + b"y" * 90_000),
        reply_with(b"content-length: 11", status=b"HTTP/1.1 200"),
        reply_with(b"content-length: 11", status=b"HTTP/1.1 200 d\xe9j\xe0 \x01"),
    ],
)
def test_a_reply_is_read_to_its_end_and_not_further(data: bytes) -> None:
    reply, body, rest = read(data + PLAIN)
    assert (reply.status, body, rest) == (200, BODY, PLAIN)
    assert reply.may_be_followed()
    assert b"link" not in dict(reply.headers)


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("HEAD", reply_with(b"content-length: 11", body=b"")),
        ("HEAD", reply_with(b"transfer-encoding: chunked", body=b"")),
        ("HEAD", reply_with(body=b"")),
        ("GET", reply_with(status=b"HTTP/1.1 204 No Content", body=b"")),
        ("GET", reply_with(b"content-length: 11", status=b"HTTP/1.1 304 Not Modified", body=b"")),
        ("GET", reply_with(b"transfer-encoding: chunked", status=b"HTTP/1.1 304 Not Modified", body=b"")),
        ("GET", reply_with(b"content-length: 0", body=b"")),
    ],
)
def test_a_reply_without_a_body_ends_with_its_head(method: str, data: bytes) -> None:
    reply, body, rest = read(data + PLAIN, method)
    assert (body, rest) == (b"", PLAIN)
    assert reply.may_be_followed()


@pytest.mark.parametrize(
    "data",
    [
        reply_with(),
        reply_with(status=b"HTTP/1.0 200 OK"),
        reply_with(b"content-length: 11", status=b"HTTP/1.0 200 OK"),
        reply_with(b"content-length: 11", b"connection: keep-alive", status=b"HTTP/1.0 200 OK"),
        reply_with(b"content-length: 11", b"connection: close"),
        reply_with(b"content-length: 11", b"connection: x", b"connection: y, Close"),
        reply_with(b"content-length: 11", b"transfer-encoding: chunked", body=CHUNKS),
        reply_with(b"transfer-encoding: chunked", body=CHUNKS, status=b"HTTP/1.0 200 OK"),
    ],
)
def test_nothing_follows_a_reply_that_ends_the_connection(data: bytes) -> None:
    reply, body, _ = read(data)
    assert body == BODY
    assert not reply.may_be_followed()


@pytest.mark.parametrize("data", [PLAIN, CHUNKED])
def test_nothing_follows_a_reply_that_was_not_read_to_its_end(data: bytes) -> None:
    reader = io.BufferedReader(io.BytesIO(data), 4096)  # type: ignore[arg-type]
    reply = HttpReply(reader, "GET")
    assert not reply.may_be_followed()
    next(reply.body())
    assert not reply.may_be_followed()


def test_a_long_body_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_reply, "PIECE_BYTES", 4)
    for data, pieces in (
        (PLAIN, [b'{"id', b'":"a', b'1"}']),
        (CHUNKED, [b'{"id', b'"', b':"a1', b'"}']),
        (reply_with(), [b'{"id', b'":"a', b'1"}']),
    ):
        reader = io.BufferedReader(io.BytesIO(data), 4096)  # type: ignore[arg-type]
        assert list(HttpReply(reader, "GET").body()) == pieces


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"content-length: 11\r\ncontent-length: 12", "content length"),
        (b"content-length: 11, 12", "content length"),
        (b"content-length: -1", "content length"),
        (b"content-length: +11", "content length"),
        (b"content-length: 1_1", "content length"),
        (b"content-length: \xa011", "content length"),
        (b"content-length: 1\r\n 1", "content length"),
        (b"content-length:", "content length"),
        (b"content-length: " + b"9" * 30, "content length"),
        (b"content-length: " + b"9" * 5000, "content length"),  # more than Python converts
        (b"content-length: s3cret", "content length"),
        (b"transfer-encoding: gzip, chunked", "transfer encoding"),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", "transfer encoding"),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: gzip", "transfer encoding"),
        (b"transfer-encoding: s3cret", "transfer encoding"),
        (b"transfer-encoding:", "transfer encoding"),
        (b"content-length: 11\r\ns3cret is no header", "not a header"),
        (b" s3cret: 1\r\ncontent-length: 11", "not a header"),
        (b"content-length : 11", "not a header"),
        (b": 1\r\ncontent-length: 11", "not a header"),
        (b"x: a\x00b\r\ncontent-length: 11", "not a header"),
        (b"x: a\x0bb\r\ncontent-length: 11", "not a header"),
        (b"x: a\rcontent-length: 3\r\ncontent-length: 11", "not a header"),
        (b"x: a\r\rcontent-length: 11", "not a header"),
        (b"x: a\r\r\ncontent-length: 11", "not a header"),
        (b"From x\r\ncontent-length: 11", "not a header"),  # which starts a mail for Python's parser
        (b"x(y): 1\r\ncontent-length: 11", "not a header"),
        (b"x: " + b"y" * 110_000, "too long"),
    ],
)
def test_a_head_that_leaves_the_end_open_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(BrokenReply, match=reason) as raised:
        read(reply_with(line))
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" HTTP/1.1 200 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 +20 OK",
        b"HTTP/1.1 2_0 OK",
        b"HTTP/1.1 0200 OK",
        b"HTTP/1.1 1000 OK",
        b"HTTP/1.1 099 OK",
        b"HTTP/1.1 200 O\rK",
        b"HTTP/1.1 200 O\x00K",
        b"HTTP/1.1",
        b"HTTP/1.10 200 OK",
        b"HTTP/2.0 200 OK",
        b"http/1.1 200 OK",
        b"ICY 200 OK",
        b"SSH-2.0-OpenSSH_9",
        b"\x15\x03\x01\x00\x02\x02\x0a",
    ],
)
def test_what_does_not_begin_as_a_reply_is_refused(line: bytes) -> None:
    with pytest.raises(BrokenReply, match="the reply is not HTTP"):
        read(reply_with(b"content-length: 11", status=line))


def test_a_change_to_another_protocol_is_refused() -> None:
    with pytest.raises(BrokenReply, match="another protocol"):
        read(reply_with(b"upgrade: x", status=b"HTTP/1.1 101 Switching Protocols", body=b""))


@pytest.mark.parametrize(
    "size", [b"+b", b"-1", b"0xb", b"0_b", b" b", b"", b";x", b"b\x0b", b"b\n", b"f" * 17, b"f" * 5000]
)
def test_a_chunk_of_unclear_size_is_refused(size: bytes) -> None:
    with pytest.raises(BrokenReply, match="size of a chunk"):
        read(reply_with(b"transfer-encoding: chunked", body=size + b"\r\n" + BODY + b"\r\n0\r\n\r\n"))


@pytest.mark.parametrize("end", [b"xx", b"\n0", b"\r0"])
def test_a_chunk_that_does_not_end_where_it_should_is_refused(end: bytes) -> None:
    with pytest.raises(BrokenReply, match="does not end"):
        read(reply_with(b"transfer-encoding: chunked", body=b"b\r\n" + BODY + end + b"\r\n0\r\n\r\n"))


@pytest.mark.parametrize("trailer", [b"nonsense", b"x : y", b"x: \x00"])
def test_a_trailer_that_is_no_header_is_refused(trailer: bytes) -> None:
    with pytest.raises(BrokenReply, match="not a header"):
        read(reply_with(b"transfer-encoding: chunked", body=b"0\r\n" + trailer + b"\r\n\r\n"))


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, EMPTY, HINTS + EMPTY, PLAIN.replace(b"\r\n", b"\n")])
def test_a_reply_that_ends_early_is_broken_wherever_it_ends(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(BrokenReply):
            read(data[:size])


class Endless(io.RawIOBase):
    """Begins with some bytes, then repeats others forever."""

    def __init__(self, start: bytes, again: bytes) -> None:
        self.bytes = itertools.chain([start], itertools.repeat(again))
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = next(self.bytes)
        buffer[: len(data)] = data
        self.size += len(data)
        return len(data)


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"x", b"x" * 4096),
        (b"HTTP/1.1 200 ", b"x" * 4096),
        (HEAD + b"x: ", b"x" * 4096),
        (HEAD, b"x: y\r\n" * 1000),
        (HEAD + b"x: y\r\n", b" x\r\n" * 1000),
        (b"", b"HTTP/1.1 103 Hints\r\n\r\n" * 100),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"0" * 4096),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n1;", b"x" * 4096),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 1000),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x" * 4096),
    ],
)
def test_what_never_ends_is_not_read_for_ever(start: bytes, again: bytes) -> None:
    source = Endless(start or again, again)
    tracemalloc.start()
    try:
        with pytest.raises(BrokenReply):
            b"".join(HttpReply(io.BufferedReader(source, 8192), "GET").body())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert source.size < 1 << 20


FRAMING = re.compile(rb"(?i)transfer-encoding|content-length")


def without_framing(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The others: h11 joins equal lengths, and writes "chunked" in lower case."""
    return [(name.lower(), value) for name, value in headers if not FRAMING.fullmatch(name)]


def read_by_h11(data: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes, bytes, bool]:
    """Status, headers, body, what follows, and whether another reply may follow."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    connection.receive_data(b"")
    head, body = None, b""
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        assert event is not h11.NEED_DATA
    assert head is not None
    rest = connection.trailing_data[0]
    return head.status_code, list(head.headers), body, rest, connection.their_state is h11.DONE


PARTS = [b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b",", b";", b"\x00", b"\x0b", b"\x85", b"+", b"-", b"_", b"x"]
PARTS += [b"0", b"1", b"b", b"\r\n\r\n", b"content-length: 11\r\n", b"content-length: 1\r\n", b"connection: close\r\n"]
PARTS += [
    b"transfer-encoding: chunked\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0",
    b"204",
    b"101",
    b"103",
    b"0x",
    b"chunked",
]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(PARTS) | st.binary(max_size=1)), max_size=4
)


@given(st.sampled_from([PLAIN, CHUNKED, EMPTY, HINTS + PLAIN, reply_with()]), EDITS)
@example(CHUNKED + PLAIN, [])
def test_what_is_accepted_means_the_same_to_h11(data: bytes, edits: list[tuple[float, int, bytes]]) -> None:
    """httpx reads by h11: `AsyncClient` uses it, and so do proxies in between."""
    for share, cut, new in edits:
        at = int(share * len(data))
        data = data[:at] + new + data[at + cut :]
    try:
        reply, body, rest = read(data)
    except BrokenReply:
        return
    framing = sum(map(bool, map(FRAMING.fullmatch, dict(reply.headers))))
    with (
        # h11 reads these among trailers and in informational replies too, where they
        # mean nothing.
        contextlib.nullcontext()
        if len(FRAMING.findall(data)) == framing
        else contextlib.suppress(h11.RemoteProtocolError)
    ):
        status, headers, its_body, its_rest, may_be_followed = read_by_h11(data)
        assert without_framing(reply.headers) == without_framing(headers)
        assert (reply.status, body) == (status, its_body)
        if reply.may_be_followed():
            assert may_be_followed
            assert rest == its_rest

"""One connection, with the bytes of replies as they come."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from agentbook.api.http_connection import BrokenReply, HttpConnection, Origin, body_of

pytestmark = pytest.mark.python_versions

PLAIN = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"id":"a1"}'
CHUNKED = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{"id":"a1"}\r\n0\r\n\r\n'

Answer = Callable[[bytes], HttpConnection]


@pytest.fixture
def connection() -> Iterator[HttpConnection]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = HttpConnection(Origin(False, "127.0.0.1", server.getsockname()[1]), None, 3600.0)
        made.connect(60.0)
        made.peer = server.accept()[0]  # type: ignore[attr-defined]
        with made.peer:  # type: ignore[attr-defined]
            yield made
        made.close()


@pytest.fixture
def answer(connection: HttpConnection) -> Answer:
    """Sends a request and the bytes that answer it; nothing follows them."""

    def reply(data: bytes) -> HttpConnection:
        connection.send("GET", "/v1/me", [(b"Host", b"h"), (b"Authorization", b"s3cret")], b"", 60.0)
        connection.peer.sendall(data)  # type: ignore[attr-defined]
        return connection

    return reply


def read(connection: HttpConnection) -> bytes:
    body = b"".join(body_of(connection.receive(time.monotonic() + 60.0)))
    connection.release()
    return body


def ended(connection: HttpConnection) -> HttpConnection:
    connection.peer.shutdown(socket.SHUT_WR)  # type: ignore[attr-defined]
    return connection


@pytest.mark.parametrize("reply", [PLAIN, CHUNKED])
def test_replies_follow_one_another(answer: Answer, reply: bytes) -> None:
    for _ in range(3):
        connection = answer(reply)
        assert read(connection) == b'{"id":"a1"}'
        assert connection.is_available()
        assert not connection.has_expired()


def test_a_long_body_comes_in_pieces(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.api.http_connection.PIECE_BYTES", 4)
    reply = answer(PLAIN).receive(time.monotonic() + 60.0)
    assert list(body_of(reply)) == [b'{"id', b'":"a', b'1"}']


def test_informational_replies_are_skipped(answer: Answer) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    reply = answer(b"HTTP/1.1 100 Continue\r\n\r\n" + hints + hints + PLAIN).receive(time.monotonic() + 60.0)
    assert (reply.status, b"".join(body_of(reply))) == (200, b'{"id":"a1"}')
    assert "link" not in reply.headers


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 11\r\ncontent-length: 12",
        b"content-length: 11, 11",
        b"content-length: -1",
        b"content-length: s3cret",
        b"transfer-encoding: gzip, chunked",
        b"content-length: 11\r\ns3cret is no header",
    ],
)
def test_a_head_that_leaves_the_end_open_is_refused(answer: Answer, head: bytes) -> None:
    connection = answer(b"HTTP/1.1 200 OK\r\n" + head + b'\r\n\r\n{"id":"a1"}')
    with pytest.raises(BrokenReply) as raised:
        read(connection)
    assert "s3cret" not in str(raised.value)
    connection.release()
    assert not connection.is_available()


@pytest.mark.parametrize("reply", [PLAIN[:-1], CHUNKED[:-7], CHUNKED[:-16]])
def test_a_body_that_ends_early_is_broken(answer: Answer, reply: bytes) -> None:
    connection = ended(answer(reply))
    with pytest.raises(http.client.HTTPException):
        read(connection)
    connection.release()
    assert not connection.is_available()


def test_a_connection_with_an_unread_reply_is_not_available(answer: Answer) -> None:
    connection = answer(PLAIN)
    connection.receive(time.monotonic() + 60.0)
    connection.release()
    assert not connection.is_available()


@pytest.mark.parametrize(
    "reply", [PLAIN.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), b"HTTP/1.0 200 OK\r\n\r\n"]
)
def test_a_connection_that_the_platform_will_close_is_not_available(answer: Answer, reply: bytes) -> None:
    connection = ended(answer(reply))
    read(connection)
    assert not connection.is_available()


def test_what_follows_a_reply_is_not_taken_for_the_next_one(answer: Answer) -> None:
    connection = answer(PLAIN + PLAIN)
    assert read(connection) == b'{"id":"a1"}'
    assert connection.has_expired()


def test_a_connection_that_the_platform_closed_has_expired(answer: Answer) -> None:
    connection = answer(PLAIN)
    read(connection)
    ended(connection)
    assert connection.has_expired()


def test_closing_ends_what_another_thread_reads(answer: Answer) -> None:
    """The system keeps a socket open while a thread reads from it; here a copy does."""
    connection = answer(b"")
    stream, peer = connection._stream, connection.peer  # type: ignore[attr-defined]
    peer.settimeout(30.0)
    with stream._socket.dup() as copy:
        connection.close()
        assert peer.recv(1000)  # the request
        assert peer.recv(1000) == copy.recv(1000) == b""


def test_a_debug_level_for_all_connections_prints_no_credential(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = HttpConnection(Origin(False, "127.0.0.1", server.getsockname()[1]), None, 3600.0)
        connection.connect(60.0)
        with server.accept()[0]:
            connection.send("GET", "/", [(b"Authorization", b"s3cret")], b"", 60.0)
        connection.close()
    assert capsys.readouterr().out == ""

"""One connection, with the bytes of replies as they come."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbook.api.http_connection import HttpConnection, Origin
from agentbook.api.http_reply import BrokenReply
from support.certificate import make_certificate

pytestmark = pytest.mark.python_versions

PLAIN = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"id":"a1"}'
CHUNKED = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{"id":"a1"}\r\n0\r\n\r\n'
REQUEST = memoryview(b"GET /v1/me HTTP/1.1\r\nHost: h\r\n\r\n")

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
        connection.send(REQUEST, time.monotonic() + 60.0)
        connection.peer.sendall(data)  # type: ignore[attr-defined]
        return connection

    return reply


def read(connection: HttpConnection) -> bytes:
    try:
        return b"".join(connection.receive("GET").body())
    finally:
        connection.release()


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


@pytest.mark.parametrize("reply", [PLAIN[:-1], CHUNKED[:-7], CHUNKED[:-16], CHUNKED[:-1]])
def test_a_body_that_ends_early_is_broken(answer: Answer, reply: bytes) -> None:
    connection = ended(answer(reply))
    with pytest.raises(BrokenReply):
        read(connection)
    assert not connection.is_available()


@pytest.mark.parametrize(
    "reply",
    [PLAIN.replace(b"11", b"-1"), CHUNKED.replace(b"b\r\n", b"zz\r\n"), CHUNKED.replace(b"0\r\n\r\n", b"zz\r\n")],
)
def test_a_connection_that_brought_a_broken_reply_is_not_available(answer: Answer, reply: bytes) -> None:
    connection = answer(reply)
    with pytest.raises(BrokenReply):
        read(connection)
    assert not connection.is_available()


@pytest.mark.parametrize("size", range(len(CHUNKED)))
def test_a_connection_whose_reply_did_not_come_in_time_is_not_available(answer: Answer, size: int) -> None:
    connection = answer(CHUNKED[:size])
    connection._stream.ends_at = time.monotonic() + 0.001  # type: ignore[union-attr]
    with pytest.raises(TimeoutError):
        read(connection)
    assert not connection.is_available()


def test_a_connection_is_not_available_after_an_interrupt(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", PLAIN[:20], PLAIN[:-3]):
        connection = answer(data)

        def interrupt(*_: Any) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr(connection._stream, "_set_timeout", interrupt)
        with pytest.raises(KeyboardInterrupt):
            read(connection)
        assert not connection.is_available()
        monkeypatch.undo()


def test_a_connection_with_an_unread_reply_is_not_available(answer: Answer) -> None:
    connection = answer(PLAIN)
    connection.receive("GET")
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


def test_an_abort_ends_what_another_thread_reads(answer: Answer) -> None:
    """And leaves the socket open, whose number another one would get meanwhile."""
    connection, raised = answer(b""), []
    reading = threading.Event()
    set_timeout = connection._stream._set_timeout  # type: ignore[union-attr]

    def begin() -> None:
        set_timeout()
        reading.set()

    connection._stream._set_timeout = begin  # type: ignore[union-attr,method-assign]

    def receive() -> None:
        with pytest.raises(BrokenReply) as error:
            read(connection)
        raised.append(error.value)

    thread = threading.Thread(target=receive)
    thread.start()
    assert reading.wait(30)
    connection.abort()
    thread.join(30)
    assert [str(error) for error in raised] == ["the connection was closed without a reply"]
    assert connection._stream._socket.fileno() >= 0  # type: ignore[union-attr]
    connection.close()
    assert connection._stream._socket.fileno() < 0  # type: ignore[union-attr]


def test_a_connection_that_was_aborted_while_it_was_made_carries_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = HttpConnection(Origin(False, "127.0.0.1", server.getsockname()[1]), None, 3600.0)
        connection.abort()
        with pytest.raises(ConnectionError, match="the client was closed"):
            connection.connect(60.0)
        connection.close()
        with server.accept()[0] as peer:
            assert peer.recv(100) == b""


def test_a_slow_reader_does_not_outlast_the_deadline(connection: HttpConnection) -> None:
    peer = connection.peer  # type: ignore[attr-defined]
    stop = threading.Event()

    def read_slowly() -> None:
        while not stop.wait(0.05):
            peer.recv(1 << 14)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    try:
        with pytest.raises(TimeoutError):
            connection.send(memoryview(bytes(64 << 20)), time.monotonic() + 0.3)
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture
def tls_address(tmp_path: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """The port of a server, and what trusts it. It sends `PLAIN` and more at once."""
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve() -> None:
        with server.accept()[0] as peer, contextlib.suppress(OSError), context.wrap_socket(peer, True) as secure:
            secure.recv(1000)
            secure.sendall(PLAIN + PLAIN)  # one record
            secure.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], ssl.create_default_context(cafile=str(certificate))
        thread.join(30)


def test_what_tls_has_decrypted_is_not_taken_for_the_next_reply(
    tls_address: tuple[int, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has read it from the socket by then."""
    monkeypatch.setattr("agentbook.api.http_connection.BUFFER_BYTES", len(PLAIN))
    port, tls = tls_address
    connection = HttpConnection(Origin(True, "127.0.0.1", port), tls, 3600.0)
    connection.connect(60.0)
    connection.send(REQUEST, time.monotonic() + 60.0)
    assert read(connection) == b'{"id":"a1"}'
    assert connection._stream._socket.pending()  # type: ignore[union-attr,attr-defined]
    assert connection.has_expired()
    connection.close()


def test_a_certificate_of_another_host_is_refused(tls_address: tuple[int, ssl.SSLContext]) -> None:
    port, tls = tls_address
    connection = HttpConnection(Origin(True, "localhost", port), tls, 3600.0)
    with pytest.raises(ssl.SSLCertVerificationError, match="localhost"):
        connection.connect(60.0)


def test_a_secure_origin_is_never_reached_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = HttpConnection(Origin(True, "127.0.0.1", server.getsockname()[1]), None, 3600.0)
        with pytest.raises(OSError, match="no certificates"):
            connection.connect(60.0)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_reached() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        connection = HttpConnection(Origin(False, "::1", server.getsockname()[1]), None, 3600.0)
        connection.connect(60.0)
        server.accept()[0].close()
        connection.close()


def test_a_name_that_no_host_can_have_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match="not a host name"):
        HttpConnection(Origin(False, f"{'x' * 70}.example", 80), None, 3600.0).connect(60.0)

"""New connections are admitted a few at a time, those with a credential first."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Container, Iterator
from typing import cast

import pytest

from agentbook.service.http import reception
from agentbook.service.http.reception import Reception

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif("sys.platform == 'win32'", reason="its loop cannot watch a socket"),
]

SIGNED = b"GET /v1/me HTTP/1.1\r\nHost: test\r\nAuthorization: Basic eDp5\r\n\r\n"
UNSIGNED = b"GET /v1/agents HTTP/1.1\r\nHost: test\r\n\r\n"


class Served(asyncio.Protocol):
    """Notes in which order connections were admitted, by the port of the other side."""

    admitted: list[int]

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.admitted.append(transport.get_extra_info("peername")[1])
        cast("asyncio.Transport", transport).close()


class Listener:
    """The listener, as a part of which a test replaces `accept`."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        return self._listener.accept()


class From(Listener):
    """Its connections seem to come from other addresses."""

    def __init__(self, listener: socket.socket, addresses: Iterator[str]) -> None:
        super().__init__(listener)
        self._addresses = addresses

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, _ = super().accept()  # which raises if there is none
        return connection, (next(self._addresses), 1)


def receive(listener: socket.socket | Listener, refusal: bytes = b"", valid: Container[bytes] = ()) -> Reception:
    return Reception(cast("socket.socket", listener), Served, lambda: refusal, valid)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setblocking(False)
        Served.admitted = []
        yield listener


def arrive(listener: socket.socket, sent: bytes, count: int = 1) -> list[socket.socket]:
    """Connections that wait to be accepted, with what they sent."""
    opened = [socket.create_connection(listener.getsockname(), timeout=20) for _ in range(count)]
    for connection in opened:
        connection.sendall(sent)
    return opened


def first_bytes(connection: socket.socket) -> bytes:
    """What comes first; nothing if what was sent is not read before it is closed."""
    try:
        return connection.recv(10)
    except ConnectionResetError:
        return b""


async def admitted(count: int) -> list[int]:
    async with asyncio.timeout(20):
        while len(Served.admitted) < count:
            await asyncio.sleep(0)
    return Served.admitted


async def test_whoever_shows_a_credential_passes_the_crowd(listener: socket.socket) -> None:
    crowd = arrive(listener, UNSIGNED, 20)
    (keyed,) = arrive(listener, SIGNED)
    desk = receive(listener)
    order = await admitted(21)
    assert order.index(keyed.getsockname()[1]) <= reception._UNSIGNED, "it arrived last"
    assert sorted(order) == sorted(connection.getsockname()[1] for connection in (*crowd, keyed))
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_a_client_opens_hundreds_of_connections_before_it_sends_its_key(listener: socket.socket) -> None:
    opened = arrive(listener, b"", 500)
    desk = receive(listener, b"503")
    assert len(await admitted(500)) == 500, "none is refused"
    desk.close()
    for connection in opened:
        connection.close()


async def test_whoever_may_be_signed_in_does_too(listener: socket.socket) -> None:
    crowd = arrive(listener, UNSIGNED, 20)
    (person,) = arrive(listener, UNSIGNED.replace(b"Host", b"Cookie: agentbook_0123abcd=s\r\nHost"))
    desk = receive(listener)
    order = await admitted(21)
    assert order.index(person.getsockname()[1]) <= reception._UNSIGNED, "it arrived last"
    desk.close()
    for connection in (*crowd, person):
        connection.close()


async def test_a_valid_credential_passes_those_that_were_made_up(listener: socket.socket) -> None:
    crowd = arrive(listener, SIGNED.replace(b"eDp5", b"eDp6"), 60)
    (keyed,) = arrive(listener, SIGNED.replace(b"Authorization: ", b"AUTHORIZATION:\t "))
    desk = receive(listener, valid={b"Basic eDp5"})
    order = await admitted(61)
    assert order.index(keyed.getsockname()[1]) <= reception._SIGNED, "it arrived last"
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_a_new_key_passes_a_crowd_from_elsewhere(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it was valid once, it looks like those that were made up."""
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    addresses = iter([*["192.0.2.1"] * 30, "192.0.2.2", *["192.0.2.1"] * 30])
    crowd = arrive(listener, SIGNED.replace(b"eDp5", b"eDp6"), 30)
    (keyed,) = arrive(listener, SIGNED)
    crowd += arrive(listener, SIGNED.replace(b"eDp5", b"eDp6"), 30)
    desk = receive(From(listener, addresses), b"503")
    order = await admitted(reception._SIGNED)
    assert order.index(keyed.getsockname()[1]) <= 1
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_a_crowd_with_a_valid_credential_delays_nobody_else(listener: socket.socket) -> None:
    crowd = arrive(listener, SIGNED.replace(b"eDp5", b"eDp6"), 60)
    (keyed,) = arrive(listener, SIGNED)
    desk = receive(listener, valid={b"Basic eDp5", b"Basic eDp6"})
    order = await admitted(61)
    assert order.index(keyed.getsockname()[1]) <= 1, "it arrived last"
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


@pytest.mark.parametrize("valid", [set(), {b"Basic eDp5"}])
async def test_a_crowd_with_a_credential_is_refused_too(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, valid: set[bytes]
) -> None:
    """Else nobody would be accepted before all of it was served."""
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    crowd = arrive(listener, SIGNED, 20)
    desk = receive(listener, b"503", valid)
    answers = [await asyncio.to_thread(first_bytes, connection) for connection in crowd]
    assert answers.count(b"503") == 20 - 5 - (reception._PROVEN if valid else reception._SIGNED)
    desk.close()
    for connection in crowd:
        connection.close()


async def test_a_long_queue_is_accepted_before_its_crowd_is_served(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    monkeypatch.setattr(reception, "_ACCEPTED", 6)
    turns = 20
    crowd = arrive(listener, UNSIGNED, 6 * turns)
    (keyed,) = arrive(listener, SIGNED)
    desk = receive(listener, b"503")
    order = await admitted(turns // reception._HELD_TURNS + 1 + 5)
    assert order.index(keyed.getsockname()[1]) <= turns // reception._HELD_TURNS + reception._UNSIGNED
    assert order[0] != keyed.getsockname()[1], "the others are not shut out meanwhile"
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_a_long_queue_is_accepted_before_those_with_a_made_up_credential_are_served(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    monkeypatch.setattr(reception, "_ACCEPTED", 6)
    turns = 20
    crowd = arrive(listener, SIGNED.replace(b"eDp5", b"eDp6"), 6 * turns)
    (keyed,) = arrive(listener, SIGNED)
    desk = receive(listener, b"503", valid={b"Basic eDp5"})
    async with asyncio.timeout(60):
        while keyed.getsockname()[1] not in Served.admitted:
            await asyncio.sleep(0)
    position = Served.admitted.index(keyed.getsockname()[1])
    assert 1 <= position <= turns + 2 * reception._SIGNED, "a turn or two find no queue"
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_closed_connections_are_not_admitted(listener: socket.socket) -> None:
    for connection in arrive(listener, b"", 20):
        connection.close()
    (silent,) = arrive(listener, b"")
    desk = receive(listener)
    assert await admitted(1) == [silent.getsockname()[1]]
    desk.close()
    silent.close()


async def test_a_crowd_is_refused_at_once(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    crowd = arrive(listener, b"", 20)
    keyed = arrive(listener, SIGNED, 8)
    desk = receive(listener, b"503")
    order = await admitted(8 + 5 + reception._UNSIGNED)
    assert {connection.getsockname()[1] for connection in keyed} <= set(order)
    answers = [await asyncio.to_thread(connection.recv, 10) for connection in crowd]
    assert answers.count(b"503") == 20 - 5 - reception._UNSIGNED
    desk.close()
    for connection in (*crowd, *keyed):
        connection.close()


async def test_a_refused_connection_takes_few_calls_of_the_system(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them gives the interpreter to threads that compute."""
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    calls: Counter[str] = Counter()

    class Counted(socket.socket):
        def recv(self, *args: int) -> bytes:
            calls["recv"] += 1
            return super().recv(*args)

        def setblocking(self, flag: bool, /) -> None:
            calls["setblocking"] += 1
            super().setblocking(flag)

    class Counting(Listener):
        """Its connections count what is done with them."""

        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            connection, address = super().accept()
            return Counted(fileno=connection.detach()), address

    crowd = arrive(listener, UNSIGNED, 20)
    desk = receive(Counting(listener), b"503")
    answers = [await asyncio.to_thread(first_bytes, connection) for connection in crowd]
    refused = answers.count(b"503")
    assert refused == 20 - 5 - reception._UNSIGNED
    assert calls["setblocking"] == 20 - refused, "only for those that are admitted"
    assert calls["recv"] - 2 * (20 - refused) <= 20, "they are looked at once; asyncio reads of the others"
    desk.close()
    for connection in crowd:
        connection.close()


async def test_whoever_has_just_come_is_not_refused_before_those_that_wait(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client sends its credential a moment after it has connected."""
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    monkeypatch.setattr(reception, "_UNSIGNED", 0)
    monkeypatch.setattr(reception, "_ACCEPTED", 6)  # one of seven is not looked at, and comes first then
    silent = arrive(listener, b"", 5)
    desk = receive(listener, b"503")
    await asyncio.sleep(0.02)  # turns in which each of them is looked at, and waits on
    late = arrive(listener, b"", 2)
    refused = [await asyncio.to_thread(connection.recv, 10) for connection in silent[:2]]
    assert refused == [b"503"] * 2
    for connection in late:
        connection.sendall(SIGNED)
    assert sorted(await admitted(2)) == sorted(connection.getsockname()[1] for connection in late)
    desk.close()
    for connection in (*silent, *late):
        connection.close()


async def test_whoever_has_sent_a_head_is_looked_at_once(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    look = reception._look

    def noting(connection: socket.socket) -> bytes | None:
        looked_at.append(connection)
        return look(connection)

    monkeypatch.setattr(reception, "_look", noting)
    crowd = arrive(listener, UNSIGNED, 20)
    desk = receive(listener)
    await admitted(20)
    assert len(looked_at) == 20
    desk.close()
    for connection in crowd:
        connection.close()


async def test_the_addresses_of_one_network_are_one_crowd(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    addresses = iter([*(f"2001:db8::{number}" for number in range(8)), *["192.0.2.1"] * 4])

    crowd = arrive(listener, b"", 12)
    desk = receive(From(listener, addresses), b"503")
    answers = [await asyncio.to_thread(connection.recv, 10) for connection in crowd]
    assert answers[8:] == [b""] * 4, "admitted, and closed"
    assert answers[:8].count(b"503") == 12 - 5 - reception._UNSIGNED
    desk.close()
    for connection in crowd:
        connection.close()


async def test_without_a_free_file_it_accepts_later(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "_PAUSE_S", 0.01)

    class Exhausted(Listener):
        """It finds no free file at first."""

        failures = 1

        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            if self.failures:
                self.failures -= 1
                raise OSError(24, "Too many open files")
            return super().accept()

    (keyed,) = arrive(listener, SIGNED)
    desk = receive(Exhausted(listener))
    assert await admitted(1) == [keyed.getsockname()[1]]
    desk.close()
    keyed.close()

"""Connections without a credential are limited, and keys always have room."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Collection
from typing import Any

import pytest

from agentbook.service.http import connection, socket_protocol
from agentbook.service.http.admission import MAX_UNKNOWN_PER_ADDRESS, Admission, Admitted, ValidCredentials
from agentbook.service.proxies import TrustedProxies
from agentbook.service.store import Store
from agentbook.service.store.events import PageRequest
from service.http.raw import JSON, listening, served, status
from service.pages.test_pages import signed_in
from service.world import World, basic

pytestmark = pytest.mark.anyio

REQUEST = b"GET /v1/me HTTP/1.1\r\nHost: test\r\n" + JSON
ANONYMOUS = b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n" + JSON + b"\r\n"
FEW = {"limit": 12, "unknown": 6, "unknown_per_address": 3, "min_idle_s": 0.0}

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def signed(world: World) -> bytes:
    return REQUEST + b"Authorization: " + basic(world.full).encode() + b"\r\n\r\n"


async def opened(address: tuple[str, int], count: int, sent: bytes = b"") -> list[Streams]:
    """Connections that send something and then nothing."""
    streams = [await asyncio.open_connection(*address) for _ in range(count)]
    for _, writer in streams:
        writer.write(sent)
    return streams


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next response."""
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        return status(head), await reader.readexactly(int(length[1]) if length else 0)


BEGUN = b"GET /v1/me HTTP/1.1\r\nHost: t"


async def test_beyond_the_limit_of_an_address_only_keys_are_answered(world: World) -> None:
    async with listening(world, admission=Admission(**FEW)) as address:
        waiting = await opened(address, 3, BEGUN)
        anonymous, keyed, wrong = [
            (await opened(address, 1, request))[0]
            for request in (ANONYMOUS, signed(world), REQUEST + b"Authorization: Basic eDp5\r\n\r\n")
        ]
        assert await answer(anonymous[0]) == (
            503,
            b'{"error":"ServiceUnavailable","message":"The service has too many connections. Try again later."}',
        )
        assert (await answer(keyed[0]))[0] == 200
        assert (await answer(wrong[0]))[0] == 401
        async with asyncio.timeout(20):
            assert await wrong[0].read() == b"", "the connection is closed"
        keyed[1].write(ANONYMOUS)
        assert (await answer(keyed[0]))[0] == 200, "a connection that has shown a key stays"
        for _, writer in (*waiting, anonymous, keyed, wrong):
            writer.close()


@pytest.mark.parametrize("sent", [b"", ANONYMOUS], ids=["silent", "kept"])
@pytest.mark.parametrize(
    "limits", [FEW, {**FEW, "limit": 50, "unknown": 3, "unknown_per_address": 50}], ids=["one", "all"]
)
async def test_the_longest_idle_connection_makes_room(world: World, sent: bytes, limits: dict[str, Any]) -> None:
    async with listening(world, admission=Admission(**limits)) as address:
        waiting = await opened(address, 3, sent)
        if sent:
            assert [(await answer(reader))[0] for reader, _ in waiting] == [200] * 3
        waiting[0][1].write(ANONYMOUS)  # so the second has been idle for longest
        assert (await answer(waiting[0][0]))[0] == 200
        (late,) = await opened(address, 1, ANONYMOUS)
        assert (await answer(late[0]))[0] == 200
        async with asyncio.timeout(20):
            assert await waiting[1][0].read() == b""
        for index in (0, 2):
            waiting[index][1].write(ANONYMOUS)
            assert (await answer(waiting[index][0]))[0] == 200, "it is open"
        for _, writer in (*waiting, late):
            writer.close()


async def test_a_connection_that_was_just_opened_makes_no_room(world: World) -> None:
    """Its request may be under way, and would be answered with a reset."""
    async with listening(world, admission=Admission(**{**FEW, "min_idle_s": 600.0})) as address:
        waiting = await opened(address, 3)
        (late,) = await opened(address, 1, ANONYMOUS)
        assert (await answer(late[0]))[0] == 503
        for reader, writer in waiting:
            writer.write(ANONYMOUS)
            assert (await answer(reader))[0] == 200, "it is open"
        for _, writer in (*waiting, late):
            writer.close()


async def test_a_credential_is_remembered_once_it_was_valid(world: World) -> None:
    admission = Admission()
    good, made_up = (basic(key).encode() for key in (world.full, f"{world.full}x"))
    request = b"GET /v1/me HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: %b\r\n\r\n"
    async with served(world, admission=admission) as say:
        assert [status(await say(request % value)) for value in (made_up, good)] == [401, 200]
    assert made_up not in admission.valid
    assert good in admission.valid


def test_the_credentials_that_were_valid_last_are_remembered() -> None:
    valid = ValidCredentials(limit=2)
    for credential in (b"a", b"b", b"a", b"c"):
        valid.add(credential)
    assert [credential in valid for credential in (b"a", b"b", b"c")] == [True, False, True]


async def test_a_person_who_is_signed_in_has_room_like_a_key(world: World) -> None:
    person = await signed_in(world)
    cookie = "; ".join(f"{name}={value}" for name, value in person.http.cookies.items())
    request = b"GET /v1/settings HTTP/1.1\r\nHost: test\r\nCookie: %b\r\n\r\n"
    async with listening(world, admission=Admission(**FEW)) as address:
        waiting = await opened(address, 3, BEGUN)
        (browser,) = await opened(address, 1, request % cookie.encode())
        assert (await answer(browser[0]))[0] == 200
        browser[1].write(ANONYMOUS)
        assert (await answer(browser[0]))[0] == 200, "it stays"
        name = cookie.partition("=")[0].encode()
        (stranger,) = await opened(address, 1, request % (name + b"=guessed"))
        await answer(stranger[0])
        async with asyncio.timeout(20):
            assert await stranger[0].read() == b"", "the connection is closed"
        for _, writer in (*waiting, browser, stranger):
            writer.close()


@pytest.mark.parametrize(
    ("crowded", "neighbour", "stranger"),
    [(b"192.0.2.1", b"192.0.2.1", b"192.0.2.2"), (b"2001:db8::1", b"2001:db8::2", b"2001:db8:0:1::1")],
    ids=["address", "network"],
)
async def test_connections_of_a_trusted_proxy_count_for_their_clients(
    world: World, crowded: bytes, neighbour: bytes, stranger: bytes
) -> None:
    def request(client: bytes, path: bytes = b"openapi.yaml") -> bytes:
        return ANONYMOUS.replace(b"openapi.yaml", path).replace(JSON, JSON + b"X-Forwarded-For: %b\r\n" % client)

    slow = b"POST /v1/oauth/register HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\nExpect: 100-continue\r\n"
    slow += b"X-Forwarded-For: 6.6.6.6, %b\r\n\r\n" % crowded
    world.platform.proxies = TrustedProxies(["127.0.0.1"])
    async with listening(world, admission=Admission(**FEW)) as address:
        idle = await opened(address, 5)  # as a proxy keeps connections for requests to come
        crowd = await opened(address, 3, slow)
        async with asyncio.timeout(20):
            for reader, _ in crowd:
                await reader.readuntil(b"100 Continue\r\n\r\n")  # now its body is waited for
        (same, other) = await opened(address, 2)
        same[1].write(request(neighbour))
        assert (await answer(same[0]))[0] == 503
        other[1].write(request(crowded + b", " + stranger))
        assert (await answer(other[0]))[0] == 200
        other[1].write(request(neighbour))
        assert (await answer(other[0]))[0] == 503, "each request of the connection counts for its own client"
        for _, writer in (*idle, *crowd, same, other):
            writer.close()


async def test_a_connection_counts_for_its_network(world: World) -> None:
    class Noting(Admission):
        def add(self, connection: Admitted, open_connections: Collection[object]) -> bool:
            addresses.append(connection.address)
            return super().add(connection, open_connections)

    addresses: list[str] = []
    try:
        async with listening(world, host="::1", admission=Noting(**FEW)) as address:
            (opened_,) = await opened(address[:2], 1, ANONYMOUS)
            assert (await answer(opened_[0]))[0] == 200
            opened_[1].close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    assert addresses == ["::"]


async def test_anyone_else_cannot_choose_an_address(world: World) -> None:
    async with listening(world, admission=Admission(**FEW)) as address:
        forged = [BEGUN.replace(b"Host", b"X-Forwarded-For: 10.0.0.%d\r\nHost" % number) for number in range(3)]
        crowd = [(await opened(address, 1, head))[0] for head in forged]
        (late,) = await opened(address, 1, ANONYMOUS.replace(JSON, JSON + b"X-Forwarded-For: 10.0.0.9\r\n"))
        assert (await answer(late[0]))[0] == 503
        for _, writer in (*crowd, late):
            writer.close()


async def test_a_connection_that_shows_nothing_gets_a_moment_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CROWDED_HEAD_S", 0.05)
    async with listening(world, admission=Admission(**FEW)) as address:
        waiting = [*await opened(address, 3, BEGUN), *await opened(address, 1)]
        assert (await answer(waiting[3][0]))[0] == 503
        for _, writer in waiting:
            writer.close()


async def test_a_full_service_turns_away_the_oldest_without_a_key(world: World) -> None:
    async with listening(world, admission=Admission(limit=4, unknown=50, unknown_per_address=50)) as address:
        keyed = await opened(address, 2, signed(world))
        assert [(await answer(reader))[0] for reader, _ in keyed] == [200, 200]
        waiting = await opened(address, 2)
        (late,) = await opened(address, 1, signed(world))
        assert (await answer(late[0]))[0] == 200
        assert (await answer(waiting[0][0]))[0] == 503
        keyed[0][1].write(signed(world))
        assert (await answer(keyed[0][0]))[0] == 200
        for _, writer in (*keyed, *waiting, late):
            writer.close()


async def test_connections_that_were_closed_are_turned_away_without_a_traceback(world: World) -> None:
    """One for each of thousands filled the log, and kept the loop busy."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
    async with listening(world, admission=Admission(limit=2, unknown=50, unknown_per_address=50)) as address:
        for _ in range(8):
            socket.create_connection(address).close()  # answers what it gets with a reset
        (late,) = await opened(address, 1, signed(world))
        assert (await answer(late[0]))[0] == 200
        late[1].close()
    assert problems == []


async def test_few_refused_connections_linger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_LINGERING", 1)
    admission = Admission(limit=50, unknown=50, unknown_per_address=0)
    async with listening(world, admission=admission) as address:
        refused = [(await opened(address, 1, ANONYMOUS))[0] for _ in range(5)]
        assert [(await answer(reader))[0] for reader, _ in refused] == [503] * 5
        assert admission.lingering == 1
        for _, writer in refused:
            writer.close()
            await writer.wait_closed()
    async with asyncio.timeout(20):
        while admission.lingering:
            await asyncio.sleep(0.01)


async def test_a_crowd_without_keys_does_not_queue_before_keys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "waiting_reads", 1_000)
    assert (await world.get("/agents")).status_code == 503
    assert (await world.get("/agents", world.full)).status_code == 200
    assert (await world.get("/me", world.full)).status_code == 200


async def test_all_that_one_address_may_ask_without_a_key_is_answered(world: World) -> None:
    answers = await asyncio.gather(*(world.get("/agents", limit=n % 5) for n in range(MAX_UNKNOWN_PER_ADDRESS)))
    assert {answer.status_code for answer in answers} == {200}


def test_each_connection_above_the_limit_turns_another_away() -> None:
    """Many are accepted before the first that was turned away has closed."""

    class Arrival:
        address = "::1"
        turned_away = 0

        def turn_away(self) -> None:
            self.turned_away += 1

    admission, arrivals = Admission(limit=1, unknown=50, unknown_per_address=50), [Arrival() for _ in range(5)]
    for arrival in arrivals:
        admission.add(arrival, arrivals)
    assert [arrival.turned_away for arrival in arrivals] == [1] * 5


async def test_room_is_released(world: World) -> None:
    admission = Admission(**FEW)
    async with served(world, admission=admission) as say:
        for _ in range(3 * FEW["limit"]):
            assert status(await say(ANONYMOUS)) == 200


async def test_a_reader_that_stops_is_disconnected(world: World) -> None:
    async with listening(world, stall_s=0.05) as address:
        (stalled,) = await opened(address, 1, ANONYMOUS.replace(b"openapi.yaml", b"docs") * 15)
        reader, writer = stalled
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # the stream has no way to read nothing
        await asyncio.sleep(0.5)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            async with asyncio.timeout(20):
                await reader.readexactly(1 << 30)
        writer.close()


async def test_a_socket_whose_reader_stops_is_disconnected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_protocol.Socket, "stall_s", 0.05)
    world.workspace()
    world.agent_row()
    session = await world.start("x" * 900_000)
    handshake = (
        b"GET /v1/sessions/%b/events/ws?from_id=00000000-0000-7000-8000-000000000000 HTTP/1.1\r\nHost: test\r\n"
        b"Authorization: %b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % (session.encode(), basic(world.full).encode())
    )
    for _ in range(8):
        await world.post(f"/sessions/{session}/events", {"content": "x" * 900_000}, world.full)
    await world.idle()
    async with listening(world) as address:
        ((reader, writer),) = await opened(address, 1, handshake)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # as above
        async with asyncio.timeout(20):
            while world.platform.hub.sockets == 0:
                await asyncio.sleep(0.01)
            await world.platform.hub.empty.wait()
        writer.close()


async def test_a_page_is_not_read_on_for_a_reader_that_has_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    for _ in range(4):
        await world.post(f"/sessions/{session}/events", {"content": "x" * 900_000}, world.full)
    await world.idle()
    read_piece = world.store.long_texts.piece
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    starts: list[int] = []

    def piece(db: Any, *, request: PageRequest, id_: str, start: int) -> bytes:
        starts.append(start)
        loop.call_soon_threadsafe(begun.set)
        return read_piece(db, request, id_, start)

    monkeypatch.setattr(world.store.long_texts, "piece", piece)
    request = b"GET /v1/sessions/%b/events?limit=100 HTTP/1.1\r\nHost: test\r\nAuthorization: %b\r\n\r\n"
    async with listening(world) as address, asyncio.timeout(20):
        tasks = len(asyncio.all_tasks())
        ((_, writer),) = await opened(address, 1, request % (session.encode(), basic(world.full).encode()))
        await begun.wait()
        writer.transport.abort()
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)
    assert len(starts) < 20, "of 28"

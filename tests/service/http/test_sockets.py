"""Many sockets at once: what they send, and whether they may listen."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from sqlalchemy import Connection as Database
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agentbook.service import errors
from agentbook.service.http import websocket
from agentbook.service.http.socket_protocol import _PIECE_BYTES, _PIECES
from service.http.raw import handshake, listening
from service.world import World

pytestmark = pytest.mark.anyio

FRAMES = ((0x89, 20), (0x81, 20), (0x88, 0))  # a ping, a text, and a close without a code


async def test_the_sockets_of_a_caller_share_a_check_of_their_access(world: World) -> None:
    checks = websocket.AccessChecks(world.platforms[0])
    reads: list[str] = []

    async def check(caller: str, error: Exception | None = None) -> None:
        def read(_db: Database) -> None:
            reads.append(caller)
            if error is not None:
                raise error

        outcomes = await asyncio.gather(*(checks.check(caller, read) for _ in range(20)), return_exceptions=True)
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == [error] * 20 * (error is not None)

    await check("ada")
    await check("ada")
    await check("bob")
    world.platforms[0].hub.recheck_access()
    await check("ada")
    await check("eve", errors.invalid_key())
    await check("eve")
    assert reads == ["ada", "bob", "ada", "eve", "eve"]


async def test_what_sockets_send_is_parsed_little_in_each_turn_of_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.idle()
    loop, turns = asyncio.get_running_loop(), 0
    parsed: Counter[int] = Counter()  # bytes in each turn
    receive = WebSocketsSansIOProtocol.data_received

    def data_received(self: WebSocketsSansIOProtocol, data: bytes) -> None:
        parsed[turns] += len(data) if self.handshake_complete else 0
        receive(self, data)

    def count_turns() -> None:
        nonlocal turns, handle
        turns += 1
        handle = loop.call_soon(count_turns)

    monkeypatch.setattr(WebSocketsSansIOProtocol, "data_received", data_received)
    request = handshake(world, session)
    ping, text, close = (bytes((kind, 0x80 + size)) + b"mask" + b"x" * size for kind, size in FRAMES)
    handle = loop.call_soon(count_turns)
    async with listening(world) as address, asyncio.timeout(60):
        streams = [await asyncio.open_connection(*address) for _ in range(20)]
        for reader, writer in streams:
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
        for _, writer in streams:
            writer.write((ping + text) * 100 + close)
        answers = [await reader.read() for reader, _ in streams]
        for _, writer in streams:
            writer.close()
    handle.cancel()
    pongs = [data.count(b"\x8a\x14") for data in answers]
    assert pongs == [100] * 20
    assert max(parsed.values()) <= 2 * _PIECES * _PIECE_BYTES, "those of two turns may end in one"


async def test_a_text_that_is_not_utf8_closes_its_socket_and_is_not_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.idle()
    request = handshake(world, session)
    async with listening(world) as address, asyncio.timeout(60):
        # In one frame, and in two that are UTF-8 only together.
        texts = {b"\x81\x81mask\x92": 1007, b"\x01\x81mask\xae\x80\x81mask\xc4\x88\x80mask": 1005}
        for frames, code in texts.items():
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frames)
            closing = await reader.read()
            assert closing == (b"\x88\x00" if code == 1005 else b"\x88\x02" + code.to_bytes(2)), frames
            writer.close()
    assert [record.message for record in caplog.records if record.name.startswith("uvicorn")] == []


@pytest.mark.parametrize(
    ("texts", "each_turn"),
    [
        (["x"], websocket._TURN_TEXTS),
        (["x"] * websocket._TURN_TEXTS, 1),
        (["x" * (websocket._TURN_CHARACTERS // 4)], 4),
        (["x" * websocket._TURN_CHARACTERS * 2], 1),
    ],
    ids=["short", "many", "long", "longer than a turn"],
)
async def test_sockets_share_the_turns_of_the_loop(texts: list[str], each_turn: int) -> None:
    share = websocket.DeliveryShare()
    sent: list[int] = []

    async def send(number: int) -> None:
        await share.turn(texts)
        sent.append(number)

    waiting = [asyncio.create_task(send(number)) for number in range(each_turn * 3 + 1)]
    await asyncio.sleep(0)
    waiting.pop(0).cancel()  # its socket has gone
    sizes = []
    while len(sent) < len(waiting):
        before = len(sent)
        await asyncio.sleep(0)
        sizes.append(len(sent) - before)
    assert sent == list(range(1, each_turn * 3 + 1)), "in the order in which they came"
    assert [size for size in sizes if size] == [each_turn] * 3
    await send(0)  # also when nobody waited any more


async def test_a_key_that_is_revoked_while_a_text_waits_for_its_turn_does_not_get_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.idle()

    async def turn(_share: websocket.DeliveryShare, texts: list[str]) -> None:
        assert texts
        world.change("api_keys", world.full.partition(":")[0], revoked_at=world.store.clock.instant())
        world.platform.hub.recheck_access()

    monkeypatch.setattr(websocket.DeliveryShare, "turn", turn)
    request = handshake(world, session)
    async with listening(world) as address, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
        closing = await reader.read()
        writer.close()
    assert closing[2:] == (4401).to_bytes(2) + b"Invalid API key", "a close, and no text before it"
    await world.idle()

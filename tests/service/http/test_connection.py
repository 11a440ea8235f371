"""Invalid and slow requests: the service answers with a request id and closes."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agentbook.service.http import websocket
from agentbook.service.http.connection import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED
from agentbook.service.store import events
from agentbook.service.turns import event_json
from service.http.raw import JSON, listening, served, status
from service.pages.test_pages import forms, signed_in
from service.world import World, basic

pytestmark = pytest.mark.anyio

HANDSHAKE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


async def test_unreadable_requests_get_the_services_own_error(world: World) -> None:
    async with served(world) as say:
        garbage = await say(b"\x16\x03\x01hello\r\n\r\n")
        assert status(garbage) == 400
        assert b"text/html" in garbage  # it accepts nothing
        response = await say(b"GET /v1/agents/\xc3\xa9 HTTP/1.1\r\n\r\n")
        assert status(response) == 400
        unknown = await say(b"BREW /v1/me HTTP/1.1\r\nHost: test\r\n" + JSON + b"\r\n")
        assert status(unknown) == 405
        assert b"\r\nallow: GET, HEAD, POST, PATCH, DELETE\r\n" in unknown
        assert unknown.endswith(
            b'{"error":"MethodNotAllowed","message":"The method is not allowed for the requested URL."}'
        )


async def test_the_fields_of_an_unknown_method_are_read_in_linear_time(world: World) -> None:
    """In the square of their length, 256 KiB would take twenty minutes."""
    async with served(world) as say:
        answer = await say(b"BREW /v1/me HTTP/1.1\r\n" + b"a" * 60_000 + b"\r\n" + JSON + b"\r\n")
    assert status(answer) == 405
    assert b"application/json" in answer


async def test_line_breaks_between_requests_keep_no_connection_open(world: World) -> None:
    async with listening(world, timeout_s=0.2) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"HEAD /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.write(b"\r\n")
        async with asyncio.timeout(20):
            assert status(await reader.read()) == 408
        writer.close()


async def test_a_request_head_is_limited_in_size_and_time(world: World) -> None:
    begun = b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n" + JSON
    async with served(world) as say:
        assert status(await say(begun + b"X: " + b"x" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")) == 200
        large = await say(begun + b"X: " + b"x" * (2 << 20) + b"\r\n\r\n")
        assert status(large) == 431
        assert large.endswith(b'"The request\'s headers are larger than 65536 bytes."}')
        many = await say(begun + b"X: x\r\n" * MAX_HEADERS + b"\r\n")
        assert status(many) == 431
    async with served(world, timeout_s=0.5) as say:
        slow, silent = await asyncio.gather(say(begun), say(b""))
        assert status(slow) == 408
        assert b"The request head did not arrive within 0.5 seconds." in slow
        assert silent == b"", "nothing was asked, so nothing is answered"


async def test_requests_do_not_pile_up_on_a_connection(world: World) -> None:
    request = b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n"
    async with served(world) as say:
        answer = await say(request * (MAX_PIPELINED + 2))
        assert status(answer) == 400
        assert b"connection: close" in answer


async def test_every_handshake_is_answered(world: World) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    line = b"GET /v1/sessions/%b/events/ws HTTP/1.1\r\nHost: test\r\n" % session.encode()
    signed = line + b"Authorization: " + basic(world.full).encode() + b"\r\n" + JSON
    async with served(world) as say:
        assert status(await say(signed + HANDSHAKE + KEY + b"\r\n")) == 101
        cookies = b"Cookie: " + b"c" * 20_000 + b"\r\n"
        assert status(await say(signed + cookies + HANDSHAKE + KEY + b"\r\n")) == 101, "a browser's many cookies"
        for bad in (
            HANDSHAKE,
            HANDSHAKE.replace(b"13", b"8") + KEY,
            HANDSHAKE + KEY + b"X: " + b"x" * 9_000 + b"\r\n",
            HANDSHAKE + KEY + b"X: x\r\n" * 200,
            HANDSHAKE + KEY + b"Content-Length: 3\r\n",
        ):
            answer = await say(signed + bad + b"\r\n")
            assert status(answer) == 400, bad[:200]
            assert b"sec-websocket-version: 13" in answer.lower()


async def ended(listener: ClientConnection) -> tuple[int | None, str | None]:
    """How a socket ended, whatever it brought before."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await listener.recv()
    return listener.close_code, listener.close_reason


def event_text(id_: str, at: str) -> str:
    return event_json.message(id=id_, text="…", task_id="t", created_at=at, author={"type": "api_key"})


async def test_a_key_that_loses_access_while_listening_is_disconnected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "RECHECK_S", 0.0)
    workspace = world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.platform.turns.wait_until_idle()
    keys = [world.key("acme", "workspaces:read", "agents:read") for _ in range(2)]
    async with listening(world) as (host, port):
        opened = [
            connect(
                f"ws://{host}:{port}/v1/sessions/{session}/events/ws", additional_headers={"Authorization": basic(key)}
            )
            for key in keys
        ]
        async with opened[0] as revoked, opened[1] as valid, asyncio.timeout(60):
            world.change("api_keys", keys[0].partition(":")[0], revoked_at=world.store.clock.instant())
            posted = await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
            assert json.loads(await valid.recv()) == posted.json()
            assert await ended(revoked) == (4401, "Invalid API key")
            await world.platform.turns.wait_until_idle()
            world.change("workspaces", workspace, should_restrict_members=True)
            await world.store.write(
                lambda tx: events.append(tx, session, "message", "t", event_text, author_type="api_key")
            )
            assert await ended(valid) == (4404, "Session not found")


async def test_an_idle_socket_is_closed_as_soon_as_the_pages_end_its_access(world: World) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.platform.turns.wait_until_idle()
    ada = await signed_in(world)
    keys = [world.key("acme", "workspaces:read", "agents:read") for _ in range(2)]
    async with listening(world) as (host, port):
        url = f"ws://{host}:{port}/v1/sessions/{session}/events/ws"
        opened = [connect(url, additional_headers={"Authorization": basic(key)}) for key in keys]
        async with opened[0] as revoked, opened[1] as outsider, asyncio.timeout(60):
            page = await ada.get("/settings")
            revoke = next(form for form in forms(page, "revoke") if form["id"] == keys[0].partition(":")[0])
            assert (await ada.post("/settings", revoke)).status_code == 303
            assert await ended(revoked) == (4401, "Invalid API key")
            configure = forms(await ada.get("/members"), "configure")[0]
            assert (await ada.post("/members", {**configure, "restrict_members": "yes"})).status_code == 303
            assert await ended(outsider) == (4404, "Session not found")

"""A client that is closed ends its streams, whatever they wait for, in any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.record import Record
from agentbook.chat.model.conversation import Conversation
from agentbook.events import loop, reader
from support.fake_platform.over_socket import SocketPlatform, event
from support.streams import connected, next_events

WITHIN_S = 10.0  # a busy machine may take seconds


@pytest.fixture(autouse=True)
def sockets_end(platform: SocketPlatform) -> Iterator[None]:
    """The platform sees every socket go."""
    yield
    wait_until_sockets_end(platform)


def wait_until_sockets_end(platform: SocketPlatform) -> None:
    """The test's timeout is the bound."""
    while platform.sockets:
        threading.Event().wait(0.005)


KEY = "id1:s3cret-4711"


def waiting(platform: SocketPlatform) -> None:
    connected(platform, 1)


def reconnecting(platform: SocketPlatform) -> None:
    connected(platform, 1)
    platform.refuse_socket = (503, {"message": "Something went wrong"})
    platform.cut()
    handshakes = len(platform.handshakes)
    while len(platform.handshakes) == handshakes:
        threading.Event().wait(0.002)


def polling(platform: SocketPlatform) -> None:
    while platform.lists < 2:
        threading.Event().wait(0.002)


@pytest.mark.parametrize("state", [waiting, reconnecting, polling])
def test_an_iterator_in_another_thread_raises(
    platform: SocketPlatform, monkeypatch: pytest.MonkeyPatch, state: Callable[[SocketPlatform], None]
) -> None:
    # The second attempt waits for a minute.
    monkeypatch.setattr(reader, "BACKOFF_S", 0.01)
    monkeypatch.setattr(reader, "BACKOFF_MAX_S", 60.0)
    monkeypatch.setattr(reader, "BACKOFF_FACTOR", 6000)
    monkeypatch.setattr(reader, "POLL_S", 0.01)
    client = ab.Client(platform.base_url, credentials=ab.OAuthToken("token") if state is polling else KEY)
    platform.add(event(0))
    stream = client.sessions.stream("s", from_id=reader.BEGINNING)
    next_events(stream, 1)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(next, stream)
        state(platform)
        client.close()
        with pytest.raises(ab.StreamClosed, match=r"This client is closed.*agentbook\.connect") as raised:
            reading.result(WITHIN_S)
    wait_until_sockets_end(platform)  # while the stream is there: its end would close them too
    assert (raised.value.last_id, stream.last_id, raised.value.client_closed) == (*[event(0)["id"]] * 2, True)


def test_what_was_not_read_yet_does_not_keep_a_stream_going(
    platform: SocketPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.events.stream.BUFFER_EVENTS", 10)
    client = ab.Client(platform.base_url, credentials=KEY)
    platform.add(*[event(n) for n in range(100)])
    stream = client.sessions.stream("s", from_id=reader.BEGINNING)
    next_events(stream, 1)
    client.close()
    with pytest.raises(ab.StreamClosed):
        next(stream)
    with pytest.raises(ab.StreamClosed):
        stream.get(timeout_s=60)


def test_a_closed_client_opens_no_stream(platform: SocketPlatform) -> None:
    client = ab.Client(platform.base_url, credentials=KEY)
    client.close()
    with pytest.raises(ab.StreamClosed, match="This client is closed"):
        client.sessions.stream("s", from_id=reader.BEGINNING).get(timeout_s=WITHIN_S)


def test_async_iterators_raise(platform: SocketPlatform) -> None:
    async def read() -> None:
        client = ab.AsyncClient(platform.base_url, credentials=KEY)
        stream = client.sessions.stream("s", from_id=reader.BEGINNING)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(connected, platform, 1)
        await client.aclose()
        with pytest.raises(ab.StreamClosed):
            await asyncio.wait_for(reading, WITHIN_S)

    asyncio.run(read())


def test_ask_raises(platform: SocketPlatform) -> None:
    client = ab.Client(platform.base_url, credentials=KEY)
    sent = threading.Event()
    run = type(client.asynchronous())._run

    async def send(connection: Any, call: Any) -> Any:
        if call.operation != "sessions.send":
            return await run(connection, call)
        sent.set()
        return Record()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setattr(type(client.asynchronous()), "_run", send)
        asking = pool.submit(client.sessions.ask, "s", "Anybody there?")
        assert sent.wait(60)
        client.close()
        with pytest.raises(ab.StreamClosed, match=r"sessions\.ask s: ended\. This client is closed"):
            asking.result(WITHIN_S)


def test_a_conversation_tells_that_its_client_was_closed(platform: SocketPlatform) -> None:
    client = ab.Client(platform.base_url, credentials=KEY)
    platform.add(event(0))
    conversation = Conversation(client, session="s")
    loop.run(conversation.attach(), 60)
    assert conversation.state == "idle"
    changed = threading.Event()
    conversation.listen(lambda _: changed.set() if conversation.error is not None else None)
    client.close()
    assert changed.wait(WITHIN_S)
    assert conversation.state == "failed"
    assert conversation.error is not None
    assert conversation.error.text.startswith("The client of this conversation was closed.")
    loop.run(conversation.attach(), WITHIN_S)  # to reconnect tells the same and does not hang
    assert conversation.error.text.startswith("The client of this conversation was closed.")
    loop.run(conversation.aclose(), 60)

"""Streams on a real WebSocket: exactly once and in order, across reconnects."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import agentbook as ab
from agentbook.events import reader
from agentbook.events.reader import StreamEvent
from agentbook.events.stream import BUFFER_EVENTS, Buffer, _fill
from support.fake_platform.core import START_MS
from support.fake_platform.over_socket import SocketPlatform, event
from support.streams import connected, next_events, numbers

pytestmark = pytest.mark.usefixtures("quick_backoff")

KEY = "id1:s3cret-4711"


def test_a_cursor_replays_and_then_goes_on_live(platform: SocketPlatform, client: Any) -> None:
    platform.add(*[event(n) for n in range(5)])
    with client.sessions.stream("s", from_id=event(1)["id"]) as stream:
        assert numbers(next_events(stream, 3)) == [2, 3, 4]
        platform.add(event(5))
        assert numbers(next_events(stream, 1)) == [5]
        assert stream.last_id == event(5)["id"]


def test_without_a_cursor_only_new_events_come(platform: SocketPlatform, client: Any) -> None:
    platform.add(*[event(n) for n in range(5)])
    with client.sessions.stream("s") as stream:
        while not platform.sockets:
            assert stream.get(timeout_s=0.01) is None
        platform.add(event(5))
        assert numbers(next_events(stream, 1)) == [5]


def test_since_is_a_cursor(platform: SocketPlatform, client: Any) -> None:
    from datetime import UTC, datetime

    platform.add(*[event(n) for n in range(6)])
    since = datetime.fromtimestamp((START_MS + 40) / 1000, UTC)
    with client.sessions.stream("s", since=since) as stream:
        assert numbers(next_events(stream, 2)) == [4, 5]


def test_many_cuts_lose_and_repeat_nothing(platform: SocketPlatform, client: Any) -> None:
    count, batch = 1_000, 20  # 50 cuts
    platform.sends_drafts = True
    late = set(platform.rng.sample(range(count - 100), count // 5))

    def produce() -> None:
        ready: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        for n in range(count):
            (held if n in late else ready).append(event(n))
            if n % batch == batch - 1:
                connected = len(platform.handshakes)
                platform.add(*ready)
                platform.cut(platform.rng.choice([None, 1000, 1001, 1011, 1012, 1013]))
                ready.clear()
                while len(platform.handshakes) == connected:  # every batch is cut off on a connection of its own
                    threading.Event().wait(0.001)
            if n % 50 == 49:  # up to half a second of event time late, within the overlap
                platform.add(*held)
                held.clear()
        platform.add(*ready, *held)

    producer = threading.Thread(target=produce)
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        producer.start()
        taken = numbers(next_events(stream, count))
        producer.join()
    assert sorted(taken) == list(range(count))
    # What was committed in order arrives in order; only late commits come after their
    # successors.
    punctual = [n for n in taken if n not in late]
    assert punctual == sorted(punctual)
    assert len(platform.handshakes) >= count // batch


def test_a_platform_that_accepts_and_closes_is_not_hammered(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BACKOFF_S", 0.05)
    platform.close_at_once = 1000
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        assert numbers(next_events(stream, 1)) == [0]
        assert stream.get(timeout_s=1.0) is None
    # 0.05 s doubled each time, at the least jitter: 0.025 + 0.05 + 0.1 + 0.2 + 0.4
    # reach a second with the sixth.
    assert 2 <= len(platform.handshakes) <= 8


def test_after_a_socket_that_had_been_delivering_the_next_comes_at_once(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BACKOFF_S", 600.0)  # whoever waits fails
    monkeypatch.setattr(reader, "BACKOFF_MAX_S", 600.0)
    monkeypatch.setattr(reader, "STEADY_S", 0.0)
    draft = {"id": "draft-1", "type": "runtime_draft", "content": {"delta": "…"}, "task_id": "t"}
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        for n in range(3):
            connected(platform, n + 1)
            if n % 2:
                platform.call(platform.broadcast(draft))
                assert next_events(stream, 1, drafts=True)[0]["id"] == "draft-1"
            else:
                platform.add(event(n))
                assert numbers(next_events(stream, 1)) == [n]
            platform.cut()
        connected(platform, 4)


@pytest.mark.parametrize(
    "refusal", [(400, "from_id: not an event of this session"), (400, "Bad cursor"), (404, "Event not found")]
)
def test_a_refused_cursor_is_replaced_by_the_list(
    platform: SocketPlatform, client: Any, refusal: tuple[int, str]
) -> None:
    platform.refuse_from_id = refusal
    platform.add(*[event(n, milliseconds=START_MS + n * 10_000) for n in range(4)])
    with client.sessions.stream("s", from_id=event(0, milliseconds=START_MS)["id"]) as stream:
        assert numbers(next_events(stream, 3)) == [1, 2, 3]
        platform.cut()
        platform.add(event(4, milliseconds=START_MS + 90_000))
        assert numbers(next_events(stream, 1)) == [4]


def test_a_very_large_event_arrives(platform: SocketPlatform, client: Any) -> None:
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        platform.add(event(0, content={"n": 0, "text": "x" * 12_000_000}), event(1))
        assert numbers(next_events(stream, 2)) == [0, 1]


def test_an_event_too_big_for_the_socket_is_fetched_by_rest(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.events.websocket.MAX_SIZE_BYTES", 100_000)
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        platform.add(event(0, milliseconds=START_MS))
        assert numbers(next_events(stream, 1)) == [0]
        while not platform.sockets:
            threading.Event().wait(0.001)
        platform.add(event(1, milliseconds=START_MS + 1, content={"n": 1, "text": "x" * 300_000}))
        platform.add(event(2, milliseconds=START_MS + 20_000))
        assert numbers(next_events(stream, 2)) == [1, 2]


def test_a_rate_limited_handshake_waits_at_the_gate(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.api.policy.WINDOW_S", 0.3)
    platform.add(event(0))
    platform.refuse_socket = (429, {"error": "TooManyRequests", "message": "exceeded an allotted request count"})
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        while not client.rate_limit.closed:
            threading.Event().wait(0.001)
        platform.refuse_socket = None
        assert numbers(next_events(stream, 1)) == [0]
    assert len(platform.handshakes) == 2  # refused once, then one probe; nothing in between


def test_the_handshake_is_signed_with_basic_and_accepts_json(platform: SocketPlatform) -> None:
    client = ab.Client(platform.base_url, credentials=ab.ApiKey(KEY, scheme="bearer"))
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        next_events(stream, 1)
    [handshake] = platform.handshakes
    assert handshake["authorization"] == ab.ApiKey(KEY).authorization()
    assert handshake["accept"] == "application/json"
    assert handshake["user-agent"] == f"agentbook/{ab.__version__}"
    client.close()


def test_types_are_asked_for_and_kept_to(platform: SocketPlatform, client: Any) -> None:
    platform.add(event(0), event(1, type="other"), event(2))
    with client.sessions.stream("s", from_id=reader.BEGINNING, types=["other"]) as stream:
        assert numbers(next_events(stream, 1)) == [1]
        assert stream.get(timeout_s=0.1) is None


def test_a_consumer_that_pauses_loses_nothing(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.events.stream.BUFFER_EVENTS", 10)
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        platform.add(*[event(n) for n in range(300)])
        taken = next_events(stream, 1)
        platform.cut()  # it does not wait for a consumer that takes nothing
        platform.add(event(300))
        taken += next_events(stream, 300)
    assert numbers(taken) == list(range(301))


def test_an_async_client_streams_on_its_own_loop(platform: SocketPlatform) -> None:
    platform.add(*[event(n) for n in range(3)])

    async def read() -> list[int]:
        client = ab.AsyncClient(platform.base_url, credentials=KEY)
        items = []
        async with client, client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
            async for item in stream:
                items.append(item)
                if len(items) == 3:
                    break
        return numbers(items)

    assert asyncio.run(read()) == [0, 1, 2]


def test_debug_logs_hold_no_secret(platform: SocketPlatform, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    import base64
    import logging

    caplog.set_level(logging.DEBUG)
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        next_events(stream, 1)
    client.sessions.events("s").first()
    # The fake platform itself logs what it receives; what counts is what the client's
    # libraries say.
    log_text = "\n".join(record.getMessage() for record in caplog.records if record.name != "websockets.server")
    assert "httpcore2" in {record.name.split(".")[0] for record in caplog.records}
    assert "s3cret-4711" not in log_text
    assert base64.b64encode(KEY.encode()).decode() not in log_text


def test_a_stream_that_is_left_behind_ends_by_itself(platform: SocketPlatform, client: Any) -> None:
    import gc

    platform.add(*[event(n) for n in range(3)])
    for item in client.sessions.stream("s", from_id=reader.BEGINNING):
        assert item.content.n == 0
        break
    gc.collect()
    while platform.sockets:  # it is the platform that sees it go; the test's timeout is the bound
        threading.Event().wait(0.005)


JUNK = [
    b"\xff\xfe{",
    b'{"a": "\xff"}',
    "[" * 100_000,
    "null",
    "[1]",
    '{"id": 7, "type": ["x"]}',
    '{"id": null, "content": 3}',
    "",
]


@pytest.mark.parametrize("types", [None, ["note"]])
def test_junk_on_the_socket_ends_no_stream(platform: SocketPlatform, client: Any, types: list[str] | None) -> None:
    async def send() -> None:
        for socket in platform.sockets:
            for frame in JUNK:
                await socket.send(frame)

    with client.sessions.stream("s", from_id=reader.BEGINNING, types=types) as stream:
        connected(platform, 1)
        platform.call(send())
        platform.add(event(0))
        while (item := stream.get(timeout_s=60)) is not None and item.get("type") != "note":
            assert types is None, "only what was asked for"
        assert item is not None
    assert len(platform.handshakes) == 1


def test_a_socket_that_says_nothing_is_helped_out_by_the_list(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "QUIET_S", 0.02)
    platform.is_mute = True
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        connected(platform, 1)
        platform.add(event(0), event(1))
        assert numbers(next_events(stream, 2)) == [0, 1]
        platform.is_mute = False
        platform.add(event(2))
        assert numbers(next_events(stream, 1)) == [2]
    assert len(platform.handshakes) == 1


def test_closing_ends_the_iteration(client: Any) -> None:
    stream = client.sessions.stream("s", from_id=reader.BEGINNING)
    threading.Timer(0.05, stream.close).start()
    assert list(stream) == []


def test_a_frame_that_a_lenient_encoder_wrote_arrives_at_once(platform: SocketPlatform, client: Any) -> None:
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        connected(platform, 1)
        for n, odd in enumerate([float("nan"), float("-inf"), "half an emoji \ud83d"]):
            platform.call(platform.broadcast(event(n, content={"n": n, "odd": odd})))
            [arrived] = next_events(stream, 1)
            assert arrived.content.odd == (None if isinstance(odd, float) else "half an emoji ?")


# -- drafts say that they are drafts, and can be left out ------------------------------


# A draft may have the type of a reply.
DRAFT = {"id": "draft-5-t", "type": "runtime_done", "content": {"text": "Sev"}, "task_id": "t"}
REPLY = event(1, type="runtime_done", content={"text": "Seven."})


def test_a_draft_is_marked(platform: SocketPlatform, client: Any) -> None:
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        next_events(stream, 1)
        while not platform.sockets:
            assert stream.get(timeout_s=0.005) is None
        platform.call(platform.broadcast(DRAFT))
        platform.add(REPLY)
        draft, reply = next_events(stream, 2, drafts=True)
    assert [(item.draft, item["draft"], item.get("draft")) for item in (draft, reply)] == [(True,) * 3, (False,) * 3]
    assert (draft, reply) == (DRAFT, REPLY), "the mark is not part of the event"


def test_a_stream_without_drafts(platform: SocketPlatform, client: Any) -> None:
    platform.sends_drafts = True
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING, types=["note", "runtime_draft"], drafts=False) as stream:
        items = [stream.get(timeout_s=60)]
        while not platform.sockets:
            assert stream.get(timeout_s=0.005) is None
        platform.add(event(1), event(2))
        items += [stream.get(timeout_s=60) for _ in range(2)]
    assert items == [event(0), event(1), event(2)]


def test_the_mark_is_not_stored() -> None:
    draft = StreamEvent(DRAFT)
    assert json.loads(json.dumps(draft)) == DRAFT
    assert pickle.loads(pickle.dumps(draft)).draft
    assert "draft" not in draft
    with pytest.raises(KeyError):
        draft["drafts"]
    assert StreamEvent(REPLY, draft="the platform's own")["draft"] == "the platform's own"


# -- the buffer between the toolkit's loop and whoever reads a stream ------------------


def test_a_reader_that_is_woken_for_nothing_goes_on_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads may read one stream: all are woken, and one gets the event."""
    buffer: Buffer[str] = Buffer(10)
    woken = 0

    def wake_early(_condition: threading.Condition, timeout: float | None = None) -> bool:
        nonlocal woken
        woken += 1
        if woken == 100:
            buffer.try_put("event")
        return True

    monkeypatch.setattr(threading.Condition, "wait", wake_early)
    assert buffer.get(timeout_s=10.0) == "event"


def test_a_reader_waits_no_longer_than_it_said() -> None:
    with pytest.raises(TimeoutError):
        Buffer[str](10).get(timeout_s=0.01)


def test_a_full_buffer_takes_nothing_and_a_closed_one_drops() -> None:
    buffer: Buffer[str] = Buffer(1)
    assert [buffer.try_put("a"), buffer.try_put("b")] == [True, False]
    buffer.close()
    assert buffer.try_put("c")
    assert buffer.get() == "a"


def test_a_paused_stream_holds_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    long = StreamEvent(event(0, content={"text": "x" * (16 << 20)}))

    async def events(*_: Any, **__: Any) -> AsyncIterator[StreamEvent]:
        for _each in range(1_000):
            yield long

    async def held() -> int:
        buffer: Buffer[StreamEvent] = Buffer(BUFFER_EVENTS)
        task = asyncio.create_task(_fill(buffer, None, "s", None, None, True))  # type: ignore[arg-type]
        for _each in range(1_000):
            await asyncio.sleep(0)
        assert buffer.get() == long
        task.cancel()
        return len(buffer._items)

    monkeypatch.setattr("agentbook.events.stream.subscribe", events)
    assert asyncio.run(held()) == 3

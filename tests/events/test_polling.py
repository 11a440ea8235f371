"""Streams where no WebSocket opens: they poll, lose nothing, and come back."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import agentbook as ab
from agentbook.api import policy
from agentbook.events import reader, websocket
from support.fake_platform.over_socket import SocketPlatform, event
from support.streams import next_events, numbers
from support.upgrade_proxy import CLOSE, HANG, RESET, UpgradeProxy, http

pytestmark = pytest.mark.usefixtures("quick_backoff")

KEY = "id1:s3cret-4711"
HTML = "Content-Type: text/html"
JSON = "Content-Type: application/json"
WRONG_ACCEPT = b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
# What proxies, gateways and firewalls answer to an upgrade.
ANSWERS = {
    "403": http(403, b"<html>Blocked</html>", HTML),
    "200": http(200, b"<html>Welcome</html>", HTML),
    "400 without a body": http(400),
    "401": http(401, b"Who are you?"),
    "404": http(404, b"<html>No page</html>", HTML),
    "405": http(405, b"Only GET"),
    "407": http(407),
    "426": http(426, b"Upgrade Required"),
    "429": http(429, b"Slow down"),
    "500": http(500, b"<html>Oops</html>", HTML),
    "501": http(501),
    "502": http(502, b"<html>Bad Gateway</html>", HTML),
    "503": http(503),
    "504": http(504, b"{}", JSON),
    "JSON of a gateway": http(403, b'{"message": "Forbidden"}', JSON),
    "JSON of another kind": http(403, b'{"error": {"code": 7}}', JSON),
    "a redirect": http(302, b"", "Location: http://127.0.0.1:1/login"),
    "a redirect that is kept": http(308, b"", "Location: http://127.0.0.1:1/login"),
    "101 with a wrong header": WRONG_ACCEPT,
    "101 without headers": b"HTTP/1.1 101 x\r\n\r\n",
    "no HTTP": b"\x15\x03\x01\x00\x02\x02F",
    "a reset": RESET,
    "a close": CLOSE,
    "no answer": HANG,
}


@pytest.fixture
def proxy(platform: SocketPlatform) -> Iterator[UpgradeProxy]:
    with UpgradeProxy(platform.port) as running:
        yield running


@pytest.fixture
def blocked(proxy: UpgradeProxy) -> Iterator[ab.Client]:
    with ab.Client(proxy.base_url, credentials=KEY, deadline_s=1.0) as client:
        yield client


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "POLL_S", 0.01)
    monkeypatch.setattr(reader, "POLL_MAX_S", 0.05)
    monkeypatch.setattr(websocket, "OPEN_TIMEOUT_S", 0.3)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The reader's clock, which a test can put forward."""
    clock = SimpleNamespace(ahead_s=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.ahead_s
    monkeypatch.setattr(reader, "time", clock)
    return clock


def wait_until(condition: Any) -> None:
    """Wait for what the platform sees; the test's timeout is the bound."""
    while not condition():
        threading.Event().wait(0.002)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stream_polls_where_something_else_refuses_the_socket(
    platform: SocketPlatform, proxy: UpgradeProxy, blocked: ab.Client, answer: str
) -> None:
    proxy.answer = lambda: ANSWERS[answer]
    platform.add(event(0), event(1), event(2, type="other"))
    with blocked.sessions.stream("s", from_id=reader.BEGINNING, types=["note"]) as stream:
        assert numbers(next_events(stream, 2)) == [0, 1]
        platform.add(event(3, type="other"), event(4))
        assert numbers(next_events(stream, 1)) == [4]
    assert platform.handshakes == []


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1011])
def test_a_stream_polls_where_sockets_open_only_to_close(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(reader, "REFUSED_WITHIN_S", 60.0)
    monkeypatch.setattr(reader, "BACKOFF_MAX_S", 0.01)
    monkeypatch.setattr(reader, "RETRY_SOCKET_S", 60.0)
    platform.close_at_once = 1011 if code == 1006 else code
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        wait_until(lambda: platform.lists > 3)  # one with each socket, then by polling
        platform.add(*[event(n) for n in range(3)])
        assert numbers(next_events(stream, 3)) == [0, 1, 2]
    assert len(platform.handshakes) == 3


def test_a_stream_goes_back_to_the_socket_when_one_opens(
    platform: SocketPlatform, proxy: UpgradeProxy, blocked: ab.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RETRY_SOCKET_S", 0.01)
    proxy.answer = lambda: ANSWERS["403"]
    platform.add(event(0))
    with blocked.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        assert numbers(next_events(stream, 1)) == [0]
        wait_until(lambda: proxy.refused > 2)
        proxy.answer = lambda: None
        draft = {"id": "draft-1", "type": "runtime_draft", "content": {"delta": "x"}}
        while (arrived := stream.get(timeout_s=0.05)) is None:
            platform.call(platform.broadcast(draft))
        assert arrived.draft


def test_a_socket_that_is_tried_again_delays_no_event(
    platform: SocketPlatform, proxy: UpgradeProxy, blocked: ab.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RETRY_SOCKET_S", 0.01)
    proxy.answer = lambda: ANSWERS["403"]
    platform.add(event(0))
    with blocked.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        assert numbers(next_events(stream, 1)) == [0]
        monkeypatch.setattr(websocket, "OPEN_TIMEOUT_S", 600.0)  # whoever waits for it fails
        proxy.answer = lambda: HANG
        refused = proxy.refused
        wait_until(lambda: proxy.refused > refused)
        platform.add(event(1))
        assert numbers(next_events(stream, 1)) == [1]
    with blocked.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        assert numbers(next_events(stream, 2)) == [0, 1], "the client knows it from the first stream"


@pytest.mark.parametrize("seed", range(3))
def test_changing_between_socket_and_polling_loses_and_repeats_nothing(
    platform: SocketPlatform, proxy: UpgradeProxy, blocked: ab.Client, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(reader, "RETRY_SOCKET_S", 0.002)
    monkeypatch.setattr(reader, "RETRY_SOCKET_MAX_S", 0.01)
    monkeypatch.setattr(reader, "BACKOFF_MAX_S", 0.01)
    monkeypatch.setattr(policy, "BACKOFF_S", 0.002)
    monkeypatch.setattr(websocket, "OPEN_TIMEOUT_S", 60.0)
    rng = random.Random(seed)
    blocks = False
    answers = [answer for answer in ANSWERS.values() if answer != HANG]  # nothing here waits for time to pass
    proxy.answer = lambda: rng.choice(answers) if blocks else None
    count, batch = 200, 10
    late = set(rng.sample(range(count - 50), count // 5))
    platform.sends_drafts = True

    def change() -> None:
        """Let sockets be refused from now on, or opened again, or only cut the one."""
        nonlocal blocks
        refused, passed = proxy.refused, proxy.passed
        if blocks:
            blocks = False
            wait_until(lambda: proxy.passed > passed + 1)  # one that tries, and one that stays
            return
        blocks = rng.random() < 0.7
        cut = rng.choice([proxy.cut, platform.cut, lambda: platform.cut(1001)])
        # The one that stays may not be open yet, so sockets are cut until another one
        # is tried.
        wait_until(
            lambda: (platform.sockets and cut()) or (proxy.refused > refused if blocks else proxy.passed > passed)
        )

    def produce() -> None:
        held: list[Any] = []
        wait_until(lambda: platform.sockets)
        for start in range(0, count, batch):
            held += [event(n) for n in range(start, start + batch) if n in late]
            platform.add(*[event(n) for n in range(start, start + batch) if n not in late])
            change()
            if start % 40 == 0:
                platform.add(*held)
                held.clear()
        platform.add(*held)

    producer = threading.Thread(target=produce)
    with blocked.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        producer.start()
        taken = numbers(next_events(stream, count))
        producer.join()
    assert sorted(taken) == list(range(count))
    punctual = [n for n in taken if n not in late]
    assert punctual == sorted(punctual)


def test_a_platform_that_is_out_of_reach_ends_the_stream(
    platform: SocketPlatform, proxy: UpgradeProxy, blocked: ab.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "GIVE_UP_S", 0.5)
    platform.add(event(0))
    with blocked.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        assert numbers(next_events(stream, 1)) == [0]
        proxy.down = True
        proxy.cut()
        with pytest.raises(ab.StreamClosed) as raised:
            stream.get(timeout_s=60)
    assert raised.value.last_id == event(0)["id"]


@pytest.mark.parametrize("credentials", [KEY, ab.OAuthToken("token")], ids=["socket", "polling"])
@pytest.mark.parametrize("sleeps", [False, True], ids=["quiet before the drop", "asleep after the drop"])
def test_patience_counts_from_the_drop_and_only_while_something_is_tried(
    platform: SocketPlatform, proxy: UpgradeProxy, clock: SimpleNamespace, credentials: Any, sleeps: bool
) -> None:
    seen = threading.Event()
    with (
        ab.Client(proxy.base_url, credentials=credentials, deadline_s=0.05) as client,
        client.sessions.stream("s", from_id=reader.BEGINNING) as stream,
    ):
        wait_until(lambda: platform.lists and (platform.sockets or credentials is not KEY))
        if not sleeps:
            clock.ahead_s += 10 * reader.GIVE_UP_S
        real = proxy.finish_request
        proxy.finish_request = lambda *args: (seen.set(), real(*args))  # type: ignore[method-assign, assignment]
        proxy.down = True
        proxy.cut()
        for _ in range(4):
            seen.clear()
            assert seen.wait(60)
        if sleeps:
            clock.ahead_s += 10 * reader.GIVE_UP_S
            for _ in range(4):
                seen.clear()
                assert seen.wait(60)
        proxy.down = False
        platform.add(event(0))
        assert numbers(next_events(stream, 1)) == [0]


def test_a_client_says_once_that_its_streams_poll(
    platform: SocketPlatform, proxy: UpgradeProxy, caplog: pytest.LogCaptureFixture
) -> None:
    platform.add(event(0))

    def told() -> int:
        return sum(record.levelno >= logging.WARNING and record.name == "agentbook" for record in caplog.records)

    with ab.Client(proxy.base_url, credentials=KEY) as client:
        with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
            next_events(stream, 1)
        assert told() == 0
        proxy.answer = lambda: ANSWERS["403"]
        for _ in range(2):
            with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
                next_events(stream, 1)
                lists = platform.lists
                wait_until(lambda lists=lists: platform.lists > lists)
            assert told() == 1
    with (
        ab.Client(proxy.base_url, credentials=ab.OAuthToken("token")) as client,
        client.sessions.stream("s", from_id=reader.BEGINNING) as stream,
    ):
        next_events(stream, 1)
        wait_until(lambda: told() == 2)
    assert "s3cret" not in caplog.text

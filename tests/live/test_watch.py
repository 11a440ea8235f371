"""A history stays up to date, and what goes wrong meanwhile is survived and shown."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import queue
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pandas as pd
import pytest

import agentbook as ab
from agentbook.api import policy
from agentbook.api.transport import SyncTransport
from agentbook.live import watch as watching
from agentbook.live.watch import html_of, send_message
from frames.accounts import Account, busy_account
from support.clients import client_of

WAIT_S = 60  # for what comes at once unless something is wrong


class ManualClock:
    """Clocks that a test turns; `asleep` gets the seconds of each sleep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._monotonic, self._wall = 1000.0, 1_800_000_000.0
        self._sleepers: list[tuple[float, asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.asleep: queue.Queue[float] = queue.Queue()

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._wall

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        with self._lock:
            self._sleepers.append((self._monotonic + seconds, asyncio.get_running_loop(), woken))
        self.asleep.put(seconds)
        await woken.wait()

    def turn(self, seconds: float, *, wall: float | None = None) -> None:
        """Let time pass; `wall` seconds by the clock on the wall."""
        with self._lock:
            self._monotonic += seconds
            self._wall += seconds if wall is None else wall
            due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._monotonic]
            self._sleepers = [sleeper for sleeper in self._sleepers if sleeper not in due]
        for _, loop, woken in due:
            loop.call_soon_threadsafe(woken.set)

    def turn_until_asleep(self, seconds: float, *, wall: float | None = None) -> None:
        """Let time pass, and wait until the watch sleeps again."""
        self.turn(seconds, wall=wall)
        self.asleep.get(timeout=WAIT_S)


class Watched:
    """A platform and a watch of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every: str) -> None:
        self.platform = busy_account()
        self.clock = ManualClock()
        self.fault: Callable[[httpx.Request], httpx.Response | None] = lambda request: None
        for name in ("monotonic", "wall", "sleep"):
            monkeypatch.setattr(watching, name, getattr(self.clock, name))
        monkeypatch.setattr(watching, "RATE_LIMIT_POLL_S", 0.005)
        monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.001)
        monkeypatch.setattr("agentbook.api.policy.WINDOW_S", 0.001)
        self.client = client_of(lambda request: self.fault(request) or self.platform.respond(request))
        self.watch = ab.watch(self.client, account="acme", every=every)
        self.clock.asleep.get(timeout=WAIT_S)
        self.statuses: queue.Queue[Any] = queue.Queue()
        self.watch.on_status(self.statuses.put)
        self.platform.paths.clear()

    def state(self) -> str:
        return str(self.statuses.get(timeout=WAIT_S).state)


@pytest.fixture
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    every = getattr(request, "param", "10s")
    watched = Watched(monkeypatch, every)
    yield watched
    watched.watch.stop()


def test_what_is_new_arrives_with_one_request_per_workspace_and_session(watched: Watched) -> None:
    histories: queue.Queue[ab.History] = queue.Queue()
    watched.watch.on_change(histories.put)
    before = watched.watch.history
    watched.clock.turn_until_asleep(5)
    assert not watched.platform.paths, "not due yet"
    watched.clock.turn_until_asleep(5)
    assert dict(watched.platform.paths) == {"workspaces/lab/sessions": 1, "workspaces/desk/sessions": 1}
    assert watched.watch.history is before
    watched.platform.say("s1", 30)
    watched.clock.turn(5)
    watched.clock.asleep.get(timeout=WAIT_S)
    watched.clock.turn(5)
    history = histories.get(timeout=WAIT_S)
    assert watched.watch.history is history
    assert watched.platform.event_requests() == {"s1": 1}
    assert len(history.turns) == len(before.turns) + 1 == 7
    assert set(history.turns["agent"]) == {"helper"}
    pd.testing.assert_frame_equal(history.events, ab.load_history(watched.client, "acme").events.pipe(by_session))


def by_session(events: pd.DataFrame) -> pd.DataFrame:
    return events.sort_values(["session_id", "id"], ignore_index=True)


def test_a_network_lost_between_two_requests_is_shown_and_loses_nothing(watched: Watched) -> None:
    def cut(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("s3/events"):
            raise httpx.ReadError("the cable is cut", request=request)
        return None

    watched.fault = cut
    for name in ("s1", "s3"):
        watched.platform.say(name, 30)
    watched.clock.turn_until_asleep(10)
    assert watched.state() == "offline"
    assert "the cable is cut" in watched.watch.status.reason
    watched.fault = lambda request: None
    watched.platform.paths.clear()
    watched.clock.turn_until_asleep(10)
    assert watched.state() == "watching"
    assert watched.platform.event_requests() == {"s3": 1}
    assert not watched.watch.history.events.duplicated(["session_id", "id"]).any()
    assert len(watched.watch.history.turns) == 8


def test_a_rate_limit_is_shown_while_it_lasts(watched: Watched) -> None:
    refused, goes_on = threading.Event(), threading.Event()

    def limit(request: httpx.Request) -> httpx.Response | None:
        if not refused.is_set():
            refused.set()
            return httpx.Response(429, json={"error": "TooManyRequests", "message": "Rate limit exceeded."})
        goes_on.wait(WAIT_S)  # the probe
        return None

    watched.fault = limit
    watched.clock.turn(10)
    assert watched.state() == "rate limited"
    goes_on.set()
    assert watched.state() == "watching"


@pytest.mark.parametrize("watched", ["1h"], indirect=True)
def test_a_computer_that_slept_looks_at_once(watched: Watched) -> None:
    watched.platform.say("s1", 30)
    watched.clock.turn_until_asleep(5)
    assert not watched.platform.paths
    watched.clock.turn_until_asleep(5, wall=8 * 3600)
    assert watched.platform.event_requests() == {"s1": 1}
    watched.clock.turn_until_asleep(5, wall=-9 * 3600)
    watched.clock.turn_until_asleep(3600, wall=3600)
    assert watched.platform.paths["workspaces/lab/sessions"] == 2, "a clock that is set back delays nothing"


def test_attempts_get_rarer_but_never_rarer_than_a_minute(watched: Watched) -> None:
    attempts = itertools.count()

    def cut(request: httpx.Request) -> httpx.Response:
        next(attempts)
        raise httpx.ConnectError("the cable is cut", request=request)

    watched.fault = cut
    delays, seen = [0], 0
    while len(delays) < 7:
        watched.clock.turn_until_asleep(5)
        delays[-1] += 5
        if (made := next(attempts)) > seen:
            delays.append(0)
        seen = made + 1
    assert delays[:6] == [10, 10, 20, 40, 60, 60]


def test_a_callback_that_raises_is_logged_and_stops_nothing(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    histories: queue.Queue[ab.History] = queue.Queue()

    def fail(history: ab.History) -> None:
        raise ZeroDivisionError("of the analyst")

    watched.watch.on_change(fail)
    end = watched.watch.on_change(histories.put)
    with caplog.at_level(logging.ERROR, "agentbook"):
        watched.platform.say("s1", 30)
        watched.clock.turn_until_asleep(10)
        assert len(histories.get(timeout=WAIT_S).turns) == 7
    assert "of the analyst" in caplog.text
    end()
    watched.platform.say("s1", 31)
    watched.clock.turn_until_asleep(10)
    assert histories.empty()
    assert len(watched.watch.history.turns) == 8


def test_a_rule_that_fires_is_said_once(watched: Watched) -> None:
    messages: list[dict[str, Any]] = []
    end = watched.watch.alert({"analysis": "latency", "limit": "n <= 6"}, messages.append)
    assert messages == []
    for minute in (30, 31):
        watched.platform.say("s1", minute)
        watched.clock.turn_until_asleep(10)
    assert [message["fired"] for message in messages] == [1], "it went on firing"
    at_once: list[dict[str, Any]] = []
    watched.watch.alert([{"analysis": "latency", "limit": "n <= 7"}], at_once.append)
    assert at_once[0]["rules"][0]["reason"] == "n is 8, not <= 7"
    fired = [f"latency: n <= {limit}: n is 8, not <= {limit}" for limit in (6, 7)]
    assert watched.watch.status.line.endswith(f" ▲ {fired[0]} ▲ {fired[1]}")
    end()
    assert watched.watch.status.fired == (fired[1],)
    with pytest.raises(ValueError, match="p95_s"):
        watched.watch.alert({"analysis": "latency", "limit": "p95 < 1"}, print)
    with pytest.raises(ValueError, match="https://"):
        watched.watch.alert({"analysis": "latency", "limit": "n <= 99"}, "http://hooks.example.com/x")


def test_after_stop_nothing_is_asked(watched: Watched) -> None:
    watched.watch.stop("enough")
    watched.watch.stop()
    assert watched.state() == "stopped"
    assert watched.statuses.empty()
    watched.clock.turn(100)
    assert ": enough; <History" in repr(watched.watch)
    assert not watched.platform.paths
    assert not watched.client.asynchronous()._callbacks, "the client keeps nothing of it"


def test_a_revoked_key_ends_the_watch_and_says_why(watched: Watched) -> None:
    watched.fault = lambda request: httpx.Response(401, json={"error": "Unauthorized", "message": "Unknown key."})
    watched.clock.turn(10)
    assert watched.state() == "stopped"
    assert "Call ab.watch again" in watched.watch.status.reason


def test_a_cell_that_is_run_again_replaces_its_watch(watched: Watched) -> None:
    again = ab.watch(watched.client, account="acme")
    assert watched.state() == "stopped"
    assert "replaced" in watched.watch.status.reason
    watched.client.close()
    assert again.status.state == "stopped"
    assert "client was closed" in again.status.reason


def test_some_workspaces_of_a_span() -> None:
    platform = busy_account()
    with ab.watch(platform.client(), "acme~lab", since=platform.moment(3 * 60_000)) as watch:
        assert sorted(set(watch.history.events["session_id"])) == ["s4"]
        assert watch.history.workspaces["full_name"].tolist() == ["acme~lab"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "soon"}, "every must be a length of time"),
        ({"every": 10}, "a number has no unit"),
        ({"every": "10ms"}, "a second or more"),
        ({"since": "never"}, "since must be a time"),
    ],
)
def test_an_invalid_argument_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ab.watch(Account({}, workspaces={}).client(), **options)


def test_it_ends_with_the_process() -> None:
    code = """
        import agentbook as ab
        from frames.accounts import busy_account
        watch = ab.watch(busy_account().client(), account="acme", every="1h")
        print(len(watch.history.turns), flush=True)
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=WAIT_S, env=environment
    )
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == ("6", "", 0)


# -- what is displayed -------------------------------------------------------------


class Display:
    """Stands in for IPython's display: the bundle of each display and update."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bundles: list[dict[str, str]] = []
        monkeypatch.setattr("IPython.display.display", self)
        monkeypatch.setattr("agentbook.live.watch.in_kernel", lambda: True)

    def __call__(self, bundle: dict[str, str], **options: Any) -> Display:
        assert options == {"raw": True, "display_id": True}
        self.bundles.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.bundles.append(bundle)


def test_what_is_shown_is_redrawn_in_place(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Display(monkeypatch)
    watched.watch.show(lambda history: history.turns[["agent"]].head(len(history.turns)))
    assert shown.bundles[-1]["text/html"].count("helper") == 6
    watched.platform.say("s1", 30)
    watched.clock.turn_until_asleep(10)
    assert shown.bundles[-1]["text/html"].count("helper") == 7
    assert "● watching since" in shown.bundles[-1]["text/plain"]
    watched.watch.stop("by <me>")
    assert "■ stopped since" in shown.bundles[-1]["text/html"]
    assert "by &lt;me&gt;" in shown.bundles[-1]["text/html"]
    assert shown.bundles[-1]["text/html"].count("helper") == 7, "the last drawing stays"


def test_without_events_only_the_cell_that_shows_it_is_warned(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, empty = Display(monkeypatch), ab.load_history(Account({}, workspaces={"desk": []}).client(), "acme")
    with pytest.warns(ab.errors.EmptyWarning, match="There are no sessions"):
        watched.watch.show(lambda history: ab.activity(empty))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watched.platform.say("s1", 30)
        watched.clock.turn_until_asleep(10)
    assert [str(warning.message) for warning in caught] == []
    assert len(shown.bundles) == 2


def test_a_refused_session_is_requested_again_only_once_it_has_changed(watched: Watched) -> None:
    requests = itertools.count()

    def refuse(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/events"):
            return None
        reply = {"error": "InsufficientScope", "message": "This credential lacks the agents:read scope"}
        return httpx.Response(403, json=reply, headers={"X-Request-ID": f"r{next(requests)}"})

    histories: queue.Queue[ab.History] = queue.Queue()
    watched.watch.on_change(histories.put)
    watched.platform.say("s1", 30)
    watched.fault = refuse
    watched.clock.turn_until_asleep(10)
    assert "agents:read" in histories.get(timeout=WAIT_S).missing["session s1"]
    requested = next(requests)
    for _ in range(3):
        watched.clock.turn_until_asleep(10)
    assert next(requests) == requested + 1
    assert histories.empty()
    status = watched.statuses.get(timeout=WAIT_S)
    assert status.line.partition(": 1 session cannot be read: ")[2].count("agents:read") == 1
    assert watched.statuses.empty(), "it is shown once"
    watched.fault = lambda request: None
    watched.platform.say("s1", 31)
    watched.clock.turn_until_asleep(10)
    assert "session s1" not in histories.get(timeout=WAIT_S).missing
    assert watched.statuses.get(timeout=WAIT_S).reason == ""


def test_a_watch_that_begins_with_a_refused_session_says_so() -> None:
    platform = busy_account()
    refusal = {"error": "Forbidden", "message": "Not yours"}

    def respond(request: httpx.Request) -> httpx.Response:
        is_refused = request.url.path.endswith("sessions/s1/events")
        return httpx.Response(403, json=refusal) if is_refused else platform.respond(request)

    with ab.watch(client_of(respond), account="acme") as watch:
        assert "1 session cannot be read: " in watch.status.line
        assert "Not yours" in watch.status.reason


def test_a_drawing_that_fails_is_shown_as_its_reason(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Display(monkeypatch)
    watched.watch.show(lambda history: history.nonsense)  # type: ignore[attr-defined]
    assert "Cannot be drawn: AttributeError" in shown.bundles[-1]["text/plain"]


def test_anything_can_be_shown() -> None:
    class Chart:
        def html(self) -> str:
            return "<img>"

    assert html_of(Chart()) == "<img>"
    assert html_of("a < b") == "<pre>a &lt; b</pre>"
    assert "<table" in html_of(pd.DataFrame({"a": [1]}))


# -- where an alert goes


class Receiver:
    """Answers each POST with the next status."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.received = list(statuses), list[tuple[str, Any]]()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.path, json.loads(body)))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/tide-secret?sig=moon"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(policy, "BACKOFF_S", 0.01)
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def test_a_message_is_repeated_until_it_is_accepted(receiver: Receiver) -> None:
    receiver.statuses = [503, 500]
    send_message(receiver.url, {"id": "1"})
    assert receiver.received == [("/hooks/tide-secret?sig=moon", {"id": "1"})] * 3


@pytest.mark.parametrize("end", ["?sig=moon", "/?sig=moon#here", ""])
def test_an_address_may_have_no_path(receiver: Receiver, end: str) -> None:
    send_message(receiver.url.partition("/hooks")[0] + end, {"id": "1"})
    assert receiver.received == [("/?sig=moon" if end else "/", {"id": "1"})]


@pytest.mark.parametrize("status", [404, 302, 500, None])
def test_no_log_and_no_traceback_shows_more_of_an_address_than_its_host(
    watched: Watched, receiver: Receiver, status: int | None, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.statuses = [status or 200] * 9
    if status is None:
        monkeypatch.setattr(SyncTransport, "_receive", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(ab.errors.AgentbookError if status else KeyboardInterrupt) as raised:
        watched.watch.alert({"analysis": "latency", "limit": "n <= 0"}, receiver.url)
    shown = traceback.TracebackException(raised.type, raised.value, raised.tb.tb_next, capture_locals=True)
    report = "".join([*shown.format(), caplog.text])
    assert ("tide-secret" in report, "moon" in report) == (False, False)
    if status is not None:
        assert f"127.0.0.1 did not accept the message (HTTP {status})" in report
        assert f"HTTP Request: POST {receiver.url.partition('hooks')[0]} " in caplog.text


@pytest.mark.parametrize("url", ["http://host/x", "ftp://127.0.0.1/x", "https://me:pw@host/x", "https://h:99999", ""])
def test_nothing_is_sent_without_encryption(url: str) -> None:
    with pytest.raises(ab.errors.AgentbookError):
        send_message(url, {"id": "1"})

"""The policy alone: a generator driven by hand, with a scripted clock."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.auth import Hidden
from agentbook.api.calls import Call, Reply
from agentbook.api.endpoints import agents, me, sessions, workspaces
from agentbook.api.policy import NoReply, Send, Settings, Sleep, exchange
from agentbook.api.rate_limit import RateLimitGate

pytestmark = pytest.mark.python_versions

OK = Reply(200, {}, b'{"id": "1"}')
DOWN = NoReply("ConnectError", sent=False)
CUT = NoReply("ReadTimeout", sent=True)
OUTAGE = Reply(503, {}, b'{"message": "Something went wrong"}')
RATE = Reply(
    429, {"date": "Sat, 21 Nov 2026 10:00:30 GMT"}, b'{"message": "This user has exceeded an allotted request count."}'
)
NOT_FOUND = Reply(404, {}, b'{"error": "NotFound", "message": "Agent not found"}')


class World:
    """The network and clock of one exchange; records requests and waits."""

    def __init__(self, *outcomes: Any, deadline_s: float = 180.0) -> None:
        self.now = 0.0
        self.outcomes = list(outcomes)
        self.sent: list[Send] = []
        self.slept: list[float] = []
        clock = lambda: self.now  # noqa: E731
        self.gate = RateLimitGate(clock)
        self.settings = Settings(
            "http://h/v1",
            None,
            self.gate,
            30.0,
            deadline_s,
            clock,
            lambda: 1_700_000_000.0 + self.now,
            random.Random(0),
        )

    def run(self, call: Call[Any], openapi: Callable[[], Any] | None = None) -> Any:
        steps = exchange(call, self.settings, openapi or self._no_openapi)
        outcome = None
        try:
            while True:
                step = steps.send(outcome)
                if isinstance(step, Sleep):
                    self.slept.append(step.seconds)
                    self.now += step.seconds
                    outcome = None
                else:
                    self.sent.append(step)
                    self.now += 0.01
                    outcome = self.outcomes.pop(0)
        except StopIteration as stop:
            return stop.value

    @staticmethod
    def _no_openapi() -> Any:
        raise AssertionError("openapi.yaml is read only where a call needs it")


def test_a_good_reply_is_read_and_nothing_is_waited_for() -> None:
    world = World(OK)
    assert world.run(me.get()) == {"id": "1"}
    assert [(send.method, send.path) for send in world.sent] == [("GET", "me")]
    assert world.slept == []


@pytest.mark.proves("5xx and network errors of reads: exponential backoff, jitter")
@pytest.mark.parametrize("trouble", [DOWN, CUT, OUTAGE])
def test_a_read_is_retried_with_backoff_and_jitter(trouble: Any) -> None:
    world = World(trouble, trouble, trouble, OK)
    assert world.run(me.get()) == {"id": "1"}
    assert len(world.sent) == 4
    for wait, step in zip(world.slept, (0.5, 1.0, 2.0), strict=True):
        assert step / 2 <= wait <= step


@pytest.mark.proves("5xx and network errors of reads: exponential backoff, jitter")
def test_a_read_gives_up_with_the_typed_error() -> None:
    with pytest.raises(ab.ServerError):
        World(*[OUTAGE] * 9).run(me.get())
    with pytest.raises(ab.DeadlineExceeded) as raised:
        World(*[CUT] * 9, deadline_s=2.0).run(me.get())
    assert isinstance(raised.value.__cause__, ab.ConnectionFailed)


@pytest.mark.proves("an unchanged 4xx is not sent again")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413])
def test_no_4xx_is_sent_again(status: int) -> None:
    world = World(Reply(status, {}, b'{"message": "no"}'))
    with pytest.raises(ab.ApiError) as raised:
        world.run(me.get())
    assert raised.value.status == status
    assert len(world.sent) == 1


@pytest.mark.proves("a run limit is not retried")
def test_a_run_limit_is_not_waited_for() -> None:
    world = World(Reply(429, {}, b'{"message": "exceeded LLM call limit for this execution tree"}'))
    with pytest.raises(ab.ExecutionLimit):
        world.run(sessions.send("s", "hello"))
    assert len(world.sent) == 1
    assert not world.gate.closed


@pytest.mark.proves("429: wait for the next minute")
def test_the_rate_limit_waits_for_the_next_minute_even_for_a_write() -> None:
    world = World(RATE, OK)
    assert world.run(workspaces.create("w")) == {"id": "1"}
    assert world.slept == [pytest.approx(30.0)]


@pytest.mark.proves("one deadline over the whole call")
def test_the_deadline_covers_the_waiting() -> None:
    world = World(RATE, deadline_s=20.0)
    with pytest.raises(ab.DeadlineExceeded, match="rate limit"):
        world.run(me.get())
    assert len(world.sent) == 1


def test_a_deadline_says_what_came_last() -> None:
    world = World(*[NoReply("DecodingError: incorrect header check", sent=True)] * 9, deadline_s=2.0)
    with pytest.raises(ab.DeadlineExceeded, match=r"within 2 s \(DecodingError: incorrect header check\)\. Raise"):
        world.run(me.get())


def test_a_write_is_sent_again_only_when_nothing_was_applied() -> None:
    world = World(DOWN, OK)
    assert world.run(workspaces.create("w")) == {"id": "1"}
    assert len(world.sent) == 2
    for trouble in (CUT, OUTAGE):
        world = World(trouble)
        with pytest.raises(ab.OutcomeUnknown):
            world.run(workspaces.create("w"))
        assert len(world.sent) == 1


def body(**fields: Any) -> Reply:
    return Reply(200, {}, ab.errors.msgspec.json.encode(fields))


@pytest.mark.proves("a timed-out write: read first")
def test_a_named_create_is_read_back_after_a_lost_reply() -> None:
    ours = body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="LLM")
    world = World(CUT, ours)
    assert world.run(agents.create("helper", template="LLM")).id == "1"
    assert [(send.method, send.path) for send in world.sent] == [("POST", "agents"), ("GET", "agents/helper")]


@pytest.mark.proves("a timed-out write: read first")
@pytest.mark.parametrize(
    "reply",
    [
        NOT_FOUND,
        body(id="1", name="helper", created_at="2023-11-14T20:00:00Z", template="LLM"),  # older than the call
        body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="BLANK"),  # not what was sent
        body(id="1", name="helper"),
        Reply(200, {}, b"[]"),
    ],
)
def test_what_is_read_back_must_be_what_was_sent(reply: Reply) -> None:
    world = World(CUT, reply)
    with pytest.raises(ab.OutcomeUnknown):
        world.run(agents.create("helper", template="LLM"))
    assert [send.method for send in world.sent] == ["POST", "GET"]


@given(st.lists(st.sampled_from([DOWN, CUT, OUTAGE, RATE, OK, NOT_FOUND]), min_size=1, max_size=12))
def test_a_write_reaches_the_platform_at_most_once(outcomes: list[Any]) -> None:
    world = World(*outcomes, *[OK] * 12, deadline_s=10_000)
    with contextlib.suppress(ab.AgentbookError):
        world.run(sessions.send("s", "hello"))
    used = [*outcomes, *[OK] * 12][: len(world.sent)]
    assert sum(outcome in (CUT, OUTAGE, OK) for outcome in used) <= 1


class Renewable:
    identity = "oauth:x"

    def authorization(self) -> str:
        return "Bearer 4711-4712"

    def socket_authorization(self) -> str | None:
        return None

    def refresh(self, refused: str) -> bool:
        raise AssertionError("it is the driver that renews")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "Unauthorized", "message": "Invalid OAuth token"}',
        b'{"error": "invalid_token", "error_description": "x"}',
        b"",
    ],
)
def test_a_refused_token_is_renewed_once_whatever_the_body(body: bytes) -> None:
    expired = Reply(401, {}, body)
    for outcomes in ([expired, True, OK], [expired, True, expired], [expired, False]):
        world = World(*outcomes)
        world.settings = replace(world.settings, credentials=Renewable())
        with contextlib.nullcontext() if outcomes[-1] is OK else pytest.raises(ab.ApiError, match="401"):
            world.run(me.get())
        assert [type(step).__name__ for step in world.sent] == ["Send", "Refresh", "Send"][: len(outcomes)]


def test_an_error_that_repeats_a_form_shows_none_of_its_secrets() -> None:
    form = {"grant_type": "authorization_code", "code": Hidden("one-time"), "code_verifier": Hidden("pk-ce")}
    call: Call[Any] = Call("sign_in", "POST", "", lambda reply: None, form=form, write=True)
    with pytest.raises(ab.ApiError, match="authorization_code") as raised:
        World(Reply(422, {}, b'{"detail": "authorization_code one-time pk-ce"}')).run(call)
    assert not {"one-time", "pk-ce"} & set(str(raised.value).split())


def test_a_reply_that_is_not_json_says_so() -> None:
    with pytest.raises(ab.ApiError, match="/v1"):
        World(Reply(200, {"content-type": "text/html"}, b"<html>")).run(me.get())


def test_a_write_whose_reply_is_not_json_may_have_been_applied() -> None:
    world = World(Reply(200, {}, b"OK"))
    with pytest.raises(ab.OutcomeUnknown, match="may have been applied"):
        world.run(sessions.send("s", "hello"))
    ours = body(id="1", name="helper", created_at="2023-11-14T22:13:20Z", template="LLM")
    assert World(Reply(201, {}, b"Created"), ours).run(agents.create("helper", template="LLM")).id == "1"


@pytest.mark.proves("a redirect is not followed")
def test_a_redirect_is_refused() -> None:
    with pytest.raises(ab.ApiError, match="redirected"):
        World(Reply(302, {"location": "http://elsewhere/"}, b"")).run(me.get())


def test_an_interrupted_probe_makes_room_for_another() -> None:
    world = World()
    world.gate.refused(None)
    world.now = 61.0
    steps = exchange(me.get(), world.settings, World._no_openapi)
    assert isinstance(next(steps), Send)
    steps.close()
    assert world.gate.admit() == 0.0


DEEP = b"[" * 100_000 + b"]" * 100_000


def test_json_without_end_is_no_reply_and_no_crash() -> None:
    with pytest.raises(ab.ApiError, match="not the JSON that was expected"):
        World(Reply(200, {}, DEEP)).run(me.get())
    with pytest.raises(ab.NotFound):
        World(Reply(404, {}, DEEP)).run(me.get())

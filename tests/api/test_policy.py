"""The policy alone: a generator driven by hand, with a scripted clock."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook._masking import Hidden
from agentbook.api.calls import Call, Reply
from agentbook.api.endpoints import agents, me, sessions, workspaces
from agentbook.api.policy import RETRIES, NoReply, Send, request_flow, sent_at
from api.world import CUT, DOWN, NOT_FOUND, OK, OUTAGE, RATE, World


def test_a_good_reply_is_read_and_nothing_is_waited_for() -> None:
    world = World(OK)
    assert world.run(me.get()) == {"id": "1"}
    assert [(send.method, send.path) for send in world.sent] == [("GET", "me")]
    assert world.slept == []


@pytest.mark.parametrize("trouble", [DOWN, CUT, OUTAGE])
def test_a_read_is_retried_with_backoff_and_jitter(trouble: Any) -> None:
    world = World(trouble, trouble, trouble, OK)
    assert world.run(me.get()) == {"id": "1"}
    assert len(world.sent) == 4
    for wait, step in zip(world.slept, (0.5, 1.0, 2.0), strict=True):
        assert step / 2 <= wait <= step


def test_a_read_gives_up_with_the_typed_error() -> None:
    with pytest.raises(ab.ServerError):
        World(*[OUTAGE] * 9).run(me.get())
    with pytest.raises(ab.DeadlineExceeded) as raised:
        World(*[CUT] * 9, deadline_s=2.0).run(me.get())
    assert isinstance(raised.value.__cause__, ab.ConnectionFailed)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413])
def test_no_4xx_is_sent_again(status: int) -> None:
    world = World(Reply(status, {}, b'{"message": "no"}'))
    with pytest.raises(ab.ApiError) as raised:
        world.run(me.get())
    assert raised.value.status == status
    assert len(world.sent) == 1


def test_a_run_limit_is_not_waited_for() -> None:
    world = World(Reply(429, {}, b'{"message": "exceeded LLM call limit for this execution tree"}'))
    with pytest.raises(ab.ExecutionLimit):
        world.run(sessions.send("s", "hello"))
    assert len(world.sent) == 1
    assert not world.rate_limit.closed


def test_the_rate_limit_waits_for_the_next_minute_even_for_a_write() -> None:
    world = World(RATE, OK)
    assert world.run(workspaces.create("w")) == {"id": "1"}
    assert world.slept == [pytest.approx(30.0)]


def test_a_limit_per_hour_does_not_advise_to_wait_for_the_next_minute() -> None:
    call = replace(agents.get("x"), wait_for_rate_limit=False)
    with pytest.raises(ab.RateLimited) as raised:
        World(RATE).run(call)
    assert "minute" not in str(raised.value)
    assert "hour" in str(raised.value)


def test_the_deadline_covers_the_waiting() -> None:
    world = World(RATE, deadline_s=20.0)
    # The second call sends nothing: it waits for the minute after the first one's 429.
    for _ in range(2):
        with pytest.raises(ab.DeadlineExceeded, match="rate limit") as raised:
            world.run(me.get())
        assert isinstance(raised.value.__cause__, ab.RateLimited)
        assert raised.value.__cause__.status == 429
    assert len(world.sent) == 1


def test_a_deadline_says_what_came_last() -> None:
    world = World(*[NoReply("DecodingError: incorrect header check", sent=True)] * 9, deadline_s=2.0)
    with pytest.raises(ab.DeadlineExceeded, match=r"within 2 s \(DecodingError: incorrect header check\)\. Raise"):
        world.run(me.get())


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
    call: Call[Any] = Call("sign_in", "POST", "", lambda reply: None, form=form)
    with pytest.raises(ab.ApiError, match="authorization_code") as raised:
        World(Reply(422, {}, b'{"message": "authorization_code one-time pk-ce"}')).run(call)
    assert not {"one-time", "pk-ce"} & set(str(raised.value).split())


DEEP = b"[" * 100_000 + b"]"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(200, {"content-type": "text/html"}, b"<html>"), "/v1"),
        (Reply(302, {"location": "http://elsewhere/"}, b""), "redirected"),
        (Reply(200, {}, DEEP), "not the JSON that was expected"),
        (Reply(404, {}, DEEP), "404"),
    ],
    ids=["HTML", "a redirect", "without an end", "a refusal without an end"],
)
def test_a_reply_that_is_no_json_of_a_platform_says_so(reply: Reply, message: str) -> None:
    with pytest.raises(ab.ApiError, match=message):
        World(reply).run(me.get())


def test_a_retry_after_of_a_busy_platform_is_waited_for() -> None:
    world = World(Reply(503, {"retry-after": "7"}, b"<h1>503</h1>"), OK)
    assert world.run(me.get()) == {"id": "1"}
    assert world.slept == [7.0]
    with pytest.raises(ab.ServerError):
        World(Reply(503, {"retry-after": "3600"}, b""), OK).run(me.get())


BODY = '{"id": "1", "name": "Zoë", "cost": -12.5e3, "n": [1, NaN, {}]}'.encode()


def test_a_read_whose_reply_was_cut_off_is_sent_again_and_a_write_is_not() -> None:
    for end in range(len(BODY)):
        cut_off = Reply(200, {}, BODY[:end])
        assert World(cut_off, OUTAGE, cut_off, OK).run(me.get()) == {"id": "1"}
        with pytest.raises(ab.OutcomeUnknown):
            World(cut_off).run(agents.configure_llm("a", system_prompt="p", description="d"))


def test_what_is_cut_off_again_and_again_or_is_no_json_at_all_is_an_error() -> None:
    world = World(*[Reply(200, {}, b'{"id": ')] * 9)
    with pytest.raises(ab.ApiError, match="truncated"):
        world.run(me.get())
    assert len(world.sent) == 1 + RETRIES
    for whole in (Reply(200, {}, b"<html>"), Reply(200, {}, b'{"a" 1}'), Reply(204, {}, b"")):
        with pytest.raises(ab.ApiError):
            World(whole).run(me.get())


def test_an_interrupted_probe_makes_room_for_another() -> None:
    world = World()
    world.rate_limit.on_429(None)
    world.now = 61.0
    steps = request_flow(me.get(), world.settings, World.no_openapi)
    assert isinstance(next(steps), Send)
    steps.close()
    assert world.rate_limit.delay_s() == 0.0


def test_when_a_write_was_sent_is_known_without_what_it_waited() -> None:
    world = World(RATE, OK)
    world.run(sessions.start("lab", agent_id="a", prompt="Hi"))
    assert sum(world.slept) > 1
    assert sent_at.get() == pytest.approx(sum(world.slept) + 0.01)

"""One question in a session of its own: what came of it, late or not at all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.errors import InvalidInput, StreamClosed
from agentbook.api.policy import sent_at
from agentbook.evaluation.asking import Outcome, ask, late_reply
from agentbook.events import loop
from chat.prompt_lab.lab_platform import AGENT, KEY, LabPlatform, refused


def put(platform: LabPlatform, message: str = "Why?", **options: Any) -> Outcome:
    async def work() -> Outcome:
        agent = platform.find("acme~writer")
        options.setdefault("timeout_s", 60)
        return await ask(platform, message, workspace="acme~lab", agent=agent, follow=platform.follow, **options)  # type: ignore[arg-type]

    return loop.run(work(), 120)


def test_a_reply_comes_with_what_is_known_of_it() -> None:
    platform = LabPlatform()
    platform.usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 2, "model": "m"}, "finish_reason": "length"}
    sessions: list[str] = []
    outcome = put(platform, on_session=sessions.append)
    assert (outcome.status, outcome.text, outcome.reason) == ("answered", "original: Why?", None)
    assert (outcome.usage["model"], outcome.usage["tokens"], outcome.finish_reason) == ("m", 9, "length")
    assert sessions == [outcome.session_id]
    assert outcome.latency_s is not None
    assert 0 <= outcome.latency_s < 60


def test_a_refusal_is_an_outcome() -> None:
    platform = LabPlatform()
    platform.start_refusals = [refused(InvalidInput, 400, "No such mode")]
    outcome = put(platform)
    assert (outcome.status, outcome.session_id, outcome.request_id) == ("failed", None, "req-9")
    assert "No such mode" in str(outcome.reason)
    assert platform.questions() == []


def test_a_reply_that_is_late_or_was_not_heard_is_found_in_its_session() -> None:
    platform = LabPlatform(lambda settings, text: None)
    late = put(platform, timeout_s=0.02)
    assert (late.status, late.text) == ("open", None)
    assert "0.02 s" in str(late.reason)

    async def broken(client: Any, session_id: str, **options: Any) -> AsyncGenerator[Any]:
        async with contextlib.aclosing(platform.follow(client, session_id, **options)) as events:
            yield await anext(events)
        raise StreamClosed("gone", operation="sessions.stream")

    async def lose() -> tuple[Outcome, Outcome]:
        agent = platform.find("acme~writer")
        lost = await ask(platform, "Who?", workspace="acme~lab", agent=agent, follow=broken)  # type: ignore[arg-type]
        platform.append(str(lost.session_id), "runtime_done", {"text": "Ada."}, AGENT)
        return lost, await late_reply(platform, str(lost.session_id), follow=platform.follow)  # type: ignore[arg-type]

    lost, found = loop.run(lose(), 60)
    assert (lost.status, lost.reason) == ("open", "gone")
    assert (found.status, found.text, found.session_id) == ("answered", "Ada.", lost.session_id)
    assert found.latency_s is not None


def test_the_clock_of_a_reply_starts_when_the_question_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = LabPlatform()
    start = platform.sessions.start

    async def start_earlier(*args: Any, **options: Any) -> Any:
        sent_at.set(time.monotonic() - 50)
        return await start(*args, **options)

    monkeypatch.setattr(platform.sessions, "start", start_earlier)
    outcome = put(platform)
    assert outcome.latency_s is not None
    assert outcome.latency_s >= 50


def test_no_reply_takes_longer_than_the_time_that_has_passed() -> None:
    platform = LabPlatform()

    async def unheard(client: Any, session_id: str, *, on_state: Any, **options: Any) -> AsyncGenerator[Any]:
        events = platform.follow(client, session_id, on_state=lambda state: None, **options)
        async with contextlib.aclosing(events) as told:
            async for event in told:
                later = datetime.now(UTC) + timedelta(hours=event["type"] == "runtime_done")
                yield {**event, "created_at": later.isoformat()}

    async def work() -> Outcome:
        agent = platform.find("acme~writer")
        return await ask(platform, "Why?", workspace="acme~lab", agent=agent, follow=unheard)  # type: ignore[arg-type]

    outcome = loop.run(work(), 60)
    assert outcome.latency_s is not None
    assert outcome.latency_s < 60


def test_a_reply_that_nobody_heard_as_it_came_has_the_platforms_times() -> None:
    platform, session, asked = LabPlatform(), "0199a0b2-0000-7000-8000-0000000000aa", datetime(2026, 11, 1, tzinfo=UTC)

    async def read() -> Outcome:
        for seconds, kind, content, author in (
            (0, "message", {"text": "Why?"}, KEY),
            (1, "runtime_done", {}, AGENT),
            (7, "runtime_done", {"text": "So."}, AGENT),
        ):
            at = (asked + timedelta(seconds=seconds)).isoformat()
            platform.append(session, kind, content, author, task_id=f"t{seconds % 7}").update(created_at=at)
            platform.histories[session][-1]["created_at"] = at
        return await late_reply(platform, session, follow=platform.follow)  # type: ignore[arg-type]

    outcome = loop.run(read(), 60)
    assert (outcome.text, outcome.latency_s, outcome.asked_at) == ("So.", 7.0, asked)
    assert [step.task_id for step in outcome.steps] == ["t1"]


def test_the_clients_own_credential_is_not_in_what_an_agent_says() -> None:
    platform = LabPlatform(lambda settings, text: f"{text} s3cret-key")
    platform.auth = ab.ApiKey("k1:s3cret-key")  # type: ignore[attr-defined]
    assert put(platform).text == "Why? …"

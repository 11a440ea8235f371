from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentbook.service import errors
from agentbook.service.contract import MAX_ITEMS
from agentbook.service.errors import HTTPError
from agentbook.service.http import guard
from agentbook.service.http.guard import Guard, host_name
from agentbook.service.proxies import LOOPBACK_HOSTS
from agentbook.service.web.endpoints import KNOWN
from service.world import World, error

pytestmark = pytest.mark.anyio


async def test_a_large_body_is_refused_by_its_length_before_it_is_read(world: World) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = {"Content-Length": str(20 << 20), "Content-Type": "application/json"}
    answer = await world.ask("POST", "/agents", world.full, headers=headers, content=never())
    assert error(answer) == (413, "RequestEntityTooLarge", "The request body is larger than 1048576 bytes.")


async def test_a_large_body_without_a_length_is_refused_at_the_limit(world: World) -> None:
    sent = 0

    async def much() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(320):
            sent += 65536
            yield b" " * 65536

    headers = {"Content-Type": "application/json"}
    answer = await world.ask("POST", "/agents", world.full, headers=headers, content=much())
    assert answer.status_code == 413
    assert sent <= (1 << 20) + 2 * 65536


async def test_a_body_at_the_limit_is_read(world: World) -> None:
    body = b'{"name": "x", "description": "' + b"d" * ((1 << 20) - 32) + b'"}'
    assert len(body) == 1 << 20
    headers = {"Content-Type": "application/json"}
    answer = await world.ask("POST", "/agents", world.full, headers=headers, content=body)
    assert answer.status_code == 201


def guarded(world: World, app: ASGIApp) -> Callable[..., Awaitable[None]]:
    """Sends requests through the guard of the world's platform."""
    instance = Guard(app, world.platform, None)

    async def send(_message: Message) -> None:
        raise AssertionError

    def ask(receive: Receive, **scope: Any) -> Awaitable[None]:
        return instance({"type": "http", "headers": [], "path": "/", **scope}, receive, send)

    return ask


async def test_a_body_that_arrives_byte_by_byte_times_out_as_a_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        for _ in range(500):
            await receive()

    async def receive() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    monkeypatch.setattr(guard, "MAX_BODY_S", 0.5)
    with pytest.raises(HTTPError) as caught:
        await guarded(world, app)(receive)
    assert caught.value.status == 408


async def test_the_bodies_of_all_requests_are_limited_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Scope, receive: Receive, _send: Send) -> None:
        scope[KNOWN] = scope["path"] == "/known"
        await receive()
        await release.wait()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 40, "more_body": False}

    monkeypatch.setattr(guard, "MAX_BODIES_BYTES", 100)
    monkeypatch.setattr(guard, "MAX_UNKNOWN_BODIES_BYTES", 50)
    ask, release = guarded(world, app), asyncio.Event()

    def start(path: str) -> asyncio.Future[None]:
        return asyncio.ensure_future(ask(receive, path=path))

    first = start("/unknown")
    with pytest.raises(HTTPError) as caught:
        await start("/unknown")
    assert caught.value.status == 503
    second = start("/known")
    with pytest.raises(HTTPError):
        await start("/known")
    release.set()
    await asyncio.gather(first, second)
    await start("/unknown")


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        *(([host], 200) for host in ("localhost", "localhost:1", "127.0.0.1:8765", "LOCALHOST", "[::1]:80")),
        *(([host], 400) for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80")),
        *(([host], 400) for host in ("", "[::1", "a b")),
        (["localhost", "evil.example"], 400),
    ],
)
async def test_only_the_hosts_of_this_machine_are_accepted(world: World, hosts: list[str], status: int) -> None:
    world.platform.hosts = LOOPBACK_HOSTS
    accept = ("Accept", "application/json")
    answer = await world.http.get("/agents", headers=[accept, *(("Host", host) for host in hosts)])
    assert answer.status_code == status
    assert status == 200 or error(answer)[:2] == (400, "BadRequest")


@given(st.text(max_size=40))
def test_any_host_header_is_parsed_without_an_error(text: str) -> None:
    name = host_name(text)
    assert name == "" or name in text.lower()


JSON = {"Content-Type": "application/json"}
TYPES = ["application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
# A body that is JSON, and the error it gets where JSON is read.
BODIES = {
    "half a million items": (b'{"redirect_uris":[' + b"1," * 500_000 + b"1]}", "InvalidInputError"),
    "as many objects": (b'{"redirect_uris":[' + b"{}," * 340_000 + b"1]}", "InvalidInputError"),
    "as many members": (b"{" + b'"a":1,' * 170_000 + b'"a":1}', "InvalidInputError"),
    "as many wrong texts": (b'{"redirect_uris":[' + b'"x:",' * 200_000 + b'"x"]}', "InvalidInputError"),
    "nothing but quotes": (b'"' * 1_000_000, "BadRequest"),
    "an endless text of quotes": (b'{"a":[[' + b'\\"' * 500_000, "BadRequest"),
    "nested": (b'{"redirect_uris":' + b"[" * 300 + b"]" * 300 + b"}", "BadRequest"),
    "nested without an end": (b"[" * 1_000_000, "BadRequest"),
    "a number beyond a double": (b'{"redirect_uris":1e400}', "BadRequest"),
    "a number of a million digits": (b'{"redirect_uris":' + b"9" * 1_000_000 + b"}", "BadRequest"),
    "a lone surrogate": (b'{"redirect_uris":["\\ud800"]}', "BadRequest"),
    "a text of null characters": (b'{"redirect_uris":["' + b"\\u0000" * 150_000 + b'"]}', "InvalidInputError"),
    "a name of null characters": (b'{"' + b"\\u0000" * 150_000 + b'":1}', "InvalidInputError"),
    "the same field twice": (b'{"redirect_uris":1,"redirect_uris":2}', "InvalidInputError"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_an_anonymous_body_is_refused_with_a_short_answer(name: str, world: World) -> None:
    body, kind = BODIES[name]
    for content_type in TYPES:
        answer = await world.ask("POST", "/oauth/register", content=body, headers={"Content-Type": content_type})
        expected = kind if content_type == "application/json" else "InvalidInputError"
        assert error(answer)[:2] == (400, expected), content_type
        assert len(answer.content) < 10_000
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await world.ask("POST", "/oauth/token", content=body, headers=form)
    assert answer.status_code == 400
    assert len(answer.content) < 10_000


async def test_commas_and_brackets_in_texts_are_not_items(world: World) -> None:
    world.workspace()
    world.agent_row()
    prompt = 'a,[{"\\' * 50_000
    session = await world.start(prompt)
    assert (await world.events(session))[0]["content"]["text"] == prompt


async def test_at_most_twenty_problems_are_named(world: World) -> None:
    for wrong in (1, "x:"):
        answer = await world.post("/oauth/register", {"redirect_uris": [wrong] * (MAX_ITEMS - 2)})
        assert error(answer)[:2] == (400, "InvalidInputError")
        assert error(answer)[2].count("body.redirect_uris.") <= errors.MAX_PROBLEMS
    assert error(await world.post("/oauth/register", {"redirect_uris": ["https://a.example/"] * 21}))[2] == (
        "body.redirect_uris: Input has more than 20 items"
    )


async def test_a_form_is_not_decoded_if_it_is_long(world: World) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await world.ask("POST", "/oauth/token", content=b"a=" + b"%41" * 300_000, headers=form)
    assert answer.status_code == 400
    assert answer.json() == {"error": "invalid_request", "error_description": "more than 16384 bytes of fields"}


async def test_values_stay_out_of_messages(world: World) -> None:
    answer = await world.ask("POST", "/oauth/register", content=json.dumps({"redirect_uris": {"a": 1}}), headers=JSON)
    assert error(answer)[2] == 'body.redirect_uris: Input is not of type "array"'

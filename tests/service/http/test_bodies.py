"""Bodies that are expensive to read are refused early, with a short answer."""

from __future__ import annotations

import json

import pytest

from agentbook.service import errors
from agentbook.service.contract import MAX_ITEMS
from service.world import World, error

pytestmark = pytest.mark.anyio

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
        "body.redirect_uris: Input should have at most 20 items"
    )


async def test_a_form_is_not_decoded_if_it_is_long(world: World) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await world.ask("POST", "/oauth/token", content=b"a=" + b"%41" * 300_000, headers=form)
    assert answer.status_code == 400
    assert answer.json() == {"error": "invalid_request", "error_description": "more than 16384 bytes of fields"}


async def test_values_stay_out_of_messages(world: World) -> None:
    answer = await world.ask("POST", "/oauth/register", content=json.dumps({"redirect_uris": {"a": 1}}), headers=JSON)
    assert error(answer)[2] == "body.redirect_uris: Input should be a valid array"

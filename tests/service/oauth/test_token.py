"""The token endpoint: its error table, and the rules of codes and refresh tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from service.oauth.flow import CALLBACK, Flow, Pkce, ready, tokens
from service.oauth.test_authorize import at
from service.world import World, basic, error

pytestmark = pytest.mark.anyio

CODE_INVALID = (400, "invalid_grant", "Authorization code invalid or expired")
REFRESH_INVALID = (400, "invalid_grant", "Refresh token invalid or expired")
TOKEN_INVALID = (401, "Unauthorized", "Invalid OAuth token")


def oauth_error(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) == {"error", "error_description"}
    return answer.status_code, answer.json()["error"], answer.json()["error_description"]


async def test_the_whole_flow(world: World) -> None:
    flow = await ready(world)
    answer = await flow.redeem(await flow.allow())
    assert (answer.status_code, answer.headers["cache-control"], answer.headers["pragma"]) == (
        200,
        "no-store",
        "no-cache",
    )
    issued = answer.json()
    first = issued.pop("access_token"), issued.pop("refresh_token")
    assert issued == {"token_type": "Bearer", "expires_in": 3600, "scope": "agents:write workspaces:read"}
    me = (await flow.call(first[0])).json()
    assert (me["name"], me["type"]) == ("ada", "user")
    assert me["credential"] == {
        "type": "oauth2",
        "id": world.rows("oauth_authorizations")[0]["id"],
        "name": "A tool",
        "scopes": ["agents:write", "workspaces:read"],
    }
    again = (await flow.refresh(first[1])).json()
    assert again["scope"] == "agents:write workspaces:read"
    assert not {again["access_token"], again["refresh_token"]} & set(first)
    assert (await flow.call(again["access_token"])).status_code == 200
    assert (await flow.call(first[0])).status_code == 200  # until it expires


@pytest.mark.parametrize("missing", ["grant_type", "client_id", "code", "redirect_uri", "code_verifier"])
async def test_a_missing_field_of_a_code_is_invalid_request(world: World, missing: str) -> None:
    flow = await ready(world)
    code = await flow.allow()
    for empty in (None, ""):
        assert oauth_error(await flow.redeem(code, **{missing: empty})) == (
            400,
            "invalid_request",
            f"{missing}: Field required",
        )
    issued = (await flow.redeem(code)).json()
    if missing == "client_id":
        answer = await flow.refresh(issued["refresh_token"], client_id=None)
        assert oauth_error(answer) == (400, "invalid_request", "client_id: Field required")
        answer = await flow.token(grant_type="refresh_token", client_id=flow.client_id)
        assert oauth_error(answer) == (400, "invalid_request", "refresh_token: Field required")


async def test_no_form_or_a_repeated_field_is_invalid_request(world: World) -> None:
    flow = await ready(world)
    body = {"grant_type": "authorization_code"}
    assert oauth_error(await world.post("/oauth/token", body))[:2] == (400, "invalid_request")
    # Nothing at all is a form without fields, whatever it is said to be.
    nothing = (400, "invalid_request", "grant_type: Field required")
    assert oauth_error(await world.ask("POST", "/oauth/token")) == nothing
    assert oauth_error(await world.ask("POST", "/oauth/token", headers={"Content-Type": "application/json"})) == nothing
    twice = {"grant_type": ["authorization_code", "refresh_token"], "client_id": flow.client_id}
    assert oauth_error(await flow.token(**twice)) == (400, "invalid_request", "grant_type: Field given more than once")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for raw in (b"\xff=\xfe", b"a=%ff", b"code=%00", b"&".join([b"a=b"] * 101)):
        assert oauth_error(await world.ask("POST", "/oauth/token", content=raw, headers=headers))[:2] == (
            400,
            "invalid_request",
        )


@pytest.mark.parametrize("grant_type", ["password", "client_credentials", "AUTHORIZATION_CODE", "urn:x"])
async def test_another_grant_type(world: World, grant_type: str) -> None:
    answer = await Flow(world).token(grant_type=grant_type)
    assert oauth_error(answer) == (
        400,
        "unsupported_grant_type",
        "Grant type must be authorization_code or refresh_token",
    )


async def test_an_unknown_client_or_one_with_a_secret_is_invalid_client(world: World) -> None:
    flow = await ready(world)
    code = await flow.allow()
    expected = (401, "invalid_client", "Client authentication failed")
    for wrong in ("nobody", "0199c2f0-0000-7000-8000-00000000abcd", "\u00e9"):
        answer = await flow.redeem(code, client_id=wrong)
        assert oauth_error(answer) == expected
        assert answer.headers["www-authenticate"].startswith("Basic ")
    assert oauth_error(await flow.redeem(code, client_secret="s")) == expected
    form = {"grant_type": "refresh_token", "client_id": flow.client_id, "refresh_token": "x"}
    headers = {"Authorization": basic(f"{flow.client_id}:secret")}
    assert oauth_error(await world.ask("POST", "/oauth/token", data=form, headers=headers)) == expected
    # As common libraries do unless told otherwise: the client by Basic with an empty
    # secret, and not in the form.
    headers = {"Authorization": basic(f"{flow.client_id}:")}
    del form["client_id"]
    assert oauth_error(await world.ask("POST", "/oauth/token", data=form, headers=headers)) == expected
    assert (await flow.redeem(code)).status_code == 200


async def test_a_code_needs_its_verifier_its_client_and_its_redirect_uri(world: World) -> None:
    flow = await ready(world)
    code = await flow.allow()
    first = flow.client_id
    await flow.register(client_name="Another")
    other, flow.client_id = flow.client_id, first
    wrong: list[dict[str, Any]] = [
        {"code_verifier": Pkce().verifier},
        {"code_verifier": flow.pkce.challenge},
        {"code_verifier": flow.pkce.verifier + "x"},
        {"code_verifier": "short"},
        {"code_verifier": "ü" * 50},
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": "http://127.0.0.1:5556/callback"},  # the port it was asked for, not just any
        {"client_id": other},
        {"code": "nonsense"},
    ]
    for changed in wrong:
        assert oauth_error(await flow.redeem(code, **changed)) == CODE_INVALID, changed
    assert (await flow.redeem(code)).status_code == 200


@pytest.mark.parametrize("verifier", ["x" * 42, "x" * 129, "x" * 42 + "+", "x" * 43 + "\n", "ü" * 50])
async def test_a_verifier_has_the_form_that_rfc_7636_gives_it(world: World, verifier: str) -> None:
    flow = await ready(world)
    flow.pkce = Pkce(verifier)
    assert oauth_error(await flow.redeem(await flow.allow())) == CODE_INVALID
    for length in (43, 128):
        flow.pkce = Pkce("aZ0-._~" + "x" * (length - 7))
        assert (await flow.redeem(await flow.allow())).status_code == 200


async def test_a_code_lives_a_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = await ready(world)
    code = await flow.allow()
    at(world, monkeypatch, 60)
    assert oauth_error(await flow.redeem(code)) == CODE_INVALID


async def test_a_second_use_of_a_code_revokes_its_tokens(world: World) -> None:
    flow = await ready(world)
    code = await flow.allow()
    issued = (await flow.redeem(code)).json()
    assert oauth_error(await flow.redeem(code)) == CODE_INVALID
    assert error(await flow.call(issued["access_token"])) == TOKEN_INVALID
    assert oauth_error(await flow.refresh(issued["refresh_token"])) == REFRESH_INVALID


async def test_one_of_eight_parallel_uses_of_a_code_succeeds(world: World) -> None:
    flow = await ready(world)
    code = await flow.allow()
    answers = await asyncio.gather(*(flow.redeem(code) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7


async def test_a_spent_refresh_token_ends_the_whole_authorization(world: World) -> None:
    flow = await ready(world)
    first = await tokens(flow)
    second = (await flow.refresh(first["refresh_token"])).json()
    assert oauth_error(await flow.refresh(first["refresh_token"])) == REFRESH_INVALID
    for token in (first["access_token"], second["access_token"]):
        answer = await flow.call(token)
        assert error(answer) == TOKEN_INVALID
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert oauth_error(await flow.refresh(second["refresh_token"])) == REFRESH_INVALID


async def test_one_of_eight_parallel_refreshes_succeeds_and_the_others_revoke_it(world: World) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    others = await tokens(flow)
    answers = await asyncio.gather(*(flow.refresh(issued["refresh_token"]) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    assert error(await flow.call(won["access_token"])) == TOKEN_INVALID
    assert oauth_error(await flow.refresh(won["refresh_token"])) == REFRESH_INVALID
    assert (await flow.call(others["access_token"])).status_code == 200  # another authorization of the same client


async def test_a_refresh_token_is_its_clients_own(world: World) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    first = flow.client_id
    await flow.register(client_name="Another")
    assert oauth_error(await flow.refresh(issued["refresh_token"])) == REFRESH_INVALID
    assert (await flow.refresh(issued["refresh_token"], client_id=first)).status_code == 200


async def test_a_spent_refresh_token_ends_its_authorization_whoever_uses_it_and_however_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await ready(world)
    first_pair, second_pair = await tokens(flow), await tokens(flow)
    owner = flow.client_id
    newer = (await flow.refresh(first_pair["refresh_token"])).json()
    late = (await flow.refresh(second_pair["refresh_token"])).json()
    await flow.register(client_name="Another")
    assert oauth_error(await flow.refresh(first_pair["refresh_token"])) == REFRESH_INVALID
    assert error(await flow.call(newer["access_token"])) == TOKEN_INVALID
    with monkeypatch.context() as patch:
        at(world, patch, 29 * 24 * 3600)
        newest = (await flow.refresh(late["refresh_token"], client_id=owner)).json()
    with monkeypatch.context() as patch:
        at(world, patch, 31 * 24 * 3600)  # the spent ones have run out, and others have been issued since
        newest = (await flow.refresh(newest["refresh_token"], client_id=owner)).json()
        assert (await flow.call(newest["access_token"])).status_code == 200
        assert oauth_error(await flow.refresh(second_pair["refresh_token"], client_id=owner)) == REFRESH_INVALID
        assert error(await flow.call(newest["access_token"])) == TOKEN_INVALID


async def test_errors_before_the_token_endpoint_have_its_format(world: World) -> None:
    answer = await world.ask("POST", "/oauth/token", content=b"x" * (2 << 20))
    assert (answer.status_code, set(answer.json())) == (413, {"error", "error_description"})


async def test_a_refresh_may_narrow_the_scope_and_not_widen_it(world: World) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    wider = await flow.refresh(issued["refresh_token"], scope="agents:write skills:read")
    assert oauth_error(wider)[:2] == (400, "invalid_scope")
    narrow = (await flow.refresh(issued["refresh_token"], scope="workspaces:read")).json()
    assert narrow["scope"] == "workspaces:read"
    assert (await flow.call(narrow["access_token"], "POST", "/agents", json={"name": "x"})).status_code == 403
    reading = (await flow.refresh(narrow["refresh_token"], scope="agents:read")).json()
    assert reading["scope"] == "agents:read"  # write implies read
    assert (await flow.call(reading["access_token"], "POST", "/agents", json={"name": "x"})).status_code == 403
    whole = (await flow.refresh(reading["refresh_token"])).json()
    assert whole["scope"] == "agents:write workspaces:read"


async def test_lifetimes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    with monkeypatch.context() as patch:
        at(world, patch, 3599)
        assert (await flow.call(issued["access_token"])).status_code == 200
    with monkeypatch.context() as patch:
        at(world, patch, 3601)
        assert error(await flow.call(issued["access_token"])) == TOKEN_INVALID
    with monkeypatch.context() as patch:
        at(world, patch, 30 * 24 * 3600 + 1)
        assert oauth_error(await flow.refresh(issued["refresh_token"])) == REFRESH_INVALID
    assert (await flow.refresh(issued["refresh_token"])).status_code == 200


async def test_a_client_without_the_grant_type_gets_no_refresh_token(world: World) -> None:
    flow = await ready(world)
    await flow.register(grant_types=["authorization_code"])
    assert "refresh_token" not in await tokens(flow)


async def test_access_and_refresh_tokens_are_not_interchangeable(world: World) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    assert error(await flow.call(issued["refresh_token"])) == TOKEN_INVALID
    assert oauth_error(await flow.refresh(issued["access_token"])) == REFRESH_INVALID

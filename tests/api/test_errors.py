from __future__ import annotations

import pickle
import re

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.calls import Call, Reply, record
from agentbook.api.error_replies import from_reply
from support.clients import client_of

JSON = {"x-request-id": "req-1", "content-type": "application/json"}
READ = Call("agents.get", "GET", "", record)
WRITE = Call("agents.create", "POST", "", record)
TOKEN = Call("sign_in", "POST", "", record, form={})


def reply(status: int, error: str | None, message: str, **headers: str) -> ab.ApiError:
    fields = {"error": error, "message": message} if error else {"message": message}
    body = msgspec.json.encode(fields)
    return from_reply(Reply(status, {**JSON, **headers}, body), READ)


def test_what_was_not_found_is_named() -> None:
    body = b'{"error": "NotFound", "message": "Workspace not found"}'
    client = client_of(lambda _: httpx.Response(404, content=body))
    with pytest.raises(ab.NotFound, match="acme~no such lab"):
        client.sessions.start("acme~no such lab", agent_id="a", prompt="Hi")


def test_an_oauth_body_is_an_oauth_error() -> None:
    body = b'{"error": "invalid_grant", "error_description": "refresh token invalid or expired"}'
    raised = from_reply(Reply(400, {}, body), READ)
    assert isinstance(raised, ab.OAuthError)
    assert (raised.error, raised.message) == ("invalid_grant", "refresh token invalid or expired")
    bare = from_reply(Reply(400, {}, b'{"error": "invalid_grant"}'), TOKEN)  # RFC 6749 lets the description out
    assert (type(bare), bare.message) == (ab.OAuthError, "invalid_grant")
    assert type(from_reply(Reply(400, {}, b'{"error": "invalid_request", "message": "m"}'), TOKEN)) is ab.InvalidInput


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Invalid OAuth token", "Sign in again."),
        ("This credential cannot access this endpoint", "It takes another kind of credential."),
    ],
)
def test_who_needs_no_other_key_is_not_told_to_check_it(message: str, advice: str) -> None:
    raised = reply(401, "Unauthorized", message)
    assert isinstance(raised, ab.Unauthorized)
    assert f"{message} (request req-1). {advice}" in str(raised)
    assert "AGENTBOOK_API_KEY" not in str(raised)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        (b'{"error": "NotFound", "message": "Workspace agent not found"}', "Check the id or name"),
        (b'{"error": "NotFound", "message": "Agent \\"a~b\\" not found"}', "Check the id or name"),
        (b'{"message": "closed with 4404"}', "Check the id or name"),
        (b'{"error": "NotFound", "message": "The requested URL was not found on the server."}', "Check the base URL"),
        (b'{"detail": "Not Found"}', "Check the base URL"),
        (b"<html><h1>404 Not Found</h1><hr>nginx</html>", "Check the base URL"),
    ],
)
def test_an_address_without_its_version_is_told_from_an_unknown_id(body: bytes, advice: str) -> None:
    assert f". {advice}" in str(from_reply(Reply(404, {}, body), READ))


def test_a_server_error_on_a_write_is_an_unknown_outcome_too() -> None:
    raised = from_reply(Reply(500, {}, b'{"message": "Something went wrong"}'), WRITE)
    assert isinstance(raised, ab.ServerError)
    assert isinstance(raised, ab.OutcomeUnknown)
    assert not raised.retryable


@given(st.integers(300, 599), st.binary(max_size=200), st.text(max_size=30))
def test_no_reply_is_too_strange_to_become_an_error(status: int, body: bytes, request_id: str) -> None:
    raised = from_reply(Reply(status, {"x-request-id": request_id}, body), READ)
    assert isinstance(raised, ab.ApiError)
    assert raised.status == status


@pytest.mark.parametrize(
    "kind", [kind for name in ab.errors.__all__ if issubclass(kind := getattr(ab, name), ab.AgentbookError)]
)
def test_every_error_survives_a_pickle(kind: type[ab.AgentbookError]) -> None:
    raised = kind("text", operation="agents.get", status=418, request_id="req-1", message="m")
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is kind
    assert str(again) == "text"
    assert vars(again) == vars(raised)


def test_a_partial_load_pickles_without_its_way_to_resume() -> None:
    raised = ab.PartialLoad("text", partial_frame=None, problems={"s": "lost"}, _resume=lambda: 1)
    assert raised.resume() == 1
    again = pickle.loads(pickle.dumps(raised))
    assert again.problems == {"s": "lost"}
    with pytest.raises(TypeError, match="Load again"):
        again.resume()


def test_an_error_moves_no_cursor_turns_no_text_and_has_an_end() -> None:
    body = b'{"error": "Bad\\u001b[31m", "message": "one\\u001b]0;x\\u0007\\r\\u202etwo\\n\\tthree\\u0085"}'
    error = from_reply(Reply(404, {}, body), READ)
    assert (error.error, error.message) == ("Bad[31m", "one]0;xtwo\n\tthree")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", str(error))
    assert len(str(reply(404, None, "x" * 1_000_000))) < 11_000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"message": {"limit": ["bad"]}, "error": "Invalid"}', "Invalid"),
        (b'{"detail": "hunter2"}', "HTTP 400"),
        (b'"hunter2"', "HTTP 400"),
        (b"<!doctype html><head><style>p{}</style></head><h1>400</h1><p>Not&nbsp;so</p></body>", "400 Not so"),
    ],
)
def test_an_error_of_another_form_is_its_status(body: bytes, message: str) -> None:
    assert from_reply(Reply(400, {}, body), READ).message == message


@pytest.mark.parametrize(
    ("challenge", "message", "scope"),
    [
        ('Bearer error="insufficient_scope", scope="agents:write"', "Forbidden", "agents:write"),
        ("This credential lacks skills:read", "denied", "skills:read"),
        ('Bearer scope="agents:write"', "This credential lacks the agents:write scope", "agents:write"),
    ],
)
def test_a_missing_scope_is_named_wherever_the_platform_names_it(challenge: str, message: str, scope: str) -> None:
    error = reply(403, None, message, **{"www-authenticate": challenge})
    assert type(error) is ab.InsufficientScope
    assert error.missing_scope == scope
    assert str(error).count(scope) == 1

from __future__ import annotations

import base64
import pickle
import sys
import traceback
from pathlib import Path

import httpx
import pytest

import agentbook as ab
from agentbook.api.auth import OAuthToken
from agentbook.api.oauth.sign_in import OAuthSession
from agentbook.api.oauth.token_store import Tokens, TokenStore
from support.clients import client_of

SECRET = "s3cret-9f2c"


def test_a_key_is_sent_by_basic_or_whole_as_bearer() -> None:
    expected = "Basic " + base64.b64encode(f"id1:{SECRET}".encode()).decode()
    assert ab.ApiKey(f"id1:{SECRET}").authorization() == expected
    bearer = ab.ApiKey(f" id1:{SECRET}\n", scheme="bearer")
    assert bearer.authorization() == f"Bearer id1:{SECRET}"
    assert bearer.socket_authorization() == expected


def test_a_secret_may_hold_colons() -> None:
    assert ab.ApiKey("id1:a:b:c", scheme="bearer").authorization() == "Bearer id1:a:b:c"


@pytest.mark.parametrize("key", ["", "id", "id:", ":secret", "i d:s", "id:se cret", "id:s\nX: y", None, 3])
def test_a_malformed_key_is_refused_without_being_shown(key: object) -> None:
    with pytest.raises(ValueError, match="api_key_id") as raised:
        ab.ApiKey(key)  # type: ignore[arg-type]
    if isinstance(key, str) and len(key) > 4:
        assert key not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("“id:s3cret”", "1 .*U\\+201C"),
        ('"id:s3cret"', "1 .*U\\+0022"),
        ("id:s3cret'", "10 .*U\\+0027"),
        (" \ufeffid:s3cret", "2 .*U\\+FEFF"),
        ("id:s3\u200bcret\n", "6 .*U\\+200B"),
        ("id:s3\u00a0cret", "6 .*U\\+00A0"),
        ("id:s3\tcret", "6 .*U\\+0009"),
        ("íd:s3cret", "1 .*U\\+00ED"),
        ("id\u2010x:s3cret", "3 .*U\\+2010"),
        ("id:s3\ud83dcret", "6 .*U\\+D83D"),
    ],
)
def test_a_character_that_no_key_has_is_named_with_its_place(key: str, place: str) -> None:
    for make in (ab.ApiKey, OAuthToken):
        with pytest.raises(ValueError, match=f"Character {place}") as raised:
            make(key)
        assert "s3" not in str(raised.value)
        str(raised.value).encode()  # no half of an emoji


@pytest.mark.parametrize("credential", [ab.ApiKey(f"id1:{SECRET}"), OAuthToken(SECRET)])
def test_a_secret_is_in_no_repr_and_no_pickle(credential: object) -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials=credential)
    shown = repr(credential) + str(credential) + repr(client) + repr(client.asynchronous()) + repr(vars(client))
    assert SECRET not in shown
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(credential)


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é"])
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="access token"):
        OAuthToken(token)


def test_what_renews_itself_is_in_no_traceback_with_locals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.0)  # between attempts

    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404, json={"message": "Agent not found"})

    tokens = Tokens("https://h/v1", "client", "http://127.0.0.1:9/token", f"access-{SECRET}", f"refresh-{SECRET}")
    session = OAuthSession(tokens, TokenStore("https://h/v1", tmp_path))
    with client_of(refuse, credentials=session) as client:
        with pytest.raises(ab.NotFound) as missing:
            client.agents.get("x")
        with pytest.raises(ab.AgentbookError) as unreachable:  # nothing listens where tokens are renewed
            session.refresh(session.authorization())
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match="file") as unwritable:
            TokenStore("https://h/v1", tmp_path / "file").save(tokens)
    for raised in (missing, unreachable, unwritable):
        # Without the first frame, which is this test's.
        report = traceback.TracebackException(
            raised.type, raised.value, raised.value.__traceback__.tb_next, capture_locals=True
        )
        assert SECRET not in "".join(report.format())

from __future__ import annotations

import base64
import pickle
import traceback

import pytest

import agentbook as ab
from agentbook.api.auth import OAuthToken

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


@pytest.mark.parametrize("credential", [ab.ApiKey(f"id1:{SECRET}"), OAuthToken(SECRET)])
def test_a_secret_is_in_no_repr_and_no_pickle(credential: object) -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials=credential)
    shown = repr(credential) + str(credential) + repr(client) + repr(client.asynchronous()) + repr(vars(client))
    assert SECRET not in shown
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(credential)


def test_a_secret_is_in_no_traceback_with_locals() -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials=f"id1:{SECRET}", deadline_s=0.2)
    with pytest.raises(ab.AgentbookError) as raised:
        client.me.get()
    report = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "policy.py" in report  # the locals of our frames are in it
    assert SECRET not in report
    assert base64.b64encode(f"id1:{SECRET}".encode()).decode() not in report
    client.close()


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é"])
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="access token"):
        OAuthToken(token)

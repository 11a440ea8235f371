"""Refused sockets: typed errors, by status or by close code, without a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agentbook as ab
from agentbook.events import reader
from support.fake_platform.over_socket import SocketPlatform, event
from support.streams import next_events

pytestmark = pytest.mark.usefixtures("quick_backoff")

KEY = "id1:s3cret-4711"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": "Unauthorized", "message": "Invalid API key"}, ab.Unauthorized),
        (
            403,
            {"error": "InsufficientScope", "message": "This credential lacks the workspaces:read scope"},
            ab.InsufficientScope,
        ),
        (404, {"error": "NotFound", "message": "Session not found"}, ab.NotFound),
    ],
)
def test_a_refused_handshake_is_the_typed_error(
    platform: SocketPlatform, client: Any, status: int, body: Any, kind: type[ab.ApiError]
) -> None:
    platform.refuse_socket = (status, body)
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream, pytest.raises(kind) as raised:
        stream.get(timeout_s=60)
    assert (raised.value.status, raised.value.message, raised.value.request_id) == (status, body["message"], "req-7")
    assert raised.value.operation == "sessions.stream"


@pytest.mark.parametrize(("code", "kind"), [(4404, ab.NotFound), (4401, ab.Unauthorized)])
def test_a_refusal_as_a_close_code_is_the_typed_error(
    platform: SocketPlatform, client: Any, code: int, kind: type[ab.ApiError]
) -> None:
    platform.close_at_once = code
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream, pytest.raises(kind):
        stream.get(timeout_s=60)


def test_an_error_sent_as_a_message_before_the_close_is_its_text(platform: SocketPlatform, client: Any) -> None:
    said = {"error": "Unauthorized", "message": "Invalid key s3cret-4711", "extra": [1]}
    platform.says_first, platform.close_at_once = json.dumps(said), 4401
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream, pytest.raises(ab.Unauthorized) as raised:
        stream.get(timeout_s=60)
    assert raised.value.message == "Invalid key …"


@pytest.mark.parametrize(
    ("code", "reason"), [(1008, "Unknown type s3cret-4711"), (1008, ""), (4001, "Idle"), (4900, "")]
)
def test_a_platform_that_shuts_each_socket_on_purpose_is_asked_thrice_and_said_so(
    platform: SocketPlatform, client: Any, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    monkeypatch.setattr(reader, "REFUSED_WITHIN_S", 60.0)
    platform.add(event(0))
    platform.close_at_once, platform.close_reason = code, reason
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        next_events(stream, 1)
        with pytest.raises(ab.StreamClosed, match="3 times in a row") as raised:
            stream.get(timeout_s=60)
    assert reason.replace("s3cret-4711", "…") in str(raised.value)
    assert raised.value.last_id == event(0)["id"]
    assert 3 <= len(platform.handshakes) <= 4

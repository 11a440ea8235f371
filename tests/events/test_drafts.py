"""Drafts say that they are drafts, and can be left out."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from agentbook.events import reader
from agentbook.events.reader import StreamEvent
from support.fake_platform.over_socket import SocketPlatform, event
from support.streams import next_events

# A draft may have the type of a reply.
DRAFT = {"id": "draft-5-t", "type": "runtime_done", "content": {"text": "Sev"}, "task_id": "t"}
REPLY = event(1, type="runtime_done", content={"text": "Seven."})


def test_a_draft_is_marked(platform: SocketPlatform, client: Any) -> None:
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING) as stream:
        next_events(stream, 1)
        while not platform.sockets:
            assert stream.get(timeout_s=0.005) is None
        platform.call(platform.broadcast(DRAFT))
        platform.add(REPLY)
        draft, reply = next_events(stream, 2, drafts=True)
    assert [(item.draft, item["draft"], item.get("draft")) for item in (draft, reply)] == [(True,) * 3, (False,) * 3]
    assert (draft, reply) == (DRAFT, REPLY), "the mark is not part of the event"


def test_a_stream_without_drafts(platform: SocketPlatform, client: Any) -> None:
    platform.sends_drafts = True
    platform.add(event(0))
    with client.sessions.stream("s", from_id=reader.BEGINNING, types=["note", "runtime_draft"], drafts=False) as stream:
        items = [stream.get(timeout_s=60)]
        while not platform.sockets:
            assert stream.get(timeout_s=0.005) is None
        platform.add(event(1), event(2))
        items += [stream.get(timeout_s=60) for _ in range(2)]
    assert items == [event(0), event(1), event(2)]


def test_the_mark_is_not_stored() -> None:
    draft = StreamEvent(DRAFT)
    assert json.loads(json.dumps(draft)) == DRAFT
    assert pickle.loads(pickle.dumps(draft)).draft
    assert "draft" not in draft
    with pytest.raises(KeyError):
        draft["drafts"]
    assert StreamEvent(REPLY, draft="the platform's own")["draft"] == "the platform's own"

"""Recorded sessions in a panel, without a platform."""

from __future__ import annotations

import html
import json
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.chat.html.message_html import status_line
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.recording import with_pauses
from agentbook.chat.replay import Replay, replay
from chat.fakes import SESSION, recorded
from chat.panels import composer_of, on_loop, shown

pytestmark = pytest.mark.python_versions

AT_ONCE = float("inf")
TALK = (("2+2?", "4, **surely**"), ("Thanks", "Gladly"))


def played(source: Any, **options: Any) -> Replay:
    panel = replay(source, **{"speed": AT_ONCE, **options})
    panel.played.result(60)
    return panel


def events_of(conversation: Conversation) -> list[dict[str, Any]]:
    return [{**event, "session_id": SESSION} for turn in conversation.turns for event in turn.events]


def frame_of(events: list[dict[str, Any]]) -> pd.DataFrame:
    """In the columns of `client.sessions.events(...).to_pandas()`."""
    rows = [
        {
            "id": event["id"],
            "session_id": SESSION,
            "type": event["type"],
            "author_type": event["author"].get("type"),
            "author_name": event["author"].get("name"),
            "text": event["content"].get("text"),
            "content": "{}",
            "task_id": event["task_id"],
            "created_at": pd.Timestamp(event["created_at"]),
        }
        for event in events
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("kind", ["conversation", "json", "file", "events", "event file", "frame", "backwards"])
def test_every_kind_of_recording_shows_the_same(kind: str, tmp_path: Path) -> None:
    conversation = recorded(*TALK)
    events = events_of(conversation)
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(events) if kind == "event file" else conversation.to_json(), encoding="utf-8")
    sources = {
        "conversation": conversation,
        "json": conversation.to_json(),
        "file": path,
        "events": events,
        "event file": str(path),
        "frame": frame_of(events),
        "backwards": [*reversed(events), events[0]],
    }
    panel = played(sources[kind])
    table = panel.transcript
    assert table["text"].to_list() == ["2+2?", "4, **surely**", "Thanks", "Gladly"]
    assert table["subtasks"].dropna().to_list() == [1, 1]
    assert table["time_to_reply_s"].dropna().to_list() == [2.0, 2.0]
    assert "4, surely" in " ".join(shown(panel).split())
    panel.close()


def test_nothing_can_be_sent_to_a_recording() -> None:
    panel = played(recorded(*TALK))
    shown(panel)
    assert composer_of(panel).input.disabled
    for ask in (panel.ask, lambda text: on_loop(lambda: panel.conversation.submit(text))):
        with pytest.raises(ValueError, match="closed or a recording"):
            ask("And now?")
    assert len(panel.transcript) == 4
    assert "recorded" in html.unescape(status_line(panel.conversation))
    assert repr(panel) == "Replay(6 events, speed=inf)"
    panel.close()


def test_a_reply_is_written_out_at_the_recorded_pace() -> None:
    begin = time.monotonic()
    drafts: list[str] = []
    panel = replay(recorded(("Go", "word " * 40)), speed=10)
    panel.conversation.listen(lambda exchange: drafts.append(exchange.turn.draft) if exchange else None)
    assert panel.played.result(60) == 3
    assert 0.2 <= time.monotonic() - begin < 20
    lengths = [len(draft) for draft in drafts if draft]
    assert len(lengths) > 3
    assert lengths == sorted(lengths)
    panel.close()


def test_long_pauses_are_cut() -> None:
    events = events_of(recorded(("a", "b")))
    events[-1]["created_at"] = "2026-03-02T10:00:00Z"
    assert [pause for pause, _ in with_pauses(events, 5.0)] == [0.0, 1.0, 5.0]


def test_closing_cancels_played() -> None:
    panel = replay(recorded(*TALK), speed=0.01)
    panel.close()
    with pytest.raises(CancelledError):
        panel.played.result(60)


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ([], {}, "Nothing to replay"),
        ([1], {}, "Not a list of events"),
        ("[]", {}, "Nothing to replay"),
        (SESSION, {}, "client=client"),
        ({"id": SESSION}, {}, "client=client"),
        (recorded(*TALK), {"speed": 0}, "greater than 0"),
        (recorded(*TALK), {"speed": float("nan")}, "greater than 0"),
        (recorded(*TALK), {"max_pause_s": -1}, "seconds"),
    ],
)
def test_invalid_sources_and_paces_are_refused(source: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replay(source, **options)


def test_events_of_two_sessions_are_not_mixed() -> None:
    events = events_of(recorded(*TALK))
    events[-1]["session_id"] = "another"
    with pytest.raises(ValueError, match="several sessions"):
        replay(events)

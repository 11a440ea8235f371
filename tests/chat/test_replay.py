"""Recorded sessions in a panel, without a platform."""

from __future__ import annotations

import json
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.player import Playback, timeline
from agentbook.chat.replay import Replay, replay
from agentbook.chat.widgets.panel_view import describe
from chat.fakes import SESSION, recorded
from chat.panels import PagePerson, eventually, on_loop, shown

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


@pytest.mark.parametrize(
    "kind", ["conversation", "json", "file", "events", "event file", "frame", "backwards", "hashed"]
)
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
        "hashed": [{**event, "id": f"{hash(event['id']):x}"} for event in reversed(events)],
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
    assert PagePerson(panel).composer["closed"]
    for ask in (panel.ask, lambda text: on_loop(lambda: panel.conversation.submit(text))):
        with pytest.raises(ValueError, match="closed or a recording"):
            ask("And now?")
    assert len(panel.transcript) == 4
    assert "recorded" in describe(panel.conversation)[0]
    assert repr(panel) == "Replay(6 events, speed=inf)"
    panel.close()


def test_a_reply_is_written_out_at_the_recorded_pace() -> None:
    begin = time.monotonic()
    drafts: list[str] = []
    panel = replay(recorded(("Go", "word " * 40)), speed=4)
    panel.conversation.listen(lambda exchange: drafts.append(exchange.turn.draft) if exchange else None)
    assert panel.played.result(60) == 3
    assert time.monotonic() - begin >= 2 / 4
    lengths = [len(draft) for draft in drafts if draft]
    assert len(lengths) > 3
    assert lengths == sorted(lengths)
    panel.close()


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


def test_what_is_no_recording_at_all_is_named() -> None:
    for source in (None, 3):
        with pytest.raises(TypeError, match=f"can be replayed, not {type(source).__name__}"):
            replay(source)


def test_events_of_two_sessions_are_not_mixed() -> None:
    events = events_of(recorded(*TALK))
    events[-1]["session_id"] = "another"
    with pytest.raises(ValueError, match="several sessions"):
        replay(events)


TIMED = [
    {**event, "created_at": f"2026-03-01T10:00:{second:02d}Z"}
    for event, second in zip(events_of(recorded(*TALK)), (0, 1, 4, 10, 11, 20), strict=True)
]


def until_shown(panel: Replay, *texts: str) -> None:
    eventually(panel, lambda: [exchange.text for exchange in panel.conversation.exchanges] == list(texts))


def test_a_reply_is_written_out_within_the_pause_before_it() -> None:
    moments = list(timeline(TIMED, 5.0))
    times = [moment.at_s for moment in moments]
    assert times == sorted(times)
    assert [moment.at_s for moment in moments if not moment.is_draft] == [0.0, 1.0, 4.0, 9.0, 10.0, 15.0]
    drafts = [moment for moment in moments if moment.is_draft and moment.at_s < 4.0]
    assert drafts[0].at_s == 3.0
    assert "".join(moment.event["content"]["delta"] for moment in drafts) == TALK[0][1]


def test_pause_seek_and_play() -> None:
    panel = replay(TIMED)
    panel.pause()
    panel.seek(12)
    until_shown(panel, TALK[0][1], "")
    assert panel.playback == Playback(playing=False, position_s=12, duration_s=15.0, speed=1.0)
    panel.seek(3.5)  # amid the first reply
    eventually(panel, lambda: panel.conversation.exchanges[-1].text.startswith("4, **"))
    assert len(panel.conversation.exchanges) == 1
    assert panel.conversation.exchanges[0].status == "streaming"
    panel.seek(-1)
    eventually(panel, lambda: [exchange.status for exchange in panel.conversation.exchanges] == ["waiting"])
    assert len(panel.conversation.to_pandas()) == 4, "an export has the whole recording"
    panel.seek(99)
    until_shown(panel, TALK[0][1], TALK[1][1])
    assert panel.played.result(60) == len(TIMED)
    panel.play()  # from the beginning again
    eventually(panel, lambda: len(panel.conversation.exchanges) == 1)
    panel.speed = AT_ONCE
    until_shown(panel, TALK[0][1], TALK[1][1])
    eventually(panel, lambda: not panel.playback.playing)
    assert "Gladly" in shown(panel)
    panel.close()


def test_the_controls_of_a_replay() -> None:
    panel = replay(TIMED)
    page = PagePerson(panel)

    def drawn(*names: str) -> list[Any]:
        on_loop(panel._draw_playback)
        return [page.playback[name] for name in names]

    speeds = ["0.5×", "1×", "2×", "5×", "10×"]
    assert drawn("playing", "duration", "speed", "speeds") == [True, 15.0, "1×", speeds]
    page.press("pause")
    assert drawn("playing") == [False]
    assert not panel.playback.playing
    page.say(do="seek", position=12)
    until_shown(panel, TALK[0][1], "")
    assert drawn("position") == [12.0]
    page.say(do="speed", speed="5×")
    assert drawn("speed") == ["5×"]
    assert panel.speed == 5.0
    panel.speed = 3
    assert drawn("speed", "speeds") == ["3×", ["0.5×", "1×", "2×", "3×", "5×", "10×"]]
    page.press("play")
    assert panel.played.result(60) == len(TIMED)
    assert drawn("playing", "position") == [False, 15.0]
    panel.seek(3.5)  # where it waits: it has ended
    eventually(panel, lambda: len(panel.conversation.exchanges) == 1)
    assert (panel.playback.playing, panel.playback.position_s) == (False, 3.5)
    for speed in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="greater than 0"):
            panel.speed = speed
    panel.close()

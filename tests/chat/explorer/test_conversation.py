"""A turn opens as the chat panel shows it, and nothing an agent wrote can run."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.errors import NotFound
from agentbook.chat.explorer.conversation import AROUND, open_conversation
from agentbook.chat.explorer.source import Source, source_of
from agentbook.frames.parse import to_frame
from chat.explorer.tables import make_events
from chat.fakes import FakePlatform, echo
from chat.test_hostile import assert_harmless
from support.hostile import CORPUS


def frame_of(*texts: tuple[str, str]) -> pd.DataFrame:
    return to_frame("events", [msgspec.json.encode({"items": make_events(*texts)})])


def source(data: Any, **options: Any) -> Source:
    return source_of(data, **({"events": None, "client": None, "by": None} | options))


@pytest.mark.parametrize("is_hashed", [False, True])
def test_the_turn_is_marked_within_its_conversation(is_hashed: bool) -> None:
    events = frame_of(("One?", "First."), ("Two?", "**Second.**"), ("Three?", "Third."))
    if is_hashed:
        events = events.assign(id=events["id"].str[::-1])
    opened = open_conversation(source(events), 1)
    assert opened.html.count('class="ab-x-turn"') == 2
    here = opened.html.partition("ab-x-here")[2]
    assert "Two?" in here
    assert "<strong>Second.</strong>" in here
    assert "One?" not in here
    heads = re.findall('<div class="ab-x-when">(.*?)</div>', opened.html)
    assert ["selected" in head for head in heads] == [False, True, False]  # not by its colour alone
    assert (opened.session_id, opened.title) == ("s1", "data-desk")


def test_only_the_neighbourhood_of_a_turn_is_rendered() -> None:
    events = frame_of(*((f"Question {n}?", f"Reply {n}.") for n in range(AROUND * 3)))
    opened = open_conversation(source(events), AROUND + 20)
    assert opened.html.count("ab-x-turn") == 2 * AROUND + 1
    assert f"Turns 21 to {2 * AROUND + 21} of {3 * AROUND}" in opened.html
    assert opened.near.count("ab-x-turn") == 3


def test_hostile_texts_are_shown_and_not_markup() -> None:
    turns = source(frame_of(*((text, text) for text in CORPUS.values())))
    for selected in range(0, len(CORPUS), AROUND):
        assert_harmless(open_conversation(turns, selected).html)


def test_turns_alone_say_what_is_missing() -> None:
    turns = ab.turns(frame_of(("One?", "First.")), texts=True)
    assert "ab.Explorer(turns, client=client)" in open_conversation(source(turns), 0).html
    other = frame_of(("One?", "First.")).assign(session_id="s2")
    assert "not in the frame of events" in open_conversation(source(turns, events=other), 0).html


def test_a_session_is_read_from_the_platform_and_its_refusal_is_shown() -> None:
    turns = ab.turns(frame_of(("One?", "First.")), texts=True)
    platform = FakePlatform(echo)
    platform.events.extend(make_events(("One?", "From the platform.")))
    assert "From the platform." in open_conversation(source(turns, client=platform), 0).html
    platform.refusals["events"] = [NotFound("no", operation="sessions.events", status=404, message="Session not found")]
    opened = open_conversation(source(turns, client=platform), 0)
    assert "Not found: Session not found" in opened.html

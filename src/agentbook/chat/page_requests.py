"""Requests from a page: sessions to choose from, an export, a test input."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from .._text import title
from ..evaluation.inputs import read_turns, to_frame
from .html.sanitize import visible
from .model.alternative import Alternative
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.session_list import SessionEntry

if TYPE_CHECKING:
    import pandas as pd

MAX_NAME = 40
MAX_QUESTION = 200
_TYPES = {
    ".md": "text/markdown",
    ".html": "text/html",
    ".json": "application/json",
    ".ipynb": "application/x-ipynb+json",
}


def entries_of(entries: Iterable[SessionEntry], kept: Container[str | None] = ()) -> list[list[Any]]:
    """Sessions as a page lists them, the reader's first; a notebook keeps `kept`."""
    return [
        [
            entry.session_id, visible(entry.title), _iso(entry.last_at), entry.is_current, entry.facts,
            visible(entry.name), bool(entry.name) or entry.session_id in kept,
            [[hit.message_id, _iso(hit.asked_at), *map(visible, hit.parts)] for hit in entry.hits], bool(entry.initiator),
        ]
        for entry in sorted(entries, key=lambda entry: bool(entry.initiator))
    ]  # fmt: skip


def _iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def exported(conversation: Conversation, suffix: str) -> dict[str, str]:
    """The conversation as a file that the page saves."""
    if suffix not in _TYPES:
        raise ValueError(f"The conversation is not exported as {suffix!r}: choose one of {', '.join(_TYPES)}.")
    conversation.load()
    transcript = conversation.as_transcript()
    return saved_file(transcript.agent_name, transcript.exchanges, suffix, transcript.to_text(suffix))


def saved_file(words: str, exchanges: Iterable[Exchange], suffix: str, text: str) -> dict[str, str]:
    """A file as a page saves it."""
    return {"name": f"{file_name(words, exchanges)}{suffix}", "type": _TYPES[suffix], "text": text}


def file_name(agent_name: str, exchanges: Any) -> str:
    """The name of an exported conversation: the agent's name and the day it began.

    Examples
    --------
    >>> file_name("Data desk (EU)/..", [])
    'data-desk-eu'
    >>> file_name("", [])
    'conversation'
    """
    words = re.findall(r"\w+", agent_name.lower())
    times = (exchange.turn.asked_at for exchange in exchanges)
    day = next((f"{time:%Y-%m-%d}" for time in times if time is not None), "")
    return "-".join(filter(None, ["-".join(words)[:MAX_NAME].strip("-") or "conversation", day]))


class TestSet(Protocol):
    """An object that accepts turns as test inputs: a `PromptLab`."""

    @property
    def inputs(self) -> list[str]:
        """The current inputs."""

    def add_inputs(self, turns: Any) -> pd.DataFrame:
        """Add them: ``input`` and, in words, what was ``masked``."""


def turn_record(conversation: Conversation, exchange: Exchange) -> dict[str, Any]:
    """A turn as a test set takes it."""
    turn = exchange.turn
    return {
        "prompt": turn.prompt,
        "session_id": turn.session_id,
        "message_id": turn.message_id,
        "asked_at": turn.asked_at,
        "agent": conversation.agent_name,
    }


def how_asked_again(conversation: Conversation, exchange: Exchange) -> dict[str, Any]:
    """What asking a turn again would do, as a page shows it before that."""
    conversation.load()
    try:
        before = len(Alternative(conversation, exchange).prompts) - 1
    except ValueError as error:
        return {"error": visible(str(error))}
    earlier = f"the {before:,} questions before this one are" if before > 1 else "the question before this one is"
    what = (
        f"The platform cannot copy a session. In a new one, {earlier} sent again, and then this one: {before + 1:,} turns."
        if before
        else "This question is sent again, in a new session: 1 turn."
    )
    return {
        "text": visible(title(exchange.prompt, MAX_QUESTION)),
        "note": f"{what} The agent answers anew, and its tools run again. The reply appears beside the first one.",
        "confirm": "Ask again",
    }


def add_to_test_set(test_set: TestSet, turn: Any, *, confirm: bool) -> dict[str, Any]:
    """Add a turn, or show what would be added; returns what a page draws."""
    try:
        rows = test_set.add_inputs(turn) if confirm else to_frame(read_turns(turn))
    except (ValueError, TypeError) as error:
        return {"error": visible(str(error))}
    row = rows.iloc[0]
    return {
        "text": visible(row["input"]),
        "masked": row["masked"],
        "added": confirm,
        "inputs": len(test_set.inputs),
    }

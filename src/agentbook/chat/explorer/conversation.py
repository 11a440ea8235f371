"""The conversation around a turn, as the chat panel shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...frames.analysis.arguments import local_text
from ...frames.export import anchor
from ...frames.tabular import link, session_url
from ..html import message_html
from ..html.sanitize import escape
from ..model.exchange import Exchange
from ..model.recording import read_events, read_transcript
from ..model.transcript import Transcript
from ..model.user_errors import explain
from .source import Source

AROUND = 40  # exchanges on each side of the turn that is shown
NO_EVENTS = (
    "These are turns only, so there is nothing to read the conversation from. Pass the events or a client: "
    "ab.Explorer(turns, events=events) or ab.Explorer(turns, client=client)."
)


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation as safe HTML, with its identity.

    Attributes
    ----------
    row : int
        The turn's position in the table of turns.
    session_id : str
    title : str
    html : str
    near : str
        The HTML of the turn and its neighbours.
    """

    row: int
    session_id: str
    title: str
    html: str
    near: str = ""


def open_conversation(source: Source, row: int, tz: str = "UTC") -> OpenedConversation:
    """Read the session of a turn; if that fails, the HTML says why.

    Its times are those of the zone `tz`.

    Must not be called on the toolkit's own thread: a session may come from the
    platform.
    """
    turn = source.turns.iloc[row]
    session_id = str(turn["session_id"])
    title = agent if isinstance(agent := turn.get("agent"), str) else ""
    if source.events is None and source.client is None:
        return _notice(row, session_id, title, NO_EVENTS)
    try:
        transcript = _read(source, session_id)
    except Exception as error:  # whatever a platform or a frame does, the page must report it
        return _notice(row, session_id, title, explain(error).text)
    if transcript is None or not transcript.exchanges:
        return _notice(row, session_id, title, "The events of this session are not in the frame of events.")
    exchanges = list(transcript.exchanges)
    selected = _position(exchanges, turn)
    name = title or transcript.agent_name
    url = session_url(source.turns)
    links = [link(url, session_id, _opening(exchange)) for exchange in exchanges]
    around, near = (_html(exchanges, selected, name, turns, tz, links) for turns in (AROUND, 1))
    return OpenedConversation(row, session_id, name, around, near)


def _read(source: Source, session_id: str) -> Transcript | None:
    if source.events is not None:
        rows = source.events[source.events["session_id"] == session_id]
        if len(rows):
            return read_transcript(read_events(rows, None))
    return None if source.client is None else read_transcript(read_events(session_id, source.client))


def _position(exchanges: Sequence[Exchange], turn: pd.Series[Any]) -> int:
    """Which exchange is the turn: by its question's id, its reply's, or its number."""
    ids = [turn[name] for name in ("message_id", "reply_id") if isinstance(turn.get(name), str)]
    for position, exchange in enumerate(exchanges):
        if exchange.turn.message_id in ids or any(event.get("id") in ids for event in exchange.turn.events):
            return position
    return min(max(int(turn["turn"]) - 1, 0), len(exchanges) - 1)


def _opening(exchange: Exchange) -> Any:
    """The id of the question, or of the reply of a turn without one."""
    events = exchange.turn.events
    return exchange.turn.message_id or (events[-1].get("id") if events else None)


def _html(
    exchanges: Sequence[Exchange], selected: int, agent_name: str, around: int, tz: str, links: Sequence[str | None]
) -> str:
    first, end = max(selected - around, 0), min(selected + around + 1, len(exchanges))
    parts = []
    if first > 0 or end < len(exchanges):
        parts.append(f'<div class="ab-x-part">Turns {first + 1:,} to {end:,} of {len(exchanges):,}.</div>')
    for position in range(first, end):
        exchange = exchanges[position]
        when = local_text(exchange.turn.asked_at, tz) if exchange.turn.asked_at else ""
        name, mark = ("ab-x-turn ab-x-here", " · selected") if position == selected else ("ab-x-turn", "")
        body = message_html.exchange_html(exchange, agent_name) or '<div class="ab-foot">No text.</div>'
        at = links[position]
        if at is not None:
            mark += f" · {anchor(at, 'Open the original')}"
        head = f'<div class="ab-x-when">Turn {position + 1:,} · {when}{mark}</div>'
        parts.append(f'<div class="{name}">{head}{body}</div>')
    return "".join(parts)


def _notice(row: int, session_id: str, title: str, text: str) -> OpenedConversation:
    html = f'<p class="ab-failed">{escape(text)}</p>'
    return OpenedConversation(row, session_id, title, html, html)

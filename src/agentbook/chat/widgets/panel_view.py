"""A chat panel in a page: its widget, their messages, and what it shows.

The kernel renders and sanitizes; the module, ``assets/panel/panel.js``, shows HTML by
turn and part, and never interprets what an agent wrote. `page_view` documents what the
messages of all modules have in common.

From the kernel
---------------
``{"kind": "snapshot", "version": 7, "fields": {...}, "turns": [["t1", {...}], ...]}``
    Everything as it is. A turn has ``html`` (parts by name), ``data`` (values by name),
    ``body`` (the HTML of its reply), ``cuts`` (where the pieces of the body end) and
    ``final`` (how many of them no longer change). All positions are in UTF-16 units.
``{"version": 8, "ops": [...]}``
    A patch, the changes since version 7. It is sent 20 times a second and names no
    kind, to be short:

    - ``["field", name, value]`` of what surrounds the turns; ``box`` is a message that
      was taken back, with a number; ``files`` is what is attached to the next one;
      ``place`` is the same in each run of a cell, and the page keeps a draft under it;
    - ``["turns", start, removed, [ids]]`` replaces some of the order of the turns;
    - ``["html", turn, part, start, removed, text]``: `text` takes the place of the
      `removed` units from `start` on;
    - ``["data", turn, name, value]``;
    - ``["body", turn, start, removed, text, first, cuts, final]``: as ``html``, and
      `cuts` follow the first `first` cuts; without the last three, only the end of the
      last piece has changed.
``{"kind": "answer", "number": n, "accepted": true}``
    Whether message `n` of a view was taken; if not, it returns to its box.
``{"kind": "sessions", "number": n, "entries": [[id, title, time, current, ...], ...]}``
    The sessions that match, with the time of the last message. Each ends in who takes
    part, where that is not as one would expect; its name on this computer; whether it
    can be forgotten here; the turns that match: ``[message, time, before, word,
    after]``; and whether somebody else began it. Times are in ISO 8601. ``others``
    says whether such sessions were looked for, where there can be any.
``{"kind": "opened", "number": n, "turn": "t1"}``
    A session was opened at this turn; empty if the turn is not in it.
``{"kind": "entries", "number": n, "entries": [[kind, name, words], ...], "more": 7}``
    What can be attached, as `model.mentions.find` returns it.
``{"kind": "mentioned", "number": n}``
    An entry was attached; or ``error`` in words.
``{"kind": "file", "number": n, "name": "talk.md", "type": ..., "text": ...}``
    The export and its media type; or ``error`` in words.
``{"kind": "collected", "number": n, "collected": {...}}``
    The test input that a turn would be, or has become; or how it would be asked again.

From the page
-------------
``{"do": "send", "text": "...", "number": n}``, ``{"do": "retry", "turn": "t1"}``,
``{"do": "ask_new", "turn": "t1"}``, ``{"do": "good", "turn": "t1"}``, and ``bad``,
``{"do": "session", "session": id, "keep": false}``,
``{"do": "session", "session": id, "turn": message, "number": n}``,
``{"do": "find", "search": "...", "others": false, "number": n}``,
``{"do": "rename", "session": id, "name": "...", "search": "...", "number": n}``, which
answers as ``find``, and forgets the session without a name,
``{"do": "export", "suffix": ".md", "number": n}``,
``{"do": "attach", "name": "a.csv", "text": "...", "size": 12}``,
``{"do": "complete", "word": "ord", "number": n}``,
``{"do": "mention", "kind": "variable", "name": "orders", "number": n}``,
``{"do": "attach", "source": "**a.csv**..."}``, ``{"do": "detach", "file": "0"}``,
``{"do": "collect", "turn": "t1", "confirm": false, "number": n}``, and ``again``,
``{"do": "shown", "page": name, "open": true}``,
``{"do": "seek", "position": 12.5}``, ``{"do": "speed", "speed": "2×"}``,
and ``play``, ``pause``, ``stop``, ``reconnect``, ``new``, ``pictures``
    A person's actions. `n` is a text that the view chooses.

Anything else is ignored, on both sides.

The turns of a long history arrive from its end: first the last hundred, then patches
with older ones. So a snapshot may have fewer turns than the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._text import seconds, thought, title
from ..assets import read_module, read_style
from ..html import message_html
from ..html.sanitize import escape, visible
from ..html.static_transcript import empty_chat, session_html, static_element
from ..html.style import live_css
from ..model.alternative import Alternative
from ..model.conversation import Conversation
from ..model.exchange import Exchange
from ..model.session_list import SessionEntry
from ..model.transcript import Transcript
from ..model.user_errors import UserError
from .chat_widget import KEYS
from .page_log import PageLog
from .page_view import PageState, PageView

_HINT = '<p class="ab-hint">Type @ to attach a table, a file or a cell.</p>'
_UNREAD = '<div class="ab-empty">The session could not be read.</div>'
SILENCE_S = 20.0  # time without any event after which the status says so
STOP = "Stop listening; the agent may still finish (Esc)"


class PanelView(PageView):
    """Shows the state of a panel in a page."""

    _esm = read_module("panel/panel.js")
    _css = f"{live_css()} {read_style('panel/round.css')}"


class PanelDrawing:
    """Draws a conversation into the state of a page.

    Parameters
    ----------
    conversation : Conversation
    images : bool
        Whether pictures in replies are fetched.
    collects : bool
        Whether turns can be added to a test set.
    rates : bool
        Whether replies get thumbs.

    Attributes
    ----------
    playback : dict or None
        Where a replay is, as the page shows it.
    log : PageLog
    changed : set of Exchange
        What the next drawing draws again.
    problem : UserError or None
        Why what a person asked for last could not be done.
    """

    def __init__(self, conversation: Conversation, *, images: bool, collects: bool, rates: bool = False) -> None:
        self._conversation, self._collects = conversation, collects
        self.log = PageLog(images=images, rates=rates)
        self.changed: set[Exchange] = set()
        self.playback: dict[str, Any] | None = None
        self.problem: UserError | None = None
        self._box: dict[str, Any] = {"number": 0, "text": ""}

    @property
    def images(self) -> bool:
        """Whether pictures in replies are fetched."""
        return self.log.images

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next drawing on, or stop doing so."""
        self.log.load_pictures(images)
        self.changed.update(self._conversation.exchanges)
        self.changed.update(each.exchange for each in self.alternatives if each.exchange is not None)

    @property
    def alternatives(self) -> list[Alternative]:
        """The turns that are, or were, asked again."""
        return [each for others in self.log.alternatives.values() for each in others]

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges that wait for a reply, also where a turn is asked again."""
        others = [each.exchange for each in self.alternatives if each.running and each.exchange is not None]
        return [*self._conversation.pending, *others]

    @property
    def open_characters(self) -> int:
        """How many characters the next drawing renders again."""
        return self.log.open_characters(self.pending)

    def exchange(self, id: str) -> Exchange | None:
        """The exchange of a turn's id; None if it is not drawn."""
        return self.log.exchange(id)

    def write(self, text: str) -> None:
        """Put a text into the box with the next drawing, before what is in it.

        The box itself belongs to the page: what a person writes is known only once it
        has been sent.
        """
        self._box = {"number": self._box["number"] + 1, "text": text}

    def draw(self, state: PageState) -> None:
        """Draw what has changed since the last time."""
        conversation = self._conversation
        changed, self.changed = self.changed, set()
        can_retry, can_start = not conversation.read_only, conversation._can_start
        self.log.draw(state, conversation.exchanges, changed, conversation.agent_name, can_retry, can_start)
        state.set_fields(**self._fields())

    def _fields(self) -> dict[str, Any]:
        conversation = self._conversation
        welcome = conversation._greeting
        session, name = conversation.session_id, visible((welcome and welcome.agent_name) or conversation.agent_name)
        several = len(conversation.sessions) + (session is None) > 1
        status = self._asking_again() or describe(conversation)
        closed = conversation.read_only or conversation.state == "closed"
        return {
            "name": name or "Agent",
            "session": _session(conversation),
            "finds": several or conversation._can_start,
            "exports": bool(conversation.exchanges),
            "collects": self._collects,
            "again": conversation._can_start,
            "fresh": conversation._can_start and bool(session or conversation.exchanges),
            "pictures": self.log.images,
            "box": self._box,
            "playback": self.playback,
            "notice": _notice(conversation._notice or self.problem),
            "empty": empty_html(conversation),
            "status": status,
            "calm": message_html.is_calm(*status),
            "composer": {
                "busy": bool(self.pending),
                "closed": closed,
                "placeholder": "This session is read only" if closed else f"Message {name or 'the agent'}{KEYS}",
                "stop": STOP,
            },
        }

    def _asking_again(self) -> tuple[str, bool] | None:
        """The status, if a turn is asked again, or that is what happened last."""
        conversation = self._conversation
        asked = {each.exchange.sent_at or 0.0: each for each in self.alternatives if each.exchange is not None}
        last_at = max((each.sent_at or 0.0 for each in conversation.exchanges[-1:]), default=0.0)
        if conversation.state != "idle" or max(asked, default=0.0) <= last_at:
            return None
        last = asked[max(asked)]
        if last.running or last.exchange is None:
            return f"Asking again: question {last.number} of {len(last.prompts)}…", True
        return _ENDED_AGAIN.get(last.exchange.status, "Answered."), False


def _session(conversation: Conversation) -> tuple[list[str], str, str] | None:
    """Label, tooltip and time of the session that is shown; None before the first."""
    if conversation._recorded:
        return ["recording"], "A recorded session", ""
    session, exchanges = conversation.session_id, conversation.exchanges
    if not session:
        return (["A new session"], "It starts with the next message", "") if conversation.sessions else None
    first = next((exchange for exchange in exchanges if exchange.prompt or exchange.text), None)
    opening = title(first.prompt or first.text) if first else f"Session …{session[-8:]}"
    words = visible(conversation._names.get(session) or opening)
    _, initiator = conversation._who(session)  # the head names the agent beside it
    version = conversation.version_number and f"version {visible(conversation.version_number)}"
    label = words, message_html.who_words("", initiator), version, message_html.used_in_all(exchanges)
    asked_at = first.turn.asked_at if first else None
    return list(filter(None, label)), f"Session {visible(session)}", asked_at.isoformat() if asked_at else ""


def _notice(error: UserError | None) -> str:
    """Safe HTML of the error that concerns the whole panel; empty if there is none."""
    if error is None:
        return ""
    return f'<div class="ab-failed">{escape(error.text)}{message_html.request_line(error.request_id)}</div>'


def empty_html(conversation: Conversation) -> str:
    """What an empty log shows: who the agent is, and messages to begin with.

    Each button of class ``ab-start`` carries its message in ``data-text``, which the
    page sends. The button ``ab-continue`` opens the last session.
    """
    welcome = conversation._greeting
    if conversation.error is not None:
        return _UNREAD
    if conversation._start_errors:
        return message_html.start_errors_html(conversation._start_errors)
    if welcome is None or conversation.read_only:
        return message_html.EMPTY
    last = welcome.last if not conversation.sessions else None  # one of them is in Sessions
    buttons = last and (
        f'<button type="button" class="ab-start ab-continue" dir="auto" data-session="{escape(last.session_id)}">'
        f"<span>Continue: {escape(last.name or last.title)}</span> {_time(last)}</button>"
    )
    buttons = (buttons or "") + "".join(
        f'<button type="button" class="ab-start" dir="auto" data-text="{escape(prompt)}">{escape(prompt)}</button>'
        for prompt in welcome.prompts
    )
    name = ""
    if welcome.agent_name:
        initial = (
            f'<span class="ab-initial" aria-hidden="true">{escape(visible(welcome.agent_name)[:1].upper())}</span>'
        )
        name = f"{initial}<bdi><strong>{escape(welcome.agent_name)}</strong></bdi>"
    text = f'<p dir="auto">{escape(welcome.description)}</p>' if welcome.description else ""
    return f'<div class="ab-empty">{name}{text}<div class="ab-starts">{buttons}</div>{_HINT}</div>'


def _time(entry: SessionEntry) -> str:
    """The time as an element, which a page shows as the reader's."""
    at = entry.last_at or entry.started_at
    return f'<time datetime="{at.isoformat()}">{entry.time} UTC</time>' if at else ""


def describe(conversation: Conversation) -> tuple[str, bool]:
    """The status as a sentence, and whether something is in progress."""
    text, is_busy = _describe(conversation)
    return f"{text} {message_html.POLLING}" if conversation.connection == "polling" else text, is_busy


def _describe(conversation: Conversation) -> tuple[str, bool]:
    pending = conversation.pending
    if conversation.state == "closed":
        return "Closed. The session itself continues.", False
    if conversation.connection == "reconnecting":
        return f"The connection was lost. Reconnecting…{_silence(conversation)}", True
    if conversation.error is not None:
        return "Not connected.", False
    if pending:
        if pending[0].waits_for_previous:
            waited = seconds(pending[0].waited_s(conversation._now))
            then = "The platform cannot cancel it." if pending[0].held else "Your message has been sent."
            return f"Waiting for the previous turn to end ({waited}). {then}", True
        text = _describe_pending(pending[0], conversation.agent_name or "The agent")
        return f"{text}{_silence(conversation)}", True
    if conversation.connection == "connecting":
        return "Reading the session…", True
    if conversation._recorded:
        return "Replay of a recorded session.", False
    if conversation.read_only:
        _, initiator = conversation._who(conversation.session_id or "")
        by = f"by {initiator} " if initiator else ""
        return f"Read only: this session was started {by}with another credential.", False
    if conversation._start_errors:
        return message_html.NOT_READY, False
    last = conversation.exchanges[-1] if conversation.exchanges else None
    return (_ENDED.get(last.status, "Ready.") if last is not None and last.ours else "Ready."), False


def _silence(conversation: Conversation) -> str:
    pending = conversation.pending
    silent_s = pending[0].silent_s(conversation._now) if pending and not conversation._recorded else 0.0
    return f" No response for {seconds(silent_s)}." if silent_s >= SILENCE_S else ""


def _describe_pending(exchange: Exchange, name: str) -> str:
    if exchange.status == "sending":
        return "Sending…"
    running = [step.name for step in exchange.steps if not step.done and step.name]
    if running:
        return f"{name} is running {running[-1].replace('_', ' ')}…"
    text, reply = thought(exchange.text)
    return f"{name} is {'answering' if reply else 'thinking' if text else 'working'}…"


_ENDED = {
    "answered": "Answered.",
    "failed": message_html.FAILED,
    "stopped": "Stopped listening.",
}


_ENDED_AGAIN = {
    "failed": "Asking again failed. See the reason in its column.",
    "stopped": "Stopped listening.",
}


def panel_html(
    exchanges: Sequence[Exchange], agent_name: str, others: Sequence[Transcript], incomplete: str, uid: str
) -> str:
    """A panel in a saved notebook: first its other sessions, which are collapsed."""
    if not exchanges and not others and not incomplete:
        return empty_chat(uid, agent_name)
    folded = "".join(
        f'<details class="ab-past"><summary>{escape(_summary(other))}</summary>'
        f"{session_html(other.exchanges, other.agent_name, other.incomplete)}</details>"
        for other in others
    )
    return static_element(uid, folded + session_html(exchanges, agent_name, incomplete))


def _summary(other: Transcript) -> str:
    words = title(next((each.prompt for each in other.exchanges if each.prompt), ""), 80)
    return f"Earlier session: {words}" if words else f"Session {other.session_id}"

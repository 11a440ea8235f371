"""The HTML of an exchange, part by part.

The panel puts each part into a widget; the static transcript joins them. All text that
is not our own goes through `plain` or `render`; the rest is fixed markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from ..._text import shorten
from ...events.turns import how_incomplete
from ..model.exchange import Exchange
from ..model.user_errors import UserError
from .durations import seconds
from .formulas import NOT_TYPESET
from .incremental import IncrementalMarkdown
from .markdown import IMAGES, render
from .sanitize import plain, visible
from .steps_html import steps

# Buttons that work without a kernel: the panel's script gives them their functions and
# tooltips. They are added after the sanitizer, which removes all buttons.
COPY = '<button type="button" class="ab-act ab-copy">Copy</button>'
EDIT = '<button type="button" class="ab-act ab-edit">Edit</button>'
_SCROLLABLE = re.compile(r'<(pre|div class="ab-table"|(?:div|span) class="ab-math ab-(?:display|long)[^"]*")>')

_KINDS = {"api_key": "API key"}  # what people call a type
STOPPED = "Stopped listening: the platform cannot cancel a turn. The agent may still finish: a late reply appears here."
UNSENT = "Stopped. This message was not sent."
CUT_OFF = "Incomplete: the reply was cut off here."
UNFINISHED = "Incomplete: the reply was still being written here."
UNANSWERED = "There is no reply yet."
INCOMPLETE = "The session may be incomplete."
NO_REASON = "The platform sent no reason."
NOT_READY = "Not ready. See the message above."
POLLING = "Replies arrive without live drafts, because no WebSocket could be opened."
TRY_AGAIN = "Try again"
EMPTY = '<div class="ab-empty">No messages yet.</div>'
TYPING = '<div class="ab-typing">' + '<span class="ab-dot"></span>' * 3 + "</div>"
MAX_CACHED = 8_000  # characters of a text whose HTML is cached


def question(exchange: Exchange, *, live: bool = False) -> str:
    """The bubble of the question; empty if there is none.

    A live panel adds its buttons.
    """
    if not exchange.prompt:
        return ""
    buttons = f'<span class="ab-acts">{COPY}{EDIT if exchange.is_own else ""}</span>' if live else ""
    who = _who(plain(asker(exchange)), buttons)
    classes = "ab-me" if exchange.is_own else "ab-me ab-other"
    return f'<div class="{classes}">{who}<div class="ab-said" dir="auto">{plain(exchange.prompt)}</div></div>'


def asker(exchange: Exchange) -> str:
    """The name of its author, as a transcript shows it."""
    return "You" if exchange.is_own else author_name(exchange.turn.author) or "Unknown author"


def author_name(author: Mapping[str, Any]) -> str:
    """The name of an author or initiator, else its type; empty if neither is known."""
    kind = str(author.get("type") or "")
    return str(author.get("name") or _KINDS.get(kind, kind))


def who_words(agent: str, initiator: str) -> str:
    """Whose session it is, on one line, where that is not as one would expect.

    Examples
    --------
    >>> who_words("echo", "support-desk"), who_words("", "")
    ('echo · by support-desk', '')
    """
    names = [shorten(visible(name)) for name in (agent, initiator)]
    return " · ".join(filter(None, (names[0], names[1] and f"by {names[1]}")))


def head(exchange: Exchange, agent_name: str, *, live: bool = True) -> str:
    """The agent's name and the steps; a live panel adds its buttons to their code."""
    return _who(plain(agent_name) or "Agent") + _add_controls(steps(exchange), live=live)


def _who(name: str, buttons: str = "") -> str:
    """Who speaks; also bold where an untrusted notebook has no styles."""
    return f'<div class="ab-who">{buttons}<strong>{name}</strong></div>'


def body(pieces: Iterable[str], *, live: bool = False) -> str:
    """Pieces of rendered Markdown as one piece of HTML."""
    return "".join(f'<div class="ab-md">{_add_controls(piece, live=live)}</div>' for piece in pieces if piece)


def foot(exchange: Exchange, *, live: bool = False) -> str:
    """The line under the reply: its duration, that it was stopped, or why it failed.

    A live panel adds the Copy button.
    """
    if exchange.status == "failed":
        reason = plain(exchange.reason or NO_REASON)
        cut_off = f'<div class="ab-foot"><em>{CUT_OFF}</em></div>' if is_cut_off(exchange) else ""
        return f'{cut_off}<div class="ab-failed"><strong>Failed.</strong> {reason}{request_line(exchange.request_id)}</div>'
    if exchange.status == "stopped":
        return f'<div class="ab-foot">{UNSENT if exchange.unsent else STOPPED}</div>'
    if exchange.status == "answered":
        duration = f"<span>{latency(exchange)}</span>" if exchange.time_to_reply_s is not None else ""
        # The Markdown source, not the rendered text: it can be pasted anywhere.
        copy = COPY.replace(">", f' data-text="{plain(exchange.text)}">', 1) if live and exchange.text else ""
        chip = finish_chip(exchange.turn.finish_reason)
        return f'<div class="ab-foot">{chip}{duration}{copy}</div>' if chip or duration or copy else ""
    return TYPING if not exchange.text else ""


def earlier_attempts(exchanges: Iterable[Exchange]) -> str:
    """What was streamed before a message was tried again, and why it ended."""
    return "".join(
        f'<div class="ab-attempt">{body([rendered(exchange.text, False)])}{foot(exchange)}</div>'
        for exchange in exchanges
    )


def is_cut_off(exchange: Exchange) -> bool:
    """Whether the turn failed and its text is only what was streamed before."""
    return exchange.status == "failed" and bool(exchange.text) and exchange.turn.text is None


def finish_chip(finish_reason: str | None) -> str:
    """That a reply is incomplete, such as “cut off”; empty if it is not."""
    words = how_incomplete(finish_reason)
    return f'<span class="ab-finish">{plain(words)}</span> ' if words else ""


def request_line(request_id: str | None) -> str:
    """The id of a refused request, to quote in a report; empty if there is none."""
    return f'<div class="ab-id">Request {plain(request_id)}</div>' if request_id else ""


def latency(exchange: Exchange) -> str:
    """The time to the reply in words, and to the first event if it differs."""
    reply_s, first_s = exchange.time_to_reply_s, exchange.time_to_first_event_s
    if reply_s is None:
        return ""
    first = first_s is not None and first_s >= 0.05 and reply_s - first_s >= 0.1
    prefix = f"first event after {seconds(first_s)}, " if first and first_s is not None else ""
    return f"{prefix}reply after {seconds(reply_s)}".capitalize()


def retry_button(exchange: Exchange) -> tuple[str, str] | None:
    """Label and tooltip of the button below a reply; None if there is nothing to do.

    It tries again, or withdraws a held message (see `Exchange.held`).
    """
    if exchange.held:
        return "Withdraw", "Take this message back; it has not been sent"
    if exchange.status not in ("failed", "stopped"):
        return None
    if exchange.bound and exchange.turn.status == "open":
        label = TRY_AGAIN if exchange.status == "failed" and exchange.is_own else "Listen again"
        return label, "Wait for this reply again; a late reply is fetched"
    if not exchange.is_own:
        return None
    if exchange.turn.status == "failed":
        return TRY_AGAIN, "Ask again as a new message: the platform cannot resume a failed turn"
    return TRY_AGAIN, "Send this message again, unless it has already arrived"


def exchange_html(
    exchange: Exchange, agent_name: str, *, live: bool = False, images: bool = False, source: bool = False
) -> str:
    """A whole exchange, for long histories; with `source`, its Markdown unrendered."""
    reply = ""
    if exchange.text or exchange.steps or exchange.status in ("failed", "stopped"):
        to_html = _source if source else partial(rendered, images=images)
        text = body([to_html(exchange.text)], live=live) if exchange.text else ""
        footer = foot(exchange, live=live) if exchange.status in ("failed", "answered", "stopped") else ""
        reply = f'<div class="ab-agent ab-said">{head(exchange, agent_name, live=live)}{text}{footer}</div>'
    return question(exchange, live=live) + reply


def _source(text: str) -> str:
    return f'<div class="ab-plain ab-source">{plain(text)}</div>'


def rendered(text: str, images: bool = False) -> str:
    """Safe HTML of an agent's text; short texts are rendered only once."""
    return _render_cached(text, images) if len(text) <= MAX_CACHED else render(text, {IMAGES: images})


@lru_cache(maxsize=4096)
def _render_cached(text: str, images: bool) -> str:
    # A long history is drawn twice in a row, in the panel and in its static transcript,
    # and rendering accounts for most of the cost.
    return render(text, {IMAGES: images})


def pieces(reply: IncrementalMarkdown) -> list[str]:
    """The frozen chunks, the recent parts and the open end, one per widget."""
    return [
        *(_piece(piece, "ab-md ab-piece") for piece in (*reply.frozen, *reply.recent)),
        _piece(reply.last, "ab-md"),
    ]


def with_controls(pieces: Iterable[str]) -> list[str]:
    """Pieces of a live reply with their buttons, for elements that a module makes."""
    return [_add_controls(piece, live=True) for piece in pieces]


def _piece(html: str, classes: str) -> str:
    if not html:
        return ""
    # Without these characters MathJax would find nothing, and the class would be
    # repeated in every message of a stream.
    not_typeset = f" {NOT_TYPESET}" if "$" in html or "\\" in html else ""
    return f'<div class="{classes}{not_typeset}">{_add_controls(html, live=True)}</div>'


def _add_controls(html: str, *, live: bool) -> str:
    """Sanitized HTML plus what the sanitizer removes: focus for scrollable parts, Copy.

    An agent's text cannot imitate the markup searched for, because it would be escaped.
    """
    html = _SCROLLABLE.sub(r'<\1 tabindex="0">', html)
    return html.replace('<div class="ab-code">', f'<div class="ab-code">{COPY}') if live else html


def start_errors_html(errors: Sequence[UserError]) -> str:
    """Why no session can start; without a reason, that there are no messages yet."""
    reasons = "".join(
        f'<div class="ab-failed">{plain(error.text)}{request_line(error.request_id)}</div>' for error in errors
    )
    return reasons or EMPTY

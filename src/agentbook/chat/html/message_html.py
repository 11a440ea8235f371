"""The HTML of an exchange, part by part: the panel sets each into a widget, the static transcript strings them together.

Every word that is not ours goes through `plain` or `render`; the rest is fixed markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ..model.exchange import Exchange
from .chunks import Chunks
from .formulas import LEFT_ALONE
from .render import IMAGES, plain, render

# Buttons without a kernel behind them: the panel's hook (hook.py) gives them their work and their tooltips. They are put in
# after the sanitizer, which lets none through.
COPY = '<button type="button" class="ab-act ab-copy">Copy</button>'
EDIT = '<button type="button" class="ab-act ab-edit">Edit</button>'
_SCROLLS = re.compile(r'<(pre|div class="ab-table"|(?:div|span) class="ab-math ab-(?:display|long)[^"]*")>')

STOPPED = "Stopped listening. The agent may still finish: a late reply appears here."
EMPTY = '<div class="ab-empty">No messages yet.</div>'
TYPING = '<div class="ab-typing">' + '<span class="ab-dot"></span>' * 3 + "</div>"
MANY_STEPS = 12
MAX_KEPT = 8_000  # characters of a text whose HTML is kept


def question(exchange: Exchange, *, live: bool = False) -> str:
    """The bubble of what was asked, in a live panel with its buttons; empty for a turn that nobody asked."""
    if not exchange.prompt:
        return ""
    author = exchange.turn.author
    name = "" if author.get("type") in (None, "api_key") else str(author.get("name") or author.get("type"))
    acts = f'<span class="ab-acts">{COPY}{EDIT}</span>' if live else ""
    who = f'<div class="ab-who">{acts}{plain(name) or "You"}</div>'
    return f'<div class="ab-me">{who}<div class="ab-said" dir="auto">{plain(exchange.prompt)}</div></div>'


def head(exchange: Exchange, agent_name: str) -> str:
    """Who answers, and the progress line: each subtask and tool run as a chip."""
    return f'<div class="ab-who">{plain(agent_name) or "Agent"}</div>{steps(exchange)}'


def steps(exchange: Exchange) -> str:
    """The progress line; folded away once the turn has ended."""
    named = [step for step in exchange.steps if step.name]
    unnamed = len(exchange.steps) - len(named)
    shown = named[-MANY_STEPS:]
    hidden = unnamed + len(named) - len(shown)
    chips = [
        f'<span class="ab-chip {"ab-done" if step.done else "ab-running"}">{plain(step.name.replace("_", " "))}</span>'
        for step in shown
    ]
    if hidden:
        label = f"{hidden} more" if shown else "1 step" if hidden == 1 else f"{hidden} steps"
        chips.insert(0, f'<span class="ab-chip ab-done">{label}</span>')
    line = f'<div class="ab-chips">{"".join(chips)}</div>' if chips else ""
    if exchange.other_types:
        kinds = ", ".join(f"{plain(kind)} × {count}" for kind, count in exchange.other_types.items())
        line += f'<div class="ab-other">Other events: {kinds}</div>'
    if not line:
        return ""
    if exchange.pending and not exchange.other_types:
        return f'<div class="ab-steps">{line}</div>'
    told = _counted(len(exchange.steps), "step"), _counted(sum(exchange.other_types.values()), "other event")
    summary = ", ".join(filter(None, told))
    return f'<details class="ab-steps"><summary>{summary}</summary>{line}</details>'


def _counted(number: int, what: str) -> str:
    return "" if not number else f"1 {what}" if number == 1 else f"{number} {what}s"


def body(pieces: Iterable[str], *, live: bool = False) -> str:
    """Rendered Markdown, piece by piece, as one text."""
    return "".join(f'<div class="ab-md">{_finished(piece, live=live)}</div>' for piece in pieces if piece)


def foot(exchange: Exchange, *, live: bool = False) -> str:
    """What stands under the answer: how long it took, that it was stopped, or why it failed; in a live panel, Copy."""
    if exchange.status == "failed":
        request = f'<div class="ab-id">Request {plain(exchange.request_id)}</div>' if exchange.request_id else ""
        reason = plain(exchange.reason or "No reason was given.")
        return f'<div class="ab-failed"><strong>Failed.</strong> {reason}{request}</div>'
    if exchange.status == "stopped":
        return f'<div class="ab-foot">{STOPPED}</div>'
    if exchange.status == "answered":
        took = f"<span>{latency(exchange)}</span>" if exchange.time_to_reply_s is not None else ""
        # As it was written, not as it is drawn: Markdown can be pasted anywhere.
        copy = COPY.replace(">", f' data-text="{plain(exchange.text)}">', 1) if live and exchange.text else ""
        return f'<div class="ab-foot">{took}{copy}</div>' if took or copy else ""
    return TYPING if not exchange.text else ""


def latency(exchange: Exchange) -> str:
    """Time to the first event and to the reply, in words; the first where it says something of its own."""
    reply, first = exchange.time_to_reply_s, exchange.time_to_first_event_s
    if reply is None:
        return ""
    begun = (
        f"first sign after {seconds(first)}, " if first is not None and first >= 0.05 and reply - first >= 0.1 else ""
    )
    return (begun + f"reply after {seconds(reply)}").capitalize()


def seconds(value: float) -> str:
    """A duration for people: ``0.4 s``, ``12 s``, ``3 min 5 s``."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def again(exchange: Exchange) -> tuple[str, str] | None:
    """The button under an exchange that ended without a reply, and its tooltip; None where there is nothing to do again."""
    if exchange.status not in ("failed", "stopped"):
        return None
    if exchange.bound and exchange.turn.status == "open":
        return "Listen again", "Wait for this reply again; one that came late is fetched"
    if exchange.turn.status == "failed":
        return "Send again", "Ask again, as a new message: the platform cannot take a failed turn up again"
    return "Retry", "Send this message again; if it has arrived after all, it is not sent twice"


def whole(exchange: Exchange, agent_name: str, *, live: bool = False, images: bool = False) -> str:
    """An exchange as one piece of HTML, for long histories and for the static transcript."""
    answer = ""
    if exchange.text or exchange.steps or exchange.status in ("failed", "stopped"):
        said = body([_rendered(exchange.text, images)], live=live) if exchange.text else ""
        under = foot(exchange, live=live) if exchange.status in ("failed", "answered", "stopped") else ""
        answer = f'<div class="ab-agent ab-said">{head(exchange, agent_name)}{said}{under}</div>'
    return question(exchange, live=live) + answer


def _rendered(text: str, images: bool) -> str:
    return _kept(text, images) if len(text) <= MAX_KEPT else render(text, {IMAGES: images})


@lru_cache(maxsize=4096)
def _kept(text: str, images: bool) -> str:
    # A long history is drawn twice in a row, in the panel and in its static twin, and rendering is most of what that costs.
    return render(text, {IMAGES: images})


def pieces(chunks: Chunks) -> list[str]:
    """The frozen chunks, what has ended since, and the open end, each as the content of one widget."""
    return [
        *(_piece(piece, "ab-md ab-piece") for piece in (*chunks.frozen, *chunks.recent)),
        _piece(chunks.last, "ab-md"),
    ]


def _piece(html: str, classes: str) -> str:
    if not html:
        return ""
    # Where MathJax would find nothing it need not be told to keep off, in every message of a stream.
    kept_off = f" {LEFT_ALONE}" if "$" in html or "\\" in html else ""
    return f'<div class="{classes}{kept_off}">{_finished(html, live=True)}</div>'


def _finished(html: str, *, live: bool) -> str:
    """Sanitized HTML with what the sanitizer lets nobody else have: what scrolls can be reached by keyboard, code be copied.

    No text of an agent's can be the markup that is looked for, as it would be escaped.
    """
    html = _SCROLLS.sub(r'<\1 tabindex="0">', html)
    return html.replace('<div class="ab-code">', f'<div class="ab-code">{COPY}') if live else html

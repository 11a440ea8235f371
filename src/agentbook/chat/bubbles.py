"""The HTML of an exchange, part by part: the panel sets each into a widget, the static transcript strings them together.

Every word that is not ours goes through `plain` or `render`; the rest is fixed markup.
"""

from __future__ import annotations

from collections.abc import Iterable

from .chunks import Chunks
from .exchange import Exchange
from .render import plain, render

STOPPED = "Stopped listening. The agent may still finish: a late reply appears here."
EMPTY = '<div class="ab-empty">No messages yet.</div>'
TYPING = '<div class="ab-typing">' + '<span class="ab-dot"></span>' * 3 + "</div>"
MANY_STEPS = 12


def question(exchange: Exchange) -> str:
    """The bubble of what was asked; empty for a turn that nobody asked."""
    if not exchange.prompt:
        return ""
    author = exchange.turn.author
    name = "" if author.get("type") in (None, "api_key") else str(author.get("name") or author.get("type"))
    who = f'<div class="ab-who">{plain(name) or "You"}</div>'
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
    count = len(exchange.steps)
    summary = "Other events" if not count else "1 step" if count == 1 else f"{count} steps"
    return f'<details class="ab-steps"><summary>{summary}</summary>{line}</details>'


def body(pieces: Iterable[str]) -> str:
    """Rendered Markdown, piece by piece, as one text."""
    return "".join(f'<div class="ab-md">{piece}</div>' for piece in pieces if piece)


def foot(exchange: Exchange) -> str:
    """What stands under the answer: how long it took, that it was stopped, or why it failed."""
    if exchange.status == "failed":
        request = f'<div class="ab-id">Request {plain(exchange.request_id)}</div>' if exchange.request_id else ""
        reason = plain(exchange.reason or "No reason was given.")
        return f'<div class="ab-failed"><strong>Failed.</strong> {reason}{request}</div>'
    if exchange.status == "stopped":
        return f'<div class="ab-foot">{STOPPED}</div>'
    if exchange.status == "answered":
        return f'<div class="ab-foot">{latency(exchange)}</div>' if exchange.time_to_reply_s is not None else ""
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


def whole(exchange: Exchange, agent_name: str) -> str:
    """An exchange as one piece of HTML, for long histories and for the static transcript."""
    answer = ""
    if exchange.text or exchange.steps or exchange.status in ("failed", "stopped"):
        said = body([render(exchange.text)]) if exchange.text else ""
        under = foot(exchange) if exchange.status in ("failed", "answered", "stopped") else ""
        answer = f'<div class="ab-agent ab-said">{head(exchange, agent_name)}{said}{under}</div>'
    return question(exchange) + answer


def pieces(chunks: Chunks) -> list[str]:
    """The frozen chunks and the tail, each as the content of one widget."""
    frozen = [f'<div class="ab-md ab-piece">{piece}</div>' for piece in chunks.frozen]
    return [*frozen, f'<div class="ab-md">{chunks.tail}</div>' if chunks.tail else ""]

"""The HTML of an exchange, part by part.

A live panel gets each part by itself; the static transcript joins them. All text that
is not our own goes through `escape` or `render`; the rest is fixed markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from ..._text import seconds, shorten, thought
from ...events.turns import how_incomplete
from ...frames.analysis.turn_details import Step
from ..model.exchange import Exchange
from ..model.user_errors import UserError
from .attached import said
from .markdown import IMAGES, cell_kind, highlight, render
from .sanitize import escape, visible

# Buttons that work without a kernel: the panel's script gives them their functions and
# tooltips. They are added after the sanitizer, which removes all buttons.
COPY = '<button type="button" class="ab-act ab-copy">Copy</button>'
# Only in a notebook that can do that.
INSERT = '<button type="button" class="ab-act ab-insert ab-as-{}">Insert below</button>'
FRAME = '<button type="button" class="ab-act ab-insert ab-tabular">As DataFrame</button>'
EDIT = '<button type="button" class="ab-act ab-edit">Edit</button>'
# Its words are in the style: they are no part of the text around it.
PICTURES = '<button type="button" class="ab-act ab-load" aria-label="Load pictures"></button>'
AGAIN = '<button type="button" class="ab-act ab-again">Ask again</button>'  # only in a panel that can start a session
# A block of code with its language, and a table.
_CODE = re.compile(r'<div class="ab-code">(?=(?:<div class="ab-lang"><em>([^<]*))?)')
_TABLE = re.compile(r'<div class="ab-table">.*?</table></div>', re.DOTALL)
_PICTURE = re.compile(r'<a class="ab-picture".*?</a>', re.DOTALL)
_SCROLLABLE = re.compile(r'<(pre|div class="ab-table"|(?:div|span) class="ab-math ab-(?:display|long)[^"]*")>')

_KINDS = {"api_key": "API key"}  # what people call a type
STOPPED = "Stopped listening: the platform cannot cancel a turn. The agent may still finish; a late reply appears here."
LATE = "The agent finished after Stop"
UNSENT = "Stopped. This message was not sent."
CUT_OFF = "Incomplete: the reply was cut off here."
UNFINISHED = "Incomplete: the reply was still being written here."
UNANSWERED = "There is no reply yet."
INCOMPLETE = "The session may be incomplete."
NO_REASON = "The platform sent no reason."
NOT_READY = "Not ready."
POLLING = "Replies appear only when they are complete, because no WebSocket could be opened."
TRY_AGAIN = "Try again"
FAILED = "Failed."
# The log says it, if it says anything.
CALM = ("Ready.", NOT_READY, "Answered.", "All answered.", FAILED, "Stopped listening.")
EMPTY = '<div class="ab-empty">No messages yet.</div>'
TYPING = '<div class="ab-typing">' + '<span class="ab-dot"></span>' * 3 + "</div>"
# Of steps
MAX_CHIPS = 12
MAX_LISTED = 100
MAX_DEPTH = 8
MAX_NAME = 200
MAX_CONTENT = 6_000  # characters of an argument or a result
# Names of arguments that hold code: name to language.
_LANGUAGES = {"sql": "sql", "query_sql": "sql", "python": "python", "code": "python", "command": "bash"}

MAX_CACHED = 8_000  # characters of a text whose HTML is cached


def is_calm(status: str, is_busy: bool) -> bool:
    """Whether nothing happens that the log does not show: a page only reads it aloud.

    Examples
    --------
    >>> is_calm("Answered.", False), is_calm("Reconnecting…", True)
    (True, False)
    """
    return not is_busy and status.startswith(CALM) and POLLING not in status


def question(exchange: Exchange, *, live: bool = False) -> str:
    """The bubble of the question; empty if there is none.

    A live panel adds its buttons.
    """
    if not exchange.prompt:
        return ""
    buttons = f'<span class="ab-acts">{COPY}{EDIT if exchange.is_own else ""}</span>' if live else ""
    asked_at = exchange.turn.asked_at if live else None
    if asked_at is not None:
        buttons += f'<time datetime="{asked_at.isoformat()}">{asked_at:%Y-%m-%d %H:%M} UTC</time>'
    who = _who(escape(asker(exchange)), buttons)
    classes = "ab-me" if exchange.is_own else "ab-me ab-other"
    return f'<div class="{classes}">{who}{said(exchange.prompt)}</div>'


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
    return _who(escape(agent_name) or "Agent") + _add_controls(steps(exchange), live=live) + thinking(exchange)


def thinking(exchange: Exchange) -> str:
    """What the model wrote before its reply, folded; empty without it."""
    text, _ = thought(exchange.text)
    plain = f'<div class="ab-md"><div class="ab-plain" dir="auto">{escape(text)}</div></div>'
    return f'<details class="ab-steps"><summary>Thinking</summary>{plain}</details>' if text else ""


def _who(name: str, buttons: str = "") -> str:
    """Who speaks; also bold where an untrusted notebook has no styles."""
    return f'<div class="ab-who"><strong dir="auto">{name}</strong>{buttons}</div>'


def body(pieces: Iterable[str], *, live: bool = False) -> str:
    """Pieces of rendered Markdown as one piece of HTML."""
    return "".join(f'<div class="ab-md">{_add_controls(piece, live=live)}</div>' for piece in pieces if piece)


def foot(exchange: Exchange, *, live: bool = False) -> str:
    """The line under the reply: what it took, that it was stopped, or why it failed.

    A live panel adds its buttons.
    """
    if exchange.status == "failed":
        reason = escape(exchange.reason or NO_REASON)
        cut_off = f'<div class="ab-foot"><em>{CUT_OFF}</em></div>' if is_cut_off(exchange) else ""
        return f'{cut_off}<div class="ab-failed"><strong>Failed.</strong> {reason}{request_line(exchange.request_id)}</div>'
    if exchange.status == "stopped":
        return f'<div class="ab-foot">{UNSENT if exchange.unsent else STOPPED}</div>'
    if exchange.status == "answered":
        facts = " ".join(f"<span>{escape(words)}</span>" for words in (latency(exchange), used(exchange)) if words)
        # The Markdown source, not the rendered text: it can be pasted anywhere.
        _, reply = thought(exchange.text)
        copy = COPY.replace(">", f' data-text="{escape(reply)}">', 1) if live and reply else ""
        again = AGAIN if live and exchange.prompt else ""
        late = f'<span class="ab-finish">{LATE}</span> ' if exchange.phase == "stopped" else ""
        content = late + finish_chip(exchange.turn.finish_reason) + facts + copy + again
        return f'<div class="ab-foot">{content}</div>' if content else ""
    return TYPING if not exchange.text else ""


def earlier_attempts(exchanges: Iterable[Exchange]) -> str:
    """What was streamed before a message was tried again, and why it ended."""
    return "".join(
        f'<div class="ab-attempt">{body([rendered(thought(exchange.text)[1], False)])}{foot(exchange)}</div>'
        for exchange in exchanges
    )


def is_cut_off(exchange: Exchange) -> bool:
    """Whether the turn failed and its text is only what was streamed before."""
    return exchange.status == "failed" and bool(exchange.text) and exchange.turn.text is None


def finish_chip(finish_reason: str | None) -> str:
    """That a reply is incomplete, such as “cut off”; empty if it is not."""
    words = how_incomplete(finish_reason)
    return f'<span class="ab-finish">{escape(words)}</span> ' if words else ""


def request_line(request_id: str | None) -> str:
    """The id of a refused request, to quote in a report; empty if there is none."""
    return f'<div class="ab-id">Request {escape(request_id)}</div>' if request_id else ""


def latency(exchange: Exchange) -> str:
    """The time to the reply in words, and to the first event if it differs."""
    reply_s, first_s = exchange.time_to_reply_s, exchange.time_to_first_event_s
    if reply_s is None:
        return ""
    first = first_s is not None and first_s >= 0.05 and reply_s - first_s >= 0.1
    prefix = f"first event after {seconds(first_s)}, " if first and first_s is not None else ""
    return f"{prefix}reply after {seconds(reply_s)}".capitalize()


def used(exchange: Exchange) -> str:
    """What the turn used, in words: model, tokens and cost, as far as known."""
    return _used(exchange.usage["model"], exchange.usage["tokens"], exchange.cost)


def _used(model: str | None, tokens: int | None, cost: float | None) -> str:
    words = [f"{tokens:,} tokens" if tokens is not None else "", "" if cost is None else f"cost {_amount(cost)}"]
    return " · ".join(filter(None, (model and shorten(visible(model)), *words)))


def _amount(cost: float) -> str:
    """A cost without an exponent, with at least three digits that count.

    Examples
    --------
    >>> _amount(0.000009), _amount(0.0303), _amount(1234.5)
    ('0.000009', '0.0303', '1,234.50')
    """
    return f"{cost:,.2f}" if cost >= 1 else format(Decimal(f"{cost:.3g}"), "f")


def used_in_all(exchanges: Iterable[Exchange]) -> str:
    """What the turns used together, and of how many that is known, if not of all."""
    ended = [exchange for exchange in exchanges if exchange.turn.status != "open"]
    known = [exchange for exchange in ended if exchange.usage["tokens"] is not None]
    if not known:
        return ""
    costs = [exchange.cost for exchange in known if exchange.cost is not None]
    cost = sum(costs) if len(costs) == len(known) else None
    part = f" ({len(known):,} of {len(ended):,} turns)" if len(known) < len(ended) else ""
    return _used(None, sum(exchange.usage["tokens"] for exchange in known), cost) + part


def actions(exchange: Exchange, *, can_start: bool = False) -> list[tuple[str, str, str]]:
    """What can be done about a turn: what a page says to do it, label and tooltip.

    A message that is held (see `Exchange.held`) can be withdrawn or, with `can_start`,
    asked in a new session. Other turns can be tried again.
    """
    if exchange.held:
        held = [("retry", "Withdraw", "Take this message back; it has not been sent")]
        elsewhere = "ask_new", "Ask in a new session", "Leave this session, and send the message in a new one"
        return [*held, elsewhere] if can_start else held
    retry = _retry(exchange)
    return [("retry", *retry)] if retry else []


def thumbs(exchange: Exchange) -> list[tuple[str, str, str, bool]]:
    """What can be said about a reply, as `actions` are, and whether it was said."""
    if exchange.status != "answered":
        return []
    up, down = (exchange.thumb is each for each in (True, False))
    return [("good", "Good", "This reply is good", up), ("bad", "Bad", "This reply is bad", down)]


def _retry(exchange: Exchange) -> tuple[str, str] | None:
    if exchange.status not in ("failed", "stopped"):
        return None
    if exchange.awaits_reply:
        label = TRY_AGAIN if exchange.status == "failed" and exchange.is_own else "Listen again"
        return label, "Wait for this reply again; a late reply is fetched"
    if not exchange.is_own:
        return None
    if exchange.turn.status == "failed":
        return TRY_AGAIN, "Send the question as a new message: the platform cannot resume a failed turn"
    return TRY_AGAIN, "Send this message again, unless it has already arrived"


def exchange_html(
    exchange: Exchange, agent_name: str, *, live: bool = False, images: bool = False, source: bool = False
) -> str:
    """A whole exchange, for long histories; with `source`, its Markdown unrendered."""
    reply = ""
    if exchange.text or exchange.steps or exchange.status in ("failed", "stopped"):
        to_html = _source if source else partial(rendered, images=images)
        text = body([to_html(thought(exchange.text)[1])], live=live) if exchange.text else ""
        footer = foot(exchange, live=live) if exchange.status in ("failed", "answered", "stopped") else ""
        reply = f'<div class="ab-agent ab-said">{head(exchange, agent_name, live=live)}{text}{footer}</div>'
    return question(exchange, live=live) + reply


def _source(text: str) -> str:
    return f'<div class="ab-plain ab-source">{escape(text)}</div>'


def rendered(text: str, images: bool = False) -> str:
    """Safe HTML of an agent's text; short texts are rendered only once."""
    return _render_cached(text, images) if len(text) <= MAX_CACHED else render(text, {IMAGES: images})


@lru_cache(maxsize=4096)
def _render_cached(text: str, images: bool) -> str:
    # A long history is drawn twice in a row, in the panel and in its static transcript,
    # and rendering accounts for most of the cost.
    return render(text, {IMAGES: images})


def with_controls(pieces: Iterable[str]) -> list[str]:
    """Pieces of a live reply with their buttons, for elements that a module makes."""
    return [_add_controls(piece, live=True) for piece in pieces]


def _add_controls(html: str, *, live: bool) -> str:
    """Sanitized HTML plus what that removes: focus for scrollable parts, and buttons.

    An agent's text cannot imitate the markup searched for, because it would be escaped.
    """
    if live:
        html = _CODE.sub(_with_buttons, html)
        html = _TABLE.sub(rf'\g<0><div class="ab-acts">{FRAME}</div>', html)
        html = _PICTURE.sub(rf"\g<0> {PICTURES}", html)
    return _SCROLLABLE.sub(r'<\1 tabindex="0">', html)


def _with_buttons(code: re.Match[str]) -> str:
    kind = cell_kind(code[1] or "")
    insert = "" if kind is None else INSERT.format(kind)
    return f'{code[0]}<span class="ab-acts">{COPY}{insert}</span>'


def start_errors_html(errors: Sequence[UserError]) -> str:
    """Why no session can start; without a reason, that there are no messages yet."""
    reasons = "".join(
        f'<div class="ab-failed">{escape(error.text)}{request_line(error.request_id)}</div>' for error in errors
    )
    return reasons or EMPTY


# Steps


def steps(exchange: Exchange) -> str:
    """The steps of a turn: chips while it runs, then a list that can be opened.

    Each step shows its name and duration; opened, it also shows its arguments and
    result. Steps that ran within another one are listed below it. Everything an event
    says is shown literally. Empty without steps.
    """
    other = _other_events(exchange)
    if exchange.pending:
        inner = _chips(exchange.steps)
        if not other:
            return f'<div class="ab-steps">{inner}</div>' if inner else ""
    else:
        inner = _list(exchange.steps)
    failed = sum(step.failed for step in exchange.steps)
    failures = f'<strong class="ab-failures">{failed:,} failed</strong>' if failed else ""
    others = _count(sum(exchange.other_types.values()), "other event")
    summary = ", ".join(filter(None, (_count(len(exchange.steps), "step"), failures, others)))
    if not (inner or other):
        return f'<div class="ab-steps">{summary}</div>' if summary else ""
    return f'<details class="ab-steps"><summary>{summary}</summary>{inner}{other}</details>'


def _count(number: int, noun: str) -> str:
    return "" if not number else f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _other_events(exchange: Exchange) -> str:
    types = ", ".join(f"{escape(event_type)} × {count}" for event_type, count in exchange.other_types.items())
    return f'<div class="ab-other">Other events: {types}</div>' if types else ""


def _chips(steps: Sequence[Step]) -> str:
    shown = [step for step in steps if step.name][-MAX_CHIPS:]
    hidden = len(steps) - len(shown)
    chips = [
        f'<span class="ab-chip {_state(step) if step.done else "ab-running"}">{_name(step)}</span>' for step in shown
    ]
    if hidden:
        chips.insert(0, f'<span class="ab-chip ab-done">{f"{hidden} more" if shown else _count(hidden, "step")}</span>')
    return f'<div class="ab-chips">{" ".join(chips)}</div>' if chips else ""


def _name(step: Step) -> str:
    name = step.name.replace("_", " ")
    return escape(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…") or "step"


def _list(steps: Sequence[Step]) -> str:
    """The steps as a nested list; empty if no step has a name or contents."""
    if not any(step.name or step.has_contents for step in steps):
        return ""
    children: dict[str | None, list[Step]] = {}
    listed = {step.task_id for step in steps[:MAX_LISTED]}
    for step in steps[:MAX_LISTED]:
        children.setdefault(step.parent if step.parent in listed else None, []).append(step)
    hidden = len(steps) - MAX_LISTED
    more = f"<li>{hidden:,} more</li>" if hidden > 0 else ""
    return f'<ul class="ab-step-list">{_items(children, None, 0)}{more}</ul>'


def _items(children: Mapping[str | None, Sequence[Step]], parent: str | None, depth: int) -> str:
    items = []
    for step in children.get(parent, ()):
        within = _items(children, step.task_id, depth + 1) if depth < MAX_DEPTH else ""
        items.append(f"<li>{_step(step)}{f'<ul>{within}</ul>' if within else ''}</li>")
    return "".join(items)


def _state(step: Step) -> str:
    return "ab-failed-step" if step.failed else "ab-done" if step.done else "ab-open"


def _step(step: Step) -> str:
    words = [] if step.duration_s is None else [seconds(step.duration_s)]
    words += ["failed"] if step.failed else [] if step.done else ["did not end"]
    line = f'<span class="ab-step-name {_state(step)}">{_name(step)}</span>{"".join(f" · {word}" for word in words)}'
    if not step.has_contents:
        return line
    parts = ("Input", step.arguments), ("Result", step.result), ("Error", step.error)
    contents = "".join(
        f"<div><strong>{label}</strong>{_content(value)}</div>" for label, value in parts if value is not None
    )
    return f'<details class="ab-step"><summary>{line}</summary><div class="ab-md">{contents}</div></details>'


def _content(value: Any) -> str:
    """A JSON value; texts among its fields are shown apart, with line breaks."""
    if not isinstance(value, Mapping):
        return _code(value if isinstance(value, str) else _json(value), "" if isinstance(value, str) else "json")
    texts = {
        name: text for name, text in value.items() if isinstance(text, str) and ("\n" in text or name in _LANGUAGES)
    }
    rest = {name: other for name, other in value.items() if name not in texts}
    blocks = [f"<div>{escape(str(name))}</div>{_code(text, _LANGUAGES.get(name, ''))}" for name, text in texts.items()]
    return "".join(blocks) + (_code(_json(rest), "json") if rest else "")


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=1, default=str)
    except (ValueError, RecursionError):
        return "nested too deeply to show"


def _code(text: str, language: str) -> str:
    cut = f"\n… {len(text) - MAX_CONTENT:,} more characters" if len(text) > MAX_CONTENT else ""
    code = highlight(visible(text[:MAX_CONTENT]), language)
    return f'<div class="ab-code"><pre><code>{code}{cut}</code></pre></div>'

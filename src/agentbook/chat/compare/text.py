"""The words of a comparison, and its safe HTML, live and saved with the notebook.

Each round is a row of columns, side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..._text import clip
from ..assets import read_style
from ..html import message_html
from ..html.attached import said
from ..html.sanitize import escape, visible
from ..html.static_transcript import (
    NOTEBOOK_LEVEL,
    empty_element,
    heading,
    quotation,
    saved_reply,
    static_element,
    title,
)
from ..model.transcript import html_page
from .comparison import TIE, Choice, Comparison, Round

# A panel further down the page repeats the panel's rules, so rules here that differ
# must be more specific. A short answer stays visible (sticky) next to a long one.
STYLE = f"<style>{read_style('panel/round.css')}</style>"
MAX_NAME = 28


def short(label: str) -> str:
    """A label that fits on a button, with hidden characters written out."""
    return clip(visible(label), MAX_NAME)


def question(round_: Round, *, live: bool = True) -> str:
    """The message of a round; a live page adds its buttons."""
    buttons = f'<span class="ab-acts">{message_html.COPY}{message_html.EDIT}</span>' if live else ""
    return f'<div class="ab-me"><div class="ab-who">You, to all{buttons}</div>{said(round_.message)}</div>'


def empty_html(comparison: Comparison) -> str:
    """What an empty log shows: who is compared, and how."""
    if comparison.start_errors or is_closed(comparison):
        return message_html.start_errors_html(comparison.start_errors)
    firsts = [] if comparison.blind else [visible(label)[:1].upper() for label in comparison.labels]
    initials = "".join(f'<span class="ab-initial">{escape(first)}</span>' for first in firsts)
    who = f'<div class="ab-initials" aria-hidden="true">{initials}</div><strong>{escape(names(comparison))}</strong>'
    how = "<p>Each of them gets the same message. Then say which reply is better.</p>"
    return f'<div class="ab-empty">{who}{how}<p class="ab-hint">Type @ to attach a table, a file or a cell.</p></div>'


def choice_label(round_: Round, choice: Choice, labels: Sequence[str]) -> tuple[str, str]:
    """Label and tooltip of the button that prefers a side, ``"tie"`` or ``"none"``."""
    chosen = round_.preferred == choice
    if isinstance(choice, int):
        name = short(labels[choice])
        label = f"✓ {name} preferred" if chosen else f"Prefer {name}"
    else:
        name = "Tie" if choice == TIE else "None of them"
        label = f"✓ {name}" if chosen else name
    return label, "Click again to undo" if chosen else f"Question {round_.number}: {label}"


def placeholder(comparison: Comparison) -> str:
    """The placeholder of the empty message box."""
    return "This comparison is read only" if is_closed(comparison) else "Message all agents"


def is_closed(comparison: Comparison) -> bool:
    """Whether nothing can be sent."""
    return comparison.closed or comparison.recorded


def verdict(round_: Round, labels: list[str]) -> str:
    """The preference as a sentence; `labels` as shown."""
    choice = round_.preferred
    if choice is None:
        return "Which reply is better?" if round_.complete and round_.allows(TIE) else ""
    if isinstance(choice, int):
        return f"{labels[choice]} was preferred."
    return "It was a tie." if choice == TIE else "None of them was preferred."


def round_html(comparison: Comparison, round_: Round, level: int) -> str:
    """A round as one piece of safe HTML."""
    labels = comparison.shown_labels(round_)
    columns = []
    for side in round_.order:
        reply = saved_reply(round_.exchanges[side], labels[side], level + 2)
        chosen = " ab-chosen" if round_.preferred == side else ""
        before = message_html.earlier_attempts(comparison.earlier_attempts(round_, side))
        columns.append(f'<div class="ab-column{chosen}">{before}{reply}</div>')
    asker = heading(f"Question {round_.number}: you, to all", level + 1)
    sentence = verdict(round_, labels) if round_.preferred is not None else ""
    return (
        f'<div class="ab-round"><div class="ab-me">{asker}{quotation(round_.message)}</div>'
        f'<div class="ab-columns">{"".join(columns)}</div><div class="ab-said-verdict">{escape(sentence)}</div></div>'
    )


def static_html(comparison: Comparison, uid: str, level: int = NOTEBOOK_LEVEL) -> str:
    """The comparison as one element of safe HTML, its style included."""
    if not comparison.rounds:
        return empty_element(uid, f"A comparison of {', '.join(comparison.labels)}. No messages yet.")
    rounds = "".join(round_html(comparison, round_, level) for round_ in comparison.rounds)
    return static_element(uid, f"{STYLE}{title(f'Comparison of {names(comparison)}', level)}{rounds}")


def to_html(comparison: Comparison) -> str:
    """The comparison as a standalone page."""
    return html_page(f"Comparison of {names(comparison)}", static_html(comparison, "comparison", level=1))


def names(comparison: Comparison) -> str:
    """The agents in words."""
    if comparison.blind:
        return f"{len(comparison.conversations)} agents, names hidden"
    return " · ".join(comparison.labels)


def tally(comparison: Comparison) -> str:
    """How often each was preferred, in words; empty without preferences."""
    labels = comparison.labels
    choices = [round_.preferred for round_ in comparison.rounds if round_.preferred is not None]
    counts = Counter(labels[choice] if isinstance(choice, int) else str(choice) for choice in choices)
    return ", ".join(f"{short(name)} {count}" for name, count in counts.items())


def describe(comparison: Comparison) -> tuple[str, bool]:
    """The status as a sentence, and whether something is in progress."""
    if comparison.closed:
        return "Closed. The sessions themselves continue.", False
    if comparison.start_errors:
        return message_html.NOT_READY, False
    if not comparison.rounds:
        return ("A recorded comparison." if comparison.recorded else "Ready."), False
    text, is_busy = _describe_connection(comparison)
    polls = any(side.connection == "polling" for side in comparison.conversations)
    return f"{text} {message_html.POLLING}" if polls else text, is_busy


def _describe_connection(comparison: Comparison) -> tuple[str, bool]:
    last = comparison.rounds[-1]
    labels = comparison.shown_labels(last)
    lost = [
        short(label)
        for label, side in zip(labels, comparison.conversations, strict=True)
        if side.connection == "reconnecting"
    ]
    if lost:
        return f"The connection was lost ({', '.join(lost)}). Reconnecting…", True
    return _describe_round(last)


def _describe_round(last: Round) -> tuple[str, bool]:
    statuses = [exchange.status for exchange in last.exchanges]
    answered, failed, stopped = map(statuses.count, ("answered", "failed", "stopped"))
    counted = f"{answered} of {len(statuses)} answered"
    if not last.complete:
        return f"{counted}{f', {failed} failed' if failed else ''}…", True
    text = (counted if answered < len(statuses) else "All answered") + (f", {stopped} stopped" if stopped else "")
    if failed:
        return f"{text}; {failed} failed: see the reason in its column.", False
    question = " Which is better?" if last.preferred is None and last.allows(TIE) else ""
    return f"{text}.{question}", False

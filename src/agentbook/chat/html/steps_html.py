"""The steps of a turn as HTML: chips while it runs, then a list that can be opened.

Each step shows its name and duration; opened, it also shows its arguments and result.
Steps that ran within another one are listed below it. Everything an event says is shown
literally.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...frames.analysis.turn_steps import Step
from ..model.exchange import Exchange
from .durations import seconds
from .markdown import highlight
from .sanitize import plain, visible

MAX_CHIPS = 12
MAX_LISTED = 100
MAX_DEPTH = 8
MAX_NAME = 200
MAX_CONTENT = 6_000  # characters of an argument or a result
# Names of arguments that hold code: name to language.
_LANGUAGES = {"sql": "sql", "query_sql": "sql", "python": "python", "code": "python", "command": "bash"}


def steps(exchange: Exchange) -> str:
    """The progress of a turn; collapsed once it has ended. Empty without steps."""
    other = _other_events(exchange)
    if exchange.pending:
        inner = _chips(exchange.steps)
        if not other:
            return f'<div class="ab-steps">{inner}</div>' if inner else ""
    else:
        inner = _list(exchange.steps)
    counts = _count(len(exchange.steps), "step"), _count(sum(exchange.other_types.values()), "other event")
    summary = ", ".join(filter(None, counts))
    if not (inner or other):
        return f'<div class="ab-steps">{summary}</div>' if summary else ""
    return f'<details class="ab-steps"><summary>{summary}</summary>{inner}{other}</details>'


def _count(number: int, noun: str) -> str:
    return "" if not number else f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _other_events(exchange: Exchange) -> str:
    types = ", ".join(f"{plain(event_type)} × {count}" for event_type, count in exchange.other_types.items())
    return f'<div class="ab-other">Other events: {types}</div>' if types else ""


def _chips(steps: Sequence[Step]) -> str:
    shown = [step for step in steps if step.name][-MAX_CHIPS:]
    hidden = len(steps) - len(shown)
    chips = [f'<span class="ab-chip {"ab-done" if step.done else "ab-running"}">{_name(step)}</span>' for step in shown]
    if hidden:
        chips.insert(0, f'<span class="ab-chip ab-done">{f"{hidden} more" if shown else _count(hidden, "step")}</span>')
    return f'<div class="ab-chips">{" ".join(chips)}</div>' if chips else ""


def _name(step: Step) -> str:
    name = step.name.replace("_", " ")
    return plain(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…") or "step"


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


def _step(step: Step) -> str:
    state = "ab-failed-step" if step.error is not None else "ab-done" if step.done else "ab-open"
    words = [] if step.duration_s is None else [seconds(step.duration_s)]
    words += ["failed"] if step.error is not None else [] if step.done else ["did not end"]
    line = f'<span class="ab-step-name {state}">{_name(step)}</span>{"".join(f" · {word}" for word in words)}'
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
    blocks = [f"<div>{plain(str(name))}</div>{_code(text, _LANGUAGES.get(name, ''))}" for name, text in texts.items()]
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

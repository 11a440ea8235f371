"""What a saved notebook shows of an explorer: a picture, a table, a conversation.

The picture is one SVG of the views, drawn without a library. It has no background, and
its colours are legible on white and on black, like those of the charts of
`agentbook.plot`.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..._text import shorten
from ...frames.analysis.activity import WEEKDAYS
from ...frames.plot.chart import LEGIBLE
from ...frames.plot.style import BAD, COLOURS, FAINT, INK
from ..html.sanitize import escape
from ..html.static_transcript import empty_element, static_element
from .columns import ANSWERED, HOURS
from .conversation import OpenedConversation
from .filters import duration

_TABLE_ROWS, _QUESTION = 10, 80  # turns, and characters of a question
WIDTH, HEIGHT = 860, 500
_BLUE, _ORANGE, _RED = COLOURS[0], COLOURS[6], BAD
_LEVELS = 6
_PLOT = (64, 34, WIDTH - 80, 190)  # x, y, width, height
_FEW_DOTS = 50  # up to this many turns are drawn large, as in marks.js
_STRIP = 34  # height of the counts above the axis of time
_MAX_BARS = 9


def explorer_html(
    fixed: dict[str, Any], current: dict[str, Any], opened: OpenedConversation | None, emptiness: str, uid: str
) -> str:
    """An explorer as one element of safe HTML; needs neither a kernel nor trust."""
    if emptiness:
        return empty_element(uid, emptiness)
    text = _description(fixed, current)
    svg = b64encode(_render_svg(fixed, current, text).encode()).decode()
    # On a narrow page it shrinks as long as its labels stay legible, and then scrolls.
    style = f"max-width: 100%; min-width: {int(LEGIBLE * WIDTH)}px"
    img = f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{svg}" style="{style}">'
    image = f'<div style="overflow-x: auto" tabindex="0" role="region" aria-label="The views">{img}</div>'
    conversation = ""
    if opened is not None:
        who = f"Conversation with {escape(opened.title) or 'an agent'}, session {escape(opened.session_id)}"
        conversation = f'<div class="ab-who">{who}</div>{opened.near}'
    lacks = f"<p>{escape(fixed['incomplete'])}</p>" if fixed["incomplete"] else ""
    return static_element(
        uid, f"<p>{escape(text)}</p>{lacks}{image}{_table(fixed, current)}{conversation}", "ab-x-saved"
    )


def _table(fixed: dict[str, Any], current: dict[str, Any]) -> str:
    table = current["table"]
    group = escape(fixed["by"]) or "group"
    heads = ["Asked", group[:1].upper() + group[1:], "Outcome", "Latency", *(["Question"] if fixed["texts"] else [])]
    orders = {"latency": ("quickest", "slowest"), "asked": ("first", "latest")}
    rows = "".join(_row(fixed, row) for row in table["rows"][:_TABLE_ROWS])
    cells = "".join(f'<th style="text-align: left">{head}</th>' for head in heads)
    title = f"The {orders[table['sort']][table['descending']]} turns"
    # On a narrow page it scrolls by itself; no line is wrapped.
    return (
        f'<p>{title}:</p><div style="overflow-x: auto" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(fixed: dict[str, Any], row: dict[str, Any]) -> str:
    latency = "" if row["latency"] is None else duration(row["latency"])
    question = [shorten(row["text"], _QUESTION)] if fixed["texts"] else []
    texts = [row["asked"], row["group"], fixed["outcomes"][row["outcome"]], latency, *question]
    cells = "".join(f'<td style="text-align: left; white-space: nowrap">{escape(text)}</td>' for text in texts)
    return f"<tr>{cells}</tr>"


def _description(fixed: dict[str, Any], current: dict[str, Any]) -> str:
    """What the drawing shows, in words."""
    text = f"{current['sentence']}."
    if chips := [words for _, words in current["chips"]]:
        text += f" Selected: {'; '.join(chips)}."
    counts = current["heat"]
    if any(counts):
        slot = counts.index(max(counts))
        text += f" Most on {WEEKDAYS[slot // 24]} at {slot % 24:02}:00 ({fixed['tz']})."
    slow = [pair for pair in zip(current["groups"]["p95"], fixed["groups"], strict=True) if pair[0] is not None]
    if len(slow) > 1:
        value, name = max(slow)
        text += f" Slowest by {fixed['by']}: {name} (95th percentile {duration(value)})."
    return text


def _render_svg(fixed: dict[str, Any], current: dict[str, Any], text: str) -> str:
    """The views as SVG. Equal values give equal bytes."""
    outcome_colours = [_RED if failing else _BLUE for failing in fixed["failing"]]
    by = f"Turns by {fixed['by']}" if fixed["by"] else "Turns"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}"><title>{escape(text)}</title>',
        *_latency(fixed, current),
        *_heat(current["heat"], current["filters"]["hours"]),
        *_bars("Outcomes", 455, fixed["outcomes"], current["outcomes"], outcome_colours),
        *_bars(by, 652, fixed["groups"], current["groups"]["turns"], [_BLUE]),
        "</svg>",
    ]
    return "".join(parts)


def level(count: int, largest: int) -> int:
    """How dark a count is drawn, 0 to 6; a square root keeps small counts visible.

    Examples
    --------
    >>> [level(count, 100) for count in (0, 1, 30, 100)]
    [0, 1, 4, 6]
    """
    return max(1, math.ceil(_LEVELS * math.sqrt(count / largest))) if count > 0 else 0


def _latency(fixed: dict[str, Any], current: dict[str, Any]) -> Iterator[str]:
    axes, view = fixed["axes"], current["latency"]
    x0, top, width, height = _PLOT
    yield _title(8, f"Latency over time, per {axes['period']} ({axes['tz']}): median and 95th percentile")
    ratio = math.log(axes["high"] / axes["low"])

    def y(seconds: float) -> float:
        return float(top + height * (1 - math.log(max(seconds, axes["low"]) / axes["low"]) / ratio))

    def x(period: float) -> float:
        return float(x0 + width * period / axes["periods"])

    above = math.inf
    for value, name in axes["latency_ticks"]:
        if above - y(value) < 16:
            continue  # names must not overlap
        above = y(value)
        yield f'<path d="M{x0} {above:.1f}h{width}" stroke="{FAINT}"/>{_text(x0 - 6, above + 4, name, "end")}'
    base = top + height + _STRIP + 6
    for moment, name in axes["time_ticks"]:
        at = x((moment - axes["begin"]) / axes["length"])
        yield f'<path d="M{at:.1f} {base}v4" stroke="{INK}"/>{_text(at, base + 16, name, "middle")}'
    yield from _cells(axes, view["cells"], x(1) - x0)
    yield _brush(current["filters"], lambda ms: x((ms - axes["begin"]) / axes["length"]), y)
    size, opacity = (10, 0.8) if len(view["dots"]) <= _FEW_DOTS else (4, 0.55)
    for failing, colour in ((False, _BLUE), (True, _RED)):
        dots = (dot for dot in view["dots"] if fixed["failing"][dot[3]] is failing)
        path = "".join(f"M{x((dot[1] - axes['begin']) / axes['length']):.1f} {y(dot[2]):.1f}h0" for dot in dots)
        yield _path(path, f'stroke="{colour}" stroke-width="{size}" stroke-linecap="round" opacity="{opacity}"')
    for name, colour in (("p50", _BLUE), ("p95", _ORANGE)):
        points = [None if value is None else (x(n + 0.5), y(value)) for n, value in enumerate(view[name])]
        yield f'<path d="{line_path(points)}" fill="none" stroke="{colour}" stroke-width="2" stroke-linecap="round"/>'
    largest = max(view["turns"], default=0) or 1
    for name, colour in (("turns", _BLUE), ("failed", _RED)):
        bars = ((x(n), _STRIP * count / largest) for n, count in enumerate(view[name]) if count)
        path = "".join(
            f"M{at:.1f} {base:.1f}v{-tall:.1f}h{max(x(1) - x0 - 1, 0.5):.1f}v{tall:.1f}z" for at, tall in bars
        )
        yield f'<path d="{path}" fill="{colour}" opacity="{0.5 if name == "turns" else 1}"/>'


def _brush(filters: dict[str, Any], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    begin, end, low, high = (filters[name] for name in ("begin", "end", "low", "high"))
    if begin is end is low is high is None:
        return ""
    edge, top, width, height = _PLOT
    x0, x1 = edge if begin is None else x(begin), edge + width if end is None else x(end)
    y0, y1 = top if high is None else y(high), top + height if low is None else y(low)
    x0, x1 = (min(max(value, edge), edge + width) for value in (x0, x1))
    y0, y1 = (min(max(value, top), top + height) for value in (y0, y1))
    return (
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" rx="3" '
        f'fill="{FAINT}" fill-opacity=".2" stroke="{_BLUE}"/>'
    )


def _cells(axes: dict[str, Any], cells: Sequence[int], width: float) -> Iterator[str]:
    x0, top, _, height = _PLOT
    counts = list(zip(cells[::2], cells[1::2], strict=True))
    largest = max((count for _, count in counts), default=1)
    tall = height / axes["bands"]
    for shade in range(1, _LEVELS + 1):
        path = "".join(
            f"M{x0 + width * (cell // axes['bands']):.1f} {top + height - tall * (cell % axes['bands'] + 1):.1f}"
            f"h{width:.1f}v{tall:.1f}h{-width:.1f}z"
            for cell, count in counts
            if level(count, largest) == shade
        )
        yield _path(path, f'fill="{_BLUE}" opacity="{0.12 * shade:.2f}"')


def line_path(points: Iterable[tuple[float, float] | None]) -> str:
    """A line through points, with a gap at each None; a single point is a dot.

    Examples
    --------
    >>> line_path([(0, 1), (1, 1), None, (3, 2)])
    'M0.0 1.0L1.0 1.0M3.0 2.0h0'
    """
    parts, run = list[str](), 0
    for point in (*points, None):
        if point is None:
            parts += ["h0"] if run == 1 else []
            run = 0
            continue
        parts.append(f"{'L' if run else 'M'}{point[0]:.1f} {point[1]:.1f}")
        run += 1
    return "".join(parts)


def _heat(counts: Sequence[int], chosen: Sequence[int]) -> Iterator[str]:
    x0, top, size, tall = 64, 332, 15.5, 18
    yield _title(308, "Turns by hour of the week")
    largest = max(counts, default=0) or 1
    for day, name in enumerate(WEEKDAYS):
        yield _text(x0 - 6, top + tall * day + 13, name[:3], "end")
    squares = [f"M{x0 + size * (slot % 24):g} {top + tall * (slot // 24)}h14.5v17h-14.5z" for slot in range(HOURS)]
    for shade in range(_LEVELS + 1):
        path = "".join(square for slot, square in enumerate(squares) if level(counts[slot], largest) == shade)
        fill = f'fill="{_BLUE}" opacity="{0.15 * shade + 0.1:.2f}"' if shade else f'fill="{FAINT}" opacity=".4"'
        yield _path(path, fill)
    if chosen:
        path = "".join(squares[slot] for slot in chosen)
        yield f'<path d="{path}" fill="none" stroke="{_ORANGE}" stroke-width="2"/>'
    for hour in range(0, 24, 6):
        yield _text(x0 + size * hour, top + tall * 7 + 12, f"{hour:02}:00", "start")


def _bars(title: str, x0: int, names: Sequence[str], counts: Sequence[int], colours: Sequence[str]) -> Iterator[str]:
    yield _text(x0, 320, title, "start", 'font-size="13"')
    shown = [n for n in range(len(names)) if counts[n]][:_MAX_BARS]
    # Answered turns have no bar: it would flatten those of the failures.
    largest = max((counts[n] for n in shown if names[n] != ANSWERED), default=0) or 1
    for position, n in enumerate(shown):
        y = 340 + 17 * position
        name = names[n] if len(names[n]) <= 18 else f"{names[n][:17]}…"
        bar = 0 if names[n] == ANSWERED else max(60 * counts[n] / largest, 1)
        colour = colours[n % len(colours)]
        yield f'<rect x="{x0}" y="{y - 3}" width="{bar:.1f}" height="5" rx="2" fill="{colour}"/>'
        yield _text(x0 + 66, y + 4, f"{name} {counts[n]:,}", "start")
    hidden = sum(1 for count in counts if count) - len(shown)
    if hidden:
        yield _text(x0 + 66, 344 + 17 * len(shown), f"and {hidden:,} more", "start")


def _path(d: str, look: str) -> str:
    return f'<path d="{d}" {look}/>' if d else ""


def _title(y: float, text: str) -> str:
    return _text(8, y + 12, text, "start", 'font-size="13"')


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'

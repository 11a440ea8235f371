"""Two runs compared, and what the last run broke, as safe HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..html.sanitize import plain
from .diff import PromptDiff

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 100  # of a table: broken cells come first
MAX_COMPARED = 20_000  # characters: longer replies are shown as they are
_WORDS = {"broken": "ab-r-broken", "fixed": "ab-r-fixed"}


def comparison(changes: pd.DataFrame) -> str:
    """What changed from one run to another, broken cells first."""
    counts = changes["change"].value_counts()
    words = [f"{counts[name]} {name}" for name in changes["change"].cat.categories if counts.get(name)]
    if not words:
        return '<div class="ab-foot">The runs have no variant and input.</div>'
    rows = changes[changes["change"] != "unchanged"].to_dict("records")
    return f'<p class="ab-lab-counts">{plain(", ".join(words))}.</p>{_table(rows, "What changed")}'


def regressions(changes: pd.DataFrame | None) -> str:
    """What the last run broke; empty if nothing."""
    if changes is None or changes.empty:
        return ""
    count = len(changes)
    cells = "1 reply that passed before does" if count == 1 else f"{count} replies that passed before do"
    head = f'<div class="ab-lab-title" role="heading" aria-level="4">Broken since the run before: {cells} not pass now</div>'
    return f'<div class="ab-lab-broken">{head}{_table(changes.to_dict("records"), "What the run broke")}</div>'


def _table(rows: Sequence[dict[Any, Any]], label: str) -> str:
    if not rows:
        return ""
    shown = "".join(map(_row, rows[:MAX_ROWS]))
    rest = f'<div class="ab-foot">and {len(rows) - MAX_ROWS} more: lab.compare()</div>' if len(rows) > MAX_ROWS else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("change", "variant", "input", "checks"))
    head += '<th scope="col" class="ab-figure">passed</th>'
    return (
        f'<div class="ab-scroll" tabindex="0" role="region" aria-label="{label}"><table class="ab-lab-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table></div>{rest}"
    )


def _row(row: dict[Any, Any]) -> str:
    change = str(row["change"])
    edited = ' <span class="ab-lab-version">edited</span>' if row["edited"] else ""
    passed = " → ".join(_share(row[name]) for name in ("passed_before", "passed_after"))
    return (
        f'<tr><td><span class="ab-r-turned {_WORDS.get(change, "")}">{plain(change)}</span></td>'
        f"<td>{plain(row['variant'])}{edited}</td>"
        f'<td class="ab-lab-wide">{plain(row["input"])}{_answers(row)}</td>'
        f'<td>{plain(row["checks"])}</td><td class="ab-figure">{passed}</td></tr>'
    )


def _share(value: Any) -> str:
    return "–" if value is None or value != value else f"{value:.0%}"


def _answers(row: dict[Any, Any]) -> str:
    before, after = (_text(row[name]) for name in ("reply_before", "reply_after"))
    if not before or not after or max(len(before), len(after)) > MAX_COMPARED:
        return ""
    return f"<details><summary>replies</summary>{PromptDiff(before, after, 'before', 'after').to_html()}</details>"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

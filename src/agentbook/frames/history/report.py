"""A history as one HTML page: findings in words, pictures and tables.

The page loads nothing and runs no scripts. It is legible on light and dark screens, on
a phone and on paper. What people and agents wrote is shown as text.
"""

from __future__ import annotations

import json
import os
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import zip_longest
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from ..._files import atomic_write, file_path
from ..._text import count_text, visible
from ...api.errors import EmptyWarning
from ..analysis.arguments import local_text
from ..analysis.authors import authors
from ..analysis.failures import failures as failure_table
from ..analysis.findings import credential_findings
from ..analysis.timing import latency as latency_table
from ..analysis.turns import STATUSES
from ..export import anchor
from ..parse.schemas import STR
from ..plot import activity_heatmap, credentials, failures, latency
from .findings import findings

RESTRICTED = (
    "An account key never sees workspaces that are restricted to their members. They are part of this history only if "
    "the credential is a member's."
)
_ROWS = 20  # of a table
_TEXT = 200  # characters of a text in a cell
_SHORT = 24  # characters of a text that need no wide column
_LABELS = {"look": "Look", "note": "Note", "fine": "Fine"}
_TOP = 8  # agents with a line of their own


def write_report(history: Any, path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the report; see `History.report`."""
    target = file_path(path, "History.report")
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"A report is one page, .html, not {target.name!r}: ab.export(history, 'history.xlsx') writes a workbook, and "
            "ab.export(history.turns, path) one of its frames."
        )
    with atomic_write(target) as file:  # which refuses a folder that is not there before the work
        file.write(report_html(history, title).encode("utf-8", "replace"))
    return target


def report_html(history: Any, title: str | None = None) -> str:
    """The report as an HTML page."""
    template = Template(Path(__file__).with_name("report.html").read_text("utf-8"))
    # Workspaces and agents are those of the sessions: an account may have others.
    sessions = history.sessions
    numbers = {
        "workspaces": sessions["workspace_id"].nunique(), "sessions": len(sessions), "turns": len(history.turns),
        "events": len(history.events), "agents": sessions["agent_id"].nunique(),
    }  # fmt: skip
    counts = ", ".join(count_text(number, name.removesuffix("s")) for name, number in numbers.items())
    loaded = history.events.attrs.get("agentbook", {}).get("loaded_at")
    loaded_at = local_text(loaded, history.tz) if loaded else "an unknown time"
    now = local_text(datetime.now(UTC), history.tz, "%Y-%m-%d at %H:%M")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyWarning)  # the page itself says what is empty
        page = template.substitute(
            title=escape(f"History of {history.title}" if title is None else title),
            subtitle=escape(f"{counts}. Loaded at {loaded_at}."),
            findings=_findings(history),
            pictures="\n".join(_figures(history)),
            tables="\n".join(_tables(history)),
            origin=escape(f"Made with agentbook on {now}. All times are in the time zone {history.tz}. {RESTRICTED}"),
        )
    return visible(page)


def _findings(history: Any) -> str:
    items = [
        f'<li class="{finding.kind}"><b>{_LABELS[finding.kind]}</b>{escape(finding.text)}</li>'
        for finding in findings(history)
    ]
    hint = f"<p>{escape(history.hint[:1].upper() + history.hint[1:])}.</p>" if history.hint else ""
    return f'{hint}<ul class="findings">{"".join(items)}</ul>'


# -- pictures ----------------------------------------------------------------------


def _figures(history: Any) -> Iterator[str]:
    turns = history.turns
    charts: list[Callable[[], Any]] = []
    if len(history.events):
        charts.append(lambda: activity_heatmap(history.events))
    if (turns["status"] == "answered").any():
        charts.append(lambda: latency(turns))
        charts.append(lambda: latency(turns, by="agent", top=_TOP))
    if (turns["status"] == "failed").any():
        charts.append(lambda: failures(turns))
    if len(history.credentials):
        charts.append(lambda: credentials(history.credential_report))
    if not charts:
        yield '<p class="empty">No data to draw.</p>'
    for draw in charts:
        try:
            svg = (chart := draw()).svg()
        except ImportError as missing:
            yield f'<p class="empty">{escape(str(missing))}</p>'
            return
        # An image, so that the styles of one drawing do not affect another. Its content
        # is described below, so it needs no alternative text.
        image = f'<img alt="" src="data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}">'
        yield f"<figure>{image}<figcaption>{escape(chart.text)}</figcaption></figure>"


# -- tables ------------------------------------------------------------------------


def _tables(history: Any) -> Iterator[str]:
    turns, tz = history.turns, history.tz
    yield table_html(_by_group(turns, "agent"), "Agents")
    yield table_html(_by_group(turns, "workspace"), "Workspaces")
    asked = ["author", "author_type", "sessions", "agents", "turns", "answered", "failed", "tokens", "last_at"]
    yield table_html(authors(turns)[asked], "People and keys", tz=tz)
    failed = failure_table(turns).assign(**{"% of all": lambda table: (100 * table["share"]).round(1)})
    shown = failed[["kind", "turns", "sessions", "% of all", "last_at", "cause", "advice", "example"]]
    yield table_html(shown, "Failures by kind", tz=tz)
    columns = ["asked_at", "agent", "workspace", "author", "session", *turns.columns.intersection(["link"])]
    slowest = turns[turns["status"] == "answered"].nlargest(_ROWS, "latency_s")
    unanswered = turns[turns["status"] == "unanswered"].sort_values("asked_at", ascending=False)
    anchors = _anchors(slowest, unanswered)
    slow = slowest[["latency_s", *columns, "prompt", "reply"]]
    yield table_html(slow, "Slowest turns", tz=tz, ids=anchors)
    title = "Unanswered questions, latest first"
    yield table_html(unanswered[[*columns, "prompt"]], title, tz=tz, ids=anchors[len(slowest) :])
    if len(history.credentials):
        table = credential_findings(history.credential_report)
        severe = table[table["severity"].isin(["high", "medium"])]
        shown = severe[["severity", "name", "integration", "finding", "advice"]]
        yield table_html(shown, "Credentials that need attention")


def _anchors(*tables: pd.DataFrame) -> list[str]:
    """An ``id=`` for the row in which a session first occurs, else an empty text."""
    sessions = pd.concat([table["session_id"] for table in tables]).astype(STR)
    first = sessions.mask(sessions.duplicated())
    return ["" if pd.isna(id_) else f' id="session-{escape(id_)}"' for id_ in first]


def _by_group(turns: pd.DataFrame, by: str) -> pd.DataFrame:
    """Turns, their ends and their latency by the values of a column."""
    named = turns.assign(**{by: turns[by].astype(STR).fillna("(not named)")})
    counts = named.groupby(by, observed=True).agg(sessions=("session_id", "nunique"), turns=("turn", "size"))
    statuses = pd.crosstab(named[by], named["status"].astype(STR)).reindex(columns=[*STATUSES], fill_value=0)
    times = latency_table(named, by=by, quantiles=(0.5, 0.95)).set_index(by)[["p50_s", "p95_s", "max_s"]]
    table = counts.join(statuses).fillna(0).astype("int64").join(times)
    return table.sort_values("turns", ascending=False, kind="stable").reset_index()


def table_html(frame: pd.DataFrame, caption: str, *, tz: str = "UTC", ids: Sequence[str] = ()) -> str:
    """The first rows of a frame as an HTML table, or a sentence if there are none.

    Times are those of the zone `tz`. The rows may have `ids`, as attributes of HTML.

    Examples
    --------
    >>> "<td>&lt;b&gt;</td>" in table_html(pd.DataFrame({"text": ["<b>"]}), "Texts")
    True
    """
    if frame.empty:
        return f'<p class="empty">{escape(caption)}: none.</p>'
    shown = frame.head(_ROWS)
    more = f" ({_ROWS:,} of {len(frame):,})" if len(frame) > _ROWS else ""
    head = "".join(f'<th scope="col">{escape(str(name).replace("_", " "))}</th>' for name in shown.columns)
    body = "".join(
        f"<tr{id_}>{''.join(_cell(value, tz, str(name)) for name, value in zip(shown, row, strict=True))}</tr>"
        for id_, row in zip_longest(ids[: len(shown)], shown.itertuples(index=False, name=None), fillvalue="")
    )
    label = escape(caption, quote=True)
    # On narrow screens, rows become cards: those with long texts on wider ones too.
    kind = "table texts" if 'class="long"' in body else "table"
    labels = "".join(f"--c{number}: {json.dumps(str(name).replace('_', ' '))};" for number, name in enumerate(shown, 1))
    # It can be scrolled with the keyboard if it is wider than the screen.
    return (
        f'<div class="{kind}" style="{escape(labels)}" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption>{label}{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: Any, tz: str, name: str) -> str:
    if not isinstance(value, str) and pd.isna(value):
        return "<td></td>"
    if name == "link":
        return f"<td>{anchor(value, 'open')}</td>"
    if isinstance(value, pd.Timestamp):
        shown = local_text(value, tz, "%Y-%m-%d %H:%M:%S").removesuffix(f" {tz}")
        return f'<td class="number">{escape(shown)}</td>'
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        number = float(value)
        is_whole = number.is_integer() or abs(number) >= 1000
        return f'<td class="number">{format(number, ",.0f" if is_whole else ".3g")}</td>'
    text = str(value)
    start = '<td class="long">' if len(text) > _SHORT else "<td>"
    return f"{start}{escape(text if len(text) <= _TEXT else text[: _TEXT - 1] + '…')}</td>"

"""The bar chart of failed turns by kind."""

from __future__ import annotations

import pandas as pd

from ..analysis.failures import failures as failure_table
from .chart import COLOURS, Chart, altair, count_text, data_of, join_names, styled


def failures(data: pd.DataFrame) -> Chart:
    """Failed turns by kind of failure.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> failures(to_frame("events", [page], context={"session_id": "s1"}))
    1 of 1 turn failed (100.0 %): llm_calls 1.
    """
    alt = altair()
    table = failure_table(data)
    rows = table[["kind", "turns", "sessions", "share", "cause"]]
    counts = table.attrs["agentbook"]
    total, failed = counts["turns"], counts["failed"]
    text = f"{failed:,} of {count_text(total, 'turn')} failed"
    text += f" ({100 * failed / total:.1f} %)" if total else ""
    parts = [f"{row.kind} {row.turns:,}" for row in rows.itertuples()]
    text += (": " + join_names(parts, 5) if parts else "") + "."
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("kind:N", sort=rows["kind"].to_list(), title=None, axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("turns:Q", title="turns", axis=alt.Axis(tickMinStep=1, format="d")),
    )
    bars = base.mark_bar(color=COLOURS[7], height=14, cornerRadiusEnd=2)
    labels = base.mark_text(align="left", dx=4).encode(text="turns:Q")
    chart = (bars + labels).properties(width=480, height=alt.Step(22))
    return Chart(styled(chart, "Failed turns by kind", f"{failed:,} of {count_text(total, 'turn')}"), text, rows)

"""Which step follows which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..analysis.arguments import require_top
from ..analysis.paths import UNNAMED, steps_in
from ..analysis.turns import turns_in
from ..parse.schemas import STR
from ..tabular import with_links
from .chart import Chart, with_text
from .style import COLOURS, FAINT, INK, Marks, altair, styled, tooltip

_QUESTION, _REPLY, _REST = "(question)", "(reply)", "(other steps)"


def paths(data: Any, *, steps: Any = None, top: int = 12, since: Any = None, until: Any = None) -> Chart:
    """Which step followed which: what agents did from the question to the reply.

    A row is a step, a column what came next; the stronger a cell's colour, the larger
    the share. Cells on the diagonal are steps that were repeated at once.

    Parameters
    ----------
    data : History, DataFrame, Listing, or any other table
        A history or events; or turns, with `steps`.
    steps : DataFrame, optional
        The result of `agentbook.steps`, if `data` has turns only.
    top : int
        How many steps to keep apart: those that ran most often. Default 12.
    since, until : str, datetime, date or timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or lengths
        of time before the data were loaded, such as ``"7d"``.

    Returns
    -------
    Chart
        A cell that is clicked is in ``selection``, with the ``session_id`` and the
        ``turn`` of the slowest turn in which it happened, for `agentbook.replay`. If
        sessions have a link, the click opens it.

    Raises
    ------
    ValueError
        If a column or the steps are missing, or `top` is not a positive number.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    `agentbook.paths` counts whole paths.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> chart = ab.plot.paths(history.where(agent="contract-reader"))
    >>> chart.text.partition(":")[0]
    'Which step follows which, in ... turns'
    >>> set(chart.data.loc[chart.data["step"] == "find_contract", "next"])
    {...'read_clauses'...}
    """
    alt = altair()
    require_top(top, caller="plot.paths")
    turns, *_ = turns_in(data, "session_id", "turn", "latency_s", caller="plot.paths", since=since, until=until)
    rows, names = _transitions(turns, steps_in(data, steps, "plot.paths"), top)
    rows = with_links(rows, turns)
    bare = {"domain": False, "ticks": False, "labelLimit": 120}
    marks = Marks(rows)
    click = {"href": "link:N"} if "link" in rows else {}
    cells = marks.chart.mark_rect(color=COLOURS[0], strokeWidth=0.5).encode(
        x=alt.X("next:N", sort=[*names, _REPLY], title="then", axis=alt.Axis(labelAngle=-45, orient="top", **bare)),
        y=alt.Y("step:N", sort=[_QUESTION, *names], title="after", axis=alt.Axis(**bare)),
        fillOpacity=alt.FillOpacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 1]), title="share", legend=None),
        strokeWidth=alt.condition(marks.clicked, alt.value(2), alt.value(0.5), empty=False),
        stroke=alt.condition(marks.clicked, alt.value(INK), alt.value(FAINT), empty=False),
        tooltip=tooltip(step="after", next="then", share=("share", ".1%"), times=("times", ","), turn=("turn", "d")),
        **click,
    )  # fmt: skip
    chart = marks.selectable(cells, name="cells", opacity=None).properties(width=alt.Step(19), height=alt.Step(18))
    count = rows.loc[rows["step"] == _QUESTION, "times"].sum()
    usual = rows.sort_values("share", ascending=False, kind="stable").drop_duplicates("step")
    most = dict(zip(usual["step"], zip(usual["next"], usual["share"], strict=True), strict=True))
    said = ["{} is followed by {} ({:.0%})".format(name, *most[name]) for name in names[:5]]
    text = f"Which step follows which, in {count:,} turns" + (f": {', '.join(said)}." if said else ". None has steps.")
    return with_text(styled(chart, "Which step follows which", f"{count:,} turns with steps"), text, rows)


def _transitions(turns: pd.DataFrame, steps: pd.DataFrame, top: int) -> tuple[pd.DataFrame, list[str]]:
    """How often each step follows another, and the steps, most frequent first."""
    key = ["session_id", "turn"]
    table = steps[[*key, "step", "name"]].merge(turns[[*key, "latency_s"]].drop_duplicates(key), on=key)
    table = table.sort_values([*key, "step"], ignore_index=True)
    name = table["name"].astype(STR).fillna(UNNAMED)
    sizes = name.value_counts()
    name = name.where(name.isin(sizes.index[:top]), _REST)
    begins = (table[key] != table[key].shift()).any(axis=1)
    ends = begins.shift(-1, fill_value=True)
    pairs = pd.concat([
        table.assign(step=name.shift().mask(begins, _QUESTION), next=name),
        table.assign(step=name, next=_REPLY)[ends],
    ])  # fmt: skip
    pairs = pairs.sort_values("latency_s", ascending=False, na_position="last", kind="stable")
    grouped = pairs.groupby(["step", "next"], sort=True)
    rows = grouped.agg(times=("next", "size"), session_id=("session_id", "first"), turn=("turn", "first")).reset_index()
    rows.insert(3, "share", (rows["times"] / rows.groupby("step")["times"].transform("sum")).astype(np.float64))
    names = [str(each) for each in sizes.index[:top]] + [_REST] * (len(sizes) > top)
    return rows, names

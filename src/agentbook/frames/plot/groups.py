"""The groups of a chart: how many, and their order, colours and shapes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..analysis.selection import OTHER, keep_top
from ..analysis.validate import group_of
from ..parse.schemas import STR
from .style import COLOURS, INK, altair

MAX_GROUPS = len(COLOURS)
UNNAMED = "(unknown)"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
# These have one value per row or conversation, so no twelve of them say much about the
# rest.
_OF_ONE = ("session_id", "session", "message_id", "reply_id", "event_id", "task_id", "id", "prompt", "reply")


def shown_groups(frame: pd.DataFrame, by: str, top: int | None, *reserved: str, caller: str) -> pd.DataFrame:
    """The frame, with so few groups in column `by` that they can be told apart.

    Parameters
    ----------
    frame : DataFrame
    by : str
    top : int or None
        How many groups to keep apart, the others being ``"other"``. None keeps up to
        twelve, or the eleven largest if those have most of the rows.
    reserved : str
        Names of the chart's own columns.
    caller : str
        The function called, for error messages.

    Raises
    ------
    ValueError
        If there are more groups than can be told apart; the message has their number.
    """
    group_of(by, *reserved, caller=caller, frame=frame)
    sizes = frame[by].value_counts(dropna=False)
    sizes = sizes[sizes > 0]
    if top is None and len(sizes) > MAX_GROUPS:
        if by in _OF_ONE or sizes.iloc[: MAX_GROUPS - 1].sum() * 2 < len(frame):
            raise _too_many(len(sizes), by, caller)
        top = MAX_GROUPS - 1
    frame = keep_top(frame, [by], top, caller=caller)
    if (count := frame[by].nunique(dropna=False)) > MAX_GROUPS + 1:
        raise _too_many(count, by, caller)
    return frame


def _too_many(count: int, by: str, caller: str) -> ValueError:
    return ValueError(
        f"{caller} cannot draw {count:,} groups of {by!r}: {MAX_GROUPS} can be told apart. Group by a column with fewer "
        f'values, such as "agent" or "workspace", or keep the largest with top={MAX_GROUPS - 2}, the rest being {OTHER!r}.'
    )


def group_names(frame: pd.DataFrame, by: str, weight: str | None = None) -> list[str]:
    """The groups' names, the largest first and ``"other"`` last.

    `weight` is a column of numbers to add up; default the number of rows.
    """
    labels = group_labels(frame[by])
    sizes = labels.value_counts() if weight is None else frame.groupby(labels)[weight].sum()
    names = [str(name) for name, _ in sorted(sizes.items(), key=lambda item: (-item[1], str(item[0])))]
    return [name for name in names if name != OTHER] + [name for name in names if name == OTHER]


def group_labels(values: pd.Series) -> pd.Series:
    """The names of groups as texts; null has a name too."""
    labels: pd.Series = values.astype(STR).fillna(UNNAMED)
    return labels


def group_channels(names: list[str], title: str) -> dict[str, Any]:
    """Altair's colour and shape of the column ``group``, with one legend."""
    alt = altair()
    colours = [INK if name == OTHER else COLOURS[n % MAX_GROUPS] for n, name in enumerate(names)]
    shapes = ["stroke" if name == OTHER else _SHAPES[n % len(_SHAPES)] for n, name in enumerate(names)]
    columns = max(1, min(6, 90 // (max(map(len, names), default=1) + 5)))
    legend = alt.Legend(orient="top", columns=columns, symbolSize=60)
    shared = {"title": title, "legend": legend, "sort": names}
    return {
        "color": alt.Color("group:N", scale=alt.Scale(domain=names, range=colours), **shared),
        "shape": alt.Shape("group:N", scale=alt.Scale(domain=names, range=shapes), **shared),
    }

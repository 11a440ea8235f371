"""The look of charts: colours, fonts, groups, axes, and the wording of their texts.

A chart has no background. Its greys and colours are legible on white and on black, so
one drawing serves light and dark themes.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd

from ..analysis.arguments import OTHER, group_of, keep_top
from ..parse.schemas import STR

MAX_ROWS = 5_000
INK = "#767676"  # contrast 4.5:1 with white and with #111
FAINT = "#7676764d"
# Found by search: of all twelve-colour palettes with a contrast of 3:1 or more with
# white and with #111, one whose closest pair is far apart for every kind of colour
# vision, with priority for neighbours in the order. Lines also differ in their points'
# shapes.
COLOURS = (
    *("#127fb1", "#cd1529", "#9e944f", "#8787f6", "#9b4652", "#44a27a"),
    *("#e6740e", "#bc6345", "#1076f7", "#5d6098", "#9d3fcb", "#cc4cb6"),
)
GOOD, BAD = "#3f9656", "#d1495b"
SEVERITY_COLOURS = {"none": "#7f9fb8", "low": "#3b82c4", "medium": "#c9731f", "high": "#d1495b"}
ROW = "_row"  # the number of a mark's row, which identifies what was clicked
_SHOWN_CHARACTERS = 80
_CLOCK = {"hours": "%H:%M", "minutes": "%H:%M"}  # Vega's own are "07 PM" and "07:45"
_LINE_LENGTH, _LINE_WIDTH = 70, 420  # of a sentence in place of a chart: characters, pixels
_LABELS = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
CONFIG = {
    "background": "transparent",
    "font": "sans-serif",
    "view": {"stroke": None},
    "range": {"category": list(COLOURS)},
    "title": {
        "anchor": "start", "color": INK, "subtitleColor": INK, "fontSize": 14, "subtitleFontSize": 11, "offset": 12
    },
    "axis": {**_LABELS, "domainColor": INK, "tickColor": INK, "gridColor": FAINT},
    "legend": _LABELS,
    "text": {"color": INK, "fontSize": 11},
}  # fmt: skip


def altair() -> Any:
    """The module `altair`, or an `ImportError` that says how to install it."""
    try:
        if find_spec("vl_convert") is None:
            raise ModuleNotFoundError("No module named 'vl_convert'")
        return import_module("altair")
    except ImportError as missing:
        raise ImportError(
            f"Charts need Altair and vl-convert ({missing}). Install them with: pip install altair vl-convert-python"
        ) from missing


class Marks:
    """The marks of a frame's rows, and what a person can select of them.

    The names of selections and of views come from the rows, so that charts can be
    combined.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        alt, data = altair(), data_of(rows)
        self._key = hashlib.sha256(json.dumps(data.values, default=str).encode()).hexdigest()[:8]
        self.chart = alt.Chart(data)
        self.clicked = alt.selection_point(name=f"click_{self._key}", fields=[ROW])

    def selectable(self, marks: Any, *brushed: str, name: str = "points", opacity: Any = (1, 0.3)) -> Any:
        """Marks that can be clicked (with Shift: several), and brushed along `brushed`.

        `opacity` is that of marks that are selected, or none is, and of the others.
        """
        alt = altair()
        if opacity:
            marks = marks.encode(opacity=alt.condition(self.clicked, *map(alt.value, opacity)))
        marks = marks.properties(name=f"{name}_{self._key}").add_params(self.clicked)
        if not brushed:
            return marks
        look = alt.BrushConfig(fill=INK, fillOpacity=0.2, stroke=INK, strokeOpacity=0.6)
        name = f"brush_{''.join(brushed)}_{self._key}"
        return marks.add_params(alt.selection_interval(name=name, encodings=list(brushed), mark=look))


def data_of(frame: pd.DataFrame) -> Any:
    """The rows as Altair's inline data, each with its number as ``_row``."""
    if len(frame) > MAX_ROWS:
        raise ValueError(
            f"This chart would hold {len(frame):,} rows, more than {MAX_ROWS:,}: "
            "choose a longer period, fewer groups, or a part of the frame."
        )
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    values = [{**{str(key): _plain(value) for key, value in row.items()}, ROW: n} for n, row in enumerate(rows)]
    return altair().InlineData(values=values)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def wall_clock(moments: pd.Series) -> pd.Series:
    """Local times as texts in UTC, so that a UTC axis shows the local clock.

    Vega can only show UTC and the browser's own time zone.
    """
    texts: pd.Series = moments.dt.tz_localize(None).dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return texts


def clock_text(moments: pd.Series) -> pd.Series:
    """Local times as a tooltip shows them, with seconds if they have any."""
    naive = moments.dt.tz_localize(None)
    whole_days = bool((naive.dropna() == naive.dropna().dt.normalize()).all())
    texts: pd.Series = naive.dt.strftime("%a %Y-%m-%d" if whole_days else "%a %Y-%m-%d %H:%M:%S")
    return texts.str.removesuffix(":00")


def shortened(texts: pd.Series) -> pd.Series:
    """Texts shortened to one line of at most 80 characters."""
    lines = texts.astype("str").str.replace(r"\s+", " ", regex=True).str.strip()
    return lines.where(lines.str.len() <= _SHOWN_CHARACTERS, lines.str.slice(0, _SHOWN_CHARACTERS - 1) + "…")


def styled(chart: Any, title: str, subtitle: str | list[str] = "") -> Any:
    """The chart with a title."""
    return chart.properties(title={"text": title, "subtitle": subtitle} if subtitle else title)


def without_marks(chart: Any, text: str) -> Any:
    """The title of a chart that has no data, and a sentence in place of axes.

    A chart without a title, such as a combination, is left as it is.
    """
    alt, title = altair(), getattr(chart, "title", None)
    title = title.get("text") if isinstance(title, dict) else title
    if not isinstance(title, str):
        return chart
    nothing = alt.Chart(alt.InlineData(values=[{}])).mark_point(opacity=0).properties(width=_LINE_WIDTH, height=1)
    return styled(nothing, title, textwrap.wrap(text, _LINE_LENGTH))


def join_names(names: Sequence[str], limit: int = 3) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> join_names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def time_axis(tz: str, title: str = "asked") -> Any:
    """The horizontal axis of a chart over time, by default that of the question.

    The column is ``at``.
    """
    alt = altair()
    axis = alt.Axis(grid=False, labelOverlap=True, format=_CLOCK)
    return alt.X("at:T", title=f"{title} ({tz})", scale=alt.Scale(type="utc"), axis=axis)


def tooltip(**fields: str | tuple[str, str]) -> list[Any]:
    """Altair's tooltips: field -> label, or (label, number format)."""
    alt = altair()
    return [
        alt.Tooltip(f"{field}:Q", title=label[0], format=label[1])
        if isinstance(label, tuple)
        else alt.Tooltip(f"{field}:N", title=label)
        for field, label in fields.items()
    ]


MAX_GROUPS = len(COLOURS)
UNNAMED = "(unknown)"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
# These have one value per row or conversation, so no twelve of them say much about the
# rest.
_UNIQUE_COLUMNS = ("session_id", "session", "message_id", "reply_id", "event_id", "task_id", "id", "prompt", "reply")


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
        if by in _UNIQUE_COLUMNS or sizes.iloc[: MAX_GROUPS - 1].sum() * 2 < len(frame):
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


# Periods to choose from: length, and name in the subtitle. "M" is used for longer
# spans.
_PERIODS = {
    "15min": ("15min", "15 minutes"),
    "1h": ("1h", "hour"),
    "6h": ("6h", "6 hours"),
    "1D": ("1D", "day"),
    "W": ("7D", "week"),
}
_MAX_PERIODS = 60  # more points than this make a noisy line


def default_period(moments: pd.Series) -> str:
    """The shortest period from 15 minutes to a month that makes at most 60.

    Examples
    --------
    >>> default_period(pd.Series(pd.to_datetime(["2026-10-01", "2026-10-20"])))
    '1D'
    """
    span = moments.max() - moments.min()
    if pd.isna(span):
        return "1h"
    return next((freq for freq, (length, _) in _PERIODS.items() if span / pd.Timedelta(length) <= _MAX_PERIODS), "M")


def period_name(freq: str) -> str:
    """The name of a period.

    Examples
    --------
    >>> period_name("1D"), period_name("2h")
    ('day', '2h')
    """
    return {**{key: name for key, (_, name) in _PERIODS.items()}, "M": "month"}.get(freq, freq)

"""A chart that a notebook keeps: SVG drawn here, offline, with the same words for those who cannot see it.

JupyterLab bundles an older Vega-Lite than Altair writes, and a saved notebook should show its charts without either. So
the output is the drawing itself. It has no background, and its text is a grey that stands out on white and on black
alike, as do the colours: one drawing serves light and dark themes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

MOST_ROWS = 5_000
_COUNTED = re.compile(r"(?<=[\"#])(clip|gradient_?)\d+(?=[\")])")
INK = "#767676"  # 4.5 to 1 against white and against #111
FAINT = "#7676764d"
COLOURS = ("#3b82c4", "#c9731f", "#3f9656", "#8d6cc7", "#c2528b", "#5f8a8b", "#a0802c", "#d1495b")
SEVERITY_COLOURS = {"none": "#7f9fb8", "low": "#3b82c4", "medium": "#c9731f", "high": "#d1495b"}


class Chart:
    """A chart, its text alternative and the table it was drawn from.

    Attributes
    ----------
    chart : altair.TopLevelMixin
        To change it further with Altair.
    text : str
        What the chart shows, in words.
    data : DataFrame
        The rows in the chart, at most `MOST_ROWS`.
    """

    def __init__(self, chart: Any, text: str, data: pd.DataFrame) -> None:
        self.chart = chart
        self.text = text
        self.data = data

    def svg(self) -> str:
        """The drawing; the same for the same rows, byte for byte."""
        out = io.StringIO()
        self.chart.save(out, format="svg")
        drawn = _renumbered(out.getvalue())
        start = drawn.index(">", drawn.index("<svg")) + 1
        return f"{drawn[:start]}<title>{escape(self.text)}</title>{drawn[start:]}"

    def png(self, scale: float = 2) -> bytes:
        """The drawing as PNG, `scale` pixels to a point."""
        out = io.BytesIO()
        self.chart.save(out, format="png", scale_factor=scale)
        return out.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a ``.svg`` or ``.png`` file; the path."""
        target = Path(path)
        if target.suffix not in (".svg", ".png"):
            raise ValueError(f"A picture is saved as .svg or .png, not as {target.name!r}.")
        target.write_bytes(self.png() if target.suffix == ".png" else self.svg().encode())
        return target

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.text}


def altair() -> Any:
    """The module, or an `ImportError` that says how to get it."""
    try:
        import_module("vl_convert")
        return import_module("altair")
    except ImportError as missing:
        raise ImportError(
            f"Pictures need Altair and vl-convert ({missing}). Install them with: pip install 'agentbook[lab]'"
        ) from missing


def data_of(frame: pd.DataFrame) -> Any:
    """The rows as Altair takes them, written into the chart."""
    if len(frame) > MOST_ROWS:
        raise ValueError(
            f"This picture would hold {len(frame):,} rows, more than {MOST_ROWS:,}: "
            "choose a longer period, fewer groups, or a part of the frame."
        )
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return altair().InlineData(values=[{str(key): _plain(value) for key, value in row.items()} for row in rows])


def wall_clock(moments: pd.Series) -> pd.Series:
    """Local instants as text that a UTC axis shows as they read on the wall: Vega knows no other zone than its own."""
    texts: pd.Series = moments.dt.tz_localize(None).dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return texts


def drawn(chart: Any, title: str, subtitle: str = "") -> Any:
    """The chart with a title and this package's colours and grey."""
    return (
        chart.properties(title={"text": title, "subtitle": subtitle} if subtitle else title)
        .configure(background="transparent", font="sans-serif")
        .configure_view(stroke=None)
        .configure_range(category=list(COLOURS))
        .configure_title(anchor="start", color=INK, subtitleColor=INK, fontSize=14, subtitleFontSize=11, offset=12)
        .configure_axis(
            labelColor=INK, titleColor=INK, domainColor=INK, tickColor=INK, gridColor=FAINT, labelFontSize=11,
            titleFontSize=11, titleFontWeight="normal",
        )
        .configure_legend(labelColor=INK, titleColor=INK, labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        .configure_text(color=INK, fontSize=11)
    )  # fmt: skip


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first few names as words.

    Examples
    --------
    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _renumbered(svg: str) -> str:
    """The same drawing with its clips and gradients counted from 0: vl-convert counts them on from picture to picture."""
    names: dict[str, str] = {}
    return _COUNTED.sub(lambda found: names.setdefault(found[0], f"{found[1]}{len(names)}"), svg)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value

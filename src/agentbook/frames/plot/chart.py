"""Charts as SVG, drawn offline, with a text alternative.

JupyterLab bundles an older Vega-Lite than Altair writes, and a saved notebook should
show its charts without either, so the output is the drawing itself: as SVG, and as an
image in HTML, which a front end shows in a notebook that is not trusted too. It has no
background. Its greys and colours are legible on white and on black, so one drawing
serves light and dark themes.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from ..._whole_file import whole_file

MAX_ROWS = 5_000
_COUNTED = re.compile(r"(?<=[\"#])(clip|gradient_?)\d+(?=[\")])")
INK = "#767676"  # contrast 4.5:1 with white and with #111
FAINT = "#7676764d"
COLOURS = ("#3b82c4", "#c9731f", "#3f9656", "#8d6cc7", "#c2528b", "#5f8a8b", "#a0802c", "#d1495b")
SEVERITY_COLOURS = {"none": "#7f9fb8", "low": "#3b82c4", "medium": "#c9731f", "high": "#d1495b"}


class Chart:
    """A chart, its text alternative and its data.

    Attributes
    ----------
    chart : altair.TopLevelMixin
        The Altair chart, which can be changed further.
    text : str
        What the chart shows, in words.
    data : DataFrame
        The rows in the chart, at most `MAX_ROWS`.
    """

    def __init__(self, chart: Any, text: str, data: pd.DataFrame) -> None:
        self.chart = chart
        self.text = text
        self.data = data

    def svg(self) -> str:
        """The chart as SVG. Equal rows give equal bytes."""
        out = io.StringIO()
        self.chart.save(out, format="svg")
        svg = _renumber(out.getvalue())
        start = svg.index(">", svg.index("<svg")) + 1
        return f"{svg[:start]}<title>{escape(self.text)}</title>{svg[start:]}"

    def html(self) -> str:
        """The chart as an image element with its text alternative; nothing can run."""
        return self._image(self.svg())

    def _image(self, svg: str) -> str:
        data = b64encode(svg.encode()).decode()
        return f'<img alt="{escape(self.text)}" src="data:image/svg+xml;base64,{data}">'

    def png(self, scale: float = 2) -> bytes:
        """The chart as PNG, with `scale` pixels per point."""
        out = io.BytesIO()
        self.chart.save(out, format="png", scale_factor=scale)
        return out.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the chart to a ``.svg`` or ``.png`` file; returns the path."""
        target = Path(path).expanduser()
        if target.suffix not in (".svg", ".png"):
            raise ValueError(f"A chart is saved as .svg or .png, not as {target.name!r}.")
        with whole_file(target) as file:
            file.write(self.png() if target.suffix == ".png" else self.svg().encode())
        return target

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.svg()
        return {"text/html": self._image(svg), "image/svg+xml": svg, "text/plain": self.text}


def altair() -> Any:
    """The module `altair`, or an `ImportError` that says how to install it."""
    try:
        import_module("vl_convert")
        return import_module("altair")
    except ImportError as missing:
        raise ImportError(
            f"Charts need Altair and vl-convert ({missing}). Install them with: pip install 'agentbook[lab]'"
        ) from missing


def data_of(frame: pd.DataFrame) -> Any:
    """The rows as Altair's inline data."""
    if len(frame) > MAX_ROWS:
        raise ValueError(
            f"This chart would hold {len(frame):,} rows, more than {MAX_ROWS:,}: "
            "choose a longer period, fewer groups, or a part of the frame."
        )
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return altair().InlineData(values=[{str(key): _plain(value) for key, value in row.items()} for row in rows])


def wall_clock(moments: pd.Series) -> pd.Series:
    """Local times as texts in UTC, so that a UTC axis shows the local clock.

    Vega cannot show any other time zone than UTC and its own.
    """
    texts: pd.Series = moments.dt.tz_localize(None).dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return texts


def styled(chart: Any, title: str, subtitle: str = "") -> Any:
    """The chart with a title and this package's colours."""
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


def join_names(names: Sequence[str], limit: int = 3) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> join_names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def count_text(n: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> count_text(2000, "turn")
    '2,000 turns'
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _renumber(svg: str) -> str:
    """Number clips and gradients from 0; vl-convert continues from the last chart."""
    names: dict[str, str] = {}
    return _COUNTED.sub(lambda match: names.setdefault(match[0], f"{match[1]}{len(names)}"), svg)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value

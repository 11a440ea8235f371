"""Charts: a picture with a text alternative and its data.

A saved notebook should show its charts without a kernel, without widgets and without
trust, so the output is the drawing itself: as SVG, and as an image in HTML. In the page
of a running notebook, `agentbook.frames.plot.live` puts a chart with tooltips and
selections in its place.
"""

from __future__ import annotations

import functools
import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from ..._files import atomic_write, file_path
from ..._text import in_kernel, nearest, safe_repr, visible
from .combination import combined_spec
from .selected_rows import selected_rows
from .style import altair, without_marks
from .vega import to_html, to_pdf, to_png, to_svg

PART = "part"  # in a combination, the number of the chart that a row belongs to
_WIDTH = re.compile(r'<svg[^>]*\bwidth="([\d.]+)')
LEGIBLE = 0.7  # share of its own width: labels of 11 pixels become 8
FORMATS = (".svg", ".png", ".html", ".pdf")
_COUNTED = re.compile(r"(?<=[\"#])(clip|gradient_?)\d+(?=[\")])")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|(?:rgb|hsl)a?\([\d\s.,%/]+\)")


class Chart:
    """A chart, its text alternative and its data.

    In a running notebook, marks have tooltips, and dragging or clicking selects marks.
    Use ``first | second`` to put two charts side by side, and ``first & second`` to
    stack them. Without data, the picture is the title and `text`.

    Parameters
    ----------
    chart : altair.TopLevelMixin
    text : str
    data : DataFrame
    drawn : DataFrame, optional
        The rows as the chart's marks use them, in the order of `data`. Default `data`.

    Attributes
    ----------
    chart : altair.TopLevelMixin
        The Altair chart, which can be changed further.
    text : str
        What the chart shows, in words.
    data : DataFrame
        The rows in the chart, at most `agentbook.frames.plot.style.MAX_ROWS`.
    """

    def __init__(self, chart: Any, text: str, data: pd.DataFrame, drawn: pd.DataFrame | None = None) -> None:
        self.chart = chart if len(data) else without_marks(chart, text)
        self.text = visible(text)
        self.data = data
        self._sources = [_Source(0, data if drawn is None else drawn)]
        self._source_of: dict[str, int] = {}  # parameter -> its source, if not the first
        self._selection: dict[str, Any] = {}

    # What a person has selected

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of `data` that are selected in the page, by dragging or clicking.

        Empty if none are, and outside a running notebook.
        """
        inside = np.zeros(len(self.data), np.bool_)
        for name, selection in self._selection.items():
            source = self._sources[self._source_of.get(name, 0)]
            inside[source.start : source.start + len(source.rows)] |= selected_rows(source.rows, selection)
        return self.data[inside]

    def select(self, selection: dict[str, Any]) -> None:
        """Store the page's selection: Vega's value of each parameter."""
        self._selection = selection

    # Files

    def svg(self, background: str | None = None) -> str:
        """The chart as SVG. Equal rows give equal bytes.

        Parameters
        ----------
        background : str, optional
            A CSS colour. None (default) draws none.
        """
        spec = self._spec(background)
        # Nobody can reach the marks inside an image, and their labels would make up
        # most of it.
        spec["config"] = {**spec.get("config", {}), "aria": False}
        svg = _renumber(to_svg(spec))
        start = svg.index(">", svg.index("<svg")) + 1
        return f"{svg[:start]}<title>{escape(self.text)}</title>{svg[start:]}"

    def html(self) -> str:
        """The chart as an image element with its text alternative; nothing can run."""
        return self._image(self.svg())

    def png(self, scale: float = 2, background: str | None = "white") -> bytes:
        """The chart as PNG.

        Parameters
        ----------
        scale : float
            Pixels per point. Default 2.
        background : str or None
            A CSS colour, default white; None draws none.
        """
        return to_png(self._spec(background), scale)

    def save(self, path: str | Path, *, background: str | None = "white") -> Path:
        """Write the chart to a file, as a whole or not at all.

        Parameters
        ----------
        path : str or Path
            Its suffix selects the format: ``.svg``, ``.png``, ``.pdf``, or ``.html``
            for a page with tooltips that opens without a network.
        background : str or None
            A CSS colour, default white; None draws none.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If the suffix or the colour is unknown.
        """
        target = file_path(path, "Chart.save")
        ending = target.suffix.lower()
        if ending not in FORMATS:
            raise ValueError(f"A chart is saved as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not as {target.name!r}.")
        with atomic_write(target) as file:
            file.write(self._bytes(ending, background))
        return target

    def _bytes(self, ending: str, background: str | None) -> bytes:
        if ending == ".svg":
            return self.svg(background).encode()
        if ending == ".png":
            return self.png(background=background)
        spec = self._spec(background)
        return to_pdf(spec) if ending == ".pdf" else to_html(spec, self.text, background or "transparent").encode()

    def live_spec(self) -> dict[str, Any]:
        """The Vega-Lite specification of the chart in a page."""
        return {**self._spec(None), "description": self.text}

    def _spec(self, background: str | None) -> dict[str, Any]:
        spec: dict[str, Any] = _visible(self.chart.to_dict())
        return spec if background is None else {**spec, "background": _colour(background)}

    # Combinations

    def __or__(self, other: Any) -> Chart:
        return _combine("hconcat", self, other)

    def __and__(self, other: Any) -> Chart:
        return _combine("vconcat", self, other)

    __ror__ = __or__
    __rand__ = __and__

    # In a notebook

    def _image(self, svg: str, classes: str = "") -> str:
        data = b64encode(svg.encode()).decode()
        style = f"max-width:100%;min-width:{_least_width(svg)}px"
        return f'<img {classes}alt="{escape(self.text)}" style="{style}" src="data:image/svg+xml;base64,{data}">'

    @safe_repr
    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.svg()
        name = _serve_live(self) if in_kernel() else ""
        classes = f'class="ab-chart ab-chart-{name}" ' if name else ""
        return {"text/html": self._image(svg, classes), "image/svg+xml": svg, "text/plain": self.text}


class _Source:
    """Rows that marks are drawn from, and where they start in the chart's data."""

    def __init__(self, start: int, rows: pd.DataFrame) -> None:
        self.start, self.rows = start, rows


def _combine(direction: str, first: Chart, second: Any) -> Chart:
    if not isinstance(second, Chart):
        raise TypeError(
            f"A chart combines with another chart of agentbook, not with a {type(second).__name__}: "
            "draw both with ab.plot, then `first | second` (beside) or `first & second` (below)."
        )
    return _Combination(direction, [first, second])


class _Combination(Chart):
    """Charts beside or below each other, drawn as one."""

    def __init__(self, direction: str, parts: Sequence[Chart]) -> None:
        spec, names = combined_spec(direction, [part.chart.to_dict() for part in parts])
        text = " ".join(part.text for part in parts)
        super().__init__(altair().Chart.from_dict(spec), text, _stacked(parts))
        self._sources, start = [], 0
        for part, renamed in zip(parts, names, strict=True):
            sources = len(self._sources)
            self._sources += [_Source(start + source.start, source.rows) for source in part._sources]
            self._source_of |= {name: sources + part._source_of.get(old, 0) for old, name in renamed.items()}
            start += len(part.data)


def _stacked(parts: Sequence[Chart]) -> pd.DataFrame:
    """The rows of all parts, with a column that says which part they belong to."""
    numbered = [part.data.assign(**{PART: number}) for number, part in enumerate(parts, start=1)]
    frames = [frame[[PART, *(name for name in frame if name != PART)]] for frame in numbered]
    return pd.concat(frames, ignore_index=True)


@functools.cache
def _colour_names() -> frozenset[str]:
    from altair.vegalite.v6.schema._typing import ColorName_T

    return frozenset(get_args(ColorName_T))


def _colour(background: str) -> str:
    """A CSS colour as it is; raises a `ValueError` if it is not one."""
    name = background.lower() if isinstance(background, str) else ""
    if name == "transparent" or name in _colour_names() or _COLOUR.fullmatch(name):
        return name
    match = nearest(name, sorted(_colour_names())) if name else None
    hint = f" (did you mean {match!r}?)" if match else ""
    raise ValueError(
        f"background must be a CSS colour such as 'white' or '#111111', or None, not {background!r}{hint}."
    )


def _renumber(svg: str) -> str:
    """Number clips and gradients from 0; vl-convert continues from the last chart."""
    names: dict[str, str] = {}
    return _COUNTED.sub(lambda match: names.setdefault(match[0], f"{match[1]}{len(names)}"), svg)


def _visible(value: Any) -> Any:
    """Part of a specification, with the hidden characters in its texts spelled out.

    A picture cannot contain most of them, because SVG is XML.
    """
    if isinstance(value, str):
        return value if value.isprintable() else visible(value)
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list) else value


def _least_width(svg: str) -> int:
    """The least width of a picture in pixels; a narrower page scrolls it."""
    width = _WIDTH.search(svg)
    return int(float(width[1]) * LEGIBLE) if width else 0


def _serve_live(chart: Chart) -> str:
    """The name under which the page finds the chart; empty if there are no widgets."""
    from . import live

    try:
        return live.serve(chart)
    except Exception:  # the picture is shown, whatever a front end's widgets raise
        return ""

"""Charts: Altair's own objects, with a text alternative and their data.

A chart is an instance of Altair's class with `Chart` mixed in, so that what Altair's
documentation says of a chart holds for it. Three forms were tried. A wrapper that
passes Altair's methods on is none of the objects that ``alt.hconcat`` and ``alt.layer``
accept. An attribute on a subclass is lost when Altair copies a chart, and breaks
``to_dict()``. So text and data are a note in ``usermeta``, which Altair copies by
reference: it goes wherever the chart goes, into combinations too, and `to_dict` takes
it out. The look is no ``config`` of the chart either, because Altair combines no charts
that have one; `to_dict` adds it.

A saved notebook should show its charts without a kernel, without widgets and without
trust, so the output is a picture: an image in HTML. A running notebook has an
`altair.JupyterChart` above it, which a style hides once its kernel is gone, and which
hides the picture while it is there.
"""

from __future__ import annotations

import functools
import re
import warnings
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from ..._files import atomic_write, file_path
from ..._text import in_kernel, ipython_shell, nearest, safe_repr, visible
from .style import CONFIG, ROW, altair, without_marks
from .vega import draw, live_chart, to_html

PART = "part"  # in a combination, the number of the chart that a row belongs to
LEGIBLE = 0.7  # share of its own width: labels of 11 pixels become 8
FORMATS = (".svg", ".png", ".html", ".pdf")
_NOTE = "agentbook"  # its key in usermeta
_WIDTH = re.compile(r'<svg[^>]*\bwidth="([\d.]+)')
_COUNTED = re.compile(r"(?<=[\"#])(clip|gradient_?)\d+(?=[\")])")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|(?:rgb|hsl)a?\([\d\s.,%/]+\)")
_SEPARATORS = dict.fromkeys((0x2028, 0x2029), " ")  # of lines and paragraphs
# A live chart is the output before its picture; one of the two is shown.
_OUTPUT, _LIVE = ".jp-OutputArea-child", ":has(svg.marks)"
_STYLE = (
    f"<style>{_OUTPUT}{_LIVE} + {_OUTPUT}:has(img.ab-chart-live), "
    f"{_OUTPUT}:not({_LIVE}):has(+ {_OUTPUT} img.ab-chart-live) {{ display: none; }}</style>"
)
_live_charts: dict[str, tuple[Any, list[Any]]] = {}  # by cell: its last run, and what that showed


class _Note:
    """What a chart shows, and what a person has selected in it."""

    def __init__(self, text: str, data: pd.DataFrame, drawn: pd.DataFrame, params: frozenset[str]) -> None:
        self.text, self.data = text, data
        self.drawn, self.params = drawn, params
        self.selected: dict[str, Any] = {}

    def inside(self) -> Any:
        """Whether each row is selected."""
        inside = np.zeros(len(self.data), np.bool_)
        for value in self.selected.values():
            inside |= selected_rows(self.drawn, value)
        return inside


if TYPE_CHECKING:  # every chart is one of Altair's too, by a class that is made with it
    _Altair = Any
else:
    _Altair = object


class Chart(_Altair):  # type: ignore[misc]
    """An Altair chart with a text alternative and its data.

    What Altair's documentation says of a chart holds for it, such as ``.properties``,
    ``.interactive()``, ``.facet``, ``.configure_axis`` and ``.to_dict()``. Use
    ``first | second`` to put two charts side by side, ``first & second`` to stack them,
    and ``first + second`` to layer them; the other one may be any Altair chart.

    In a running notebook, marks have tooltips, and dragging or clicking selects marks.
    Without data, the picture is the title and `text`.
    """

    _altair_class: Any
    _args: Any
    _kwds: dict[str, Any]

    def __init__(self, *args: Any, **kwds: Any) -> None:
        # Altair copies a chart by this call, and would take `data` for its own.
        plain = self._altair_class(*args, **kwds)
        object.__setattr__(self, "_args", plain._args)
        object.__setattr__(self, "_kwds", plain._kwds)

    @property
    def chart(self) -> Chart:
        """The Altair chart: the chart itself."""
        return self

    @property
    def text(self) -> str:
        """What the chart shows, in words."""
        return " ".join(note.text for note in _notes(self))

    @property
    def data(self) -> pd.DataFrame:
        """The rows in the chart, at most `agentbook.frames.plot.style.MAX_ROWS`.

        Of a combination: the rows of all its charts, with the chart's number in
        column ``part``.
        """
        return _stacked([note.data for note in _notes(self)])

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of `data` that are selected in the page, by dragging or clicking.

        Empty if none are, and outside a running notebook.
        """
        return self.data[np.concatenate([note.inside() for note in _notes(self)])]

    def live(self) -> Any:
        """The chart as an `altair.JupyterChart`, such as for a layout of widgets.

        A running notebook shows a chart so by itself. What is selected in it is in
        `selection` of this chart. It needs no network.
        """
        live, notes = live_chart(self), list(_notes(self))

        def select(change: Any) -> None:
            for note in notes:
                if change.name in note.params:
                    note.selected[change.name] = change.new.value

        live.selections.observe(select)
        return live

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
        spec["config"] = {**spec["config"], "aria": False}
        svg = _renumber(draw("svg", spec))
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
        return bytes(draw("png", self._spec(background), scale=scale))

    def save(self, fp: Any, format: str | None = None, *, background: str | None = "white", **options: Any) -> Any:
        """Write the chart to a file, as a whole or not at all.

        Parameters
        ----------
        fp : str or Path
            Its suffix selects the format: ``.svg``, ``.png``, ``.pdf``, or ``.html``
            for a page with tooltips that opens without a network.
        format : str, optional
            With a format, with options of Altair such as ``scale_factor=``, or if `fp`
            is an open file, Altair writes it.
        background : str or None
            A CSS colour, default white; None draws none.

        Returns
        -------
        Path or None
            None if Altair writes the file.

        Raises
        ------
        ValueError
            If the suffix or the colour is unknown.
        """
        if format is not None or options or hasattr(fp, "write"):
            return self._finished().save(fp, format, **options)
        target = file_path(fp, "Chart.save")
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
        if ending == ".pdf":
            return bytes(draw("pdf", spec))
        return to_html(spec, self.text, background or "transparent").encode()

    # As Altair's

    def to_dict(self, validate: bool = True, **options: Any) -> dict[str, Any]:
        """The Vega-Lite specification; its arguments are Altair's."""
        if not (options.get("context") or {}).get("top_level", True):
            part: dict[str, Any] = self._altair().to_dict(validate, **options)
            return part
        spec: dict[str, Any] = _visible(self._finished().to_dict(validate, **options))
        return spec

    def _spec(self, background: str | None) -> dict[str, Any]:
        spec = self.to_dict()
        return spec if background is None else {**spec, "background": _colour(background)}

    def _altair(self) -> Any:
        """Altair's object, without what this class adds."""
        return _made(self._altair_class, self._args, _without_note(self._kwds))

    def _finished(self) -> Any:
        """Altair's object with the look of our charts."""
        alt, chart = altair(), self._altair()
        own = {} if chart.config is alt.Undefined else chart.config
        config = alt.utils.update_nested(CONFIG, own if isinstance(own, dict) else own.to_dict(), copy=True)
        if isinstance(chart, alt.HConcatChart | alt.VConcatChart | alt.ConcatChart):
            # The titles in a column start at the same place as the plots, and each part
            # keeps its own colours and legends.
            config["title"] = {**config["title"], "frame": "group"}
            if chart.spacing is alt.Undefined:
                chart.spacing = 28
            if chart.resolve is alt.Undefined:
                channels = ("color", "opacity", "shape", "size", "strokeDash")
                chart.resolve = {"scale": dict.fromkeys(channels, "independent")}
        chart.config = config
        if chart.description is alt.Undefined:
            chart.description = self.text
        return chart

    def facet(self, *args: Any, **kwds: Any) -> Any:
        """Small multiples, as in Altair."""
        return own(self._altair().facet(*args, **kwds), *_notes(self))

    def repeat(self, *args: Any, **kwds: Any) -> Any:
        """Charts of several fields, as in Altair."""
        return own(self._altair().repeat(*args, **kwds), *_notes(self))

    def interactive(self, *args: Any, **kwds: Any) -> Any:
        """Pan by dragging and zoom by scrolling, as in Altair; marks are clicked."""
        chart, undefined = self._altair(), altair().Undefined
        if chart.params is not undefined:
            chart.params = [param for param in chart.params if "interval" not in str(param.select)] or undefined
        return own(chart.interactive(*args, **kwds), *_notes(self))

    def __or__(self, other: Any) -> Any:
        return self._joined("hconcat", other)

    def __and__(self, other: Any) -> Any:
        return self._joined("vconcat", other)

    def __add__(self, other: Any) -> Any:
        return self._joined("layer", other)

    def _joined(self, join: str, other: Any) -> Any:
        with warnings.catch_warnings():
            # Charts of the same rows share what is selected.
            warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
            if not self._kwds.get(join):
                return own(getattr(altair(), join)(self, other))
            # One more part of the same combination, as in Altair.
            joined = self._altair()
            joined = joined | other if join == "hconcat" else joined & other if join == "vconcat" else joined + other
            return own(joined, *_own_notes(self))

    # In a notebook

    def _image(self, svg: str) -> str:
        data = b64encode(svg.encode()).decode()
        style = f"max-width:100%;min-width:{_least_width(svg)}px"
        return f'<img alt="{escape(self.text)}" style="{style}" src="data:image/svg+xml;base64,{data}">'

    @safe_repr
    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.svg()
        return {"text/html": self._image(svg), "image/svg+xml": svg, "text/plain": self.text}

    def __reduce__(self) -> Any:
        return _restored, (self._altair_class, self._args, self._kwds)


def with_text(chart: Any, text: str, data: pd.DataFrame, drawn: pd.DataFrame | None = None) -> Chart:
    """An Altair chart of your own as one of agentbook's.

    It gets their look on light and dark pages, a text alternative, and a picture that
    a saved notebook shows without a kernel.

    Parameters
    ----------
    chart : altair.Chart or another chart of Altair
        The chart. A ``config`` of its own wins over the look that is added.
    text : str
        What the chart shows, in words, for people who cannot see it.
    data : DataFrame
        The rows that it shows. If there are none, the picture is the chart's title and
        `text`.
    drawn : DataFrame, optional
        The rows as the chart's marks use them, in the order of `data`. Default `data`.

    Returns
    -------
    Chart
        An Altair chart with ``text``, ``data``, ``selection`` and `save`.

    Raises
    ------
    ImportError
        If Altair or vl-convert is missing; the message says how to install them.

    Examples
    --------
    >>> import altair as alt
    >>> rows = pd.DataFrame({"agent": ["helpdesk", "scribe"], "turns": [12, 7]})
    >>> bars = alt.Chart(rows, title="Turns").mark_bar().encode(x="turns", y="agent")
    >>> with_text(bars, "helpdesk had 12 turns, scribe 7.", rows)
    helpdesk had 12 turns, scribe 7.
    """
    chart = chart if len(data) else without_marks(chart, text)
    params = () if chart.params is altair().Undefined else chart.params
    names = frozenset(str(getattr(param.name, "_args", [param.name])[0]) for param in params)
    shown: Chart = own(chart, _Note(visible(text), data, data if drawn is None else drawn, names))
    return shown


def own(chart: Any, *notes: _Note) -> Any:
    """An Altair chart, plain or with notes, as a `Chart`."""
    _show_in_notebooks()
    if isinstance(chart, Chart):
        return chart
    usermeta = {"usermeta": {_NOTE: notes}} if notes else {}
    kind: Any = type(chart)
    return _made(_own_class(kind), chart._args, {**chart._kwds, **usermeta})


@functools.cache
def _own_class(kind: Any) -> Any:
    return type(kind.__name__, (Chart, kind), {"_altair_class": kind, "__module__": __name__})


def _made(kind: Any, args: Any, kwds: dict[str, Any]) -> Any:
    """An Altair object, without what its ``__init__`` would change."""
    made = object.__new__(kind)
    object.__setattr__(made, "_args", args)
    object.__setattr__(made, "_kwds", kwds)
    return made


def _restored(kind: Any, args: Any, kwds: dict[str, Any]) -> Any:
    return _made(_own_class(kind), args, kwds)


def _own_notes(chart: Any) -> tuple[_Note, ...]:
    usermeta = chart._kwds.get("usermeta")
    notes: tuple[_Note, ...] = usermeta.get(_NOTE, ()) if isinstance(usermeta, dict) else ()
    return notes


def _notes(chart: Any) -> Iterator[_Note]:
    """The notes of a chart and of its parts, in their order."""
    yield from _own_notes(chart)
    for name in ("hconcat", "vconcat", "concat", "layer", "spec"):
        parts = chart._kwds.get(name)
        for part in parts if isinstance(parts, list) else [parts]:
            if hasattr(part, "_kwds"):
                yield from _notes(part)


def _without_note(kwds: dict[str, Any]) -> dict[str, Any]:
    kwds = dict(kwds)
    usermeta = kwds.pop("usermeta", None)
    rest = {key: value for key, value in usermeta.items() if key != _NOTE} if isinstance(usermeta, dict) else usermeta
    return {**kwds, "usermeta": rest} if rest else kwds


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all parts, with a column that says which part they belong to."""
    if len(parts) == 1:
        return parts[0]
    numbered = [part.assign(**{PART: number}) for number, part in enumerate(parts, start=1)]
    frames = [frame[[PART, *(name for name in frame if name != PART)]] for frame in numbered]
    return pd.concat(frames, ignore_index=True)


# What is selected


def selected_rows(rows: pd.DataFrame, selection: Any) -> Any:
    """Whether each row is in a selection, as `altair.JupyterChart` reports its value.

    Parameters
    ----------
    rows : DataFrame
        The rows as the page has them, with times as texts in UTC.
    selection : list or dict
        For clicks, each mark with the number of its row as ``_row``. For a brush, by
        field: two ends, which are numbers or milliseconds since 1970, or the names that
        it covers.

    Returns
    -------
    array of bool

    Examples
    --------
    >>> rows = pd.DataFrame({"agent": ["a", "b"], "latency_s": [1.0, 3.0]})
    >>> selected_rows(rows, {"latency_s": [2.5, 4]}).tolist()
    [False, True]
    >>> selected_rows(rows, [{"_row": 0}]).tolist()
    [True, False]
    """
    inside = np.zeros(len(rows), np.bool_)
    if isinstance(selection, list):
        numbers = [mark.get(ROW) for mark in selection if isinstance(mark, dict)]
        inside[[n for n in numbers if isinstance(n, int) and 0 <= n < len(rows)]] = True
        return inside
    fields = {
        name: values for name, values in dict(selection or {}).items() if name in rows and isinstance(values, list)
    }
    if fields:
        inside[:] = np.logical_and.reduce([_is_within(rows[name], values) for name, values in fields.items()])
    return inside


def _is_within(column: pd.Series, values: list[Any]) -> Any:
    if len(values) != 2 or not all(isinstance(value, (int, float)) for value in values):
        return column.isin(values).to_numpy()
    if not pd.api.types.is_numeric_dtype(column):
        moments = pd.to_datetime(column, utc=True, format="ISO8601").dt.as_unit("ms")
        column = moments.astype("int64").astype("float64").where(moments.notna())
    elif pd.api.types.is_integer_dtype(column) and min(values) == max(values):
        return (column == values[0]).to_numpy(dtype=bool, na_value=False)
    return column.between(min(values), max(values)).to_numpy(dtype=bool, na_value=False)


# Pictures


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

    A picture cannot contain most of them, because SVG is XML, and Vega's expressions
    cannot contain Unicode's line and paragraph separators.
    """
    if isinstance(value, str):
        return value if value.isprintable() else visible(value.translate(_SEPARATORS))
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list) else value


def _least_width(svg: str) -> int:
    """The least width of a picture in pixels; a narrower page scrolls it."""
    width = _WIDTH.search(svg)
    return int(float(width[1]) * LEGIBLE) if width else 0


# In a notebook


@functools.cache
def _show_in_notebooks() -> None:
    """Let IPython show combinations that Altair's functions make of our charts.

    Charts without one of ours are shown as without this.
    """
    if (shell := ipython_shell()) is not None:
        shell.display_formatter.mimebundle_formatter.for_type(altair().TopLevelMixin, _bundle)


def _bundle(chart: Any) -> Any:
    """What a notebook shows of an Altair chart; of ours, a live one comes before it."""
    if not any(True for _ in _notes(chart)):
        return chart._repr_mimebundle_()
    chart = own(chart)
    bundle = chart._repr_mimebundle_()
    if in_kernel() and _show_live(chart):
        bundle["text/html"] = _STYLE + bundle["text/html"].replace("<img ", '<img class="ab-chart ab-chart-live" ', 1)
    return bundle


def _show_live(chart: Chart) -> bool:
    from IPython.display import display

    try:
        live = chart.live()
        _close_earlier(live)
        made = live._repr_mimebundle_()
        data = dict(made[0] if isinstance(made, tuple) else made)
        # An untrusted notebook would show the text above the picture.
        display({**data, "text/plain": ""}, raw=True)  # type: ignore[no-untyped-call]
    except Exception:  # the picture is shown, whatever a front end's widgets raise
        return False
    return True


def _close_earlier(live: Any) -> None:
    """Close what earlier runs of this cell showed: a page that reloads loads all."""
    request: dict[str, Any] = getattr(ipython_shell(), "get_parent", dict)()
    cell, run = request.get("metadata", {}).get("cellId"), request.get("header", {}).get("msg_id")
    if cell is not None:  # not every front end names its cells
        last, charts = _live_charts.get(cell, (run, []))
        if last != run:
            for chart in charts:
                chart.close()
            charts = []
        _live_charts[cell] = run, [*charts, live]

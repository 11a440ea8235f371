"""Frames for other programs: files, Arrow tables and Polars frames."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa

from .._files import atomic_write, file_path
from .._text import visible
from .excel import write_excel
from .parse.frame import jsonable
from .parse.schemas import STR
from .tabular import KEY, frame_of

# Text that spreadsheet programs read as a formula, even after spaces and invisible
# characters, and in the full-width forms of Chinese and Japanese keyboards. A tab, a
# line feed or a carriage return may begin a new cell.
_BLANKS, _SIGNS = "\\s\x00-\x1f\u200b-\u200f\u2060\ufeff", "=+\\-@＝＋－＠"
_FORMULA = re.compile(f"^(?:[{_BLANKS}]*[{_SIGNS}]|[\t\r\n])")
# If a program separates cells by semicolons or tabs, as Excel does in many countries,
# it does not treat a text after a comma as quoted, and these characters end a cell
# within it.
_FORMULA_WITHIN = re.compile(f'([;\t\r\n][{_BLANKS}"]*)(?=[{_SIGNS}])')
# All texts are quoted: otherwise a carriage return in one would begin a new row.
_CSV_OPTIONS: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC, "errors": "replace"}
_ABOUT = ("resource", "operation", "derived", "loaded_at", "complete")


def export(table: Any, path: str | os.PathLike[str], *, escape_formulas: bool | None = None) -> Path:
    """Write a frame to a file; the suffix selects the format. Returns the path.

    Parameters
    ----------
    table : DataFrame, Series, Listing, History, or any other table
        Arrow tables, Polars frames and others are converted. A `History` is written as
        a report, as ``.html``: see `History.report`.
    path : str or path
        The file. It is written as a whole or not at all, and replaced if it exists.

        ============ ===============================================================
        suffix       content
        ============ ===============================================================
        ``.csv``     for spreadsheet programs: all texts in quotes
        ``.xlsx``    an Excel workbook: needs ``pip install 'agentbook[excel]'``
        ``.html``    one page without scripts; opens without a network
        ``.parquet`` all columns with their types, and where they come from
        ``.jsonl``   one JSON object per row, times in ISO 8601
        ============ ===============================================================
    escape_formulas : bool, optional
        For ``.csv``: whether to put ``'`` before what a spreadsheet program would run
        as a formula: texts that begin with ``=``, ``+``, ``-``, ``@``, a tab or a line
        break, and such characters after a ``;``, a tab or a line break within a text,
        where programs in many countries begin another cell. None, the default, means
        True, because people open CSV files. Pass False for a program that reads the
        texts as they are: Markdown lists begin with ``-``. No other kind of file holds
        formulas.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    ImportError
        If the file needs a library that is not installed.
    OSError
        If the file cannot be written.
    TypeError
        If `table` is not a frame; the message names the call that makes one.
    ValueError
        If the suffix is unknown, `escape_formulas` does not apply to it, or a sheet
        cannot hold that many rows.

    Warns
    -----
    UserWarning
        If texts are longer than the 32,767 characters of an Excel cell: they are cut.

    Notes
    -----
    An index is written as columns, unless it only counts the rows. Excel has no time
    zones: cells hold the local time of the column's zone, and their format shows the
    zone. Values of objects are written as JSON.

    Specification: "Resources and their fields".

    Examples
    --------
    >>> turns = ab.turns(store.events())
    >>> path = export(turns, folder / "turns.csv")
    >>> pd.read_csv(path)["session_id"].nunique()
    3
    """
    report = getattr(table, "report", None)
    if callable(report):  # of a History
        if escape_formulas:
            raise ValueError("escape_formulas is for .csv files; a report holds texts as texts, so leave it out.")
        page: Path = report(path)
        return page
    if callable(getattr(table, "save", None)):  # a chart
        raise TypeError(f"A {type(table).__name__} writes itself: use its save(path), for .svg, .png, .pdf or .html.")
    frame = table.to_frame() if isinstance(table, pd.Series) else frame_of(table, caller="ab.export")
    target = file_path(path, "ab.export")
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        suffix = repr(target.suffix) if target.suffix else "no suffix"
        raise ValueError(f"ab.export does not know {suffix} of {target.name!r}: use one of {', '.join(_WRITERS)}.")
    if target.suffix.lower() == ".csv":
        write = partial(_write_csv, escape_formulas=escape_formulas is not False)
    elif escape_formulas:
        raise ValueError(
            f"escape_formulas is for .csv files; {target.suffix} files hold texts as texts, so leave it out."
        )
    with atomic_write(target) as file:
        write(frame, file)
    return target


# -- one writer per suffix ---------------------------------------------------------


def _write_csv(frame: pd.DataFrame, file: BinaryIO, escape_formulas: bool = True) -> None:
    flat = _flat(frame)
    for number, dtype in enumerate(flat.dtypes):
        if pd.api.types.is_datetime64_any_dtype(dtype):
            flat.isetitem(number, _with_equal_digits(flat.iloc[:, number]).array)
    if escape_formulas:
        flat = flat.apply(_escaped).rename(columns=_escape_text)
    flat.to_csv(file, index=False, **_CSV_OPTIONS)


def _write_excel(frame: pd.DataFrame, file: BinaryIO) -> None:
    write_excel(_flat(frame), file, _about(frame))


def _write_html(frame: pd.DataFrame, file: BinaryIO) -> None:
    about = _about(frame)
    template = Template(Path(__file__).with_name("table.html").read_text("utf-8"))
    flat = _flat(frame)
    # pandas would escape line breaks and shorten texts as for a terminal.
    formatters: Any = [_html_text if _holds_texts(dtype) else None for dtype in flat.dtypes]
    with pd.option_context("display.max_colwidth", None):
        rows = flat.to_html(index=False, na_rep="", border=0, formatters=formatters)
    page = template.substitute(
        title=escape(f"{about.get('derived') or about.get('resource') or 'table'}: {len(frame):,} rows"),
        origin=escape(", ".join(f"{name} {value}" for name, value in about.items())),
        table=rows,
    )
    file.write(visible(page).encode())


def _write_parquet(frame: pd.DataFrame, file: BinaryIO) -> None:
    # pandas cannot read its own name for an Arrow list (`parse.lists`), so store none.
    lists = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype)]
    options: dict[str, Any] = {"schema": pa.Schema.from_pandas(frame).remove_metadata()} if lists else {}
    plain = frame.astype(dict.fromkeys(lists, object))
    plain.attrs = frame.attrs
    plain.to_parquet(file, engine="pyarrow", compression="zstd", **options)


def _write_lines(frame: pd.DataFrame, file: BinaryIO) -> None:
    lines = _flat(frame).to_json(orient="records", lines=True, date_format="iso", date_unit="us", force_ascii=False)
    file.write(str(lines).encode("utf-8", "replace"))


_WRITERS: dict[str, Callable[[pd.DataFrame, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".xlsx": _write_excel,
    ".html": _write_html,
    ".parquet": _write_parquet,
    ".jsonl": _write_lines,
}


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns, one row of names, and objects as JSON."""
    counts_rows = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    flat = frame.copy(deep=False) if counts_rows else frame.reset_index()
    flat.columns = pd.Index(
        [" ".join(filter(None, map(str, name))) if isinstance(name, tuple) else str(name) for name in flat.columns]
    )
    for number, dtype in enumerate(flat.dtypes):
        column = flat.iloc[:, number]
        if isinstance(dtype, pd.ArrowDtype):  # a list
            flat.isetitem(number, column.astype(object).map(_plain, na_action="ignore").astype(STR).array)
        elif pd.api.types.is_object_dtype(dtype):
            flat.isetitem(number, column.map(_plain).array)
        elif isinstance(dtype, pd.CategoricalDtype | pd.PeriodDtype | pd.IntervalDtype):
            flat.isetitem(number, column.astype("str").array)
    return flat


def _plain(value: Any) -> Any:
    """A list or mapping as JSON text; a text, number or time as it is."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is pd.NA:
        return None
    return json.dumps(jsonable(value), ensure_ascii=False) if isinstance(value, (list, tuple, dict, set)) else value


def _with_equal_digits(moments: pd.Series) -> pd.Series:
    """The moments; as texts if only some have a fraction.

    pandas 3.0 reads a mixture of both as texts.
    """
    known = moments.dropna()
    if (known.dt.floor("s") != known).nunique() < 2:
        return moments
    digits = "nanoseconds" if known.dt.unit == "ns" else "microseconds"
    return moments.map(lambda moment: moment.isoformat(" ", digits), na_action="ignore").astype(STR)


def _escaped(column: pd.Series) -> pd.Series:
    return column.map(_escape_text, na_action="ignore") if _holds_texts(column.dtype) else column


def _holds_texts(dtype: Any) -> bool:
    return pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)


def _html_text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _escape_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = _FORMULA_WITHIN.sub(r"\1'", value)
    return f"'{value}" if _FORMULA.match(value) else value


def _about(frame: pd.DataFrame) -> Mapping[str, Any]:
    """Where the frame comes from, in a few words."""
    provenance = frame.attrs.get("agentbook", {})
    return {name: provenance[name] for name in _ABOUT if provenance.get(name) is not None}


# -- other libraries ---------------------------------------------------------------


def to_arrow(frame: pd.DataFrame) -> Any:
    """The frame as a `pyarrow.Table`, with its provenance.

    ``attrs["agentbook"]`` becomes JSON in ``table.schema.metadata[b"agentbook"]``.
    Texts and ids are ``large_string``, enums dictionaries, times ``timestamp[us,
    UTC]``.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> table = to_arrow(to_frame("workspaces", []))
    >>> str(table.schema.field("created_at").type)
    'timestamp[us, tz=UTC]'
    >>> json.loads(table.schema.metadata[KEY])["complete"]
    True
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {KEY: json.dumps(frame.attrs.get("agentbook", {}), default=str).encode()}
    return table.replace_schema_metadata(metadata)


def to_polars(frame: pd.DataFrame) -> Any:
    """The frame as a `polars.DataFrame`, from the same columns.

    Raises
    ------
    ImportError
        If Polars is not installed.
    """
    try:
        import polars  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError("to_polars() needs Polars: pip install polars.") from None
    return polars.from_arrow(to_arrow(frame))


__all__ = ["KEY", "export", "to_arrow", "to_polars"]

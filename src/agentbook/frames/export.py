"""Frames for other programs: files, Arrow tables and Polars frames."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa

from .._files import atomic_write, file_path
from .._text import visible
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
        ``.csv``     for spreadsheet programs: all texts in quotes, UTF-8 with its mark
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
        texts as they are: Markdown lists begin with ``-``, and the file then has no
        byte order mark. No other kind of file holds formulas.

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
    # Excel reads a file without a byte order mark in the code page of the system.
    flat.to_csv(file, index=False, encoding="utf-8-sig" if escape_formulas else "utf-8", **_CSV_OPTIONS)


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
    flat = _flat(frame)
    if not flat.columns.is_unique:
        raise ValueError("A .jsonl file needs another name for each column: rename those that are repeated.")
    columns = [_json_values(flat[name]) for name in flat]
    for row in zip(*columns, strict=True):
        line = json.dumps(dict(zip(flat, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
        file.write(f"{line}\n".encode("utf-8", "replace"))


def _json_values(column: pd.Series) -> list[Any]:
    """The values of a column as JSON has them: times in ISO 8601, nulls as None."""
    options: Any = {"orient": "values", "date_format": "iso", "date_unit": "us", "force_ascii": False}
    values: list[Any] = json.loads(column.to_json(**options))
    # pandas writes at most 15 digits of a number, and all of them after the point.
    return [
        value if isinstance(value, float) and math.isfinite(value) else parsed
        for value, parsed in zip(column, values, strict=True)
    ]


# -- Excel -------------------------------------------------------------------------

MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # of a sheet, with the row of names
MAX_TEXT = 32_767  # UTF-16 code units in a cell
# Excel knows no times before, and rounds later ones up to another day.
_FIRST_TIME, _LAST_TIME = datetime(1901, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_000)
_BIGGEST = 2**53  # Excel's numbers are floats


def _write_excel(frame: pd.DataFrame, file: BinaryIO) -> None:
    """Write a workbook with the sheets ``data`` and ``about``.

    Every text becomes a text cell: what people and agents wrote never becomes a formula
    or a link, whatever it starts with. xlsxwriter streams rows to disk, and tells texts
    and formulas apart by the method that writes them.
    """
    try:
        import xlsxwriter  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("Excel files need xlsxwriter: pip install 'agentbook[excel]'.") from None
    table, about = _flat(frame), dict(_about(frame))
    if len(table) >= MAX_ROWS or len(table.columns) > MAX_COLUMNS:
        raise ValueError(
            f"An Excel sheet holds {MAX_ROWS - 1:,} rows and {MAX_COLUMNS:,} columns, and the frame has {len(table):,} "
            f"and {len(table.columns):,}: export a part of it, or write .parquet."
        )
    with xlsxwriter.Workbook(file, {"constant_memory": True}) as book:
        bold, sheet, formats, cut = book.add_format({"bold": True}), book.add_worksheet("data"), [], 0
        sheet.freeze_panes(1, 0)
        for number, (name, dtype) in enumerate(zip(table, table.dtypes, strict=True)):
            zone = getattr(dtype, "tz", None)
            if zone is not None:
                about[f"time zone of {name}"] = str(zone)
            kind = {"M": "yyyy-mm-dd hh:mm:ss.000", "m": "[h]:mm:ss.000"}.get(dtype.kind)
            kind = f'{kind}" {zone}"' if zone is not None else kind  # cells hold no time zone
            formats.append(book.add_format({"num_format": kind}) if kind else None)
            sheet.set_column(number, number, 32 if kind else 20)
            _write_cell(sheet, 0, number, name, bold)
        for row, values in enumerate(_rows(table), 1):
            for number, value in enumerate(values):
                cut += _write_cell(sheet, row, number, value, formats[number])
        if cut:
            about["texts cut"] = (
                f"{cut:,} texts were longer than the {MAX_TEXT:,} characters of an Excel cell and were cut"
            )
            warnings.warn(f"{about['texts cut']}; a .parquet file keeps the full texts.", stacklevel=3)
        sheet = book.add_worksheet("about")
        sheet.set_column(0, 1, 40)
        for row, (name, value) in enumerate(about.items()):
            _write_cell(sheet, row, 0, name, bold)
            _write_cell(sheet, row, 1, value)


def _rows(table: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as Python values: nulls as None, times by the clock of their zone."""
    columns = []
    for number in range(len(table.columns)):
        column = table.iloc[:, number]
        values = column.dt.tz_localize(None) if getattr(column.dtype, "tz", None) is not None else column
        columns.append(values.astype(object).where(values.notna(), None))
    return zip(*columns, strict=True)


def _write_cell(sheet: Any, row: int, column: int, value: Any, form: Any = None) -> bool:
    """Write a value by its type, None as an empty cell; returns whether it was cut."""
    if value is None:
        return False
    if isinstance(value, bool):
        return bool(sheet.write_boolean(row, column, value, form))
    moment = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if isinstance(value, timedelta) or (isinstance(value, datetime) and _FIRST_TIME <= moment <= _LAST_TIME):
        return bool(sheet.write_datetime(row, column, moment, form))
    if isinstance(value, (int, float)) and math.isfinite(value) and abs(value) <= _BIGGEST:
        return bool(sheet.write_number(row, column, value, form))
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    units = text.encode("utf-16-le", "replace")
    is_cut = len(units) > 2 * MAX_TEXT
    if is_cut:
        note = f"… [cut: {len(text):,} characters]"
        units = units[: 2 * (MAX_TEXT - len(note))] + note.encode("utf-16-le")
    sheet.write_string(row, column, units.decode("utf-16-le", "ignore"), form)
    return is_cut


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

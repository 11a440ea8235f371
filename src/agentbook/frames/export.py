"""Frames for other programs: files, Arrow tables and Polars frames."""

from __future__ import annotations

import base64
import csv
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa

from .._files import atomic_write, file_path
from .._text import replace_surrogates, visible
from ..api.address import origin
from .formats.model import conversations_of
from .formats.registry import SUFFIXES
from .parse.schemas import STR
from .tabular import KEY, frame_of, is_tabular, to_strings

# Text that spreadsheet programs read as a formula, even after spaces and invisible
# characters, and in the full-width forms of Chinese and Japanese keyboards. A tab, a
# line feed or a carriage return may begin a new cell.
_BLANKS, _SIGNS = "\\s\x00-\x1f\u200b-\u200f\u2060\ufeff", "=+\\-@＝＋－＠"
_FORMULA = re.compile(f"^'*(?:[{_BLANKS}]*[{_SIGNS}]|[\t\r\n])")
# If a program separates cells by semicolons or tabs, as Excel does in many countries,
# it does not treat a text after a comma as quoted, and these characters end a cell
# within it. Each run of them is read once, whatever follows it.
_CELL = f'([;\t\r\n][{_BLANKS}"]*+)'
_FORMULA_WITHIN = re.compile(f"{_CELL}(?='*([{_SIGNS}]))?")
_ESCAPED_WITHIN = re.compile(f"{_CELL}(?:'(?='*[{_SIGNS}]))?")
# All texts are quoted: otherwise a carriage return in one would begin a new row.
_CSV_OPTIONS: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC, "errors": "replace"}
_SHEETS = ("turns", "sessions", "events", "workspaces", "agents", "credentials")  # of a history
_ABOUT = ("resource", "operation", "derived", "loaded_at", "complete")


def export(table: Any, path: str | os.PathLike[str], *, escape_formulas: bool | None = None) -> Path:
    """Write a frame to a file; the suffix selects the format. Returns the path.

    Parameters
    ----------
    table : DataFrame, Series, Listing, History, mapping, or any other table
        Arrow tables, Polars frames and others are converted. A `History` is written as
        a workbook, as ``.xlsx``, with a sheet for each of its frames; or as a report,
        as ``.html``: see `History.report`. A mapping of names to tables is written as a
        workbook with a sheet for each.
    path : str or path
        The file. It is written as a whole or not at all, and replaced if it exists.

        ============ ===============================================================
        suffix       content
        ============ ===============================================================
        ``.csv``     for spreadsheet programs: all texts in quotes, UTF-8 with its mark
        ``.xlsx``    an Excel workbook: needs ``pip install xlsxwriter``
        ``.html``    one page without scripts; opens without a network
        ``.parquet`` all columns with their types, and where they come from
        ``.jsonl``   one JSON object per row, times in ISO 8601
        ============ ===============================================================

        Conversations of a history, or of events, for other programs:

        ================= ==========================================================
        end               content, and what it does not hold
        ================= ==========================================================
        ``.atif.jsonl``   an ATIF 1.8 trajectory per session: all of it. What ATIF has
                          no field for is in its ``extra``, under ``agentbook``
        ``.openai.jsonl`` ``messages`` as for fine-tuning: no times, tokens, names, ids
                          or failed turns; an error of a tool is its result
        ================= ==========================================================
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
        cannot hold that many rows or be called that.

    Warns
    -----
    UserWarning
        If texts are longer than the 32,767 characters of an Excel cell: they are cut.

    Notes
    -----
    An index is written as columns, unless it only counts the rows. Numbers have all
    their digits; what Excel cannot hold, such as integers above 2**53, is text there.
    Excel has no time zones: cells hold the local time of the column's zone, and their
    format shows the zone. Its times end at microseconds. JSON has no infinity: it is
    null. Where a file has no such type, lists and mappings are JSON, bytes are Base64,
    and other objects are their text. Conversations hold the tool runs of `steps` that
    have a name, in the order of their events; `read_conversations` reads them back.

    Specification: "Resources and their fields".

    Examples
    --------
    >>> turns = ab.turns(store.events())
    >>> path = export(turns, folder / "turns.csv")
    >>> pd.read_csv(path)["session_id"].nunique()
    3
    >>> path = export({"turns": turns, "steps": ab.steps(events)}, folder / "week.xlsx")
    """
    target = file_path(path, "ab.export")
    write_conversations = next((SUFFIXES[end] for end in SUFFIXES if target.name.lower().endswith(end)), None)
    if write_conversations is not None:
        conversations = conversations_of(table)
        with atomic_write(target) as file:
            write_conversations(conversations, file)
        return target
    report = getattr(table, "report", None)
    if callable(report) and target.suffix.lower() == ".xlsx":  # of a History
        table = {name: getattr(table, name) for name in _SHEETS}
    elif callable(report):
        if escape_formulas:
            raise ValueError("escape_formulas is for .csv files; a report holds texts as texts, so leave it out.")
        page: Path = report(path)
        return page
    if callable(getattr(table, "save", None)):  # a chart
        raise TypeError(f"A {type(table).__name__} writes itself: use its save(path), for .svg, .png, .pdf or .html.")
    if isinstance(table, Mapping) and any(map(is_tabular, table.values())):
        if target.suffix.lower() != ".xlsx":
            raise ValueError(f"Several frames are written as one workbook, .xlsx, not as {target.name!r}.")
        frame: Any = {str(name): _frame_of(each) for name, each in table.items()}
    else:
        frame = _frame_of(table)
    write = WRITERS.get(target.suffix.lower())
    if write is None:
        raise ValueError(f"ab.export writes no {target.name!r}: use one of {', '.join(WRITERS)}.")
    if target.suffix.lower() == ".csv":
        write = partial(_write_csv, escape_formulas=escape_formulas is not False)
    elif escape_formulas:
        raise ValueError(
            f"escape_formulas is for .csv files; {target.suffix} files hold texts as texts, so leave it out."
        )
    with atomic_write(target) as file:
        write(frame, file)
    return target


def _frame_of(table: Any) -> pd.DataFrame:
    return table.to_frame() if isinstance(table, pd.Series) else frame_of(table, caller="ab.export")


# -- one writer per suffix ---------------------------------------------------------


def _write_csv(frame: pd.DataFrame, file: BinaryIO, escape_formulas: bool = True) -> None:
    flat = _flat(frame, _plain)
    for number, dtype in enumerate(flat.dtypes):
        if pd.api.types.is_datetime64_any_dtype(dtype):
            flat.isetitem(number, _with_equal_digits(flat.iloc[:, number]).array)
    if escape_formulas:
        flat = flat.apply(_escaped).rename(columns=_escape_text)
    # Excel reads a file without a byte order mark in the code page of the system.
    flat.to_csv(file, index=False, encoding="utf-8-sig" if escape_formulas else "utf-8", **_CSV_OPTIONS)


def _write_html(frame: pd.DataFrame, file: BinaryIO) -> None:
    about, flat = _about(frame), _flat(frame, _plain)
    template = Template(Path(__file__).with_name("table.html").read_text("utf-8"))
    columns = [
        ["" if value is None else str(value) for value in _values(flat.iloc[:, n])] for n in range(flat.shape[1])
    ]
    cells = [
        [anchor(text, text) if name == "link" else escape(text.rstrip(), quote=False) for text in texts]
        for name, texts in zip(flat, columns, strict=True)
    ]
    heads = [escape(str(name), quote=False) for name in flat]
    rows = [_html_row("th", heads), *(_html_row("td", row) for row in zip(*cells, strict=True))]
    page = template.substitute(
        title=escape(f"{about.get('derived') or about.get('resource') or 'table'}: {len(frame):,} rows"),
        origin=escape(", ".join(f"{name} {value}" for name, value in about.items())),
        table="<table>\n" + "\n".join(rows) + "\n</table>",
    )
    file.write(visible(page).encode())


def _html_row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{cell}</{kind}>' for cell in cells)}</tr>"


def _write_parquet(frame: pd.DataFrame, file: BinaryIO) -> None:
    _check_names(frame, ".parquet")
    plain = frame.copy(deep=False)
    for number in range(frame.shape[1]):
        if not _has_arrow_type(frame.iloc[:, number]):
            plain.isetitem(number, _texts(frame.iloc[:, number]).array)
    levels = [frame.index.get_level_values(number) for number in range(frame.index.nlevels)]
    columns = [pd.Series(level, dtype=level.dtype) for level in levels]
    if not all(map(_has_arrow_type, columns)):
        arrays = [column if _has_arrow_type(column) else _texts(column) for column in columns]
        plain = plain.set_axis(pd.MultiIndex.from_arrays(arrays) if len(arrays) > 1 else pd.Index(arrays[0]))
        plain.index.names = frame.index.names
    # pandas cannot read its own name for an Arrow list (`ArrowListName`): store none.
    lists = [name for name, dtype in plain.dtypes.items() if isinstance(dtype, pd.ArrowDtype)]
    options: dict[str, Any] = {"schema": pa.Schema.from_pandas(plain).remove_metadata()} if lists else {}
    plain = plain.astype(dict.fromkeys(lists, object))
    plain.attrs = frame.attrs
    plain.to_parquet(file, engine="pyarrow", compression="zstd", **options)


def _texts(column: pd.Series) -> pd.Series:
    texts = [None if value is None else str(value) for value in map(_plain, column)]
    return to_strings(pd.Series(texts, dtype=object))


def _has_arrow_type(column: pd.Series) -> bool:
    """Whether Arrow holds these values, and gives the same ones back."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return dtype.categories.dtype.kind != "O" or isinstance(dtype.categories.dtype, pd.StringDtype)
    if dtype.kind not in "Oc" or isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return True
    values = [None if pd.isna(value) is True else value for value in column]
    try:
        array = pa.array(values)
        return pa.types.is_decimal(array.type) or list(map(_json, array.to_pylist())) == list(map(_json, values))
    except (pa.ArrowException, ValueError, OverflowError):
        return False


def _write_lines(frame: pd.DataFrame, file: BinaryIO) -> None:
    flat = _flat(frame, _json)
    _check_names(flat, ".jsonl")
    columns = [_json_values(flat[name]) for name in flat]
    for row in zip(*columns, strict=True):
        line = json.dumps(dict(zip(flat, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
        file.write(f"{line}\n".encode("utf-8", "replace"))


def _check_names(frame: pd.DataFrame, suffix: str) -> None:
    if not frame.columns.is_unique:
        raise ValueError(f"Each column of a {suffix} file needs a name of its own: rename those that are repeated.")


def _json_values(column: pd.Series) -> list[Any]:
    """The values of a column as JSON has them: times in ISO 8601, nulls as None."""
    if column.dtype.kind in "Mm":
        options: Any = {"orient": "values", "date_format": "iso", "date_unit": column.dt.unit}
        values: list[Any] = json.loads(column.to_json(**options))
        return values
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in _values(column)]


# -- Excel -------------------------------------------------------------------------

MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # of a sheet, with the row of names
MAX_TEXT = 32_767  # UTF-16 code units in a cell
# Excel knows no times before, and rounds later ones up to another day.
_FIRST_TIME, _LAST_TIME = datetime(1901, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_000)
_BIGGEST = 2**53  # Excel's numbers are floats


class _Number(float):
    """A float with all its digits, as Excel writes it; xlsxwriter writes 16."""

    def __format__(self, spec: str) -> str:
        return float.__format__(self, ".17G")


def _write_excel(frames: pd.DataFrame | Mapping[str, pd.DataFrame], file: BinaryIO) -> None:
    """Write a workbook: a sheet for each frame, and ``about``.

    The sheet of a single frame is called ``data``. Every text becomes a text cell: what
    people and agents wrote never becomes a formula or a link, whatever it starts with.
    xlsxwriter streams rows to disk, and tells texts and formulas apart by the method
    that writes them.
    """
    try:
        import xlsxwriter  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("Excel files need xlsxwriter: pip install xlsxwriter.") from None
    named = {"data": frames} if isinstance(frames, pd.DataFrame) else frames
    about: dict[str, Any] = {}
    cut = 0
    tables = {name: _flat(frame, _plain) for name, frame in named.items()}  # before there is a file
    with xlsxwriter.Workbook(file, {"constant_memory": True}) as book:
        bold = {str: book.add_format({"bold": True})}
        for name, frame in named.items():
            notes, before = dict(_about(frame)), f"{name}: " if named is frames else ""
            try:
                if name.lower() == "about":
                    raise ValueError("the workbook already has a sheet of its own with that name.")
                cut += _write_sheet(book, book.add_worksheet(name), bold, tables[name], notes)
            except (xlsxwriter.exceptions.XlsxInputError, ValueError) as error:
                raise ValueError(f"ab.export cannot write the sheet {name!r}: {error}") from None
            about |= {before + key: value for key, value in notes.items()}
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


def _write_sheet(book: Any, sheet: Any, bold: Any, table: pd.DataFrame, notes: dict[str, Any]) -> int:
    """Write a table; add what is worth a note, and return how many texts were cut."""
    if len(table) >= MAX_ROWS or len(table.columns) > MAX_COLUMNS:
        raise ValueError(
            f"An Excel sheet holds {MAX_ROWS - 1:,} rows and {MAX_COLUMNS:,} columns, and the frame has {len(table):,} "
            f"and {len(table.columns):,}: export a part of it, or write .parquet."
        )
    formats, cut = [], 0
    plain = {
        datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss.000"}),
        date: book.add_format({"num_format": "yyyy-mm-dd"}),
        timedelta: book.add_format({"num_format": "[h]:mm:ss.000"}),
    }
    sheet.freeze_panes(1, 0)
    for number, (name, dtype) in enumerate(zip(table, table.dtypes, strict=True)):
        zone = getattr(dtype, "tz", None)
        formats.append(plain)
        if zone is not None:  # cells hold no time zone
            notes[f"time zone of {name}"] = str(zone)
            formats[-1] = {datetime: book.add_format({"num_format": f'yyyy-mm-dd hh:mm:ss.000" {zone}"'})}
        sheet.set_column(number, number, 32 if dtype.kind in "Mm" else 20)
        _write_cell(sheet, 0, number, name, bold)
    for row, values in enumerate(_rows(table), 1):
        for number, value in enumerate(values):
            cut += _write_cell(sheet, row, number, value, formats[number])
    if len(table.columns):
        sheet.autofilter(0, 0, len(table), len(table.columns) - 1)
    return cut


def _rows(table: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as Python values: nulls as None, times by the clock of their zone."""
    columns = [table.iloc[:, number] for number in range(len(table.columns))]
    zoned = [getattr(column.dtype, "tz", None) is not None for column in columns]
    return zip(
        *(_values(each.dt.tz_localize(None) if at else each) for each, at in zip(columns, zoned, strict=True)),
        strict=True,
    )


def _write_cell(sheet: Any, row: int, column: int, value: Any, forms: Mapping[Any, Any] = {}) -> bool:
    """Write a value by its type, None as an empty cell; returns whether it was cut."""
    if value is None:
        return False
    if isinstance(value, bool):
        return bool(sheet.write_boolean(row, column, value))
    kind = next((kind for kind in (datetime, date, timedelta) if isinstance(value, kind)), str)
    if kind is timedelta or _is_in_calendar(value):
        return bool(sheet.write_datetime(row, column, value, forms.get(kind)))
    if (number := _number(value)) is not None:
        return bool(sheet.write_number(row, column, number))
    text = value.isoformat() if isinstance(value, date) else str(value)
    units = text.encode("utf-16-le", "replace")
    is_cut = len(units) > 2 * MAX_TEXT
    if is_cut:
        note = f"… [cut: {len(text):,} characters]"
        units = units[: 2 * (MAX_TEXT - len(note))] + note.encode("utf-16-le")
    sheet.write_string(row, column, units.decode("utf-16-le", "ignore"), forms.get(str))
    return is_cut


def _is_in_calendar(value: Any) -> bool:
    """Whether Excel has this time. It knows no zones, so not one with a zone."""
    if isinstance(value, datetime):
        return value.tzinfo is None and value.year <= _LAST_TIME.year and _FIRST_TIME <= value <= _LAST_TIME
    return isinstance(value, date) and value >= _FIRST_TIME.date()


def _number(value: Any) -> _Number | None:
    """A number that Excel holds without a loss."""
    if isinstance(value, int):
        return _Number(value) if abs(value) <= _BIGGEST else None
    if isinstance(value, Decimal):
        return _Number(value) if Decimal(repr(float(value))) == value else None
    return _Number(value) if isinstance(value, float) and math.isfinite(value) else None


WRITERS: dict[str, Callable[[pd.DataFrame, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".xlsx": _write_excel,
    ".html": _write_html,
    ".parquet": _write_parquet,
    ".jsonl": _write_lines,
}


def _flat(frame: pd.DataFrame, plain: Callable[[Any], Any]) -> pd.DataFrame:
    """The frame with its index as columns, one row of names, and objects made plain."""
    names = [" ".join(filter(None, map(str, name))) if isinstance(name, tuple) else str(name) for name in frame.columns]
    flat = frame.set_axis(pd.Index(names), axis="columns")
    if not (isinstance(frame.index, pd.RangeIndex) and frame.index.name is None):  # which only counts the rows
        flat = flat.reset_index(allow_duplicates=True).rename(columns=str)
    for number, dtype in enumerate(flat.dtypes):
        column = flat.iloc[:, number]
        if dtype.kind in "Oc" and not isinstance(dtype, pd.StringDtype):
            values = [plain(value) for value in _values(column)]
            flat.isetitem(number, pd.Series(values, index=flat.index, dtype=object))  # type: ignore[arg-type]
    return flat


def _values(column: pd.Series) -> Iterable[Any]:
    """The values as Python's objects, nulls as None."""
    if isinstance(column.dtype, pd.ArrowDtype):
        values: list[Any] = column.array.__arrow_array__().to_pylist()
        return values
    return column.astype(object).where(column.notna(), None)


def _plain(value: Any) -> Any:
    """A number, time or text as it is, a list or mapping as JSON, others as text."""
    if isinstance(value, np.generic):
        known = {"M": pd.Timestamp, "m": pd.Timedelta}.get(value.dtype.kind)
        value = value.item() if known is None else known(value)
    if pd.isna(value) is True:
        return None
    if isinstance(value, timedelta):
        return pd.Timedelta(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if _is_list(value) or isinstance(value, Mapping):
        return json.dumps(_json(value), ensure_ascii=False)
    return value if isinstance(value, (int, float, Decimal, date)) else replace_surrogates(str(value))


def _is_list(value: Any) -> bool:
    is_array = getattr(value, "ndim", 0) and not isinstance(value, memoryview)
    return bool(is_array) or isinstance(value, (list, tuple, set, frozenset))


def _json(value: Any) -> Any:
    """A value as JSON: times in ISO 8601, numbers that JSON does not have as null."""
    if isinstance(value, Mapping):
        return {str(_plain(key)): _json(each) for key, each in value.items()}
    if _is_list(value):
        return [_json(each) for each in value]
    plain = _plain(value)
    if isinstance(plain, (date, pd.Timedelta)):
        return plain.isoformat()
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    return str(plain) if isinstance(plain, Decimal) else plain


def _with_equal_digits(moments: pd.Series) -> pd.Series:
    """The moments; as texts if only some have a fraction.

    pandas 3.0 reads a mixture of both as texts.
    """
    known = moments.dropna()
    if known.dt.tz is not None:  # `floor` refuses an hour that comes twice
        known = known.dt.tz_convert("UTC")
    if (known.dt.floor("s") != known).nunique() < 2:
        return moments
    digits = "nanoseconds" if known.dt.unit == "ns" else "microseconds"
    return moments.map(lambda moment: moment.isoformat(" ", digits), na_action="ignore").astype(STR)


def _escaped(column: pd.Series) -> pd.Series:
    if not _holds_texts(column.dtype):
        return column
    return pd.Series([_escape_text(value) for value in column], index=column.index, dtype=column.dtype)


def _holds_texts(dtype: Any) -> bool:
    return pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)


def _escape_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = _FORMULA_WITHIN.sub(lambda found: found[1] + ("'" if found[2] else ""), value)
    return f"'{value}" if _FORMULA.match(value) else value


def unescaped(value: str) -> str:
    """The text of a cell that `export` escaped.

    Examples
    --------
    >>> unescaped("'- one"), unescaped("'one'")
    ('- one', "'one'")
    """
    value = value[1:] if value.startswith("'") and _FORMULA.match(value[1:]) else value
    return _ESCAPED_WITHIN.sub(r"\1", value)


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


def anchor(url: str, text: str) -> str:
    """The text as HTML that leads to a web address, or alone if `url` is none.

    Examples
    --------
    >>> anchor("https://app.example/s/1?a&b", "<b>").partition(" target")[0]
    '<a href="https://app.example/s/1?a&amp;b"'
    >>> anchor("javascript:alert(1)", "<b>")
    '&lt;b&gt;'
    """
    place, shown = origin(url), escape(text, quote=False)
    if place is None or place[0] not in ("https", "http"):
        return shown
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{shown}</a>'

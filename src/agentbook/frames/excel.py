"""Frames as Excel workbooks.

Every text becomes a text cell: what people and agents wrote never becomes a formula or
a link, whatever it starts with. xlsxwriter is used rather than openpyxl, because it
streams rows to disk and tells texts and formulas apart by the method that writes them.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, BinaryIO

import pandas as pd

MAX_ROWS = 1_048_576  # with the row of names
MAX_COLUMNS = 16_384
MAX_TEXT = 32_767  # UTF-16 code units in a cell
_MAX_WHOLE_NUMBER = 2**53  # Excel's numbers are floats
_FIRST_YEAR = 1900
_LAST_TIME = datetime(9999, 12, 31, 23, 59, 59, 999_000)  # Excel rounds later ones up to another day
_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}


def write_excel(table: pd.DataFrame, file: BinaryIO, provenance: Mapping[str, Any]) -> None:
    """Write a workbook with the sheets ``data`` and ``about``.

    Parameters
    ----------
    table : DataFrame
        Its index is not written.
    file : file object
    provenance : mapping
        Where the data comes from, for the sheet ``about``.

    Raises
    ------
    ImportError
        If xlsxwriter is not installed.
    ValueError
        If a sheet cannot hold that many rows or columns.

    Warns
    -----
    UserWarning
        If texts were longer than a cell can hold, and were cut.
    """
    try:
        import xlsxwriter  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("Excel files need xlsxwriter: pip install 'agentbook[excel]'.") from None
    if len(table) >= MAX_ROWS or len(table.columns) > MAX_COLUMNS:
        raise ValueError(
            f"An Excel sheet holds {MAX_ROWS - 1:,} rows and {MAX_COLUMNS:,} columns, and the frame has {len(table):,} "
            f"and {len(table.columns):,}: export a part of it, or write .parquet."
        )
    # xlsxwriter keeps rows in temporary files, which are deleted with the folder in any
    # case.
    with tempfile.TemporaryDirectory(prefix="agentbook-") as folder:
        book = xlsxwriter.Workbook(file, {**_OPTIONS, "tmpdir": folder})
        try:
            cut = _fill(book, table, dict(provenance))
        finally:
            book.close()
    if cut:
        warnings.warn(f"{_cut_message(cut)}; a .parquet file keeps the full texts.", stacklevel=4)


def _fill(book: Any, table: pd.DataFrame, about: dict[str, Any]) -> int:
    """Write both sheets; returns the number of texts that were cut."""
    bold = book.add_format({"bold": True})
    sheet = book.add_worksheet("data")
    sheet.freeze_panes(1, 0)
    formats = []
    for number, (name, column) in enumerate(table.items()):
        zone = getattr(column.dtype, "tz", None)
        if zone is not None:
            about[f"time zone of {name}"] = str(zone)
        kind = _number_format(column, zone)
        formats.append(book.add_format({"num_format": kind}) if kind else None)
        sheet.set_column(number, number, 32 if kind else 20)
    writer = _Writer(sheet)
    for number, name in enumerate(table.columns):
        writer.write(0, number, str(name), bold)
    for row, values in enumerate(_rows(table), 1):
        for number, value in enumerate(values):
            writer.write(row, number, value, formats[number])
    if writer.cut:
        about["texts cut"] = _cut_message(writer.cut)
    sheet = book.add_worksheet("about")
    sheet.set_column(0, 1, 40)
    notes = _Writer(sheet)
    for row, (name, value) in enumerate(about.items()):
        notes.write(row, 0, name, bold)
        notes.write(row, 1, value, None)
    return writer.cut


def _fits_calendar(time: datetime) -> bool:
    return time.year > _FIRST_YEAR and time.replace(tzinfo=None) <= _LAST_TIME


def _cut_message(count: int) -> str:
    return f"{count:,} texts were longer than the {MAX_TEXT:,} characters of an Excel cell and were cut"


class _Writer:
    """Writes values to the cells of a sheet by their types; counts texts it cuts."""

    def __init__(self, sheet: Any) -> None:
        self._sheet = sheet
        self.cut = 0

    def write(self, row: int, column: int, value: Any, form: Any) -> None:
        """Write one cell; None leaves it empty."""
        if value is None:
            return
        if isinstance(value, bool):
            self._sheet.write_boolean(row, column, value, form)
        elif isinstance(value, timedelta) or (isinstance(value, datetime) and _fits_calendar(value)):
            self._sheet.write_datetime(row, column, value, form)
        elif isinstance(value, (int, float)) and math.isfinite(value) and abs(value) <= _MAX_WHOLE_NUMBER:
            self._sheet.write_number(row, column, value, form)
        else:
            text = value.isoformat() if isinstance(value, datetime) else str(value)
            self._sheet.write_string(row, column, self._fit(text), form)

    def _fit(self, text: str) -> str:
        """The text for a cell: cut if it is too long, with a note that says so."""
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is not a character
        if len(text) * 2 <= MAX_TEXT:
            return text
        units = text.encode("utf-16-le")
        if len(units) <= 2 * MAX_TEXT:
            return text
        self.cut += 1
        note = f"… [cut: {len(text):,} characters]"
        return units[: 2 * (MAX_TEXT - len(note))].decode("utf-16-le", "ignore") + note


def _number_format(column: pd.Series, zone: Any) -> str | None:
    """Excel's format for a column of times, with the zone, which cells cannot hold."""
    if column.dtype.kind == "m":
        return "[h]:mm:ss.000"
    if column.dtype.kind != "M":
        return None
    name = str(zone).replace('"', "") if zone is not None else ""
    return "yyyy-mm-dd hh:mm:ss.000" + (f'" {name}"' if name else "")


def _rows(table: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as Python values: nulls as None, times by the clock of their zone."""
    columns = []
    for number in range(len(table.columns)):
        column = table.iloc[:, number]
        values = column.dt.tz_localize(None) if getattr(column.dtype, "tz", None) is not None else column
        columns.append(values.astype(object).where(values.notna(), None))
    return zip(*columns, strict=True)


__all__ = ["MAX_COLUMNS", "MAX_ROWS", "MAX_TEXT", "write_excel"]

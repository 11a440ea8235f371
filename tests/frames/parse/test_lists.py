"""Arrow lists in pandas survive files, Dask, Arrow and Polars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import agentbook as ab
from agentbook.frames.export import to_arrow
from agentbook.frames.parse.frame import is_empty, list_column, to_frame
from agentbook.frames.tabular import frame_of

LISTS = [["a", 'b, "c"'], [], None]


@pytest.fixture
def agents() -> pd.DataFrame:
    items = [{"id": str(n), "tags": tags} for n, tags in enumerate(LISTS)]
    return to_frame("agents", [json.dumps({"items": items}).encode()])


@pytest.fixture
def report() -> pd.DataFrame:
    items = [{"id": "c1", "integration": "github", "owner_id": "o", "webhook_enabled": True}]
    credentials = to_frame("credentials", [json.dumps({"items": items}).encode()])
    workspaces = to_frame("workspaces", [b'{"items": [{"id": "w", "full_name": "o~lab", "owner_id": "o"}]}'])
    return ab.credential_report(credentials, workspaces, as_of="2026-10-03")


def values(column: pd.Series) -> list[Any]:
    return [None if cell is pd.NA or cell is None else list(cell) for cell in column]


def test_a_frame_comes_back_from_every_file(agents: pd.DataFrame, report: pd.DataFrame, tmp_path: Path) -> None:
    agents.to_parquet(tmp_path / "plain.parquet")
    back = pd.read_parquet(tmp_path / "plain.parquet")
    pd.testing.assert_frame_equal(back, agents, check_categorical=False)
    back.to_parquet(tmp_path / "again.parquet")
    pd.testing.assert_series_equal(pd.read_parquet(tmp_path / "again.parquet")["tags"], agents["tags"])
    for frame, columns in ((agents, ["tags"]), (report, ["open_in", "open_if_granted", "granted_in", "findings"])):
        path = ab.export(frame, tmp_path / "x.parquet")
        stored = parquet.read_table(path)
        for column in columns:
            assert pa.types.is_list(stored.schema.field(column).type)
            assert values(pd.read_parquet(path)[column]) == values(frame[column])
        note = json.loads(stored.schema.metadata[b"pandas"])["columns"]
        assert "list<" not in {column["numpy_type"] for column in note}, "pandas alone reads the file"
        pd.testing.assert_frame_equal(frame_of(stored, caller="f")[columns], frame[columns])
    assert pd.read_parquet(path).attrs["agentbook"]["derived"] == "credential_report"
    assert len(ab.credential_findings(pd.read_parquet(path))) == len(ab.credential_findings(report)) > 0


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".html", ".xlsx"])
def test_lists_in_a_file_are_json(agents: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    if suffix == ".xlsx":
        pytest.importorskip("xlsxwriter", reason="XlsxWriter is not installed: pip install 'agentbook[excel]'")
    path = ab.export(agents, tmp_path / f"x{suffix}")
    if suffix == ".csv":
        cells = pd.read_csv(path)["tags"]
    elif suffix == ".jsonl":
        lines = path.read_text("utf-8").splitlines()
        assert [json.loads(line)["tags"] for line in lines] == LISTS
        return
    elif suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        cells = pd.read_excel(path)["tags"]
    else:
        assert "[&quot;a&quot;, &quot;b, " in path.read_text("utf-8") or '["a", "b, ' in path.read_text("utf-8")
        return
    assert [json.loads(cell) if isinstance(cell, str) else None for cell in cells] == LISTS


def test_a_frame_comes_back_from_dask_arrow_and_polars(agents: pd.DataFrame) -> None:
    dask = pytest.importorskip("dask.dataframe")
    pd.testing.assert_series_equal(dask.from_pandas(agents, npartitions=2).compute()["tags"], agents["tags"])
    pd.testing.assert_frame_equal(frame_of(to_arrow(agents), caller="f"), agents)
    polars = pytest.importorskip("polars")
    assert values(frame_of(polars.from_arrow(to_arrow(agents)), caller="f")["tags"]) == LISTS


def test_an_empty_list_is_neither_null_nor_full() -> None:
    assert is_empty(list_column(LISTS)).to_list() == [False, True, False]
    assert list_column([], type_=pa.list_(pa.int64())).dtype == pd.ArrowDtype(pa.list_(pa.int64()))


def test_plain_operations_of_pandas_work_on_lists(agents: pd.DataFrame, report: pd.DataFrame) -> None:
    frame = pd.concat([agents, agents.assign(id=["3", "4", "5"])], ignore_index=True)
    tags = frame["tags"]
    assert frame.describe(include="all")["tags"][["count", "unique", "freq"]].to_list() == [4, 2, 2]
    assert frame.nunique()["tags"] == 2
    assert len(frame.drop(columns="id").drop_duplicates()) == 3
    assert tags.value_counts(dropna=False).to_list() == [2, 2, 2]
    assert values(tags.drop_duplicates()) == values(pd.Series(tags.unique())) == LISTS
    assert values(tags.sort_values()) == [LISTS[0]] * 2 + [LISTS[1]] * 2 + [None] * 2
    assert tags.isin([[]]).to_list() == [False, True, False] * 2
    assert frame.groupby("tags")["id"].agg(list).to_list() == [["0", "3"], ["1", "4"]]
    assert tags.list.len().to_list() == [2, 0, pd.NA] * 2, "it is still a column of lists"
    for table in (report, agents.iloc[:0]):
        assert len(table.drop_duplicates()) == len(table)
        assert "unique" in table.describe(include="all").index

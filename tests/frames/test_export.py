"""Frames for other libraries."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest

import agentbook as ab
from agentbook.frames import export
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


def test_arrow_has_the_same_columns_and_provenance() -> None:
    frame = ab.load_events(HttpPlatform({"s": [event_id(n, n) for n in range(5)]}).client(), "s")
    table = export.to_arrow(frame)
    assert table.column_names == list(frame.columns)
    assert table["id"].to_pylist() == frame["id"].tolist()
    assert table.schema.field("id").type == pa.large_string()
    assert pa.types.is_dictionary(table.schema.field("type").type)
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert json.loads(table.schema.metadata[export.KEY]) == frame.attrs["agentbook"]


def test_polars_comes_from_the_same_columns() -> None:
    pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
    frame = ab.load_events(HttpPlatform({"s": [event_id(n, n) for n in range(5)]}).client(), "s")
    assert export.to_polars(frame)["id"].to_list() == frame["id"].tolist()


def test_without_polars_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        export.to_polars(ab.load_events(HttpPlatform({}).client(), []))

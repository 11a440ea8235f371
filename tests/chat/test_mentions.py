"""What `@` in the box lists and attaches, without a browser."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

from agentbook.chat.model.attachments import attachment
from agentbook.chat.model.mentions import MAX_ENTRIES, find, value_of
from chat.fakes import FakePlatform, echo
from chat.panels import PagePerson, eventually, make


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another environment, IPython warns and borrows its packages
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    yield shell.user_ns
    if shell.history_manager:
        shell.history_manager.end_session()
    InteractiveShell.clear_instance()


def names(word: str) -> list[str]:
    return [name for _, name, _ in find(word)["entries"]]


def test_tables_come_first_then_variables_outputs_and_files(variables: dict[str, Any], tmp_path: Path) -> None:
    for name in ("orders.csv", ".env", "reorder.py"):
        (tmp_path / name).write_text("x" * 1500)
    (tmp_path / "order").mkdir()
    variables |= {
        "order_count": 3, "orders": pd.DataFrame({"n": range(1200), "word": "x"}), "_order": 1,
        "order_function": print, "order_module": time, "order_widget": widgets.HTML(), "more_orders": pa.table({"n": [1]}),
    }  # fmt: skip
    variables["_oh"] = {7: "x"}
    assert names("ORDER") == ["orders", "order_count", "orders.csv", "more_orders", "reorder.py"]
    assert names("o") == ["orders", "order_count", "Out[7]", "orders.csv", "more_orders", "reorder.py"]
    assert names("[7") == ["Out[7]"]
    assert find("nothing of that name") == {"entries": [], "more": 0}
    described = {name: words for _, name, words in find("")["entries"]}
    assert described["orders"].startswith("DataFrame, 1,200 × 2, about ")
    assert (described["more_orders"], described["order_count"]) == ("Table, 1 × 1, about 8 bytes", "int")
    assert (described["Out[7]"], described["orders.csv"]) == ("str, 1 characters", "1.5 kB")
    assert value_of("file", "orders.csv") == Path("orders.csv")
    assert value_of("output", "Out[7]") == "x"
    (tmp_path / "Data" / "raw").mkdir(parents=True)
    for name in ("Data/orders.csv", "Data/raw/orders.csv", "Data/.env"):
        (tmp_path / name).write_text("id\n1\n")
    assert names("dat") == ["Data/"]
    assert names("Data/") == ["Data/orders.csv", "Data/raw/"]
    assert names("Data/raw/ORD") == ["Data/raw/orders.csv"]
    assert {words for _, _, words in find("Data/")["entries"]} == {"5 bytes", "folder"}
    assert names("data/") == names("Data/orders.csv/") == names("\0/") == []
    assert value_of("file", "Data/raw/orders.csv") == Path("Data/raw/orders.csv")
    for kind, name in (
        ("folder/x", "Data/"),
        ("file", "Data/.env"),
        ("variable", "gone"),
        ("file", "../secret"),
        ("file", ".env"),
        ("output", "orders"),
        ("x", ""),
    ):
        with pytest.raises(ValueError, match="no longer exists"):
            value_of(kind, name)


def test_a_kernel_full_of_variables_in_a_full_folder(variables: dict[str, Any], tmp_path: Path) -> None:
    for n in range(500):
        (tmp_path / f"file_{n:03}.txt").touch()
    variables |= {f"frame_{n:03}": pd.DataFrame({"a": ["x"] * 1000, "b": range(1000)}) for n in range(200)}
    found = find("")
    assert len(found["entries"]) == MAX_ENTRIES
    assert found["more"] >= 650
    assert found["entries"][0][1] == "frame_199", "what was assigned last"


def test_a_frame_of_5_gigabytes_is_counted_and_never_copied(variables: dict[str, Any]) -> None:
    rows = 5 * 10**9 // 80
    variables["huge"] = frame = pd.DataFrame(np.zeros((rows, 10)), copy=False)  # memory that is never touched
    variables["arrow"] = pa.table({"n": pa.nulls(3, pa.int64())})
    tracemalloc.start()
    try:
        [[_, _, described]] = find("huge")["entries"]
        text = attachment(frame, "huge")
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()
    assert described == f"DataFrame, {rows:,} × 10, about 5 GB"
    assert text.startswith(f"**huge** (the first 50 of {rows:,} rows × 10 columns)")


def test_values_that_break_when_they_are_looked_at(variables: dict[str, Any]) -> None:
    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("looked at")

        def __len__(self) -> int:
            raise RuntimeError("counted")

    variables |= {"trap": Trap(), "broken": pd.DataFrame({"a": [Trap()]})}
    assert [entry[1:] for entry in find("tra")["entries"]] == [["trap", "Trap"]]
    assert "broken" in names("bro")


def test_two_panels_list_attach_and_send(variables: dict[str, Any], tmp_path: Path) -> None:
    variables["orders"] = pd.DataFrame({"n": range(60)})
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    panels = [make(FakePlatform(echo)), make(FakePlatform(echo))]
    pages = [PagePerson(panel) for panel in panels]
    for page in pages:
        assert [entry[:2] for entry in page.ask(do="complete", word="ord")["entries"]] == [["variable", "orders"]]
        for _ in range(2):
            assert "error" not in page.ask(do="mention", kind="variable", name="orders")
            assert "the first 50 of 60 rows × 1 column" in page.files
            assert page.files.count("ab-attached") == 1
    del variables["orders"]
    files = pages[0].files
    for kind, name, word in (("variable", "orders", "no longer exists"), ("file", "picture.png", "not UTF-8 text")):
        assert word in pages[0].ask(do="mention", kind=kind, name=name)["error"]
    assert pages[0].files == files
    pages[0].write("Sum up @orders")
    eventually(panels[0], lambda: bool(panels[0].conversation.turns))
    assert panels[0].conversation.turns[0].prompt.startswith("Sum up @orders\n\n**orders** (the first 50 of 60 rows")
    for panel in panels:
        panel.close()

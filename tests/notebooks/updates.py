"""A pytest plugin for nbval: compares outputs that later cells update at the end.

nbval compares a cell's outputs as soon as the cell has run, and ignores messages that
update them. This plugin handles cells with the tags ``nbval-ignore-output`` and
``compared-at-end``: it applies the updates, and after the last cell compares the final
output with the stored one, by nbval's own rules. A panel draws on its own thread, so
its last update may come after the last cell; the plugin waits while the outputs differ.

Widgets, whose state is not stored, are compared nowhere.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Generator
from queue import Empty
from typing import Any

import pytest
from nbformat import from_dict
from nbval.plugin import IPyNbCell, IPyNbFile, coalesce_streams

TAG = "compared-at-end"
LATE_S = float(os.environ.get("NOTEBOOKS_LATE_S", "60"))
WIDGETS = "application/vnd.jupyter.widget-view+json"


class Updating:
    """Passes on a file's messages, and applies updates to displayed outputs.

    Parameters
    ----------
    get : callable
        The file's own ``get_kernel_message``.
    """

    def __init__(self, get: Any) -> None:
        self._get = get
        self._shown: dict[str, list[Any]] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        message = self._get(*arguments, **options)
        content = message["content"]
        display_id = content.get("transient", {}).get("display_id")
        if display_id is not None and message["msg_type"] == "update_display_data":
            for data in self._shown.get(display_id, ()):
                data.clear()
                data.update(from_dict(content["data"]))
        elif display_id is not None:
            content["data"] = from_dict(content["data"])  # nbval stores a node itself, and copies anything else
            self._shown.setdefault(display_id, []).append(content["data"])
        return message


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, IPyNbCell):
            item.compare_outputs = functools.partial(_compare_without_widgets, item.compare_outputs)
            if not isinstance(item.parent.get_kernel_message, Updating):
                item.parent.get_kernel_message = Updating(item.parent.get_kernel_message)


def _compare_without_widgets(compare_outputs: Any, outputs: list[Any], stored: list[Any]) -> bool:
    return bool(compare_outputs([output for output in outputs if WIDGETS not in output.get("data", {})], stored))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    file = item.parent
    if isinstance(file, IPyNbFile):
        cells = [other for other in item.session.items if other.parent is file]
        if item is cells[-1]:
            for cell in cells:
                if TAG in cell.cell.metadata.get("tags", ()):
                    compare(cell)
    return result


def compare(cell: Any) -> None:
    """Fail if a cell's outputs stay different from the stored."""
    until = time.monotonic() + LATE_S
    while not _same(cell):
        try:
            cell.parent.get_kernel_message(timeout=max(until - time.monotonic(), 0.01))
        except Empty:
            cell.raise_cell_error("Cell outputs differ at the notebook's end", "\n".join(cell.comparison_traceback))


def _same(cell: Any) -> bool:
    return bool(cell.compare_outputs(coalesce_streams(cell.test_outputs), coalesce_streams(cell.cell.outputs)))

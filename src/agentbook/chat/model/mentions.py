"""What `@` in the box offers: the kernel's variables, outputs of cells, and files.

A page gets names, types and sizes; a value leaves the kernel only as the attachment
that a person has chosen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ..._text import ipython_shell, visible

MAX_ENTRIES = 20
SAMPLE_ROWS = 100  # of a column of objects, from which its size is estimated
# Of their values, a shape costs nothing; that of any other may run somebody's code.
_LIBRARIES = ("pandas", "polars", "pyarrow", "numpy")
_BUILT_IN: dict[type, str] = {
    str: "characters",
    bytes: "bytes",
    list: "items",
    tuple: "items",
    dict: "items",
    set: "items",
}

Entry = tuple[str, str, Any]  # kind, name and value


def find(word: str) -> dict[str, Any]:
    """What has a word in its name, as a page lists it.

    Parameters
    ----------
    word : str
        What follows the ``@``; capital letters make no difference, except in the path
        of a folder, such as ``data/``, whose files are then found.

    Returns
    -------
    dict
        ``entries``: kind, name and a description of each; names that begin with the
        word, tables and what was assigned last come first. ``more``: how many others
        there are.
    """
    found, word = [*_variables(), *_outputs(), *_files(word)], word.casefold()
    found = [each for each in found if word in each[1].casefold()]
    found.sort(key=lambda each: (not each[1].casefold().startswith(word), len(_shape(each[2])) != 2))
    entries = [[kind, visible(name), visible(_describe(value))] for kind, name, value in found[:MAX_ENTRIES]]
    return {"entries": entries, "more": len(found) - len(entries)}


def value_of(kind: str, name: str) -> Any:
    """The value of an entry that was chosen.

    Raises
    ------
    ValueError
        If it has vanished.
    """
    for each, shown, value in (*_variables(), *_outputs(), *_files(name)):
        if (each, visible(shown)) == (kind, name):
            return Path(value) if kind == "file" else value
    raise ValueError(f"{name} no longer exists: nothing was attached.")


def _names() -> dict[str, Any]:
    shell = ipython_shell()
    return {} if shell is None else shell.user_ns.copy()


def _variables() -> Iterator[Entry]:
    hidden = getattr(ipython_shell(), "user_ns_hidden", {})
    for name, value in reversed(_names().items()):
        if not name.startswith("_") and hidden.get(name, _variables) is not value and _has_content(value):
            yield "variable", name, value


def _has_content(value: Any) -> bool:
    """Whether it is data, as opposed to code and to a widget, such as the panel."""
    is_widget = any(base.__module__.startswith("ipywidgets.") for base in type(value).__mro__)
    return not (is_widget or isinstance(value, ModuleType) or callable(value))


def _outputs() -> Iterator[Entry]:
    for number, value in sorted(_names().get("_oh", {}).copy().items(), reverse=True):
        if _has_content(value):
            yield "output", f"Out[{number}]", value


def _files(path: str) -> Iterator[Entry]:
    """The files and folders beside a path from the kernel's folder: the notebook's."""
    before, slash, _ = path.rpartition("/")
    try:
        with os.scandir(before + slash or ".") as folder:
            files = sorted(folder, key=lambda file: file.name.casefold())
    except (OSError, ValueError):  # there is none
        return
    for file in files:
        name = f"{before}{slash}{file.name}"
        if not file.name.startswith(".") and file.is_file():
            yield "file", name, file
        elif not file.name.startswith(".") and _holds_files(file):
            yield "folder", f"{name}/", file


def _holds_files(folder: os.DirEntry[str]) -> bool:
    with suppress(OSError), os.scandir(folder) as files:
        return any(not file.name.startswith(".") for file in files)
    return False


def _shape(value: Any) -> tuple[int, ...]:
    """The lengths of a table or an array; empty for anything else."""
    library = type(value).__module__.partition(".")[0]
    shape: tuple[int, ...] = getattr(value, "shape", ()) if library in _LIBRARIES else ()
    return shape


def _describe(value: Any) -> str:
    """Type and size, such as ``DataFrame, 1,200 × 5, about 84 kB``; copies nothing."""
    if isinstance(value, os.DirEntry):
        return _in_units(value.stat().st_size) if value.is_file() else "folder"
    words = [type(value).__name__]
    if unit := _BUILT_IN.get(type(value)):
        words.append(f"{len(value):,} {unit}")
    elif shape := _shape(value):
        words.append(" × ".join(f"{length:,}" for length in shape))
        with suppress(Exception):  # a column of somebody's own type
            words += [] if (size := _size(value)) is None else [f"about {_in_units(size)}"]
    return ", ".join(words)


def _size(value: Any) -> int | None:
    """Bytes of a value with a shape; those of Python objects from the first rows."""
    if not hasattr(value, "iloc"):
        return value.estimated_size() if hasattr(value, "estimated_size") else getattr(value, "nbytes", None)
    return sum(map(_column_size, [value] if value.ndim == 1 else [column for _, column in value.items()]))


def _column_size(column: Any) -> int:
    if column.dtype != object:
        return int(column.nbytes)
    sample = column.iloc[:SAMPLE_ROWS]
    return int(sample.memory_usage(index=False, deep=True)) * len(column) // max(len(sample), 1)


def _in_units(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size:,} bytes"
        size /= 1000
    return f"{size:,.3g} GB"

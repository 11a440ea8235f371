"""Makes the inventories of this folder: where other projects document their names.

``python docs/inventories/make.py python=OBJECTS.INV pandas=OBJECTS.INV`` keeps, of the
inventories that Python and pandas publish with their documentation, the classes,
functions and words that docstrings may name; builds then need no network. These were
made from the Debian packages python3.11-doc and python-pandas-doc, because the sites of
the projects were not reachable: names that are newer than those are missing. That of
ipywidgets was not reachable either, and is written from the list below, after the names
that its page documents.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
# Name, kind, page and anchor ($ stands for the name), as lines of an inventory.
WRITTEN = {
    "ipywidgets": [
        "ipywidgets.VBox py:class 1 reference/api/ipywidgets.html#$ -",
        "ipywidgets.Widget py:class 1 reference/api/ipywidgets.html#$ -",
    ],
}
KINDS = {
    "python": ("py:class", "py:data", "py:exception", "py:function", "std:term"),
    "pandas": ("py:class", "py:function"),
}
# Of Python's many names: built-in ones, those of these modules, words, and the section
# to which numpydoc links bool.
LABELS = ("bltin-boolean-values",)
MODULES = (
    "asyncio",
    "collections.abc",
    "concurrent.futures",
    "datetime",
    "pathlib",
    "re",
    "ssl",
    "uuid",
)


def read(path: Path) -> list[str]:
    """The lines of an inventory."""
    head, _, body = path.read_bytes().partition(b"using zlib.\n")
    if not head.startswith(b"# Sphinx inventory version 2"):
        raise SystemExit(f"{path} is no inventory of version 2")
    return zlib.decompress(body).decode().splitlines()


def selected(project: str, lines: list[str]) -> Iterator[str]:
    """The lines of the names that docstrings may link to."""
    for line in lines:
        name, kind, *_ = line.split()
        owner = name.rpartition(".")[0]
        is_chosen = (
            project != "python" or kind == "std:term" or not owner or owner in MODULES
        )
        if name in LABELS or (kind in KINDS[project] and is_chosen):
            yield line


def write(project: str, lines: list[str]) -> None:
    """Write an inventory of these lines, the same for the same lines."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    body = zlib.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), 9)
    (HERE / f"{project}.inv").write_bytes(head.encode() + body)


def main(arguments: list[str]) -> None:
    sources = {
        project: Path(path)
        for project, _, path in (argument.partition("=") for argument in arguments)
    }
    for project, path in sources.items():
        write(project, list(selected(project, read(path))))
    for project, lines in WRITTEN.items():
        write(project, lines)


if __name__ == "__main__":
    main(sys.argv[1:])

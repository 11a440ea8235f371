"""Combines ES modules into one text, from which a page loads a widget."""

from __future__ import annotations

import re
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
_IMPORT = re.compile(r'^import\s[^"]*?from "(\.{1,2}/[\w./-]+\.js)";\n', re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)


def read_module(path: Path) -> str:
    """A module together with the modules it imports, without comments.

    A page loads a widget's module from text, so it cannot import others by their path.
    Therefore all top-level names of the modules must differ.

    Examples
    --------
    >>> module = read_module(ASSETS / "panel.js")
    >>> "import " in module, module.count("export default")
    (False, 1)
    """
    included: set[Path] = set()

    def include(path: Path) -> str:
        path = path.resolve()
        if path in included:
            return ""
        included.add(path)
        text = _COMMENT.sub("", path.read_text("utf-8"))
        return _IMPORT.sub(lambda match: include(path.parent / match[1]), text)

    return include(path)

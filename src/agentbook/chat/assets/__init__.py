"""The JavaScript and CSS of everything that is shown in a page, and how they are read.

``core`` is what several widgets use; ``panel``, ``compare``, ``lab`` and ``explorer``
are the modules of one widget each. There is no build step: a page gets the text of a
module together with what it imports.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).parent
_IMPORT = re.compile(r'^import\s[^"]*?from "(\.{1,2}/[\w./-]+\.js)";\n', re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_SPACES = re.compile(r"(?<=[{},;:]) | (?=[{}])")


def read_module(name: str) -> str:
    """A module together with the modules it imports, without comments.

    A page loads a widget's module from text, so it cannot import others by their path.
    Therefore all top-level names of the modules must differ.

    Examples
    --------
    >>> module = read_module("panel/panel.js")
    >>> "\\nimport " in module, module.count("export default")
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

    return include(ASSETS / name)


@cache
def read_style(*names: str) -> str:
    """The rules of some files, without their comments and most of their spaces."""
    text = " ".join((ASSETS / name).read_text("utf-8") for name in names)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return _SPACES.sub("", " ".join(text.split()))

"""Parses Python source, in one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Any

# In Python 3.11, threads that parse at the same time can make each other fail with a
# SystemError ("AST constructor recursion depth mismatch", gh-106905).
_parsing = threading.Lock()


def parse(source: str, mode: str = "exec") -> Any:
    """The syntax tree of a module, or, with mode ``eval``, of an expression.

    Examples
    --------
    >>> parse("1 + 1", "eval").body.op.__class__.__name__
    'Add'
    """
    with _parsing:
        return ast.parse(source, mode=mode)

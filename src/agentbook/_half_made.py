"""Representations of objects whose constructor raised."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def repr_when_half_made(method: Callable[[T], str]) -> Callable[[T], str]:
    """Make a ``__repr__`` work even if some attributes are not set yet.

    A traceback that shows variables includes the `self` of a constructor that raised.
    On Python 3.11 it fails if the repr of `self` fails.
    """

    @functools.wraps(method)
    def represent(self: T) -> str:
        try:
            return method(self)
        except AttributeError:
            return f"<{type(self).__name__}, not made>"

    return represent

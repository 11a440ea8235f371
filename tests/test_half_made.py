"""A traceback that shows variables meets objects whose constructor raised."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import is_dataclass

import pytest

import agentbook as ab

# A dataclass has its attributes before anything is checked.
CLASSES = [
    name
    for name in ab.__all__
    if inspect.isclass(kind := getattr(ab, name))
    and not issubclass(kind, (BaseException, tuple, dict))
    and not is_dataclass(kind)
]


@pytest.mark.parametrize("name", CLASSES)
def test_an_object_has_a_repr_before_it_has_anything_else(name: str) -> None:
    kind = getattr(ab, name)
    assert name in repr(kind.__new__(kind))


def test_a_traceback_with_variables_shows_a_constructor_that_raised() -> None:
    with pytest.raises(ValueError, match="has the form") as raised:
        ab.Client("https://h/v1", credentials="not a key")
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "self = <Client, not made>" in shown
    assert "self = <ApiKey, not made>" in shown

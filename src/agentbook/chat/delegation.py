"""Exposes methods and attributes of an object's parts, with their documentation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def method_of(attribute: str, method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The method of the object in `attribute`, with its signature and docstring.

    Examples
    --------
    >>> class Log:
    ...     def __init__(self):
    ...         self.lines = ["one"]
    ...     pop = method_of("lines", list.pop)
    >>> Log().pop()
    'one'
    """

    @functools.wraps(method)
    def delegate(owner: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(getattr(owner, attribute), *args, **kwargs)

    return delegate


def attribute_of(part: str, name: str, doc: str) -> Any:
    """The attribute `name` of the object in `part`, as a property that may be set."""

    def set_value(owner: Any, value: Any) -> None:
        setattr(getattr(owner, part), name, value)

    return property(lambda owner: getattr(getattr(owner, part), name), set_value, doc=doc)

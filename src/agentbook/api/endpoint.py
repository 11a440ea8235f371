"""How an endpoint function becomes a method of both clients.

An endpoint is written once, as a function that returns a `Call` or a `ListCall`. Here it is bound to a noun
(``client.agents``): on `Client` it then returns the result, on `AsyncClient` an awaitable of it; a list operation returns a
`Listing` or an `AsyncListing`. The types follow, so an editor knows the difference.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from .calls import Call, ListCall

if TYPE_CHECKING:
    from ..listing import AsyncListing, Listing

P = ParamSpec("P")
T = TypeVar("T")


class Sync:
    """Marks the nouns of `Client`."""


class Async:
    """Marks the nouns of `AsyncClient`."""


M = TypeVar("M", Sync, Async)


class Noun(Generic[M]):
    """One noun of the specification on one client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __repr__(self) -> str:
        names = [name for name in dir(type(self)) if not name.startswith("_")]
        return f"<{type(self).__name__.lower()}: {', '.join(names)}>"


class Endpoint(Generic[P, T]):
    """An operation that is one call."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, noun: None, owner: Any) -> Endpoint[P, T]: ...
    @overload
    def __get__(self, noun: Noun[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, noun: Noun[Async], owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, noun: Any, owner: Any) -> Any:
        if noun is None:
            return self
        client, build = noun._client, self.build
        return _method(build, lambda *args, **given: client.run(build(*args, **given)))


class Listed(Generic[P]):
    """An operation that is a list."""

    def __init__(self, build: Callable[P, ListCall]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, noun: None, owner: Any) -> Listed[P]: ...
    @overload
    def __get__(self, noun: Noun[Sync], owner: Any) -> Callable[P, Listing]: ...
    @overload
    def __get__(self, noun: Noun[Async], owner: Any) -> Callable[P, AsyncListing]: ...
    def __get__(self, noun: Any, owner: Any) -> Any:
        if noun is None:
            return self
        client, build = noun._client, self.build
        return _method(build, lambda *args, **given: client.listing(build(*args, **given)))


def _method(build: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Dress a bound call as its endpoint, so that ``?`` and tab completion show the real signature and docstring."""
    method = wraps(build)(call)
    method.__signature__ = _signature(build)  # type: ignore[attr-defined]
    return method


@cache
def _signature(build: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(build).replace(return_annotation=inspect.Signature.empty)

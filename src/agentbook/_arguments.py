"""Errors that say how to call a function, where Python's own would not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ._names import nearest

P = ParamSpec("P")
T = TypeVar("T")


def argument_error(
    name: str, signature: inspect.Signature, args: Sequence[Any], params: Mapping[str, Any], example: str = ""
) -> TypeError | None:
    """The error for a call that does not fit; None if it does.

    It has no argument's value, which may be secret. By default, the `example` is
    ``client.<name>`` with its required arguments.

    Examples
    --------
    >>> def get(agent): ...
    >>> print(argument_error("agents.get", inspect.signature(get), [], {}))
    agents.get: missing a required argument: 'agent'. Write client.agents.get(agent).
    >>> print(argument_error("agents.get", inspect.signature(get), [], {"agnt": 1}))
    agents.get has no argument 'agnt'; did you mean 'agent'?
    """
    return _unknown(name, signature, params) or _unbound(name, signature, args, params, example)


def shows_call(example: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function: a call that does not fit raises an error with this example.

    Examples
    --------
    >>> @shows_call('ab.greet("Ada")')
    ... def greet(name): ...
    >>> greet()
    Traceback (most recent call last):
    ...
    TypeError: ab.greet: missing a required argument: 'name'. Write ab.greet("Ada").
    """
    name = example.partition("(")[0]

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*args: P.args, **params: P.kwargs) -> T:
            if error := argument_error(name, signature, args, params, example):
                raise error
            return function(*args, **params)

        return checked

    return decorate


def _unknown(name: str, signature: inspect.Signature, params: Mapping[str, Any]) -> TypeError | None:
    if any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
        return None
    known = [each for each in signature.parameters if each != "self"]
    for param in params:
        if param not in known:
            match = nearest(param, known)
            hint = f"did you mean {match!r}?" if match else f"it has {', '.join(known) or 'none'}."
            return TypeError(f"{name} has no argument {param!r}; {hint}")
    return None


def _unbound(
    name: str, signature: inspect.Signature, args: Sequence[Any], params: Mapping[str, Any], example: str
) -> TypeError | None:
    try:
        signature.bind(*args, **params)
    except TypeError as error:
        required = [each for each in signature.parameters.values() if each.default is each.empty]
        usage = ", ".join(f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name for each in required)
        return TypeError(f"{name}: {error}. Write {example or f'client.{name}({usage})'}.")
    return None

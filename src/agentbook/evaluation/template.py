"""Promptfoo's templates. They are Nunjucks, a port of Jinja2; here Jinja2 reads them.

Values print and compare as in JavaScript: null prints nothing, and an empty list is
true. No method of a value can be called.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jinja2
import jinja2.meta

from . import javascript

FILTERS_OF_NUNJUCKS = frozenset(
    (
        *("abs", "batch", "capitalize", "center", "default", "d", "dictsort", "dump", "escape", "e"),
        *("first", "float", "forceescape", "groupby", "indent", "int", "join", "last", "length"),
        *("list", "lower", "nl2br", "random", "reject", "rejectattr", "replace", "reverse", "round"),
        *("safe", "select", "selectattr", "slice", "sort", "string", "striptags", "sum", "title"),
        *("trim", "truncate", "upper", "urlencode", "urlize", "wordcount"),
    )
)
_SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)


class TemplateError(ValueError):
    """A template that cannot be read or rendered."""


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template with the values filled in.

    Parameters
    ----------
    template : str
        May contain ``{{ name }}``, ``{% if %}``, ``{% for %}``, ``{% raw %}``,
        comments, and the filters upper, lower, trim, default, dump, join, length,
        replace, capitalize, first, last, safe and string.
    values : mapping of str to object
        Names without a value print nothing.

    Returns
    -------
    str

    Raises
    ------
    TemplateError

    Examples
    --------
    >>> values = {"topic": "keys", "tags": ["a", "b"]}
    >>> render("About {{ topic | upper }}{{ nothing }}: {{ tags }}", values)
    'About KEYS: a,b'
    """
    if "{{" not in template and "{%" not in template and "{#" not in template:
        return template
    try:
        return _compile(template).render(
            {"env": _Variables(), **{name: _wrap(value) for name, value in values.items()}}
        )
    except jinja2.TemplateError as error:
        raise _error(error) from None
    except TemplateError:
        raise
    except Exception as error:  # a filter or comparison applied to the wrong types
        raise TemplateError(f"{type(error).__name__}: {error}") from error


def check(template: str) -> None:
    """Read a template without rendering it.

    Raises
    ------
    TemplateError
        If it uses a Nunjucks filter that `render` does not support. Errors that
        promptfoo would also find only when it renders are not raised.
    """
    try:
        _compile(template)
    except jinja2.TemplateError as error:
        name = re.search(r"No filter named '(\w+)'", str(error))
        if name and name[1] in FILTERS_OF_NUNJUCKS:
            raise TemplateError(
                f"The filter {name[1]!r} is not supported here; those are {', '.join(FILTERS)}."
            ) from None


def uses(template: str, name: str) -> bool:
    """Whether a template takes a value by this name.

    Examples
    --------
    >>> uses("{% for turn in _conversation %}…{% endfor %}", "_conversation")
    True
    >>> uses("{{ name }} {% raw %}{{ _conversation }}{% endraw %}", "_conversation")
    False
    """
    if name not in template or not re.search(r"\{\{|\{%", template):
        return False
    try:
        return name in names(template)
    except TemplateError:  # such as one within JSON, whose quotation marks are escaped
        return True


def names(template: str) -> list[str]:
    """The names that a template needs values for, in alphabetical order.

    Raises
    ------
    TemplateError

    Examples
    --------
    >>> names("{{ b }} {% for each in list %}{{ each }}{% endfor %} {{ a | upper }}")
    ['a', 'b', 'list']
    """
    try:
        return sorted(jinja2.meta.find_undeclared_variables(_environment().parse(template)) - {"env"})
    except jinja2.TemplateError as error:
        raise _error(error) from None


@functools.lru_cache(maxsize=512)
def _compile(template: str) -> jinja2.Template:
    return _environment().from_string(template)


def _error(error: jinja2.TemplateError) -> TemplateError:
    return TemplateError(error.message or str(error))


# Values


class _Object:
    """A JavaScript object: true even if empty, without methods."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = {javascript.to_text(name): item for name, item in data.items()}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, _wrap(item)) for name, item in self.data.items())

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _List(list[Any]):
    def __bool__(self) -> bool:
        return True


class _Variables(_Object):
    """``env``: the environment, without variables that look like secrets."""

    def __init__(self) -> None:
        self.data = dict(os.environ)


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Object(value)
    return _List(map(_wrap, value)) if isinstance(value, list | tuple) else value


def _unwrap(value: Any) -> Any:
    if isinstance(value, _Object):
        return value.data
    return list(map(_unwrap, value)) if isinstance(value, list) else value


def _print(value: Any) -> str:
    return "" if value is None or isinstance(value, jinja2.Undefined) else javascript.to_text(_unwrap(value))


class _Environment(jinja2.Environment):
    """Looks up items only, so that no method of a Python value is reached."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, jinja2.runtime.LoopContext):
            return getattr(obj, argument) if argument in _LOOP else self.undefined(name=argument)
        if isinstance(obj, _Object) and argument in obj.data:
            if isinstance(obj, _Variables) and _SECRET.search(str(argument)):
                raise TemplateError(
                    f"env.{argument} looks like a secret, and a prompt is stored and shown: it is not filled in."
                )
            return _wrap(obj.data[argument])
        if isinstance(obj, str | list) and argument == "length":
            return len(obj)
        if isinstance(obj, str | list) and isinstance(argument, int) and 0 <= argument < len(obj):
            return obj[argument]
        return self.undefined(name=str(argument))


_LOOP = {"index", "index0", "revindex", "revindex0", "first", "last", "length"}


@functools.cache
def _environment() -> jinja2.Environment:
    environment = _Environment(
        undefined=jinja2.ChainableUndefined, finalize=_print, keep_trailing_newline=True, autoescape=False
    )
    environment.globals.clear()
    environment.filters = dict(FILTERS)
    return environment


# Filters, as Nunjucks defines them


def _text(value: Any) -> str:
    if value is None or value is False or isinstance(value, jinja2.Undefined):
        return ""
    if not isinstance(value, str):
        raise TemplateError(f"The filter needs text, not {javascript.to_text(_unwrap(value))!r}.")
    return value


def _default(value: Any, other: Any = "", falsy: bool = False) -> Any:
    missing = not value if falsy else isinstance(value, jinja2.Undefined)
    return other if missing else value


def _dump(value: Any, indent: Any = None) -> str:
    return "" if isinstance(value, jinja2.Undefined) else javascript.to_json(_unwrap(value), indent)


def _join(value: Any, separator: str = "", attribute: str | None = None) -> str:
    if not isinstance(value, list):
        raise TemplateError("The filter join needs a list.")
    items = [item.data.get(attribute) if isinstance(item, _Object) else None for item in value] if attribute else value
    return separator.join(_print(item) for item in items)


def _length(value: Any) -> Any:
    if value is None or value is False or isinstance(value, jinja2.Undefined):
        return 0
    return len(value) if isinstance(value, str | list | _Object) else None


def _replace(value: Any, old: Any, new: Any, count: Any = -1) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = javascript.to_text(value)
    if not isinstance(value, str):
        return value
    return value.replace(_print(old), _print(new), int(count))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, str | list) and len(value) else None


def _last(value: Any) -> Any:
    return value[-1] if isinstance(value, str | list) and len(value) else None


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": lambda value: _text(value).upper(),
    "lower": lambda value: _text(value).lower(),
    "trim": lambda value: javascript.strip(_text(value)),
    "default": _default,
    "d": _default,
    "dump": _dump,
    "join": _join,
    "length": _length,
    "replace": _replace,
    "capitalize": lambda value: _text(value).lower()[:1].upper() + _text(value).lower()[1:],
    "first": _first,
    "last": _last,
    "safe": lambda value: "" if value is None else value,
    "string": lambda value: _print(value),
}

"""Nunjucks' filters and tests, and promptfoo's own filter ``load``.

They take what a template passes: texts, numbers, `List`, `Object` and `UNDEFINED`. What
a filter of Nunjucks cannot take, such as a number that it would make upper-case, is an
error there, and here.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

from . import javascript
from .javascript import (
    COMPARISONS,
    ITEM,
    UNDEFINED,
    List,
    Object,
    TemplateError,
    add,
    is_equal,
    is_less,
    is_nothing,
    is_undefined,
    printed,
    remainder,
    require_length,
    tidy,
    to_number,
    to_primitive,
    to_text,
    unwrap,
    wrap,
)

# What filters take


def _text(value: Any) -> str:
    """A text; null, undefined and false are an empty one."""
    return "" if is_nothing(value) or value is False else _only_text(value)


def _only_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TemplateError(f"The filter needs text, not {to_text(value)!r}.")
    return value


def _items(value: Any) -> list[Any]:
    """The items of a list, or the characters of a text."""
    return List(javascript.code_units(value)) if isinstance(value, str) else _only_list(value)


def _only_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TemplateError(f"The filter needs a list, not {to_text(value)!r}.")
    return value


def _attribute(item: Any, name: Any) -> Any:
    if is_nothing(item):
        raise TemplateError(f"{to_text(item)} has no {to_text(name)!r}.")
    if isinstance(item, list | str) and name == "length":
        return len(_items(item))
    return item.data.get(to_text(name), UNDEFINED) if isinstance(item, Object) else UNDEFINED


def _whole(value: Any, default: int) -> int:
    number = to_number(value)
    require_length(number)
    return default if math.isnan(number) or not number else int(number)


def _joined(units: str) -> str:
    """The text of JavaScript's characters, two of which may make one."""
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# Filters of texts


def _capitalize(value: Any) -> str:
    text = _text(value).lower()
    return text[:1].upper() + text[1:]


def _center(value: Any, width: Any = 80) -> str:
    text, width = _text(value), _whole(width, 80)
    spaces = width - len(javascript.code_units(text))
    return text if spaces <= 0 else " " * math.ceil(spaces / 2 - spaces % 2) + text + " " * math.ceil(spaces / 2)


def _escape(value: Any) -> str:
    return value if isinstance(value, _Safe) else _force_escape(value)


def _force_escape(value: Any) -> str:
    return _Safe(re.sub(r"[&\"'<>\\`]", lambda char: _ESCAPES[char[0]], printed(value)))


class _Safe(str):
    """A text that is not escaped again."""

    __slots__ = ()


_ESCAPES = {"&": "&amp;", '"': "&quot;", "'": "&#39;", "<": "&lt;", ">": "&gt;", "\\": "&#92;", "`": "&#96;"}


def _indent(value: Any, width: Any = 4, first: Any = False) -> str:
    text, spaces = _text(value), _whole(width, 4)
    require_length(len(text) + spaces * (text.count("\n") + 1))
    lines = text.replace("\n", "\n" + " " * spaces) if "\n" in text else text
    return " " * spaces + lines if first and text else lines


def _replace(value: Any, old: Any, new: Any = UNDEFINED, count: Any = -1) -> Any:
    if isinstance(old, bool) or not isinstance(old, str | int | float):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = to_text(value)
    if not isinstance(value, str):
        return value
    old, new = to_text(old), to_text(new)
    require_length(len(value) + (value.count(old) + len(value) + 2 if not old else value.count(old)) * len(new))
    if not old:
        return new + new.join(javascript.code_units(value)) + new
    return value.replace(old, new, int(to_number(count)))


_TAG = re.compile(r"</?([a-z][a-z0-9]*)\b[^>]*>", re.IGNORECASE)
_TAG_OR_COMMENT = re.compile(rf"{_TAG.pattern}|<!--[\s\S]*?-->", re.IGNORECASE)


def _striptags(value: Any, keep: Any = False) -> str:
    text = _text(value)
    # Where none ends, none begins: each search would go on to the end of the text.
    comments = text.rfind("-->") + 3 if "-->" in text else 0
    tags = max(comments, text.rfind(">") + 1)
    text = javascript.strip(_TAG_OR_COMMENT.sub("", text[:comments]) + _TAG.sub("", text[comments:tags]) + text[tags:])
    if not keep:
        return re.sub(f"[{javascript.WHITESPACE}]+", " ", text)
    text = re.sub(" +", " ", re.sub("^ ++|(?<! ) ++$", "", text, flags=re.MULTILINE))
    return re.sub("\n\n\n+", "\n\n", text.replace("\r\n", "\n"))


def _truncate(value: Any, length: Any = 255, kill: Any = False, end: Any = None) -> Any:
    if isinstance(value, list) and len(value) <= _whole(length, 255):
        return value
    text, length = javascript.code_units(_text(value)), _whole(length, 255)
    if len(text) <= length:
        return _joined(text)
    space = -1 if kill else text.rfind(" ", 0, length + 1)
    return _joined(text[: length if space < 0 else space]) + ("..." if is_nothing(end) else to_text(end))


def _urlencode(value: Any) -> str:
    if isinstance(value, str):
        return urllib.parse.quote(value, safe="!'()*~-._")
    pairs = list(value) if isinstance(value, Object) else _items(value)
    return "&".join(f"{_urlencode(to_text(name))}={_urlencode(to_text(item))}" for name, item in pairs)


_LINK = re.compile(r"(?:\(|<|&lt;)?([^\n\r\u2028\u2029]*?)(?:\.|,|\)|\n|&gt;)?\Z")
_EMAIL = re.compile(r"[\w.!#$%&'*+\-/=?^`{|}~]+@[a-z\d\-]+(\.[a-z\d\-]+)+", re.IGNORECASE | re.ASCII)


def _urlize(value: Any, length: Any = UNDEFINED, nofollow: Any = False) -> str:
    limit, relation = to_number(length), ' rel="nofollow"' if nofollow is True else ""

    def link(word: str) -> str:
        match = _LINK.match(word)
        address = match[1] if match else word
        short = address if math.isnan(limit) else address[: max(0, int(limit))]
        if re.match("https?://", address):
            return f'<a href="{address}"{relation}>{short}</a>'
        if address.startswith("www.") or (
            not _EMAIL.fullmatch(address) and re.search(r"\.(?:org|net|com)(?::|/|\Z)", address)
        ):
            return f'<a href="http://{address}"{relation}>{short}</a>'
        return f'<a href="mailto:{address}">{address}</a>' if _EMAIL.fullmatch(address) else word

    parts = re.split(f"([{javascript.WHITESPACE}]+)", _only_text(value))
    return "".join(map(link, parts))


def _wordcount(value: Any) -> int | None:
    return len(re.findall(r"\w+", _text(value), re.ASCII)) or None


# Filters of numbers


def _round(value: Any, precision: Any = 0, method: Any = UNDEFINED) -> int | float:
    factor = math.pow(10, _whole(precision, 0))
    number = to_number(value) * factor
    if not math.isfinite(number):
        return number
    rounder = {"ceil": math.ceil, "floor": math.floor}.get(method, lambda each: math.floor(each + 0.5))
    return tidy(rounder(number) / factor)


def _int(value: Any, default: Any = UNDEFINED, base: Any = 10) -> Any:
    base = _whole(base, 10)
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"[:base]
    prefix = "(?:0[xX])?" if base == 16 else ""
    match = re.match(f"([+-]?){prefix}([{digits}]+)", javascript.strip(to_text(value)), re.IGNORECASE)
    return int(match[1] + match[2][:1000], base) if match else default


def _float(value: Any, default: Any = UNDEFINED) -> Any:
    number = javascript.parse_float(to_text(value))
    return default if number is None else tidy(number)


# Filters of lists


def _batch(value: Any, count: Any, fill: Any = None) -> Any:
    items, count = _items(value), _whole(count, 0)
    require_length(count * ITEM)
    if count <= 0:
        raise TemplateError("The filter batch needs a number above 0.")
    rows = List(List(items[start : start + count]) for start in range(0, len(items), count))
    if len(rows) and fill and not is_undefined(fill):
        rows[-1] += [fill] * (count - len(rows[-1]))
    return rows


def _dictsort(value: Any, case_sensitive: Any = False, by: Any = "key") -> Any:
    if not isinstance(value, Object) or by not in ("key", "value"):
        raise TemplateError("The filter dictsort needs an object, sorted by 'key' or 'value'.")
    at = ("key", "value").index(by)

    def key(pair: Any) -> Any:
        return pair[at] if case_sensitive or not isinstance(pair[at], str) else pair[at].upper()

    return List(List(pair) for pair in _sorted(value, key))


def _sorted(items: Any, key: Callable[[Any], Any]) -> list[Any]:
    # A single item is not compared, so it may be one that cannot be.
    return sorted(items, key=lambda item: _order(key(item))) if len(items) > 1 else list(items)


_order = functools.cmp_to_key(lambda value, other: is_less(other, value) - is_less(value, other))


def _sort(value: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = UNDEFINED) -> Any:
    def key(item: Any) -> Any:
        for name in to_text(attribute).split(".") if not is_nothing(attribute) and attribute else ():
            item = _attribute(item, name)
        return item.lower() if isinstance(item, str) and not case_sensitive else item

    items = _items(value)
    # Backwards, equal items keep their order.
    return List(_sorted(items[::-1], key)[::-1] if reverse else _sorted(items, key))


def _groupby(value: Any, attribute: Any) -> Any:
    groups: dict[str, List] = {}
    for item in _items(value):
        groups.setdefault(to_text(_attribute(item, attribute)), List()).append(item)
    return Object(groups)


def _join(value: Any, separator: Any = "", attribute: Any = None) -> str:
    between = to_text(separator) if separator and not is_undefined(separator) else ""
    named = attribute and not is_undefined(attribute)
    texts = [printed(_attribute(item, attribute) if named else item) for item in _only_list(value)]
    require_length(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _length(value: Any) -> Any:
    if is_nothing(value) or value is False:
        return 0
    return (
        len(value) if isinstance(value, Object) else len(_items(value)) if isinstance(value, str | list) else UNDEFINED
    )


def _list(value: Any) -> Any:
    if isinstance(value, Object):
        return List(Object({"key": name, "value": item}) for name, item in value)
    return _items(value)


def _at(value: Any, position: int) -> Any:
    if is_nothing(value):
        raise TemplateError(f"The filter needs a list, not {to_text(value)}.")
    items = _items(value) if isinstance(value, str | list) else ()
    return items[position] if len(items) else UNDEFINED


def _reverse(value: Any) -> Any:
    items = List(_items(value)[::-1])
    return _joined("".join(items)) if isinstance(value, str) else items


def _select(expected: bool) -> Callable[..., Any]:
    def select(value: Any, name: Any = "truthy", argument: Any = UNDEFINED) -> Any:
        if name not in TESTS:
            raise TemplateError(f"There is no test {to_text(name)!r}.")
        return List(item for item in _items(value) if bool(TESTS[name](item, argument)) == expected)

    return select


def _select_attribute(expected: bool) -> Callable[..., Any]:
    return lambda value, name: List(item for item in _only_list(value) if bool(_attribute(item, name)) == expected)


def _slice(value: Any, count: Any, fill: Any = None) -> Any:
    items, count = _only_list(value), _whole(count, 0)
    require_length(count * ITEM)
    if count <= 0:
        return List()
    length, extra = divmod(len(items), count)
    starts = [number * length + min(number, extra) for number in range(count + 1)]
    rows = List(List(items[start:end]) for start, end in itertools.pairwise(starts))
    for row in rows[extra:] if fill and not is_undefined(fill) else ():
        row.append(fill)
    return rows


def _sum(value: Any, attribute: Any = UNDEFINED, start: Any = 0) -> Any:
    named = attribute and not is_undefined(attribute)
    total: Any = 0
    texts: list[str] = []
    for item in (_attribute(item, attribute) if named else item for item in _only_list(value)):
        if not texts and not isinstance(to_primitive(item), str):
            total = add(total, item)
        else:
            texts += [to_text(item)] if texts else [to_text(total), to_text(item)]
    require_length(sum(map(len, texts)))
    total = "".join(texts) if texts else total
    return add(start, total)


def _dump(value: Any, indent: Any = None) -> Any:
    indent = indent if isinstance(indent, str | int | float) and not isinstance(indent, bool) else None
    return UNDEFINED if is_undefined(value) else javascript.to_json(unwrap(value), indent)


def _default(value: Any, other: Any = UNDEFINED, falsy: Any = False) -> Any:
    return other if (not value if falsy else is_undefined(value)) else value


def _load(value: Any) -> Any:
    try:
        return wrap(javascript.parse_json(to_text(value)))
    except ValueError as error:
        raise TemplateError(f"The filter load needs JSON: {error}.") from None


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": lambda value: tidy(abs(to_number(value))),
    "batch": _batch,
    "capitalize": _capitalize,
    "center": _center,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "dump": _dump,
    "e": _escape,
    "escape": _escape,
    "first": lambda value: _at(value, 0),
    "float": _float,
    "forceescape": _force_escape,
    "groupby": _groupby,
    "indent": _indent,
    "int": _int,
    "join": _join,
    "last": lambda value: _at(value, -1),
    "length": _length,
    "list": _list,
    "load": _load,
    "lower": lambda value: _text(value).lower(),
    "nl2br": lambda value: "" if is_nothing(value) else re.sub("\r?\n", "<br />\n", _only_text(value)),
    "reject": _select(expected=False),
    "rejectattr": _select_attribute(expected=False),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "safe": lambda value: _Safe(printed(value)),
    "select": _select(expected=True),
    "selectattr": _select_attribute(expected=True),
    "slice": _slice,
    "sort": _sort,
    "string": lambda value: _only_text(value) if is_nothing(value) else to_text(value),
    "striptags": _striptags,
    "sum": _sum,
    "title": lambda value: " ".join(map(_capitalize, _text(value).split(" "))),
    "trim": lambda value: javascript.strip(_only_text(value)),
    "truncate": _truncate,
    "upper": lambda value: _text(value).upper(),
    "urlencode": _urlencode,
    "urlize": _urlize,
    "wordcount": _wordcount,
}
SORTING = (_dictsort, _sort)  # whose time grows faster than what they are given
REFUSED = {"random": "its result is another one in each run"}
KEYWORDS = {"sort": ("reverse", "case_sensitive", "attribute"), "int": ("default", "base")}

TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "callable": lambda value, _: callable(value) and not is_undefined(value),
    "defined": lambda value, _: not is_undefined(value),
    "divisibleby": lambda value, other: remainder(value, other) == 0,
    "eq": is_equal,
    "equalto": is_equal,
    "even": lambda value, _: remainder(value, 2) == 0,
    "falsy": lambda value, _: not value,
    "ge": COMPARISONS["gteq"],
    "greaterthan": COMPARISONS["gt"],
    "gt": COMPARISONS["gt"],
    "iterable": lambda value, _: isinstance(value, str | list) or (is_nothing(value) and _only_list(value) is None),
    "le": COMPARISONS["lteq"],
    "lessthan": is_less,
    "lower": lambda value, _: _only_text(value).lower() == value,
    "lt": is_less,
    "mapping": lambda value, _: isinstance(value, Object),
    "ne": COMPARISONS["ne="],
    "none": lambda value, _: value is None,
    "null": lambda value, _: value is None,
    "number": lambda value, _: isinstance(value, int | float) and not isinstance(value, bool),
    "odd": lambda value, _: remainder(value, 2) == 1,
    "sameas": is_equal,
    "string": lambda value, _: isinstance(value, str),
    "truthy": lambda value, _: bool(value),
    "undefined": lambda value, _: is_undefined(value),
    "upper": lambda value, _: _only_text(value).upper() == value,
}

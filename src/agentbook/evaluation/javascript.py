"""Values as JavaScript reads, writes and compares them, as promptfoo's files expect.

A template holds lists and objects as `List` and `Object`.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import jinja2

UNDEFINED = jinja2.ChainableUndefined()
MAX_TEXT = 5_000_000  # characters; a few lines of a template can make more than fits into memory
ITEM = 10  # characters that an item of a list takes as much as


class TemplateError(ValueError):
    """A template that cannot be read or rendered."""


def require_length(length: float) -> None:
    """Raise a `TemplateError` if a text or list would be too long."""
    if length > MAX_TEXT:
        raise TemplateError(f"The text grows to more than {MAX_TEXT:,} characters.")


# Lists and objects

_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # such names come first


class Object:
    """A JavaScript object: true even if empty, without methods."""

    def __init__(self, data: Mapping[Any, Any]) -> None:
        items = {to_text(name): wrap(item) for name, item in data.items()}
        numbers = sorted(filter(_INDEX.fullmatch, items), key=int)
        self.data = {name: items[name] for name in [*numbers, *items]}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.data.items())

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class List(list[Any]):
    """A JavaScript array: true even if empty."""

    def __bool__(self) -> bool:
        return True


def wrap(value: Any) -> Any:
    """A value as a template holds it; a `List` or `Object` holds such already."""
    if isinstance(value, List | Object):
        return value
    if isinstance(value, Mapping):
        return Object(value)
    return List(map(wrap, value)) if isinstance(value, list | tuple) else value


def unwrap(value: Any) -> Any:
    """The value as data."""
    if isinstance(value, Object):
        return {name: unwrap(item) for name, item in value.data.items()}
    if isinstance(value, list | tuple):
        return list(map(unwrap, value))
    return None if is_undefined(value) else value


def is_undefined(value: Any) -> bool:
    """Whether a value is JavaScript's undefined."""
    return isinstance(value, jinja2.Undefined)


def is_nothing(value: Any) -> bool:
    """Whether a value is null or undefined."""
    return value is None or is_undefined(value)


# Texts, JSON and numbers

# What JavaScript's \s matches and trim() removes.
WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_SPACES = re.compile(f"[{WHITESPACE}]+")
_NUMBER = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


def to_text(value: Any) -> str:
    """`String(value)`.

    Examples
    --------
    >>> [to_text(value) for value in (True, None, 2.0, 1e-7, ["a", None], {"a": 1})]
    ['true', 'null', '2', '1e-7', 'a,', '[object Object]']
    """
    if is_nothing(value):
        return "null" if value is None else "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(float(value))
    if isinstance(value, list | tuple):
        return ",".join("" if is_nothing(item) else to_text(item) for item in value)
    return "[object Object]" if isinstance(value, Mapping | Object) else str(value)


def printed(value: Any) -> str:
    """What ``{{ value }}`` prints."""
    return "" if is_nothing(value) else to_text(value)


def _number_text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+d}"


def to_json(value: Any, indent: int | str | None = None) -> str:
    """`JSON.stringify(value, null, indent)`.

    Examples
    --------
    >>> to_json({"a": [1.0, "é"]})
    '{"a":[1,"é"]}'
    """
    indent = indent[:10] if isinstance(indent, str) else indent and max(0, min(int(indent), 10))
    separators = (",", ": " if indent else ":")
    text = json.dumps(_plain(value), ensure_ascii=False, separators=separators, indent=indent or None)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, Mapping):
        return {to_text(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def parse_json(text: str) -> Any:
    """`JSON.parse(text)`, which is strict: NaN and Infinity are rejected.

    Raises
    ------
    ValueError
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("The JSON is nested too deeply.") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON.")


def parse_float(text: str) -> float | None:
    """`Number.parseFloat(text)`: the number that a text begins with; None for NaN.

    Examples
    --------
    >>> parse_float(" 0.5 of all"), parse_float("all")
    (0.5, None)
    """
    match = _NUMBER.match(strip(text))
    return float(match[0]) if match else None


def to_number(value: Any) -> float:
    """`Number(value)`.

    Examples
    --------
    >>> [to_number(value) for value in ("0.9", " 1e1 ", "85%", "", None, True, {})]
    [0.9, 10.0, nan, 0.0, 0.0, 1.0, nan]
    """
    if value is None or isinstance(value, bool | int | float):
        return float(value or 0)
    text = strip(to_text(value))
    if re.fullmatch(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", text):
        return float(int(text, 0))
    return 0.0 if not text else float(text) if _NUMBER.fullmatch(text) else math.nan


def strip(text: str) -> str:
    """`text.trim()`."""
    return text.strip(WHITESPACE)


def words(text: str) -> list[str]:
    """The words of a text, split at what JavaScript treats as white space."""
    return [word for word in _SPACES.split(text) if word]


def code_units(text: str) -> str:
    """A text in which each character beyond U+FFFF is the two that JavaScript sees.

    Examples
    --------
    >>> len(code_units("a😀"))
    3
    """
    if not text or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, memoryview(data).cast("H")))


def is_deep_equal(value: Any, other: Any) -> bool:
    """`util.isDeepStrictEqual`: true is not 1, and 1 is 1.0.

    Examples
    --------
    >>> is_deep_equal({"a": [1]}, {"a": [1.0]}), is_deep_equal(True, 1)
    (True, False)
    """
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(is_deep_equal(item, other[name]) for name, item in value.items())
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(is_deep_equal, value, other))
    return type(value) is type(other) and value == other if isinstance(value, str) else bool(value == other)


# Operators


def to_primitive(value: Any) -> Any:
    """A value with which JavaScript calculates: a list or an object is its text."""
    return to_text(value) if isinstance(value, list | tuple | Object) else value


def add(value: Any, other: Any) -> Any:
    """``value + other``."""
    value, other = to_primitive(value), to_primitive(other)
    if isinstance(value, str) or isinstance(other, str):
        texts = to_text(value), to_text(other)
        require_length(sum(map(len, texts)))
        return "".join(texts)
    return tidy(to_number(value) + to_number(other))


def remainder(value: Any, other: Any) -> float:
    """``value % other``."""
    numbers = to_number(value), to_number(other)
    return math.nan if not numbers[1] or math.isinf(numbers[0]) else math.fmod(*numbers)


def tidy(number: float) -> int | float:
    """A number that is whole, as a whole number."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def is_equal(value: Any, other: Any) -> bool:
    """``value === other``."""
    if isinstance(value, list | tuple | Object) or isinstance(other, list | tuple | Object):
        return value is other
    if is_nothing(value) or is_nothing(other):
        return is_undefined(value) == is_undefined(other) and is_nothing(value) == is_nothing(other)
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return isinstance(value, str) == isinstance(other, str) and bool(value == other)


def is_alike(value: Any, other: Any) -> bool:
    """``value == other``."""
    if is_nothing(value) or is_nothing(other):
        return is_nothing(value) and is_nothing(other)
    if isinstance(value, list | tuple | Object) and isinstance(other, list | tuple | Object):
        return value is other
    value, other = to_primitive(value), to_primitive(other)
    if isinstance(value, str) and isinstance(other, str):
        return value == other
    return to_number(value) == to_number(other)


def is_less(value: Any, other: Any, *, or_equal: bool = False) -> bool:
    """``value < other``, or ``value <= other``."""
    value, other = to_primitive(value), to_primitive(other)
    if isinstance(value, str) and isinstance(other, str):
        texts = code_units(value), code_units(other)
        return texts[0] < texts[1] or (or_equal and texts[0] == texts[1])
    numbers = to_number(value), to_number(other)
    return numbers[0] < numbers[1] or (or_equal and numbers[0] == numbers[1])


def contains(item: Any, values: Any) -> bool:
    """``item in values``."""
    if isinstance(values, str):
        return to_text(item) in values
    if isinstance(values, list | tuple):
        return any(is_equal(item, each) for each in values)
    if isinstance(values, Object):
        return to_text(item) in values
    raise TemplateError(f"The operator in needs a text, a list or an object, not {printed(values)!r}.")


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": is_alike,
    "ne": lambda value, other: not is_alike(value, other),
    "eq=": is_equal,
    "ne=": lambda value, other: not is_equal(value, other),
    "lt": is_less,
    "lteq": functools.partial(is_less, or_equal=True),
    "gt": lambda value, other: is_less(other, value),
    "gteq": lambda value, other: is_less(other, value, or_equal=True),
    "in": contains,
}

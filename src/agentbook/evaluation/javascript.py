"""Values as JavaScript reads and writes them, as promptfoo's files expect."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

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
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(float(value))
    if isinstance(value, list | tuple):
        return ",".join("" if item is None else to_text(item) for item in value)
    return "[object Object]" if isinstance(value, Mapping) else str(value)


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


def to_number(value: Any) -> float | None:
    """`Number(value)`; None for NaN.

    Examples
    --------
    >>> [to_number(value) for value in ("0.9", " 1e1 ", "85%", "", None, True, {})]
    [0.9, 10.0, None, 0.0, 0.0, 1.0, None]
    """
    if value is None or isinstance(value, bool | int | float):
        number = float(value or 0)
        return None if math.isnan(number) else number
    text = strip(to_text(value))
    if re.fullmatch(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", text):
        return float(int(text, 0))
    return 0.0 if not text else float(text) if _NUMBER.fullmatch(text) else None


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


def equal(value: Any, other: Any) -> bool:
    """`util.isDeepStrictEqual`: true is not 1, and 1 is 1.0.

    Examples
    --------
    >>> equal({"a": [1]}, {"a": [1.0]}), equal(True, 1)
    (True, False)
    """
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(equal(item, other[name]) for name, item in value.items())
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(equal, value, other))
    return type(value) is type(other) and value == other if isinstance(value, str) else bool(value == other)

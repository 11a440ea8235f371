"""The tokens of turns, from the usage that events carry.

The specification has no such field. Platforms send an object ``usage`` next to the
content of an event or inside it, with the names that one model provider or another
uses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from ..parse.json_arrays import TEXT
from ..parse.schemas import STR
from .event_columns import EventColumns, Flags, Integers
from .text_codes import texts_at, to_arrow
from .text_search import rows_with

# Column -> the names that platforms send it under, the best first.
COUNTS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "tokens": ("total_tokens", "tokens"),
}
_MAX_TOKENS = 1 << 50  # more in one event is an error, and would not add up exactly

_MAX_SUM = 1 << 62
_WORD = '"usage"'


class _Event(msgspec.Struct, gc=False):
    usage: dict[str, Any] | None = None
    model: Any = None


_decode = msgspec.json.Decoder(_Event).decode


def turn_tokens(columns: EventColumns, turn: Integers, closes: Flags, count: int) -> dict[str, Any]:
    """The columns ``model``, ``input_tokens``, ``output_tokens`` and ``tokens``.

    Sums over the events of a turn that have usage; null where none does, or where one
    of them lacks the number. The model is that of the last event that names one.
    Unknown fields of all events are read, and the contents of those that close a turn.
    """
    sums = {name: np.zeros(count) for name in COUNTS}
    known = {name: np.zeros(count, np.bool_) for name in COUNTS}
    lacking = {name: np.zeros(count, np.bool_) for name in COUNTS}
    model: dict[int, str] = {}
    for row, event in _events_with_usage(columns, closes):
        position = turn[row]
        usage = event.usage or {}
        numbers = numbers_of(usage)
        if not (numbers or is_estimate(usage)):
            continue
        for name in COUNTS:
            sums[name][position] += numbers.get(name, 0)
            (known if name in numbers else lacking)[name][position] = True
        named = usage.get("model") or event.model
        if isinstance(named, str):
            model[position] = named
    table: dict[str, Any] = {"model": _texts(model, count)}
    for name in COUNTS:
        table[name] = pd.arrays.IntegerArray(
            np.minimum(sums[name], _MAX_SUM).astype(np.int64), ~known[name] | lacking[name]
        )
    return table


def _texts(values: Mapping[int, str], count: int) -> pd.Series:
    """A column with texts at some places; null elsewhere."""
    if not values:
        return pd.Series(pd.array(pa.nulls(count, TEXT), STR))
    return pd.Series([values.get(position) for position in range(count)], dtype="str")


def _events_with_usage(columns: EventColumns, closes: Flags) -> list[tuple[int, _Event]]:
    events, texts = columns.events, []
    for name, among in (("extra", None), ("content", closes)):
        if name not in events:
            continue
        column = to_arrow(events[name])
        if column.null_count == len(column):
            continue
        rows = np.arange(len(column)) if among is None else np.flatnonzero(among)
        column = column if among is None else texts_at(column, rows)
        named = np.flatnonzero(rows_with(column, (_WORD,)))
        texts += list(zip(rows[named].tolist(), texts_at(column, named).to_pylist(), strict=True))
    decoded = []
    for row, text in sorted(texts, key=lambda pair: pair[0]):
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeError):
            decoded.append((row, _decode(text)))
    return decoded


def numbers_of(usage: Mapping[str, Any]) -> dict[str, int]:
    """The token counts in one ``usage`` object, by the names of `COUNTS`.

    An estimate is no count.

    Examples
    --------
    >>> numbers_of({"prompt_tokens": 7, "completion_tokens": 2})
    {'input_tokens': 7, 'output_tokens': 2, 'tokens': 9}
    """
    if is_estimate(usage):
        return {}
    numbers = {}
    for name, keys in COUNTS.items():
        values = (usage.get(key) for key in keys)
        number = next((value for value in values if _is_count(value)), None)
        if number is not None:
            numbers[name] = number
    if "tokens" not in numbers and len(numbers) == 2:
        numbers["tokens"] = numbers["input_tokens"] + numbers["output_tokens"]
    return numbers


def is_estimate(usage: Mapping[str, Any]) -> bool:
    """Whether the model's endpoint did not count, and the platform guessed."""
    return usage.get("estimated") is True


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS

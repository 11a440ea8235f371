"""From a page's lists of values to Arrow columns: a record batch with the schema's columns.

Here instants become timestamps, ids give up their millisecond, opaque values are read as far as their shape allows, and
secrets are masked before anything can see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .content import dump, join, text_of
from .ids import milliseconds, parse_ids
from .json_columns import Path, Problem, Values, keep
from .masking import NO_HOST, fingerprint, host_of, mask, mask_but_names
from .schemas import Column, Schema

TEXT = pa.large_string()  # what pandas keeps its strings in: no copy on the way there
CATEGORY = pa.dictionary(pa.int32(), pa.string())
INSTANT = pa.timestamp("us", tz="UTC")
ARROW_TYPES: dict[str, Any] = {
    "category": CATEGORY,
    "datetime64[us, UTC]": INSTANT,
    "Int64": pa.int64(),
    "boolean": pa.bool_(),
    "str": TEXT,
}
_NAMES = ("name", "full_name", "slug", "title", "label", "key", "id", "type", "kind")
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999
_decode = msgspec.json.decode


def arrow_schema(schema: Schema) -> Any:
    """The `pyarrow.Schema` of a resource."""
    return pa.schema([(column.name, ARROW_TYPES[column.dtype]) for column in schema.columns])


class BatchMaker:
    """Makes the record batches of one resource. With `reveal`, secrets are left as they came."""

    def __init__(self, schema: Schema, *, reveal: bool = False) -> None:
        self._schema = schema
        self._reveal = reveal
        self._arrow = arrow_schema(schema)
        # What a credential calls a key may be one.
        self._names = [name for name in _NAMES if name != "key" or not schema.secret]
        self._instants_before: tuple[list[str | None], Any] | None = None  # of a column without any trouble
        self._paths: list[tuple[Column, Path]] = [
            (column, tuple(column.wire.split("."))) for column in schema.columns if column.wire is not None
        ]

    def make(self, values: Values, context: Mapping[str, Any]) -> Any:
        """One record batch; problems met on the way are added to ``values.problems``."""
        arrays: dict[str, Any] = {}
        for column, path in self._paths:
            if path[0] == "content":
                arrays[column.name] = pa.array(values.fields[path], TEXT)
            else:
                arrays[column.name] = self._column(column, path, values)
        if "at" in self._arrow.names:
            arrays["at"] = _instants_of_ids(arrays["id"])
        if "params_fingerprint" in self._arrow.names:
            arrays["params_fingerprint"] = _fingerprints(values.fields[("params",)])
        for name, value in context.items():
            if name in arrays and value is not None:
                arrays[name] = _fill(arrays[name], value)
        arrays["extra"] = self._extra(values)
        return pa.record_batch([arrays[name] for name in self._arrow.names], schema=self._arrow)

    def _column(self, column: Column, path: Path, values: Values) -> Any:
        found = values.fields[path]
        if column.kind in ("masked", "json"):
            return pa.array([self._json(column.kind, raw) for raw in found], TEXT)
        if column.kind in ("label", "host") or not column.given:
            found = [self._opaque(column, path, row, raw, values) if raw else None for row, raw in enumerate(found)]
        if column.kind == "time":
            return self._instants(column, path, found, values)
        if column.kind == "enum":
            return pa.array(found, pa.string()).dictionary_encode()
        return pa.array(found, ARROW_TYPES[column.dtype])

    def _instants(self, column: Column, path: Path, texts: list[str | None], values: Values) -> Any:
        # Most things never change: then updated_at is created_at.
        if self._instants_before is not None and self._instants_before[0] == texts:
            return self._instants_before[1]
        array = _plain_instants(texts)
        if array is None:
            return pa.array([_instant(column, path, row, text, values) for row, text in enumerate(texts)], INSTANT)
        self._instants_before = texts, array
        return array

    def _json(self, kind: str, raw: Any) -> str | None:
        text = text_of(raw)
        if text in ("", "null"):
            return None
        if not self._schema.secret or self._reveal:
            return text
        value = _decode(raw)
        if kind == "masked":
            return dump(mask(value))
        # What a policy names, it names in a list of strings.
        return dump(
            [one if isinstance(one, str) else mask_but_names(one) for one in value]
            if isinstance(value, list)
            else mask_but_names(value)
        )

    def _opaque(self, column: Column, path: Path, row: int, raw: Any, values: Values) -> Any:
        """A value whose type the specification does not give, if it has the expected shape; else it goes to extra."""
        value = _decode(raw)
        if value is None:
            return None
        if column.kind == "host":
            if isinstance(value, str):
                return value if self._reveal else host_of(value) or NO_HOST
        elif column.kind == "label" and isinstance(value, Mapping):
            label = next((value[name] for name in self._names if isinstance(value.get(name), str)), None)
            if label is None or len(value) > 1:
                keep(values.extras, row, path, bytes(raw))
            return label
        elif isinstance(value, _PYTHON_TYPES.get(column.kind, str)) and isinstance(value, bool) == (
            column.kind == "bool"
        ):
            return value
        keep(values.extras, row, path, bytes(raw))
        return None

    def _extra(self, values: Values) -> Any:
        if not values.extras:
            return pa.nulls(values.count, TEXT)
        texts: list[str | None] = [None] * values.count
        hide = self._schema.secret and not self._reveal
        plain = {*self._schema.opaque, *(column.wire for column in self._schema.columns if column.kind == "label")}
        for row, kept in values.extras.items():
            texts[row] = join(_hidden(kept, plain) if hide else kept)
        return pa.array(texts, TEXT)


_PYTHON_TYPES: dict[str, type] = {"bool": bool, "int": int}


def _hidden(kept: Mapping[str, Any], plain: set[Any]) -> dict[str, bytes]:
    """Extra values of a secret resource: documented opaque fields keep their names, all others only their shape."""
    return {
        key: msgspec.json.encode((mask_but_names if key in plain else mask)(_decode(_raw(value))))
        for key, value in kept.items()
    }


def _raw(value: Any) -> bytes:
    return join(value).encode() if isinstance(value, Mapping) else bytes(value)


def _plain_instants(texts: list[str | None]) -> Any:
    """All of them at once; None where one needs to be looked at by itself."""
    try:
        instants = pc.cast(pa.array(texts, pa.string()), INSTANT)
    except pa.ArrowInvalid:
        return None
    # A zone may lead out of the calendar, to years that Python's and pandas' own texts do not know.
    limits = pc.min_max(instants.view(pa.int64())).as_py()
    return instants if limits["min"] is None or (limits["min"] >= _FIRST_US and limits["max"] <= _LAST_US) else None


def _instant(column: Column, path: Path, row: int, text: str | None, values: Values) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            values.problems.append(Problem(row, column.name, "no time zone: read as UTC", dump(text)))
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        keep(values.extras, row, path, dump(text).encode())
        if column.given:
            values.problems.append(Problem(row, column.name, "not an instant of ISO 8601", dump(text)))
        return None


def _instants_of_ids(ids: Any) -> Any:
    high, _, valid = parse_ids(ids)
    return pa.array(milliseconds(high) * 1000, INSTANT, mask=~valid)


def _fingerprints(raws: list[Any]) -> Any:
    values = [_decode(raw) if raw else None for raw in raws]
    return pa.array([fingerprint(value) if value else None for value in values], TEXT)


def _fill(array: Any, value: Any) -> Any:
    """The array with its nulls filled: what the request says holds where the item does not say it."""
    if isinstance(array, pa.DictionaryArray):
        return pc.fill_null(array.cast(pa.string()), str(value)).dictionary_encode()
    if array.null_count == len(array):
        return pa.repeat(pa.scalar(value, array.type), len(array))
    return pc.fill_null(array, pa.scalar(value, array.type))


def constant(value: Any, count: int) -> Any:
    """A column of one value: text, or a boolean or integer as it is."""
    if value is None or isinstance(value, bool):
        return pa.repeat(pa.scalar(value, pa.bool_() if value is not None else TEXT), count)
    if isinstance(value, int | np.integer):
        return pa.repeat(pa.scalar(int(value), pa.int64()), count)
    return pa.repeat(pa.scalar(str(value), TEXT), count)

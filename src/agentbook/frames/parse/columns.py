"""Turns the lists of values of a page into an Arrow record batch.

Times become timestamps, and ids yield the time they carry. Values of undocumented types
are read if they have the expected shape. Secrets are masked here, before a frame can
show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...api.redaction import is_secret_name
from .content import encode_object, raw_text, to_json
from .ids import instants_of_ids
from .json_arrays import INSTANT, TEXT, object_array, objects, text_array
from .json_columns import Values, add_extra, decode_together
from .lists import TEXTS
from .masking import NO_HOST, fingerprint, host_of, mask, mask_except_names, mask_raw
from .page_types import UNDOCUMENTED_TYPES, Path
from .problems import Problem
from .schemas import DTYPES, Column, Schema

CATEGORY = pa.dictionary(pa.int32(), pa.string())
ARROW_TYPES: dict[str, Any] = {
    "category": CATEGORY,
    "datetime64[us, UTC]": INSTANT,
    "Int64": pa.int64(),
    "boolean": pa.bool_(),
    "str": TEXT,
    DTYPES["list"]: TEXTS,
}
_PYTHON_TYPES: dict[str, type] = {"bool": bool, "int": int}
_LABEL_KEYS = ("name", "full_name", "slug", "title", "label", "key", "id", "type", "kind")
# The years 1 to 9999.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_decode = msgspec.json.decode


def arrow_schema(schema: Schema) -> Any:
    """The `pyarrow.Schema` of a resource."""
    return pa.schema([(column.name, ARROW_TYPES[column.dtype]) for column in schema.columns])


class BatchMaker:
    """Makes record batches of one resource. With `reveal`, secrets are not masked."""

    def __init__(self, schema: Schema, *, reveal: bool = False) -> None:
        self._schema = schema
        self._reveal = reveal
        self._arrow = arrow_schema(schema)
        self._names = self._arrow.names
        # A field called "key" in a credential may hold a secret.
        self._label_keys = [key for key in _LABEL_KEYS if key != "key" or not schema.secret]
        self._constants: dict[str, Any] = {}  # columns with one value, as long as the last page
        # The last column of times that was parsed as a whole: its texts and timestamps.
        self._last_times: tuple[list[str | None], Any] | None = None
        self._paths: list[tuple[Column, Path]] = [
            (column, tuple(column.wire.split("."))) for column in schema.columns if column.wire is not None
        ]

    def make(self, values: Values, context: Mapping[str, Any]) -> Any:
        """One record batch. Problems are appended to ``values.problems``."""
        arrays: dict[str, Any] = {}
        for column, path in self._paths:
            if path[0] == "content":
                texts = values.fields[path]
                arrays[column.name] = texts if isinstance(texts, pa.Array) else pa.array(texts, TEXT)
            elif path == ("id",) and "at" in self._names:
                arrays["id"], arrays["at"] = instants_of_ids(values.fields[path])
            elif not any(values.fields[path]) and values.fields[path].count(None) == values.count:
                arrays[column.name] = self._constant(column.name, context.get(column.name), values.count)
            else:
                arrays[column.name] = self._column(column, path, values.fields[path], values)
        if "params_fingerprint" in self._names:
            arrays["params_fingerprint"] = _fingerprints(values.fields[("params",)])
        for name, value in context.items():
            if name in arrays and value is not None and arrays[name].null_count:
                arrays[name] = _fill_null(arrays[name], value)
        arrays["extra"] = self._extra(values)
        return pa.record_batch([arrays[name] for name in self._names], schema=self._arrow)

    def _constant(self, name: str, value: Any, count: int) -> Any:
        """A column of one value, or of nulls; pages tend to have the same length."""
        last = self._constants.get(name)
        if last is None or last[0] != value or len(last[1]) != count:
            type_ = self._arrow.field(name).type
            array = pa.nulls(count, type_)
            last = self._constants[name] = value, array if value is None else _fill_null(array, value)
        return last[1]

    def _column(self, column: Column, path: Path, items: list[Any], values: Values) -> Any:
        if column.kind in ("masked", "json"):
            return pa.array([self._json(column.kind, raw) for raw in items], TEXT)
        if column.kind in ("label", "host") or not (column.documented or path in values.shaped):
            type_ = UNDOCUMENTED_TYPES.get(column.kind)
            shaped = None if type_ is None else decode_together(items, type_)
            if shaped is None:
                shaped = [
                    self._opaque(column, path, row, raw, values) if raw else None for row, raw in enumerate(items)
                ]
            items = shaped
        if column.kind == "time":
            return self._times(column, path, items, values)
        if column.kind == "text" and not self._reveal and is_secret_name(path[-1]):
            items = [mask(text) for text in items]
        if column.kind == "enum":
            return pa.array(items, pa.string()).dictionary_encode()
        if column.kind == "id":
            return text_array(items)
        return pa.array(items, ARROW_TYPES[column.dtype])

    def _times(self, column: Column, path: Path, texts: list[str | None], values: Values) -> Any:
        # Most items never change, so updated_at often equals created_at.
        if self._last_times is not None and self._last_times[0] == texts:
            return self._last_times[1]
        array = _parse_times(texts)
        if array is None:
            return pa.array([_parse_time(column, path, row, text, values) for row, text in enumerate(texts)], INSTANT)
        self._last_times = texts, array
        return array

    def _json(self, kind: str, raw: Any) -> str | None:
        text = raw_text(raw)
        if text in ("", "null"):
            return None
        if not self._schema.secret or self._reveal:
            return text
        value = _decode(raw)
        return to_json(mask(value) if kind == "masked" else mask_except_names(value))

    def _list_item(self, item: Any) -> str | None:
        """An item of a list. Texts are names and stay, even in secret resources."""
        if item is None or isinstance(item, str):
            return item
        return to_json(mask_except_names(item) if self._schema.secret and not self._reveal else item)

    def _opaque(self, column: Column, path: Path, row: int, raw: Any, values: Values) -> Any:
        """A value of undocumented type, if it has the expected shape.

        A value of another shape goes to ``extra``.
        """
        value = _decode(raw)
        if value is None:
            return None
        if column.kind == "host":
            if isinstance(value, str):
                return value if self._reveal else host_of(value) or NO_HOST
        elif column.kind == "list":
            if isinstance(value, list):
                return [self._list_item(item) for item in value]
        elif column.kind == "label" and isinstance(value, Mapping):
            label = next((value[key] for key in self._label_keys if isinstance(value.get(key), str)), None)
            if label is None or len(value) > 1:
                add_extra(values.extras, row, path, bytes(raw))
            return label
        elif isinstance(value, _PYTHON_TYPES.get(column.kind, str)) and isinstance(value, bool) == (
            column.kind == "bool"
        ):
            return value
        add_extra(values.extras, row, path, bytes(raw))
        return None

    def _extra(self, values: Values) -> Any:
        hide = self._schema.secret and not self._reveal
        if not self._reveal and not hide:
            _mask_named_secrets(values)
        if not hide and not values.extras and (columns := _by_member(values.unknown)) is not None:
            return object_array(columns) if columns else self._constant("extra", None, values.count)
        for path, raws in values.unknown.items():
            for row, raw in enumerate(raws):
                if raw:
                    add_extra(values.extras, row, path, bytes(raw))
        texts: list[str | None] = [None] * values.count
        documented = {*self._schema.opaque, *(column.wire for column in self._schema.columns if column.kind == "label")}
        for row, fields in values.extras.items():
            texts[row] = encode_object(_mask_extra(fields, documented) if hide else fields)
        return pa.array(texts, TEXT)


def _by_member(unknown: Mapping[Path, Sequence[Any]]) -> dict[str, Sequence[Any]] | None:
    """The raw values of unknown fields, by the encoded name of their top-level field.

    None if a field has both a value of its own and members.
    """
    columns: dict[str, Sequence[Any]] = {to_json(path[0]): raws for path, raws in unknown.items() if len(path) == 1}
    parents: dict[str, dict[str, Sequence[Any]]] = {}
    for path, raws in unknown.items():
        if len(path) == 2:
            parents.setdefault(to_json(path[0]), {})[to_json(path[1])] = raws
    if not columns.keys().isdisjoint(parents):
        return None
    in_order = dict.fromkeys(to_json(path[0]) for path in unknown)
    return {name: columns[name] if name in columns else objects(parents[name]) for name in in_order}


def _mask_named_secrets(values: Values) -> None:
    """Mask unknown values whose names suggest a secret, whatever the resource."""
    for path, raws in values.unknown.items():
        values.unknown[path] = mask_raw(path[-1], raws)
    for fields in values.extras.values():
        for name, value in fields.items():
            if isinstance(value, Mapping):
                fields[name] = {key: mask_raw(key, [raw])[0] for key, raw in value.items()}
            else:
                fields[name] = mask_raw(name, [value])[0]


def _mask_extra(fields: Mapping[str, Any], documented: set[Any]) -> dict[str, bytes]:
    """Mask extra values. Names stay in documented fields, only shapes in the others."""
    return {
        key: msgspec.json.encode((mask_except_names if key in documented else mask)(_decode(_raw(value))))
        for key, value in fields.items()
    }


def _raw(value: Any) -> bytes:
    return encode_object(value).encode() if isinstance(value, Mapping) else bytes(value)


def _parse_times(texts: list[str | None]) -> Any:
    """All times of a column at once; None if one of them needs `_parse_time`."""
    try:
        times = pc.cast(text_array(texts), INSTANT)
    except pa.ArrowInvalid:
        return None
    # A UTC offset can shift a time past the years that Python and pandas represent. A
    # row without a time holds a zero.
    microseconds = np.frombuffer(times.buffers()[1] or b"", np.int64, len(times))
    in_range = not len(times) or (microseconds.min() >= _FIRST_US and microseconds.max() <= _LAST_US)
    return times if in_range else None


def _parse_time(column: Column, path: Path, row: int, text: str | None, values: Values) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            values.problems.append(Problem(row, column.name, "no time zone: read as UTC", to_json(text)))
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        add_extra(values.extras, row, path, to_json(text).encode())
        if column.documented:
            values.problems.append(Problem(row, column.name, "not an instant of ISO 8601", to_json(text)))
        return None


def _fingerprints(raws: list[Any]) -> Any:
    values = [_decode(raw) if raw else None for raw in raws]
    return pa.array([fingerprint(value) if value else None for value in values], TEXT)


def _fill_null(array: Any, value: Any) -> Any:
    """The array, with its nulls replaced by a value known from the request."""
    if isinstance(array, pa.DictionaryArray):
        return pc.fill_null(array.cast(pa.string()), str(value)).dictionary_encode()
    if array.null_count == len(array):
        return pa.repeat(pa.scalar(value, array.type), len(array))
    return pc.fill_null(array, pa.scalar(value, array.type))


def constant(value: Any, count: int) -> Any:
    """A column of one value: a boolean or integer as such, anything else as text."""
    if value is None or isinstance(value, bool):
        return pa.repeat(pa.scalar(value, pa.bool_() if value is not None else TEXT), count)
    if isinstance(value, int | np.integer):
        return pa.repeat(pa.scalar(int(value), pa.int64()), count)
    return pa.repeat(pa.scalar(str(value), TEXT), count)

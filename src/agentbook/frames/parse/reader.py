"""From the bytes of one page to an Arrow record batch and the problems in it.

msgspec decodes a page whose items have the fields and types of the schema into structs.
Any other page becomes one dict of raw JSON per item: each column is taken out and
decoded as a whole or, if a value has the wrong type, value by value. Nothing is
dropped: what is left of an item is its ``extra``. Secrets are masked here, before a
frame can show them.
"""

from __future__ import annotations

import binascii
import functools
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..._masking import (
    NO_HOST,
    host_of,
    is_secret_name,
    mask,
    mask_except_names,
    mask_secrets,
    masked,
    may_name_secrets,
)
from ...api.record import AROUND, TOO_DEEP, UNREADABLE, read_value, repaired
from ...events.turns import read_text
from .problems import Problem
from .schemas import ARROW_TYPES, INSTANT, TEXT, Column, Schema, arrow_schema

Raw = msgspec.Raw
Path = tuple[str, ...]

_NULL = Raw(b"null")
_TYPES: dict[str, Any] = {"bool": bool | None, "list": list[str | None] | None}
_RAW_KINDS = ("json", "masked", "label", "host")  # a value of any shape
_LABEL_KEYS = ("name", "full_name", "slug", "title", "label", "key", "id", "type", "kind")
_encode = msgspec.json.Encoder(order="sorted").encode
_decode_text = msgspec.json.Decoder(str | None).decode
_encode_in_order = msgspec.json.Encoder(order="deterministic").encode
_PROCESS_KEY = secrets.token_bytes(32)
# The years 2 to 9998: Python represents them on the clock of every zone.
_FIRST_US, _LAST_US = -62_104_060_800_000_000, 253_370_764_799_999_999
_UUID = "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page: a record batch of its rows (None if it has none), and problems."""

    rows: int
    batch: Any
    problems: list[Problem]
    context: Mapping[str, Any]
    readable: bool = True


class _Content(msgspec.Struct, gc=False):
    """The text of a content, and nothing else."""

    text: Raw = Raw(b"")


class _OnlyText(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A content with a text, or nothing at all."""

    text: str | None = None


@dataclass(slots=True)
class _Values:
    """The values of one page by path, and what fits no column.

    `fields` has Python values or, for columns of any shape, raw JSON; `extras` has the
    JSON of the other values of a row, by name.
    """

    count: int
    problems: list[Problem] = field(default_factory=list)
    fields: dict[Path, list[Any]] = field(default_factory=dict)
    extras: dict[int, dict[str, Any]] = field(default_factory=dict)

    def keep(self, row: int, path: Path, raw: Any) -> None:
        """Put a value into ``extra``, nested as sent."""
        members = self.extras.setdefault(row, {})
        for name in path[:-1]:
            members = members.setdefault(name, {})
        members[path[-1]] = raw


class PageReader:
    """Reads the pages of one resource; several threads may share it.

    With `reveal`, secrets are not masked.
    """

    def __init__(self, schema: Schema, *, reveal: bool = False) -> None:
        self._schema = schema
        self._reveal = reveal
        self._hide = schema.secret and not reveal
        self._arrow = arrow_schema(schema)
        # A field called "key" in a credential may hold a secret.
        self._label_keys = [key for key in _LABEL_KEYS if key != "key" or not schema.secret]
        self._columns = {tuple(column.wire.split(".")): column for column in schema.columns if column.wire}
        self._has_text = self._columns.pop(("content", "text"), None) is not None
        self._parents = dict.fromkeys(path[0] for path in self._columns if len(path) == 2)
        self._named = {*schema.opaque, *(column.wire for column in schema.columns if column.kind == "label")}
        self._structs = _struct_decoder(schema)

    def read(self, page: bytes, context: Mapping[str, Any]) -> ParsedPage:
        """Parse a page; its contents never raise an error. `context` fills nulls."""
        lenient: list[Problem] = []
        try:
            values = self._values(page)
        except UNREADABLE as error:
            reason = f"({error})"
            try:
                page = repaired(page, AROUND)
                values = self._values(page)
            except UNREADABLE:
                problem = Problem(None, "", f"the page is not JSON with a list of items {reason}", _text(page[:200]))
                return ParsedPage(0, None, [problem], context, readable=False)
            lenient = [Problem(None, "", f"the page is not strict JSON and was read with care {reason}", None)]
            lenient += _deep_values(page)
        batch = self._batch(values, context) if values.count else None
        problems = sorted(lenient + values.problems, key=lambda problem: problem.row or 0)
        return ParsedPage(values.count, batch, problems, context)

    def _values(self, page: bytes) -> _Values:
        if not page.isascii():
            page.decode()  # msgspec does not check the text in raw JSON
        try:
            items = self._structs.decode(page).items
        except msgspec.ValidationError:
            return self._values_of_dicts(page)
        parents = {name: list(map(attrgetter(name), items)) for name in self._parents}
        values = _Values(len(items))
        for path in self._columns:
            get = attrgetter(path[-1])
            if len(path) == 1:
                values.fields[path] = list(map(get, items))
            else:
                values.fields[path] = [parent and get(parent) for parent in parents[path[0]]]
        return values

    def _values_of_dicts(self, page: bytes) -> _Values:
        """The values of a page with unknown fields, or with values of another type."""
        try:
            items = msgspec.json.decode(page, type=_page_of(dict[str, Raw])).items
            values = _Values(len(items))
        except msgspec.ValidationError:
            raws = msgspec.json.decode(page, type=_page_of(Raw)).items
            values = _Values(len(raws))
            items = _decode(values, ("$item",), raws, dict[str, Raw], "the item is not an object")
        for row, item in enumerate(items):
            if item is not None:
                values.extras[row] = item
                if "id" not in item:
                    values.problems.append(Problem(row, "id", "the item has no id", None))
        parents = {}
        for name in self._parents:
            documented = any(column.documented for path, column in self._columns.items() if path[0] == name)
            problem = "not an object" if documented else None
            parents[name] = _decode(values, (name,), _taken(items, name), dict[str, Raw] | None, problem)
        for path, column in self._columns.items():
            raws = _taken(items if len(path) == 1 else parents[path[0]], path[-1])
            values.fields[path] = raws if column.kind in _RAW_KINDS else self._typed(values, path, column, raws)
        for name, children in parents.items():
            for row, child in enumerate(children):
                if child:
                    values.extras[row][name] = {**child, **values.extras[row].get(name, {})}
        return values

    def _typed(self, values: _Values, path: Path, column: Column, raws: Sequence[Any]) -> list[Any]:
        """Raw values as those of a column; one that does not fit is kept, and null."""
        if column.documented:
            return _decode(values, path, raws, _type_of(column))
        together = None if column.kind == "host" else _decode_together(raws, _TYPES.get(column.kind, str | None))
        return (
            [self._opaque(values, path, column, row, raw) for row, raw in enumerate(raws)]
            if together is None
            else together
        )

    def _opaque(self, values: _Values, path: Path, column: Column, row: int, raw: Any) -> Any:
        """A value of undocumented type, as far as its column can show it."""
        value = read_value(raw)
        if value is None:
            return None
        if column.kind == "list" and isinstance(value, list):
            return [item if item is None or isinstance(item, str) else self._list_item(item) for item in value]
        if column.kind == "host" and isinstance(value, str):
            return value if self._reveal else host_of(value) or NO_HOST
        if column.kind == "label" and isinstance(value, dict):
            label = next((value[key] for key in self._label_keys if isinstance(value.get(key), str)), None)
            if label is None or len(value) > 1:
                values.keep(row, path, raw)
            return label
        if isinstance(value, bool if column.kind == "bool" else str) and column.kind not in ("host", "list"):
            return value
        values.keep(row, path, raw)
        return None

    def _list_item(self, item: Any) -> str:
        return _json(masked(mask_except_names, item) if self._hide else item)

    def _batch(self, values: _Values, context: Mapping[str, Any]) -> Any:
        """The record batch of some values, with columns of the context beside it."""
        arrays: dict[str, Any] = {}
        for path, column in self._columns.items():
            if path == ("content",) and self._has_text:
                arrays["text"], arrays["content"] = _split_contents(values, values.fields[path])
            else:
                arrays[column.name] = self._array(values, path, column, values.fields[path])
        names = self._arrow.names
        if "at" in names:
            arrays["at"] = instants_of_ids(arrays["id"])
        if "params_fingerprint" in names:
            params = [read_value(raw) for raw in values.fields[("params",)]]
            arrays["params_fingerprint"] = pa.array([_fingerprint(value) if value else None for value in params], TEXT)
        arrays["extra"] = self._extra(values)
        for name, value in context.items():
            if name in arrays and value is not None and arrays[name].null_count:
                arrays[name] = _fill_null(arrays[name], value)
        batch = pa.record_batch([arrays[name] for name in names], schema=self._arrow)
        for name, value in context.items():
            if name not in names:
                batch = batch.append_column(name, constant(value, values.count))
        return batch

    def _array(self, values: _Values, path: Path, column: Column, cells: list[Any]) -> Any:
        if column.kind in ("json", "masked"):
            return pa.array([self._raw_text(column, raw) for raw in cells], TEXT)
        if column.kind in ("label", "host"):
            cells = self._typed(values, path, column, cells)
        if column.kind == "time":
            return _times(values, path, column, cells)
        if column.kind == "enum":
            return pa.array(cells, pa.string()).dictionary_encode()
        if column.kind == "text" and not self._reveal and is_secret_name(path[-1]):
            cells = [mask(text) for text in cells]
        return pa.array(cells, ARROW_TYPES[column.dtype])

    def _raw_text(self, column: Column, raw: Any) -> str | None:
        text = _text(raw)
        if text == "null" or not self._hide:
            return None if text == "null" else text
        return _json(masked(mask if column.kind == "masked" else mask_except_names, read_value(raw)))

    def _extra(self, values: _Values) -> Any:
        """What no column holds, as one JSON object for each row that has any."""
        if not values.extras:
            return pa.nulls(values.count, TEXT)
        extras = {row: _encode(fields) for row, fields in values.extras.items() if fields}
        may = not self._reveal and may_name_secrets(b"\n".join(extras.values()))  # most pages name none
        for row, text in extras.items() if self._hide or may else ():
            if self._hide or may_name_secrets(text):
                shown = {name: self._masked_extra(name, raw) for name, raw in values.extras[row].items()}
                extras[row] = _encode(shown)
        return pa.array([extras.get(row) for row in range(values.count)], TEXT)

    def _masked_extra(self, name: str, raw: Any) -> Any:
        value = read_value(_encode(raw))
        if self._hide:  # names stay in documented fields, only shapes in the others
            shown = masked(mask_except_names if name in self._named else mask, value)
        else:
            shown = masked(lambda value: mask_secrets({name: value})[name], value)
        hides = shown != value or (
            msgspec.json.encode(value) != (text := _encode(raw)) and _hides_a_secret(text, any_value=self._hide)
        )
        return Raw(msgspec.json.encode(shown)) if hides else raw


def _fingerprint(value: Any) -> str:
    """Sixteen hex digits, equal for equal JSON values within this process.

    The HMAC key is random and never leaves the process, so guesses cannot be tested
    against a fingerprint in a saved notebook.
    """
    return hmac.digest(_PROCESS_KEY, _encode_in_order(value), "sha256").hex()[:16]


def _hides_a_secret(text: bytes, *, any_value: bool) -> bool:
    """Whether a repeated key hides a secret, or any value, behind its last value."""
    found: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last = dict(pairs)
        if len(last) < len(pairs):
            found.append(any_value or any(mask_secrets({name: value}) != {name: value} for name, value in pairs))
        return last

    json.loads(text, object_pairs_hook=members, parse_int=float)
    return any(found)


def _type_of(column: Column) -> Any:
    return Raw if column.kind in _RAW_KINDS else _TYPES.get(column.kind, str | None)


@functools.cache
def _struct_decoder(schema: Schema) -> Any:
    """Decodes pages whose items have no unknown field. A missing id is a problem."""
    fields: dict[str, Any] = {}
    parents: dict[str, dict[str, Any]] = {}
    for column in schema.columns:
        parent, _, child = (column.wire or "").rpartition(".")
        if parent and parent != "content":
            parents.setdefault(parent, {})[child] = _type_of(column)
        elif not parent and child not in ("", "id"):
            fields[child] = _type_of(column)
    fields |= {name: _struct(children) | None for name, children in parents.items()}
    return msgspec.json.Decoder(_page_of(_struct(fields, ("id", str))))


def _struct(fields: Mapping[str, Any], *required: tuple[str, Any]) -> Any:
    # gc=False: the items of a page contain no cycles, and tracking a million of them
    # costs more than reading them.
    defaults = [(name, type_, _NULL if type_ is Raw else None) for name, type_ in fields.items()]
    return msgspec.defstruct("Item", [*required, *defaults], forbid_unknown_fields=True, gc=False)


@functools.cache
def _page_of(item: Any) -> Any:
    return msgspec.defstruct("Page", [("items", list[item])])


@functools.cache
def _list_decoder(type_: Any) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[type_])


def _decode_together(raws: Sequence[Any], type_: Any) -> list[Any] | None:
    """Raw values of one type, decoded in one call; None if one of them does not fit."""
    try:
        return _list_decoder(type_).decode(b"[" + b",".join(raws) + b"]")
    except UNREADABLE:
        return None


def _decode(values: _Values, path: Path, raws: Sequence[Any], type_: Any, problem: str | None = "") -> list[Any]:
    """Raw values of one type; one that does not fit is kept in ``extra``, and null.

    `problem` says what is wrong with it; by default what msgspec says, None is none.
    """
    if (together := _decode_together(raws, type_)) is not None:
        return together
    decoded: list[Any] = []
    for row, raw in enumerate(raws):
        try:
            decoded.append(msgspec.json.decode(raw, type=type_))
        except UNREADABLE as error:
            decoded.append(None)
            values.keep(row, path, raw)
            if problem is not None:
                values.problems.append(Problem(row, ".".join(path), problem or str(error), _text(raw)))
    return decoded


def _taken(items: Sequence[dict[str, Any] | None], name: str) -> list[Any]:
    """The raw values of a field, which is removed from the items."""
    return [item.pop(name, _NULL) if item else _NULL for item in items]


def _deep_values(page: bytes) -> list[Problem]:
    """A problem for each value of a repaired page that was nested too deeply."""
    items = _decode_together(msgspec.json.decode(page, type=_page_of(Raw)).items, dict[str, Raw]) or []
    return [
        Problem(row, name, TOO_DEEP, None)
        for row, item in enumerate(items)
        for name, raw in item.items()
        if TOO_DEEP.encode() in bytes(raw)
    ]


def _split_contents(values: _Values, raws: Sequence[Any]) -> tuple[Any, Any]:
    """The texts of contents, and the JSON of the rest of each.

    The rest is ``{}`` for an object with nothing but a text, and null if the content is
    not an object. A content without a text keeps its bytes, and a text in parts stays
    in the rest too.
    """
    only_texts = _decode_together(raws, _OnlyText | None)
    if only_texts is not None:
        texts = [content and content.text for content in only_texts]
        return pa.array(texts, TEXT), pa.array([content and "{}" for content in only_texts], TEXT)
    texts = [None] * len(raws)
    rests: list[bytes | None] = list(map(bytes, raws))
    for row, content in enumerate(_decode(values, ("content",), raws, _Content | str | list[Raw] | None)):
        if isinstance(content, list):
            values.keep(row, ("content",), raws[row])
            texts[row], rests[row] = _text_of_parts(values, row, "content", raws[row]), None
        elif not isinstance(content, _Content):
            texts[row], rests[row] = content, None
        elif content.text:
            members = msgspec.json.decode(raws[row], type=dict[str, Raw])
            if bytes(content.text).startswith((b'"', b"null")):
                texts[row] = _decode_text(members.pop("text"))
            else:
                texts[row] = _text_of_parts(values, row, "content.text", content.text)
            rests[row] = msgspec.json.encode(members)
    return pa.array(texts, TEXT), pa.array(rests, TEXT)


def _text_of_parts(values: _Values, row: int, name: str, raw: Any) -> str | None:
    """The text of a value that should be one; a problem if not all of it is text."""
    text, is_whole = read_text(read_value(raw))
    if not is_whole:
        problem = "not a text" if text is None else "not only text: the other parts were left out"
        values.problems.append(Problem(row, name, problem, _text(raw)))
    return text


def _times(values: _Values, path: Path, column: Column, texts: Sequence[str | None]) -> Any:
    try:
        times = pc.cast(pa.array(texts, TEXT), INSTANT)
        least, most = pc.min_max(times.view(pa.int64())).as_py().values()
        if least is None or (least >= _FIRST_US and most <= _LAST_US):
            return times
    except pa.ArrowInvalid:
        pass
    return pa.array([_time(values, path, column, row, text) for row, text in enumerate(texts)], INSTANT)


def _time(values: _Values, path: Path, column: Column, row: int, text: str | None) -> datetime | None:
    if text is None:
        return None
    raw = _json(text)
    try:
        moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows "t" and "z"
        if moment.tzinfo is None:
            values.problems.append(Problem(row, column.name, "no time zone: read as UTC", raw))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if 2 <= moment.year <= 9998:
            return moment
    except (ValueError, OverflowError):
        pass
    values.keep(row, path, Raw(raw.encode()))
    if column.documented:
        values.problems.append(Problem(row, column.name, "not an instant of ISO 8601 in the years 2 to 9998", raw))
    return None


def instants_of_ids(ids: Any) -> Any:
    """The times that the UUIDv7s among some ids carry; null for other ids.

    Parameters
    ----------
    ids : pyarrow.Array or ChunkedArray of string
        For what is a UUIDv7, see `agentbook.api.span.is_persisted`.

    Examples
    --------
    >>> ids = pa.array(["019a0b1c-0000-7000-8000-000000000001", "draft-1"])
    >>> instants_of_ids(ids).is_null().to_pylist()
    [False, True]
    """
    texts = pc.cast(ids, pa.large_string())
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    octets = _octets(array)
    if octets is None:
        is_uuid = pc.fill_null(pc.match_substring_regex(array, _UUID), False)
        octets = np.zeros((len(array), 16), np.uint8)
        octets[np.array(is_uuid)] = _octets(array.filter(is_uuid))
    valid = (octets[:, 6] >> 4 == 7) & (octets[:, 8] >> 6 == 2)
    milliseconds = (octets.view(">u8")[:, 0] >> np.uint64(16)).astype(np.int64)
    return pa.array(np.minimum(milliseconds, _LAST_US // 1000) * 1000, INSTANT, mask=~valid)


def _octets(texts: Any) -> Any:
    """The 16 bytes of each UUID; None if one of the texts is something else."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    if texts.null_count or (np.diff(offsets) != 36).any():
        return None
    data = memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]]
    grid = np.frombuffer(data, np.uint8).reshape(-1, 36)
    try:
        digits = binascii.unhexlify(bytes(data).translate(None, b"-"))
    except ValueError:
        return None
    if (grid[:, [8, 13, 18, 23]] != ord("-")).any():
        return None
    return np.frombuffer(digits, np.uint8).reshape(-1, 16)


def _fill_null(array: Any, value: Any) -> Any:
    """The array, with its nulls replaced by a value known from the request."""
    if isinstance(array, pa.DictionaryArray):
        return pc.fill_null(array.cast(pa.string()), str(value)).dictionary_encode()
    return pc.fill_null(array, pa.scalar(value, array.type))


def constant(value: Any, count: int) -> Any:
    """A column of one value: a boolean or integer as such, anything else as text."""
    if isinstance(value, int | np.integer):
        return pa.repeat(value if isinstance(value, bool) else int(value), count)
    return pa.repeat(pa.scalar(None if value is None else str(value), TEXT), count)


def _text(raw: Any) -> str:
    return bytes(raw).decode("utf-8", "replace")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""Opens what events say about tool runs: name, arguments, result, error, and more.

`step_fields` has the names of the fields. Contents are decoded in batches, and their
values stay JSON. Contents that are not JSON objects are ignored.
"""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.json_arrays import TEXT, json_array
from .event_columns import Flags, Integers
from .step_fields import CONTAINERS, FIELDS, OF_TOOLS

_TEXTS = ("name", "kind", "state", "call", "parent", "started_at", "ended_at")
_KEYS = tuple(dict.fromkeys((*CONTAINERS, *(name for names in FIELDS.values() for name in names))))
_BATCH = 8_192
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_NOTHING = msgspec.Raw()
_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeError)

Raws = list[bytes]


@dataclass(slots=True)
class OpenedSteps:
    """What contents say about tool runs, one entry per run that a content names.

    Attributes
    ----------
    source : ndarray of int64
        The number of the content that an entry is from, ascending.
    fields : dict
        A name of `FIELDS` to the JSON of each entry, ``b""`` where it has none.
    of_tool : ndarray of bool
        Whether the entry is about a tool run.
    """

    source: Integers
    fields: dict[str, Raws]
    of_tool: Flags

    def json(self, field: str) -> Any:
        """A field as a column of JSON texts."""
        raws = self.fields[field]
        lengths = np.fromiter(map(len, raws), np.int64, len(raws))
        return json_array(b"".join(raws), lengths, lengths == 0)

    def texts(self, field: str) -> Any:
        """A field as a column of texts; null where it is not a text."""
        return pa.array(_texts(self.fields[field]), TEXT)


def open_steps(contents: Any, among: Flags | None = None) -> OpenedSteps:
    """Open a column of JSON texts.

    Parameters
    ----------
    contents : pyarrow.Array of large_string
        Nulls are ignored.
    among : ndarray of bool, optional
        Which contents to open. Default: all.

    Examples
    --------
    >>> contents = pa.array(['{"tool":"sql","arguments":{"q":1}}', "oops"], TEXT)
    >>> opened = open_steps(contents)
    >>> opened.texts("name").to_pylist(), opened.json("arguments").to_pylist()
    (['sql'], ['{"q":1}'])
    """
    parts = [_open(batch, numbers) for numbers, batch in _batches(contents, among)]
    fields = {name: [raw for part in parts for raw in part.fields[name]] for name in FIELDS}
    source = np.concatenate([part.source for part in parts]) if parts else np.zeros(0, np.int64)
    of_tool = np.concatenate([part.of_tool for part in parts]) if parts else np.zeros(0, np.bool_)
    return OpenedSteps(source, fields, of_tool)


def _batches(contents: Any, among: Flags | None) -> Iterator[tuple[Integers, Any]]:
    """Contents that may be objects, with their numbers."""
    is_object = pc.and_(pc.starts_with(contents, "{"), pc.greater(pc.binary_length(contents), 2))
    flags = pc.fill_null(is_object, False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(flags if among is None else flags & among)
    for start in range(0, len(rows), _BATCH):
        numbers = rows[start : start + _BATCH]
        yield numbers, contents.take(pa.array(numbers))


def _open(contents: Any, numbers: Integers, levels: int = 3) -> OpenedSteps:
    """Open the contents with these numbers, and containers in them to some depth."""
    rows, columns = _decode(contents)
    fields = _fields_of(columns, len(rows))
    of_tool = _flags(columns, OF_TOOLS, len(rows)) | (_present(fields["name"]) & _present(fields["arguments"]))
    inner, is_listed, objects = _containers(columns, len(rows))
    if objects and levels > 1:
        nested = _open(pa.array(objects, pa.large_binary()).cast(TEXT), np.arange(len(objects)), levels - 1)
        inner, is_listed = inner[nested.source], is_listed[nested.source]
        is_outer = np.ones(len(rows), np.bool_)
        is_outer[inner] = False
        outer = np.flatnonzero(is_outer)
        entry = np.concatenate((outer, inner))
        order = np.argsort(entry, kind="stable")
        for name, raws in fields.items():
            # Each of several calls in a list has its own fields.
            own = [
                raw or (b"" if listed else raws[row])
                for raw, row, listed in zip(nested.fields[name], inner.tolist(), is_listed.tolist(), strict=True)
            ]
            merged = [raws[row] for row in outer.tolist()] + own
            fields[name] = [merged[position] for position in order.tolist()]
        of_tool = of_tool[entry[order]]
        rows = rows[entry[order]]
    kinds = set(fields["kind"])
    of_tool |= _are_in(fields["kind"], {kind for kind in kinds if b"tool" in kind or b"function" in kind})
    of_tool &= ~_are_in(fields["kind"], kinds & {b'"task"'})
    return OpenedSteps(numbers[rows], fields, of_tool)


def _are_in(raws: Raws, some: Set[bytes]) -> Flags:
    if not some:
        return np.zeros(len(raws), np.bool_)
    return np.fromiter(map(some.__contains__, raws), np.bool_, len(raws))


def _decode(contents: Any) -> tuple[Integers, dict[str, Raws]]:
    """The rows that are objects, and their values by key, for the keys of `_KEYS`.

    Keys without a value in any row are left out.
    """
    # Between two contents stands a random number that no content can know. So a content
    # that is not valid JSON on its own cannot pass as two contents, or as half of one.
    mark = secrets.randbits(62)
    separator = pa.scalar(f",{mark},", TEXT)
    whole = pa.ListArray.from_arrays(pa.array([0, len(contents)], pa.int32()), contents)
    joined = b"[%d,%b]" % (mark, pc.binary_join(whole, separator)[0].as_buffer())
    # A key may be spelt with escapes.
    keys = _KEYS if _ESCAPED_ASCII.search(joined) else tuple(key for key in _KEYS if b'"%b"' % key.encode() in joined)
    rows = np.arange(len(contents))
    try:
        values = _decoders(keys).several.decode(joined)
        objects = values[1::2]
        if len(values) != 2 * len(rows) or values[::2].count(mark) != len(rows):
            raise msgspec.DecodeError
    except _ERRORS:
        objects, rows = _decode_one_by_one(contents.to_pylist(), _decoders(keys).single)
    columns = {}
    for key in keys:
        raws = [bytes(getattr(item, key)) for item in objects]
        columns[key] = [b"" if raw == b"null" else raw for raw in raws]
    return rows, columns


def _decode_one_by_one(contents: Sequence[str], decoder: Any) -> tuple[list[Any], Integers]:
    objects, rows = [], []
    for row, content in enumerate(contents):
        with contextlib.suppress(*_ERRORS):
            objects.append(decoder.decode(content))
            rows.append(row)
    return objects, np.array(rows, np.int64)


@dataclass(frozen=True, slots=True)
class _Decoders:
    """Decoders of one content, and of a list of contents and marks."""

    single: Any
    several: Any


@functools.lru_cache(64)
def _decoders(keys: tuple[str, ...]) -> _Decoders:
    struct: Any = msgspec.defstruct("Content", [(key, msgspec.Raw, _NOTHING) for key in keys], gc=False)
    return _Decoders(msgspec.json.Decoder(struct), msgspec.json.Decoder(list[struct | int]))


def _fields_of(columns: dict[str, Raws], count: int) -> dict[str, Raws]:
    """The value of each field: the first suitable one among its names."""
    fields = {}
    for field, names in FIELDS.items():
        values: Raws = [b""] * count
        for name in names:
            if name not in columns:
                continue
            raws = columns[name]
            if field == "name":  # an object there is a container
                raws = [raw if raw[:1] == b'"' else b"" for raw in raws]
            values = [value or raw for value, raw in zip(values, raws, strict=True)]
        fields[field] = values
    return fields


def _containers(columns: dict[str, Raws], count: int) -> tuple[Integers, Flags, Raws]:
    """The rows with a container, whether it is an item of a list, and its JSON.

    If a row has several containers, the first counts.
    """
    raws: Raws = [b""] * count
    for key in CONTAINERS:
        if key in columns:
            raws = [
                raw or (value if value[:1] in b"{[" else b"") for raw, value in zip(raws, columns[key], strict=True)
            ]
    rows, is_listed, objects = [], [], []
    for row, raw in enumerate(raws):
        items = _items(raw) if raw[:1] == b"[" else [raw] if raw else []
        rows += [row] * len(items)
        is_listed += [raw[:1] == b"["] * len(items)
        objects += items
    return np.array(rows, np.int64), np.array(is_listed, np.bool_), objects


def _items(raw: bytes) -> Raws:
    return [item for item in map(bytes, msgspec.json.decode(raw, type=list[msgspec.Raw])) if item[:1] == b"{"]


def _flags(columns: dict[str, Raws], keys: Sequence[str], count: int) -> Flags:
    """Which rows have a value for any of these keys."""
    flags = np.zeros(count, np.bool_)
    for key in keys:
        if key in columns:
            flags |= _present(columns[key])
    return flags


def _present(raws: Raws) -> Flags:
    return np.fromiter(map(bool, raws), np.bool_, len(raws))


def _texts(raws: Raws) -> list[str | None]:
    rows = [row for row, raw in enumerate(raws) if raw[:1] == b'"']
    texts: list[str | None] = [None] * len(raws)
    try:
        decoded: list[str | None] = msgspec.json.decode(b"[" + b",".join([raws[row] for row in rows]) + b"]")
    except msgspec.DecodeError:  # half of a character, as in "\\ud800"
        decoded = [_text(raws[row]) for row in rows]
    for row, text in zip(rows, decoded, strict=True):
        texts[row] = text
    return texts


def _text(raw: bytes) -> str | None:
    try:
        text: str = msgspec.json.decode(raw, type=str)
        return text
    except msgspec.DecodeError:
        return None

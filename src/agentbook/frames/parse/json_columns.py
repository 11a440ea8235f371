"""Reads the JSON of a page into one list per field, without a dict per item.

msgspec decodes a page into structs that are built from the resource's schema. Fields
that the schema does not name are learned from the first page that has them, and are
read at the same speed from then on. A page with a value of the wrong type, or one that
is not strict JSON, is read item by item and field by field, so that one bad value does
not affect the others. Nothing is dropped: a value that cannot be read is kept as JSON
alongside its row.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...api.json import repaired
from .content import ANY_CONTENT, NO_RAW, ContentReader, Raw, is_field_name, picker, raw_text, split_contents
from .page_types import KnownValues, Path, Slot, decoder_of, fields_of, page_of, type_of_column
from .problems import Problem
from .schemas import Schema

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# With more unknown fields than this, the keys carry data; read such pages item by item.
_MAX_LEARNED = 100

Extras = dict[int, dict[str, Any]]


@dataclass(slots=True)
class Values:
    """The items of one page, column-wise.

    Attributes
    ----------
    count : int
        Number of items.
    fields : dict
        Path of a field to a list of its values: str, bool, int or None for documented
        and `shaped` fields, `msgspec.Raw` (empty if missing) for the others. For a
        content, Arrow arrays.
    extras : dict
        Row to field to raw JSON (or a dict of raw JSON), for values that do not fit
        their column.
    unknown : dict
        Path of a field without a column to its raw JSON in each row, empty if missing.
    shaped : frozenset
        Paths of the undocumented fields whose values were decoded as their column's
        type.
    problems : list of Problem
    readable : bool
        False if the page itself could not be read.
    """

    count: int = 0
    fields: dict[Path, Any] = field(default_factory=dict)
    extras: Extras = field(default_factory=dict)
    unknown: dict[Path, Sequence[Any]] = field(default_factory=dict)
    shaped: frozenset[Path] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True


class PageReader:
    """Reads the pages of one resource and remembers the unknown fields it has met.

    The ``content`` of events is split into its text and the JSON text of the rest.
    """

    def __init__(self, schema: Schema) -> None:
        self._known_values = KnownValues()
        self._enums: list[Path] = [
            tuple(column.wire.split("."))
            for column in schema.columns
            if column.kind == "enum" and column.documented and column.wire
        ]
        self._documented = {
            column.wire.partition(".")[0] for column in schema.columns if column.wire and column.documented
        }
        self._content = ContentReader()
        # Undocumented fields that are decoded as their column's type: all that can be,
        # until one of them holds something else.
        self._shaped: frozenset[Path] = frozenset()
        self._top: dict[str, Any] = {}
        self._nested: dict[str, dict[str, Any]] = {}
        for column in schema.columns:
            if column.wire is None:
                continue
            parent, _, child = column.wire.partition(".")
            type_ = ANY_CONTENT if parent == "content" else type_of_column(column)
            if child and parent != "content":
                self._nested.setdefault(parent, {})[child] = type_
            else:
                self._top[parent] = type_
            if not column.documented and type_ is not Raw:
                self._shaped |= {tuple(column.wire.split("."))}
        # Not in other records, where it is a field like any other.
        self._has_content = "content" in self._top
        self._with_column: set[Path] = {(name,) for name in self._top}
        self._with_column.update((parent, child) for parent, children in self._nested.items() for child in children)
        self._with_column.add(("content", "text"))
        for name in schema.opaque:
            self._top[name] = Raw
        self._build()

    def _build(self) -> None:
        if self._has_content:
            self._top["content"] = self._content.type
        self._slots = [self._slot((name,), f"f{i}", type_) for i, (name, type_) in enumerate(self._top.items())]
        self._children: dict[str, tuple[Any, list[Slot]]] = {}
        for n, (parent, children) in enumerate(self._nested.items()):
            slots = [self._slot((parent, name), f"f{i}", type_) for i, (name, type_) in enumerate(children.items())]
            self._children[parent] = (picker(f"n{n}"), slots)
        nested = tuple((parent, fields_of(slots)) for parent, (_, slots) in self._children.items())
        self._decoder = decoder_of(fields_of(self._slots), nested)

    def _slot(self, path: Path, attribute: str, type_: Any) -> Slot:
        return Slot(path, attribute, self._known_values.type_of(path) or type_)

    def read(self, page: bytes) -> Values:
        """The values of a page ``{"items": [...]}``; never raises for its contents."""
        try:
            values = self._read_fast(page)
            return self._read_tolerant(page) if values is None else values
        except _UNREADABLE as error:
            return self._read_lenient(page, error)

    def _read_fast(self, page: bytes) -> Values | None:
        """The values of a page that has the expected form; None otherwise."""
        values = self._decode(page)
        if values is None and self._known_values.used:
            self._known_values.used = False  # the page may have a new one
            self._build()
            values = self._decode(page)
        if values is None and self._learn(page):
            values = self._decode(page)
        if values is None and self._shaped:
            self._forget_shapes()
            values = self._decode(page)
        if values is not None and self._enums and not self._known_values.used:
            self._learn_values(values)
        return values

    def _forget_shapes(self) -> None:
        """Decode undocumented fields as raw JSON from now on."""
        for name, *child in self._shaped:
            (self._nested[name] if child else self._top)[child[0] if child else name] = Raw
        self._shaped = frozenset()
        self._build()

    def _decode(self, page: bytes) -> Values | None:
        try:
            return self._columns(self._decoder.decode(page).items)
        except msgspec.ValidationError:
            return None

    def _learn_values(self, values: Values) -> None:
        """From now on, decode the enum values met so far without making new strings."""
        for path in self._enums:
            self._known_values.add(path, values.fields[path])
        if self._known_values.use():
            self._build()
        else:
            self._enums = []

    def read_together(self, pages: Sequence[bytes]) -> tuple[Values, list[int]] | None:
        """The values of several pages together, and the number of items of each page.

        None if one of the pages must be read item by item.
        """
        items: list[Any] = []
        counts = []
        try:
            for page in pages:
                page_items = self._decoder.decode(page).items
                items += page_items
                counts.append(len(page_items))
            values = self._columns(items)
        except _UNREADABLE:
            return None
        return None if values is None else (values, counts)

    def _columns(self, items: Sequence[Any]) -> Values | None:
        """The values of items; None if they must be read item by item."""
        values = Values(len(items), shaped=self._shaped)
        for slot in self._slots:
            values.fields[slot.path] = slot.pick(items)
        for pick, slots in self._children.values():
            children = pick(items)
            present = list(filter(None, children))
            if len(present) == len(items):
                for slot in slots:
                    values.fields[slot.path] = slot.pick(children)
                continue
            rows = list(itertools.compress(itertools.count(), children))
            for slot in slots:
                values.fields[slot.path] = column = [NO_RAW if slot.type is Raw else None] * len(items)
                for row, value in zip(rows, slot.pick(present), strict=True):
                    column[row] = value
        self._set_unknown_apart(values)
        if ("content",) in values.fields:
            parts = self._content.split(values.fields[("content",)])
            if parts is None:
                return None
            values.fields[("content", "text")], values.fields[("content",)] = parts
        return values

    def _set_unknown_apart(self, values: Values) -> None:
        """Move the fields without a column to `unknown`."""
        for path in [path for path in values.fields if path not in self._with_column]:
            values.unknown[path] = values.fields.pop(path)

    def _learn(self, page: bytes) -> bool:
        """Add the unknown fields of a page; False if it has none or too many."""
        try:
            items = msgspec.json.decode(page, type=page_of(dict[str, Raw])).items
        except _UNREADABLE:
            return False
        known = {*self._top, *self._nested}
        new_fields = {key for item in items for key in item if key not in known}
        new_children: dict[str, set[str]] = {}
        for parent, children in self._nested.items():
            for item in items:
                raw = item.get(parent)
                if raw and bytes(raw).startswith(b"{"):
                    keys = msgspec.json.decode(raw, type=dict[str, Raw])
                    new_children.setdefault(parent, set()).update(key for key in keys if key not in children)
        new_count = len(new_fields) + sum(map(len, new_children.values()))
        if not all(is_field_name(name) for names in (new_fields, *new_children.values()) for name in names):
            return False
        contents = [item["content"] for item in items if "content" in item] if self._has_content else []
        new_content = self._content.learn(contents)
        count = len(self._top) + sum(map(len, self._nested.values()))
        if not (new_count or new_content) or new_count + count > _MAX_LEARNED + len(self._with_column):
            return False
        self._top.update((key, Raw) for key in sorted(new_fields))
        for parent, names in new_children.items():
            self._nested[parent].update((name, Raw) for name in sorted(names))
        self._build()
        return True

    def _read_lenient(self, page: bytes, error: Exception) -> Values:
        """Repair and read a page that is not strict JSON, and report the problem."""
        try:
            values = self._read_tolerant(repaired(page, 2))
        except _UNREADABLE:
            return _unreadable(f"the page is not JSON ({error})", page)
        problem = f"the page is not strict JSON and was read with care ({error})"
        values.problems.append(Problem(None, "", problem, None))
        return values

    def _read_tolerant(self, page: bytes) -> Values:
        """Read a page field by field.

        A value that does not fit is kept alongside its row.
        """
        try:
            raws = msgspec.json.decode(page, type=page_of(Raw)).items
        except msgspec.ValidationError as error:
            return _unreadable(f"the page has no list of items ({error})", page)
        values = Values(len(raws))
        items = _objects(values, raws, "$item", "the item is not an object", dict[str, Raw])
        for row, item in enumerate(items):
            if item is not None and "id" not in item:
                values.problems.append(Problem(row, "id", "the item has no id", None))
        for slot in self._slots:
            values.fields[slot.path] = self._tolerant_column(values, slot, _pop(items, slot.path[0]))
        for parent, (_, slots) in self._children.items():
            problem = "not an object" if parent in self._documented else None
            children = _objects(values, _pop(items, parent), parent, problem, dict[str, Raw] | None)
            for slot in slots:
                values.fields[slot.path] = self._tolerant_column(values, slot, _pop(children, slot.path[1]))
            _add_rest(values.extras, children, parent)
        _add_rest(values.extras, items)
        values.problems.sort(key=lambda problem: problem.row or 0)
        self._set_unknown_apart(values)
        if ("content",) in values.fields:
            texts, rests = split_contents(values.fields[("content",)])
            values.fields[("content", "text")] = texts
            values.fields[("content",)] = [None if rest is None else raw_text(rest) for rest in rests]
        return values

    def _tolerant_column(self, values: Values, slot: Slot, raws: list[Any]) -> list[Any]:
        """The values of a field; all are decoded in one call if all fit."""
        type_: Any = str | None if slot.path in self._enums else slot.type
        if self._has_content and slot.path == ("content",):
            type_ = ANY_CONTENT
        if type_ is Raw or slot.path in self._shaped:
            return raws
        column = decode_together(raws, type_)
        if column is None:
            column = [_tolerant_value(values, slot.path, row, raw, type_) for row, raw in enumerate(raws)]
        return column


def _tolerant_value(values: Values, path: Path, row: int, raw: Any, type_: Any) -> Any:
    try:
        return msgspec.json.decode(raw or b"null", type=type_)
    except _UNREADABLE as error:
        add_extra(values.extras, row, path, bytes(raw))
        values.problems.append(Problem(row, ".".join(path), str(error), raw_text(raw)))
        return None


def _objects(
    values: Values, raws: list[Any], name: str, problem: str | None, type_: Any
) -> list[dict[str, Any] | None]:
    """The members of JSON objects; None where there is none.

    A value of another type is kept alongside its row, with the problem if there is one.
    """
    column = decode_together(raws, type_)
    if column is None:
        column = []
        for row, raw in enumerate(raws):
            try:
                column.append(msgspec.json.decode(raw or b"null", type=type_))
            except _UNREADABLE:
                column.append(None)
                add_extra(values.extras, row, (name,), bytes(raw))
                if problem is not None:
                    values.problems.append(Problem(row, name, problem, raw_text(raw)))
    return column


def _pop(items: Sequence[dict[str, Any] | None], name: str) -> list[Any]:
    """The raw values of a field, which is removed from the items; empty if missing."""
    return [NO_RAW if item is None else item.pop(name, NO_RAW) for item in items]


def _add_rest(extras: Extras, items: Sequence[dict[str, Any] | None], *parent: str) -> None:
    for row, item in enumerate(items):
        if item:
            for name, raw in item.items():
                add_extra(extras, row, (*parent, name), bytes(raw))


def decode_together(raws: Sequence[Any], type_: Any) -> list[Any] | None:
    """Raw values of a type, decoded in one call; missing ones as null.

    None if one of them does not fit.
    """
    try:
        return _list_decoder(type_).decode(b"[" + b",".join([raw or b"null" for raw in raws]) + b"]")
    except _UNREADABLE:
        return None


@functools.cache
def _list_decoder(type_: Any) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[type_])


def add_extra(extras: Extras, row: int, path: Path, raw: bytes) -> None:
    """Store a raw value alongside its row, under its wire name and nested as sent."""
    fields = extras.setdefault(row, {})
    if len(path) == 1:
        fields[path[0]] = raw
    elif isinstance(fields.setdefault(path[0], {}), dict):
        fields[path[0]][path[1]] = raw


def _unreadable(problem: str, page: bytes) -> Values:
    return Values(problems=[Problem(None, "", problem, page[:200].decode("utf-8", "replace"))], readable=False)

"""Reads the JSON of a page into one list per field, without a dict per item.

msgspec decodes a page into structs that are built from the resource's schema. Fields
that the schema does not name are learned from the first page that has them, and are
read at the same speed from then on. A page with a value of the wrong type, or one that
is not strict JSON, is read item by item and field by field, so that one bad value does
not affect the others. Nothing is dropped: a value that cannot be read is kept as JSON
beside its row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from .content import ANY_CONTENT, NO_RAW, ContentReader, Raw, is_field_name, picker, raw_text, split_contents, struct
from .problems import Problem
from .schemas import Column, Schema

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"bool": bool | None, "int": _Int64 | None}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# With more unknown fields than this, the keys carry data; read such pages item by item.
_MAX_LEARNED = 100

Path = tuple[str, ...]
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
        fields, `msgspec.Raw` (empty if missing) for the others. Of a content, Arrow
        arrays.
    extras : dict
        Row to field to raw JSON (or a dict of raw JSON), for values that do not fit
        their column.
    unknown : dict
        Path of a field without a column to its raw JSON in each row, empty if missing.
    problems : list of Problem
    readable : bool
        False if the page itself could not be read.
    """

    count: int = 0
    fields: dict[Path, Any] = field(default_factory=dict)
    extras: Extras = field(default_factory=dict)
    unknown: dict[Path, list[Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True


@dataclass(slots=True)
class _Slot:
    """One wire field: its path, the struct attribute that holds it, type and picker."""

    path: Path
    attribute: str
    type: Any
    pick: Callable[[Sequence[Any]], list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.pick = picker(self.attribute)


def _type_of(column: Column) -> Any:
    if not column.documented or column.kind in ("json", "label", "host", "masked"):
        return Raw
    return _TYPES.get(column.kind, str | None)


class PageReader:
    """Reads the pages of one resource and remembers the unknown fields it has met.

    The ``content`` of events is split into its text and the JSON text of the rest.
    """

    def __init__(self, schema: Schema) -> None:
        self._documented = {
            column.wire.partition(".")[0] for column in schema.columns if column.wire and column.documented
        }
        self._content = ContentReader()
        self._top: dict[str, Any] = {}
        self._nested: dict[str, dict[str, Any]] = {}
        for column in schema.columns:
            if column.wire is None:
                continue
            parent, _, child = column.wire.partition(".")
            if parent == "content":
                self._top[parent] = ANY_CONTENT
            elif child:
                self._nested.setdefault(parent, {})[child] = _type_of(column)
            else:
                self._top[parent] = _type_of(column)
        self._with_column: set[Path] = {(name,) for name in self._top}
        self._with_column.update((parent, child) for parent, children in self._nested.items() for child in children)
        self._with_column.add(("content", "text"))
        for name in schema.opaque:
            self._top[name] = Raw
        self._build()

    def _build(self) -> None:
        if "content" in self._top:
            self._top["content"] = self._content.type
        self._slots = [_Slot((name,), f"f{i}", type_) for i, (name, type_) in enumerate(self._top.items())]
        fields: list[Any] = [_struct_field(slot) for slot in self._slots]
        rename = {slot.attribute: slot.path[0] for slot in self._slots}
        self._children: dict[str, tuple[Any, list[_Slot]]] = {}
        for n, (parent, children) in enumerate(self._nested.items()):
            slots = [_Slot((parent, name), f"f{i}", type_) for i, (name, type_) in enumerate(children.items())]
            names = {slot.attribute: slot.path[1] for slot in slots}
            nested = struct(f"N{n}", [_struct_field(slot) for slot in slots], names)
            self._children[parent] = (picker(f"n{n}"), slots)
            fields.append((f"n{n}", nested | None, None))
            rename[f"n{n}"] = parent
        # Fields without a default come first. Only the id has none: a missing id is
        # always a problem.
        fields.sort(key=len)
        self._decoder = msgspec.json.Decoder(_page_of(struct("Item", fields, rename)))

    def read(self, page: bytes) -> Values:
        """The values of a page ``{"items": [...]}``; never raises for its contents."""
        try:
            values = self._read_fast(page)
            return self._read_tolerant(page) if values is None else values
        except _UNREADABLE as error:
            return self._read_lenient(page, error)

    def _read_fast(self, page: bytes) -> Values | None:
        """The values of a page that has the expected form; None if it has not."""
        try:
            return self._columns(self._decoder.decode(page).items)
        except msgspec.ValidationError:
            if not self._learn(page):
                return None
        try:
            return self._columns(self._decoder.decode(page).items)
        except msgspec.ValidationError:
            return None

    def read_together(self, pages: Sequence[bytes]) -> tuple[Values, list[int]] | None:
        """The values of several pages as one, and the number of items of each page.

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
        values = Values(len(items))
        for slot in self._slots:
            values.fields[slot.path] = slot.pick(items)
        for pick, slots in self._children.values():
            children = pick(items)
            rows = [row for row, child in enumerate(children) if child is not None]
            for slot in slots:
                if len(rows) == len(items):
                    values.fields[slot.path] = slot.pick(children)
                else:
                    values.fields[slot.path] = column = [NO_RAW if slot.type is Raw else None] * len(items)
                    for row, value in zip(rows, slot.pick([children[row] for row in rows]), strict=True):
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
            items = msgspec.json.decode(page, type=_page_of(dict[str, Raw])).items
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
        contents = [item["content"] for item in items if "content" in item] if "content" in self._top else []
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
        """Read a page that is not strict JSON.

        NaN, lone surrogates and stray bytes are replaced, and reported as a problem.
        """
        try:
            body = json.loads(page.decode("utf-8", "replace"), parse_constant=lambda name: None)
            values = self._read_tolerant(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return _unreadable(f"the page is not JSON ({error})", page)
        problem = f"the page is not strict JSON and was read with care ({error})"
        values.problems.append(Problem(None, "", problem, None))
        return values

    def _read_tolerant(self, page: bytes) -> Values:
        """Read a page item by item and field by field."""
        try:
            items = msgspec.json.decode(page, type=_page_of(Raw)).items
        except msgspec.ValidationError as error:
            return _unreadable(f"the page has no list of items ({error})", page)
        values = Values(len(items))
        slots = {slot.path: slot for slot in self._all_slots()}
        for path, slot in slots.items():
            values.fields[path] = [NO_RAW if slot.type is Raw else None] * len(items)
        for row, raw in enumerate(items):
            self._read_item(values, slots, row, raw)
        self._set_unknown_apart(values)
        if ("content",) in values.fields:
            values.fields[("content", "text")], values.fields[("content",)] = split_contents(
                values.fields[("content",)]
            )
        return values

    def _all_slots(self) -> list[_Slot]:
        top = [
            _Slot(slot.path, slot.attribute, ANY_CONTENT) if slot.path == ("content",) else slot for slot in self._slots
        ]
        return [*top, *(slot for _, slots in self._children.values() for slot in slots)]

    def _read_item(self, values: Values, slots: dict[Path, _Slot], row: int, raw: Any) -> None:
        try:
            item = msgspec.json.decode(raw, type=dict[str, Raw])
        except _UNREADABLE:
            add_extra(values.extras, row, ("$item",), bytes(raw))
            values.problems.append(Problem(row, "$item", "the item is not an object", raw_text(raw)))
            return
        if "id" not in item:
            values.problems.append(Problem(row, "id", "the item has no id", None))
        for key, value in item.items():
            if key not in self._nested:
                _read_field(values, slots, row, (key,), value)
            elif bytes(value) != b"null":
                self._read_object(values, slots, row, key, value)

    def _read_object(self, values: Values, slots: dict[Path, _Slot], row: int, key: str, raw: Any) -> None:
        try:
            members = msgspec.json.decode(raw, type=dict[str, Raw])
        except _UNREADABLE:
            add_extra(values.extras, row, (key,), bytes(raw))
            if key in self._documented:
                values.problems.append(Problem(row, key, "not an object", raw_text(raw)))
            return
        for name, value in members.items():
            _read_field(values, slots, row, (key, name), value)


def _read_field(values: Values, slots: dict[Path, _Slot], row: int, path: Path, raw: Any) -> None:
    slot = slots.get(path)
    if slot is None:
        add_extra(values.extras, row, path, bytes(raw))
    elif slot.type is Raw:
        values.fields[path][row] = raw
    else:
        try:
            values.fields[path][row] = msgspec.json.decode(raw, type=slot.type)
        except _UNREADABLE as error:
            add_extra(values.extras, row, path, bytes(raw))
            values.problems.append(Problem(row, ".".join(path), str(error), raw_text(raw)))


def add_extra(extras: Extras, row: int, path: Path, raw: bytes) -> None:
    """Store a raw value beside its row, under its wire name and nested as sent."""
    fields = extras.setdefault(row, {})
    if len(path) == 1:
        fields[path[0]] = raw
    elif isinstance(fields.setdefault(path[0], {}), dict):
        fields[path[0]][path[1]] = raw


def _struct_field(slot: _Slot) -> Any:
    if slot.path == ("id",):
        return (slot.attribute, str)
    return (slot.attribute, slot.type, NO_RAW if slot.type is Raw else None)


def _page_of(item: Any) -> Any:
    return msgspec.defstruct("Page", [("items", list[item])])


def _unreadable(problem: str, page: bytes) -> Values:
    return Values(problems=[Problem(None, "", problem, page[:200].decode("utf-8", "replace"))], readable=False)

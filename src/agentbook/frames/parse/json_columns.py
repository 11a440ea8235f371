"""From the bytes of a page to lists of values, one per field, without a dict per item.

msgspec decodes a page into structs made from the resource's schema. What the schema does not name is learned from the
first page that has it and read at the same speed from then on. A page with a value of the wrong type, or one that is
not strict JSON, takes the tolerant road: item by item, field by field, so that one bad value costs nobody else a
thing. Nothing is dropped on either road: a value that cannot be read is kept as JSON beside the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from .content import ANY_CONTENT, NO_RAW, ContentReader, Raw, nameable, open_any, picker, struct, text_of
from .schemas import Column, Schema

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"bool": bool | None, "int": _Int64 | None}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# More unknown fields than this are keys that carry data; such pages are read item by item.
_MOST_LEARNED = 100

Path = tuple[str, ...]
Extras = dict[int, dict[str, Any]]


@dataclass(slots=True)
class Problem:
    """Something in a reply that was not as the specification says. `raw` is JSON text, or masked where it may be secret."""

    row: int | None
    field: str
    problem: str
    raw: str | None


@dataclass(slots=True)
class Values:
    """The items of one page, column-wise.

    Attributes
    ----------
    count : int
        Number of items.
    fields : dict
        Path of a field to a list of its values: str, bool, int or None for given fields, `msgspec.Raw` (empty where
        missing) for the others.
    extras : dict
        Row to field to raw JSON (or a dict of such), for what no column holds.
    problems : list of Problem
    readable : bool
        False where the page itself could not be read.
    """

    count: int = 0
    fields: dict[Path, list[Any]] = field(default_factory=dict)
    extras: Extras = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True


@dataclass(slots=True)
class _Slot:
    """One field on the wire: its path, the attribute of the struct it is decoded into, its type, and how it is picked."""

    path: Path
    attribute: str
    type: Any
    pick: Callable[[Sequence[Any]], list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.pick = picker(self.attribute)


def _type_of(column: Column) -> Any:
    if not column.given or column.kind in ("json", "label", "host", "masked"):
        return Raw
    return _TYPES.get(column.kind, str | None)


class PageReader:
    """Reads the pages of one resource and remembers the unknown fields it has met.

    ``content`` of events comes opened: its text, and the JSON text of the rest.
    """

    def __init__(self, schema: Schema) -> None:
        self._given = {column.wire.partition(".")[0] for column in schema.columns if column.wire and column.given}
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
        self._named: set[Path] = {(name,) for name in self._top}
        self._named.update((parent, child) for parent, children in self._nested.items() for child in children)
        for name in schema.opaque:
            self._top[name] = Raw
        self._named.add(("content", "text"))
        self._build()

    def _build(self) -> None:
        if "content" in self._top:
            self._top["content"] = self._content.type
        self._slots = [_Slot((name,), f"f{i}", type_) for i, (name, type_) in enumerate(self._top.items())]
        fields: list[Any] = [_struct_field(slot) for slot in self._slots]
        rename = {slot.attribute: slot.path[0] for slot in self._slots}
        self._children: dict[str, tuple[Any, list[_Slot], Any]] = {}
        for n, (parent, children) in enumerate(self._nested.items()):
            slots = [_Slot((parent, name), f"f{i}", type_) for i, (name, type_) in enumerate(children.items())]
            names = {slot.attribute: slot.path[1] for slot in slots}
            shape = struct(f"N{n}", [_struct_field(slot) for slot in slots], names)
            self._children[parent] = (picker(f"n{n}"), slots, shape())
            fields.append((f"n{n}", shape | None, None))
            rename[f"n{n}"] = parent
        # A field without a default must be first: only the id, whose absence is always worth a word.
        fields.sort(key=len)
        self._decoder = msgspec.json.Decoder(_page_of(struct("Item", fields, rename)))

    def read(self, page: bytes) -> Values:
        """The values of a page ``{"items": [...], ...}``. Never raises for what the page holds."""
        try:
            return self._columns(self._decoder.decode(page).items)
        except msgspec.ValidationError:
            pass
        except _UNREADABLE as error:
            return self._read_lenient(page, error)
        if self._learn(page):
            try:
                return self._columns(self._decoder.decode(page).items)
            except _UNREADABLE:
                pass
        return self._read_tolerant(page)

    def read_together(self, pages: Sequence[bytes]) -> tuple[Values, list[int]] | None:
        """The values of several pages as if they were one, and how many items each has; None if one needs care."""
        items: list[Any] = []
        counts = []
        try:
            for page in pages:
                more = self._decoder.decode(page).items
                items += more
                counts.append(len(more))
        except _UNREADABLE:
            return None
        return self._columns(items), counts

    def _columns(self, items: Sequence[Any]) -> Values:
        values = Values(len(items))
        for slot in self._slots:
            values.fields[slot.path] = slot.pick(items)
        for pick, slots, nothing in self._children.values():
            inner = pick(items)
            if None in inner:
                inner = [nothing if one is None else one for one in inner]
            for slot in slots:
                values.fields[slot.path] = slot.pick(inner)
        self._keep_unnamed(values)
        self._open_content(values, self._content.open)
        return values

    def _keep_unnamed(self, values: Values) -> None:
        for path in [path for path in values.fields if path not in self._named]:
            for row, raw in enumerate(values.fields.pop(path)):
                if raw:
                    keep(values.extras, row, path, bytes(raw))

    def _open_content(self, values: Values, opened: Any) -> None:
        contents = values.fields.get(("content",))
        if contents is not None:
            values.fields[("content", "text")], values.fields[("content",)] = opened(contents)

    def _learn(self, page: bytes) -> bool:
        """Take in fields that are not known yet; False where there were none, so that something else is wrong."""
        try:
            items = msgspec.json.decode(page, type=_page_of(dict[str, Raw])).items
        except _UNREADABLE:
            return False
        known = {*self._top, *self._nested}
        fresh = {key for item in items for key in item if key not in known}
        inner: dict[str, set[str]] = {}
        for parent, children in self._nested.items():
            for item in items:
                raw = item.get(parent)
                if raw and bytes(raw).startswith(b"{"):
                    keys = msgspec.json.decode(raw, type=dict[str, Raw])
                    inner.setdefault(parent, set()).update(key for key in keys if key not in children)
        count = len(fresh) + sum(map(len, inner.values()))
        if not all(nameable(name) for names in (fresh, *inner.values()) for name in names):
            return False
        contents = [item["content"] for item in items if "content" in item] if "content" in self._top else []
        more = self._content.learn(contents)
        size = len(self._top) + sum(map(len, self._nested.values()))
        if not (count or more) or count + size > _MOST_LEARNED + len(self._named):
            return False
        self._top.update((key, Raw) for key in sorted(fresh))
        for parent, names in inner.items():
            self._nested[parent].update((name, Raw) for name in sorted(names))
        self._build()
        return True

    def _read_lenient(self, page: bytes, error: Exception) -> Values:
        """A page that is not strict JSON: NaN, lone surrogates or stray bytes are replaced, and said."""
        try:
            body = json.loads(page.decode("utf-8", "replace"), parse_constant=lambda name: None)
            strict = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError):
            return _unreadable(f"the page is not JSON ({error})", page)
        values = self._read_tolerant(strict)
        values.problems.append(Problem(None, "", f"the page is not strict JSON and was read with care ({error})", None))
        return values

    def _read_tolerant(self, page: bytes) -> Values:
        try:
            items = msgspec.json.decode(page, type=_page_of(Raw)).items
        except _UNREADABLE as error:
            return _unreadable(f"the page has no list of items ({error})", page)
        values = Values(len(items))
        slots = {slot.path: slot for slot in self._all_slots()}
        for path, slot in slots.items():
            values.fields[path] = [NO_RAW if slot.type is Raw else None] * len(items)
        for row, raw in enumerate(items):
            self._read_item(values, slots, row, raw)
        self._keep_unnamed(values)
        self._open_content(values, open_any)
        return values

    def _all_slots(self) -> list[_Slot]:
        top = [_Slot(one.path, one.attribute, ANY_CONTENT) if one.path == ("content",) else one for one in self._slots]
        return [*top, *(slot for _, slots, _ in self._children.values() for slot in slots)]

    def _read_item(self, values: Values, slots: dict[Path, _Slot], row: int, raw: Any) -> None:
        try:
            item = msgspec.json.decode(raw, type=dict[str, Raw])
        except _UNREADABLE:
            keep(values.extras, row, ("$item",), bytes(raw))
            values.problems.append(Problem(row, "$item", "the item is not an object", text_of(raw)))
            return
        if "id" not in item:
            values.problems.append(Problem(row, "id", "the item has no id", None))
        for key, value in item.items():
            if key not in self._nested:
                self._read_field(values, slots, row, (key,), value)
            elif bytes(value) != b"null":
                self._read_object(values, slots, row, key, value)

    def _read_object(self, values: Values, slots: dict[Path, _Slot], row: int, key: str, raw: Any) -> None:
        try:
            inner = msgspec.json.decode(raw, type=dict[str, Raw])
        except _UNREADABLE:
            keep(values.extras, row, (key,), bytes(raw))
            if key in self._given:
                values.problems.append(Problem(row, key, "not an object", text_of(raw)))
            return
        for name, value in inner.items():
            self._read_field(values, slots, row, (key, name), value)

    def _read_field(self, values: Values, slots: dict[Path, _Slot], row: int, path: Path, raw: Any) -> None:
        slot = slots.get(path)
        if slot is None:
            keep(values.extras, row, path, bytes(raw))
        elif slot.type is Raw:
            values.fields[path][row] = raw
        else:
            try:
                values.fields[path][row] = msgspec.json.decode(raw, type=slot.type)
            except _UNREADABLE as error:
                keep(values.extras, row, path, bytes(raw))
                values.problems.append(Problem(row, ".".join(path), str(error), text_of(raw)))


def keep(extras: Extras, row: int, path: Path, raw: bytes) -> None:
    """Keep a raw value beside its row, under its wire name, nested as it was."""
    kept = extras.setdefault(row, {})
    if len(path) == 1:
        kept[path[0]] = raw
    elif isinstance(kept.setdefault(path[0], {}), dict):
        kept[path[0]][path[1]] = raw


def _struct_field(slot: _Slot) -> Any:
    if slot.path == ("id",):
        return (slot.attribute, str)
    return (slot.attribute, slot.type, NO_RAW if slot.type is Raw else None)


def _page_of(item: Any) -> Any:
    return msgspec.defstruct("Page", [("items", list[item])])


def _unreadable(problem: str, page: bytes) -> Values:
    return Values(problems=[Problem(None, "", problem, page[:200].decode("utf-8", "replace"))], readable=False)

"""The types with which msgspec decodes the pages of a resource."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from .content import NO_RAW, Raw, picker, struct
from .schemas import Column

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"bool": bool | None, "int": _Int64 | None}
# The types of undocumented columns whose values have the expected shape.
UNDOCUMENTED_TYPES: dict[str, Any] = {
    **dict.fromkeys(("id", "text", "enum", "time", "label"), str | None),
    "bool": bool | None,
    "list": list[str | None] | None,
}
# With more values than this, or new values this often, a field is not an enum.
_MAX_VALUES, _MAX_ATTEMPTS = 50, 5

Path = tuple[str, ...]


@dataclass(slots=True)
class Slot:
    """One wire field: its path, the struct attribute that holds it, type and picker."""

    path: Path
    attribute: str
    type: Any
    pick: Callable[[Sequence[Any]], list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.pick = picker(self.attribute)


def type_of_column(column: Column) -> Any:
    """The type of a column's field; `Raw` if it may have any shape."""
    if column.kind in ("json", "label", "host", "masked"):
        return Raw
    if not column.documented:
        return UNDOCUMENTED_TYPES.get(column.kind, Raw)
    return _TYPES.get(column.kind, str | None)


class KnownValues:
    """The values that the enum fields have had so far.

    msgspec creates a new string for each text, but not for values that the type names.

    Attributes
    ----------
    used : bool
        Whether the types name the values now.
    """

    def __init__(self) -> None:
        self.used = False
        self._values: dict[Path, set[str]] = {}
        self._attempts = 0

    def type_of(self, path: Path) -> Any:
        """The type to decode a field with; None for any text."""
        values = self._values.get(path) if self.used else None
        return Literal[*sorted(values)] | None if values else None

    def add(self, path: Path, values: Sequence[str | None]) -> None:
        """Learn the values of a column."""
        self._values.setdefault(path, set()).update(value for value in set(values) if value is not None)

    def use(self) -> bool:
        """Make the types name the values, unless new ones keep coming."""
        self._attempts += 1
        few = all(len(values) <= _MAX_VALUES for values in self._values.values())
        self.used = few and self._attempts <= _MAX_ATTEMPTS
        return self.used


Fields = tuple[tuple[str, str, Any], ...]  # for each field, its attribute, name and type


def fields_of(slots: Sequence[Slot]) -> Fields:
    """What `decoder_of` needs to know about some fields."""
    return tuple((slot.attribute, slot.path[-1], slot.type) for slot in slots)


# Each load learns what its pages hold, and most loads learn the same. Making the types
# costs as much as reading a page.
@functools.lru_cache(64)
def decoder_of(top: Fields, nested: tuple[tuple[str, Fields], ...]) -> Any:
    """A decoder for pages whose items have these fields and nested objects."""
    fields = [_struct_field(*each, required=each[1] == "id") for each in top]
    rename = {attribute: name for attribute, name, _ in top}
    for n, (parent, children) in enumerate(nested):
        child = struct(
            f"N{n}", [_struct_field(*each) for each in children], {attribute: name for attribute, name, _ in children}
        )
        fields.append((f"n{n}", child | None, None))
        rename[f"n{n}"] = parent
    # Fields without a default come first. Only the id has none: a missing id is always
    # a problem.
    fields.sort(key=len)
    return msgspec.json.Decoder(page_of(struct("Item", fields, rename)))


def _struct_field(attribute: str, name: str, type_: Any, *, required: bool = False) -> tuple[Any, ...]:
    if required:
        return (attribute, str)
    return (attribute, type_, NO_RAW if type_ is Raw else None)


@functools.lru_cache(64)
def page_of(item: Any) -> Any:
    """The type of a page with such items."""
    return msgspec.defstruct("Page", [("items", list[item])])


__all__ = [
    "UNDOCUMENTED_TYPES",
    "Fields",
    "KnownValues",
    "Path",
    "Slot",
    "decoder_of",
    "fields_of",
    "page_of",
    "type_of_column",
]

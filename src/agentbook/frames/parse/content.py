"""Opening an event's ``content``: its text, and the JSON of what else it holds.

Most contents are ``{"text": ...}`` or ``{}``, so they are decoded straight into a struct with a field for the text and one for
each other key met so far. Where there are many keys, dicts of raw values are as good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Raw = msgspec.Raw
NO_RAW = Raw()
# What any readable content is without a struct: an object, plain text, or nothing.
ANY_CONTENT = dict[str, Raw] | str | None
_MOST_KEYS = 16


class ContentReader:
    """How contents are decoded, as far as they are known. `type` goes into the item's struct."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._struct: Any = None
        self._build()

    def _build(self) -> None:
        fields = [("text", str | None, None), *((f"f{i}", Raw, NO_RAW) for i in range(len(self._keys)))]
        names = {f"f{i}": key for i, key in enumerate(self._keys)}
        self._struct = struct("Content", fields, names)
        self._pick_text = picker("text")
        self._picks = [picker(f"f{i}") for i in range(len(self._keys))]
        self.type = self._struct | str | None

    def learn(self, raws: Sequence[Any]) -> bool:
        """Take in the keys of these raw contents; False where all are known."""
        if self._struct is None:
            return False
        known = {"text", *self._keys}
        fresh = {
            key
            for raw in raws
            if bytes(raw).startswith(b"{")
            for key in msgspec.json.decode(raw, type=dict[str, Raw])
            if key not in known
        }
        if not fresh:
            return False
        if len(fresh) + len(self._keys) > _MOST_KEYS or not all(map(nameable, fresh)):
            self._struct, self.type = None, ANY_CONTENT
        else:
            self._keys += sorted(fresh)
            self._build()
        return True

    def open(self, contents: list[Any]) -> tuple[list[str | None], list[str | None]]:
        """The texts, and the JSON of the rest: ``{}`` where there is none, None where the content is no object."""
        kinds = set(map(type, contents))
        if self._struct is None or not kinds <= {self._struct, str, type(None)}:
            return open_any(contents)
        if kinds <= {self._struct}:
            objects, texts = contents, self._pick_text(contents)
            rests: list[str | None] = ["{}"] * len(contents)
        else:
            empty = self._struct()
            objects = [one if isinstance(one, self._struct) else empty for one in contents]
            texts = [one if isinstance(one, str) else inner.text for one, inner in zip(contents, objects, strict=True)]
            rests = ["{}" if isinstance(one, self._struct) else None for one in contents]
        kept: dict[int, dict[str, Any]] = {}
        for key, pick in zip(self._keys, self._picks, strict=True):
            for row, raw in enumerate(pick(objects)):
                if raw:
                    kept.setdefault(row, {})[key] = raw
        for row, rest in kept.items():
            rests[row] = join(rest)
        return texts, rests


def open_any(contents: list[Any]) -> tuple[list[str | None], list[str | None]]:
    """As `ContentReader.open`, for contents of type `ANY_CONTENT`."""
    raws: list[Any] = []
    rests: list[str | None] = []
    for content in contents:
        raw: Any = b"null"
        if isinstance(content, str):
            raw = dump(content).encode()
        elif content and bytes(content.get("text", b"")).startswith((b'"', b"null")):
            raw = content.pop("text")
        raws.append(raw)
        rests.append(join(content) if isinstance(content, dict) else None)
    # One decode of all the texts of a page: a call for each costs as much as everything else together.
    return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[str | None]), rests


def struct(name: str, fields: list[Any], rename: dict[str, str]) -> Any:
    """A struct type that refuses fields it does not know."""
    # gc=False: the items of a page hold no cycles, and tracking a million of them costs more than reading them.
    return msgspec.defstruct(name, fields, rename=rename, forbid_unknown_fields=True, gc=False)


def picker(attribute: str) -> Callable[[Sequence[Any]], list[Any]]:
    """What gives an attribute of each of many structs of one type.

    Examples
    --------
    >>> picker("real")([1, 2])
    [1, 2]
    """
    # A comprehension of its own for each field is a third faster than attrgetter: the interpreter notes in it where
    # the field lies.
    pick: Callable[[Sequence[Any]], list[Any]] = eval(f"lambda items: [one.{attribute} for one in items]")  # noqa: S307
    return pick


def nameable(name: str) -> bool:
    """Whether msgspec takes a key as the name of a field."""
    return not any(character in '\\"' or character < " " for character in name)


def join(kept: Mapping[str, Any]) -> str:
    """A JSON object of raw values, nested mappings included.

    Examples
    --------
    >>> join({"a": b"1", "b": {"c": b"[]"}})
    '{"a":1,"b":{"c":[]}}'
    """
    parts = [
        f"{dump(key)}:{join(value) if isinstance(value, Mapping) else text_of(value)}" for key, value in kept.items()
    ]
    return "{" + ",".join(parts) + "}"


def dump(value: Any) -> str:
    """JSON text."""
    return msgspec.json.encode(value).decode()


def text_of(raw: Any) -> str:
    """A raw JSON value as text."""
    return bytes(raw).decode("utf-8", "replace")

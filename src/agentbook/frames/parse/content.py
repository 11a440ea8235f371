"""Splits an event's ``content`` into its text and the JSON of everything else.

Most contents are ``{"text": ...}`` or ``{}``. They are decoded into a struct with one
field for the text and one for each other key met so far. Contents with many different
keys are decoded into dicts of raw values instead, which is as fast there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Raw = msgspec.Raw
NO_RAW = Raw()
# Any readable content without a struct: an object, plain text, or null.
ANY_CONTENT = dict[str, Raw] | str | None
_MAX_KEYS = 16


class ContentReader:
    """Decodes contents by the keys met so far. `type` goes into the item's struct."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._struct: Any = None
        self._build()

    def _build(self) -> None:
        fields = [("text", str | None, None), *((f"f{i}", Raw, NO_RAW) for i in range(len(self._keys)))]
        names = {f"f{i}": key for i, key in enumerate(self._keys)}
        self._struct = struct("Content", fields, names)
        self._pick_text = picker("text")
        self._pickers = [picker(f"f{i}") for i in range(len(self._keys))]
        self.type = self._struct | str | None

    def learn(self, contents: Sequence[Any]) -> bool:
        """Add the keys of these raw contents; False if all of them are known."""
        if self._struct is None:
            return False
        known = {"text", *self._keys}
        new_keys = {
            key
            for content in contents
            if bytes(content).startswith(b"{")
            for key in msgspec.json.decode(content, type=dict[str, Raw])
            if key not in known
        }
        if not new_keys:
            return False
        if len(new_keys) + len(self._keys) > _MAX_KEYS or not all(map(is_field_name, new_keys)):
            self._struct, self.type = None, ANY_CONTENT
        else:
            self._keys += sorted(new_keys)
            self._build()
        return True

    def split(self, contents: list[Any]) -> tuple[list[str | None], list[str | None]]:
        """The texts of decoded contents, and the JSON of the rest of each.

        The rest is ``{}`` for an object with nothing but a text, and None if the
        content is not an object.
        """
        types = set(map(type, contents))
        if self._struct is None or not types <= {self._struct, str, type(None)}:
            return split_contents(contents)
        if types <= {self._struct}:
            objects, texts = contents, self._pick_text(contents)
            rests: list[str | None] = ["{}"] * len(contents)
        else:
            empty = self._struct()
            objects = [content if isinstance(content, self._struct) else empty for content in contents]
            texts = [
                content if isinstance(content, str) else content_object.text
                for content, content_object in zip(contents, objects, strict=True)
            ]
            rests = ["{}" if isinstance(content, self._struct) else None for content in contents]
        others: dict[int, dict[str, Any]] = {}
        for key, pick in zip(self._keys, self._pickers, strict=True):
            for row, raw in enumerate(pick(objects)):
                if raw:
                    others.setdefault(row, {})[key] = raw
        for row, rest in others.items():
            rests[row] = encode_object(rest)
        return texts, rests


def split_contents(contents: list[Any]) -> tuple[list[str | None], list[str | None]]:
    """Like `ContentReader.split`, for contents of type `ANY_CONTENT`."""
    raws: list[Any] = []
    rests: list[str | None] = []
    for content in contents:
        raw: Any = b"null"
        if isinstance(content, str):
            raw = to_json(content).encode()
        elif content and bytes(content.get("text", b"")).startswith((b'"', b"null")):
            raw = content.pop("text")
        raws.append(raw)
        rests.append(encode_object(content) if isinstance(content, dict) else None)
    # Decode all texts of a page at once: one call per text costs as much as everything
    # else together.
    return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[str | None]), rests


def struct(name: str, fields: list[Any], rename: dict[str, str]) -> Any:
    """A struct type that rejects unknown fields."""
    # gc=False: the items of a page contain no cycles, and tracking a million of them
    # costs more than reading them.
    return msgspec.defstruct(name, fields, rename=rename, forbid_unknown_fields=True, gc=False)


def picker(attribute: str) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that returns one attribute of each of many structs of one type.

    Examples
    --------
    >>> picker("real")([1, 2])
    [1, 2]
    """
    # A separate comprehension per attribute is a third faster than attrgetter, because
    # the interpreter caches the attribute's offset in it.
    pick: Callable[[Sequence[Any]], list[Any]] = eval(f"lambda items: [item.{attribute} for item in items]")  # noqa: S307
    return pick


def is_field_name(name: str) -> bool:
    """Whether msgspec accepts a key as the name of a struct field."""
    return not any(character in '\\"' or character < " " for character in name)


def encode_object(raws: Mapping[str, Any]) -> str:
    """The JSON object of raw values, nested mappings included.

    Examples
    --------
    >>> encode_object({"a": b"1", "b": {"c": b"[]"}})
    '{"a":1,"b":{"c":[]}}'
    """
    members = [
        f"{to_json(key)}:{encode_object(value) if isinstance(value, Mapping) else raw_text(value)}"
        for key, value in raws.items()
    ]
    return "{" + ",".join(members) + "}"


def to_json(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


def raw_text(raw: Any) -> str:
    """A raw JSON value as text."""
    return bytes(raw).decode("utf-8", "replace")

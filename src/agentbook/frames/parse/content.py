"""Splits an event's ``content`` into its text and the JSON of everything else.

A page whose contents hold nothing but texts is decoded into structs. Once a load meets
other contents, it keeps their bytes as received and searches them for texts, all
contents of a page at once: decoding and re-encoding each one would cost several times
as much. Only a content that may hold a text besides other fields is decoded on its own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .byte_search import positions_of
from .json_arrays import TEXT, json_array

Raw = msgspec.Raw
NO_RAW = Raw()
# Any readable content without a struct: an object, plain text, or null.
ANY_CONTENT = dict[str, Raw] | str | None
_QUOTE, _BRACE, _NULL = b'"{n'
_ESCAPED_LETTER = re.compile(rb"\\u00(?:65|74|78)")  # of "text"


def struct(name: str, fields: list[Any], rename: dict[str, str]) -> Any:
    """A struct type that rejects unknown fields."""
    # gc=False: the items of a page contain no cycles, and tracking a million of them
    # costs more than reading them.
    return msgspec.defstruct(name, fields, rename=rename, forbid_unknown_fields=True, gc=False)


_TextOnly: Any = struct("Content", [("text", str | None, None)], {})


class _Text(msgspec.Struct, gc=False):
    """The text of a content, and nothing else."""

    text: Raw = NO_RAW


class ContentReader:
    """Decodes contents; `type` goes into the item's struct.

    Attributes
    ----------
    type : type
        A struct for contents with only a text, until `learn` meets others; then `Raw`.
    """

    def __init__(self) -> None:
        self._pick_text = picker("text")
        self._texts = msgspec.json.Decoder(list[_TextOnly])
        self._any_texts = msgspec.json.Decoder(list[_Text])
        self.type: Any = _TextOnly | str | None
        self._empty_objects = pa.array([], TEXT)  # one for each content of the last page
        self._one_text = msgspec.json.Decoder(self.type)

    def learn(self, contents: Sequence[Any]) -> bool:
        """Keep contents raw from now on if any of these holds more than a text."""
        if self.type is Raw:
            return False
        for content in contents:
            try:
                self._one_text.decode(content)
            except msgspec.ValidationError:
                if bytes(content).startswith(b"{"):
                    self.type = Raw
                    return True
        return False

    def split(self, contents: list[Any]) -> tuple[Any, Any] | None:
        """The texts of decoded contents and the JSON of the rest, as Arrow arrays.

        The rest is ``{}`` for an object with nothing but a text, and null if the
        content is not an object. None if a content is neither an object nor a text.
        """
        if self.type is Raw:
            return self._split_raw(contents)
        texts, rests = self._split_texts(contents)
        return pa.array(texts, TEXT), rests

    def _split_texts(self, contents: list[Any]) -> tuple[list[str | None], Any]:
        try:
            texts = self._pick_text(contents)
        except AttributeError:  # some are themselves texts, or null
            texts = [content.text if isinstance(content, _TextOnly) else content for content in contents]
            rests = ["{}" if isinstance(content, _TextOnly) else None for content in contents]
            return texts, pa.array(rests, TEXT)
        if len(self._empty_objects) != len(contents):
            self._empty_objects = pa.array(["{}"] * len(contents), TEXT)
        return texts, self._empty_objects

    def _split_raw(self, raws: list[Any]) -> tuple[Any, Any] | None:
        lengths = np.fromiter(map(len, raws), np.int64, len(raws))
        if not lengths.all():  # missing means null
            raws = [raw or b"null" for raw in raws]
            lengths[lengths == 0] = 4
        data = b"".join(raws)
        starts = np.cumsum(lengths) - lengths
        first = np.frombuffer(data, np.uint8)[starts]
        is_object = first == _BRACE
        is_null = None
        texts: list[str | None] = [None] * len(raws)
        mixed: list[int] = []  # rows that hold more than a text, or are one themselves
        if not is_object.all():
            if not (is_object | (first == _QUOTE) | (first == _NULL)).all():
                return None
            is_null = ~is_object
            mixed = np.flatnonzero(is_null).tolist()
        text_only, others = _rows_with_text(data, starts)
        if text_only:
            try:
                decoded = self._texts.decode(_json_list(raws, text_only))
            except msgspec.ValidationError:
                others += text_only
            else:
                for row, text in zip(text_only, self._pick_text(decoded), strict=True):
                    texts[row], raws[row] = text, b"{}"
                lengths[text_only] = 2
        if others:
            others = [row for row in others if is_object[row]]
            probed = self._pick_text(self._any_texts.decode(_json_list(raws, others)))
            mixed += [row for row, text in zip(others, probed, strict=True) if text]
        if mixed:
            contents = msgspec.json.decode(_json_list(raws, mixed), type=list[ANY_CONTENT])
            for row, text, rest in zip(mixed, *split_contents(contents), strict=True):
                texts[row], raws[row] = text, rest or b""
                lengths[row] = len(raws[row])
        if text_only or mixed:
            data = b"".join(raws)
        return pa.array(texts, TEXT), json_array(data, lengths, is_null)


def _rows_with_text(data: bytes, starts: npt.NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """The rows of contents that begin with a text and have no other such key.

    Also the other rows that may have a text somewhere. `data` are the bytes of all
    contents, one after another.
    """
    leading: list[int] = []
    others: list[int] = []
    signs = np.frombuffer(data, np.uint8)
    at = positions_of(data, b'"text"')
    if len(at):
        rows = np.searchsorted(starts, at, "right") - 1
        leads = at == starts[rows] + 1
        leads &= signs[np.minimum(at + 6, len(signs) - 1)] == ord(":")
        leading = rows[leads].tolist()
        others = rows[~leads].tolist()
    if b"\\" in data:  # a key may spell "text" with escapes, as in "te\\u0078t"
        escaped = [match.start() for match in _ESCAPED_LETTER.finditer(data)]
        others += (np.searchsorted(starts, escaped, "right") - 1).tolist()
    if not others:
        return leading, others
    doubtful = set(others)
    return [row for row in leading if row not in doubtful], sorted(doubtful)


def _json_list(raws: Sequence[Any], rows: Sequence[int]) -> bytes:
    return b"[" + b",".join([raws[row] for row in rows]) + b"]"


def _is_text(raw: Any) -> bool:
    return bytes(raw).startswith((b'"', b"null"))


def split_contents(contents: list[Any]) -> tuple[list[str | None], list[bytes | None]]:
    """The texts of contents of type `ANY_CONTENT`, and the JSON of the rest of each."""
    raws: list[Any] = []
    rests: list[bytes | None] = []
    for content in contents:
        raw: Any = b"null"
        if isinstance(content, str):
            raw = to_json(content).encode()
        elif content and _is_text(content.get("text", b"")):
            raw = content.pop("text")
        raws.append(raw)
        rests.append(msgspec.json.encode(content) if isinstance(content, dict) else None)
    # Decode all texts of a page at once: one call per text would cost as much as
    # everything else together.
    return msgspec.json.decode(b"[" + b",".join(raws) + b"]", type=list[str | None]), rests


@functools.cache
def picker(attribute: str) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that collects one attribute from many structs of one type.

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

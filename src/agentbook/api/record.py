"""JSON as platforms send it: the one reader, and the records that entities become.

msgspec reads strict JSON, fast. A text that it refuses is repaired and read again, so
that one odd value never hides the others:

- a byte order mark is dropped; bytes that are not UTF-8 become U+FFFD, and half of a
  surrogate pair becomes "?";
- ``NaN`` and ``Infinity`` are null;
- a value nested deeper than `MAX_DEPTH` becomes the text `TOO_DEEP`.

Everything else keeps its spelling. Each step takes time in proportion to the text.

A `Record` contains all fields that the platform sent, known to the specification or
not. Values that may be secret (a credential's parameters, say) are masked wherever a
record is shown. A webhook's address lets anyone post to it, so only its host is shown.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from .._masking import MASK, NO_HOST, Hidden, host_of, is_secret, is_secret_name

T = TypeVar("T")

# Raised by decoding if the text is not JSON: malformed, not UTF-8, nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
MAX_DEPTH = 200  # levels; functions that walk through a value use several frames for each
TOO_DEEP = f"<nested more than {MAX_DEPTH} levels deep>"
AROUND = 2  # levels around an item of a page
_MAX_DIGITS = 4000  # Python makes an integer of 4,300 digits at most
# A string, a bracket, or a number that JSON does not have. Strings come first, so that
# their inside is never searched; one that is not closed goes to the end of the text.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_WEBHOOK_URL = re.compile(r"(?i)webhook_?ur[il]\Z")


def read_value(text: bytes, around: int = 0) -> Any:
    """The value of a JSON text; integers of any size, numbers beyond a float infinite.

    Raises one of `UNREADABLE` if the text is not JSON. For `around`, see `repaired`.

    Examples
    --------
    >>> read_value(b'{"cost": NaN, "name": "half an emoji: \\\\ud83d", "most": 1e400}')
    {'cost': None, 'name': 'half an emoji: ?', 'most': inf}
    """
    try:
        return read(msgspec.json.decode, text, around)
    except msgspec.ValidationError:  # a number too large for msgspec
        pass
    try:
        return json.loads(repaired(bytes(text), around), parse_int=_integer)  # not of msgspec's Raw
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None


def read(decode: Callable[[bytes], T], text: bytes, around: int = 0) -> T:
    """What a decoder of msgspec makes of a JSON text, repaired if need be.

    Raises a `msgspec.ValidationError` if a value has another type than the decoder's,
    and one of `UNREADABLE` if the text is not JSON.
    """
    try:
        return decode(text)
    except UNREADABLE as error:
        if isinstance(error, msgspec.ValidationError):
            raise
    return decode(repaired(text, around))


def repaired(text: bytes, around: int = 0) -> bytes:
    r"""Strict JSON, if the text is JSON but for what this module's description names.

    `around` is how many levels surround an entity: 0 for a record, 2 for the items of a
    page. Its values are then the same wherever it comes from.

    Examples
    --------
    >>> repaired(b'\xef\xbb\xbf{"a": NaN, "b": "NaN \\ud800", "c": 1e2}')
    b'{"a": null, "b": "NaN ?", "c": 1e2}'
    """
    text = text.decode("utf-8-sig", "replace").encode()
    pieces: list[bytes] = []
    depth, copied, cut = -around, 0, 0
    for token in _TOKEN.finditer(text):
        word, start, replacement = token[0], token.start(), token[0]
        if word in b"{[":
            depth += 1
            cut = start if depth == MAX_DEPTH + 1 else cut
        elif word in b"}]":
            depth -= 1
            if depth == MAX_DEPTH:
                start, replacement = cut, msgspec.json.encode(TOO_DEEP)
        elif depth <= MAX_DEPTH:
            replacement = b"null" if not word.startswith(b'"') else _ESCAPE.sub(_mended_escape, word)
        if replacement != word:
            pieces += text[copied:start], replacement
            copied = token.end()
    return b"".join([*pieces, text[copied:]])


def _mended_escape(escape: re.Match[bytes]) -> bytes:
    return b"?" if escape[1] else escape[0]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_DIGITS else float(digits)


class Record(dict[str, Any]):
    """One entity: ``record["name"]`` and ``record.name`` are the same object.

    For a field named like a method of dict (``items``), write ``record["items"]``. To
    change a field of this copy, write ``record["name"] = ...``; on the platform, call
    an ``update``.

    Examples
    --------
    >>> agent = Record({"id": "0190", "owner": {"name": "acme"}})
    >>> agent.owner.name
    'acme'
    >>> Record({"params": {"token": "hunter2"}})
    Record(params=…)
    """

    def __init__(self, *fields: Any, **others: Any) -> None:
        super().__init__(*fields, **others)
        self._wrap()

    def _wrap(self) -> None:
        for name, value in super().items():
            if isinstance(value, dict | list):
                super().__setitem__(name, _wrapped(value))

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _wrapped(value))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A record is a copy: write record[{name!r}] = ... to change it, or call an update.")

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            fields = ", ".join(list(self)[:30]) or "none"
            raise AttributeError(f"This record has no field {name!r}; its fields: {fields}.") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self if name.isidentifier())})

    def __repr__(self) -> str:
        return "Record(" + ", ".join(f"{name}={shown_field(name, value)}" for name, value in self.items()) + ")"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(shown_field(name, value))}</td></tr>'
            for name, value in self.items()
        )
        # MathJax ignores these classes, as it ignores pandas' tables, so dollar signs
        # stay text.
        return f'<table class="tex2jax_ignore mathjax_ignore">{rows}</table>'


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return value if isinstance(value, Record) else ItemRecord(value)
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return value


class ItemRecord(Record):
    """A record whose values become records when the first of them is asked for.

    In a list of thousands, most are not. It is a `Record` from then on.
    """

    __init__ = dict.__init__


def _wrap_first(name: str) -> Callable[..., Any]:
    """A method of a dict that returns values."""

    def method(self: ItemRecord, *arguments: Any) -> Any:
        self._wrap()
        object.__setattr__(self, "__class__", Record)
        return getattr(self, name)(*arguments)

    return method


_READS = ("__getitem__", "get", "items", "values", "copy", "pop", "popitem", "setdefault", "__or__", "__reduce_ex__")
for _name in _READS:
    setattr(ItemRecord, _name, _wrap_first(_name))


def secrets_in(value: Any, *, inside: bool = False) -> Iterator[str]:
    """The texts in a request body that may be secret, judging by the field names.

    Examples
    --------
    >>> list(secrets_in({"name": "crm", "params": {"url": "https://h", "tries": 3}}))
    ['https://h']
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from secrets_in(item, inside=inside or is_secret_name(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(item, inside=inside)
    elif isinstance(value, str) and (inside or isinstance(value, Hidden)):
        yield value


def shown_field(name: str, value: Any) -> str:
    """The repr of a field's value, masked if the field may hold a secret.

    Examples
    --------
    >>> shown_field("api_key", "hunter2"), shown_field("name", "crm")
    ('…', "'crm'")
    >>> shown_field("usage", {"prompt_tokens": 12})
    "{'prompt_tokens': 12}"
    """
    if is_secret(name, value):
        return MASK
    if isinstance(value, str) and _WEBHOOK_URL.search(name):
        return repr(host_of(value) or NO_HOST)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key!r}: {shown_field(str(key), item)}" for key, item in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown_field("", item) for item in value) + "]"
    return repr(value)

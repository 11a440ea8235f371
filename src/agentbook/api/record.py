"""A single entity of the platform: a dict that reads like an object.

Records contain all fields that the platform sent, known to the specification or not.
Values that may be secret (a credential's parameters, say) are masked wherever a record
is shown. A webhook's address lets anyone post to it, so only its host is shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from .._masking import MASK, Hidden, is_secret, is_secret_name

_WEBHOOK_URL = re.compile(r"(?i)webhook_?ur[il]\Z")


class Record(dict[str, Any]):
    """One entity: ``record["name"]`` and ``record.name`` are the same.

    For a field named like a method of dict (``items``), write ``record["items"]``.

    Examples
    --------
    >>> agent = Record({"id": "0190", "owner": {"name": "acme"}})
    >>> agent.owner.name
    'acme'
    >>> Record({"params": {"token": "hunter2"}})
    Record(params=…)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return _wrap(self[name])
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


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


def shown(value: Any) -> str:
    """The repr of a JSON value, with possible secrets masked.

    Examples
    --------
    >>> shown({"loc": ["body", "name"], "input": {"refresh_token": "hunter2"}})
    "{'loc': ['body', 'name'], 'input': {'refresh_token': …}}"
    """
    return shown_field("", value)


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
        return repr(_host_only(value))
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key!r}: {shown_field(str(key), item)}" for key, item in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown_field("", item) for item in value) + "]"
    return repr(value)


def _host_only(url: str) -> str:
    """A URL without user, port, path and query."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}/{MASK}" if parts.hostname else MASK
    except ValueError:
        return MASK

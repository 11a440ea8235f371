"""A single entity as it comes back: a dict that reads like an object.

Records keep whatever the platform sent, known to the specification or not. Values that may be secrets (a credential's
parameters, say) are in the data and masked in everything that is shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

# Fields whose values are never shown: the specification's opaque credential objects, and names that speak for themselves.
_SECRET = re.compile(
    r"(?i)\A(params|extra_data|config_params|.*(secret|password|token|api_?key|authorization|private_?key|verifier).*)\Z"
)


class Record(dict[str, Any]):
    """One entity: ``record["name"]`` and ``record.name`` are the same, and unknown fields are kept.

    A field that is named like a method of dict (``items``) is reached by ``record["items"]``.

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
            near = ", ".join(list(self)[:30]) or "none"
            raise AttributeError(f"This record has no field {name!r}; its fields: {near}.") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self if name.isidentifier())})

    def __repr__(self) -> str:
        return "Record(" + ", ".join(f"{name}={_shown(name, value)}" for name, value in self.items()) + ")"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(_shown(name, value))}</td></tr>'
            for name, value in self.items()
        )
        # Pages that typeset what stands between dollars leave tables of these classes alone, as they do pandas' own.
        return f'<table class="tex2jax_ignore mathjax_ignore">{rows}</table>'


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


def shown(value: Any) -> str:
    """A value of JSON as it may be shown: as its repr, with what may be secret masked.

    Examples
    --------
    >>> shown({"loc": ["body", "name"], "input": {"refresh_token": "hunter2"}})
    "{'loc': ['body', 'name'], 'input': {'refresh_token': …}}"
    """
    return _shown("", value)


def _shown(name: str, value: Any) -> str:
    if value is not None and _SECRET.match(name):
        return "…"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key!r}: {_shown(str(key), item)}" for key, item in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown("", item) for item in value) + "]"
    return repr(value)

"""Masking: what a frame shows of a credential's parameters.

Keys stay, values are replaced by their type and length, and nothing of a value's beginning or end is shown: the ends of
a key are what people recognise it by, and half of what a guess needs.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any
from urllib.parse import urlsplit

import msgspec

# Fields of an opaque object that say what it is rather than open anything.
_PLAIN = frozenset({"id", "name", "full_name", "type", "kind", "slug", "title", "label", "status"})
NO_HOST = "<no host>"  # stands for an address without one: nothing of it is shown
_PROCESS_KEY = secrets.token_bytes(32)
_encode = msgspec.json.Encoder(order="deterministic").encode


def mask(value: Any) -> Any:
    """A JSON value with every leaf replaced by its type and length; keys, booleans and null stay.

    Examples
    --------
    >>> mask({"token": "sk-12345", "ports": [80], "tls": True})
    {'token': '<string, 8 characters>', 'ports': ['<number>'], 'tls': True}
    """
    if isinstance(value, dict):
        return {key: mask(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [mask(inner) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"<string, {len(value)} characters>"
    return "<number>"


def mask_but_names(value: Any) -> Any:
    """As `mask`, but ids, names, kinds and instants inside objects stay: enough to tell what something is.

    Examples
    --------
    >>> mask_but_names({"name": "crm", "owner_id": "7", "token": "sk-12345"})
    {'name': 'crm', 'owner_id': '7', 'token': '<string, 8 characters>'}
    """
    if isinstance(value, list):
        return [mask_but_names(inner) for inner in value]
    if not isinstance(value, dict):
        return mask(value)
    return {
        key: inner
        if isinstance(inner, str) and (key in _PLAIN or key.endswith(("_id", "_at")))
        else mask_but_names(inner)
        for key, inner in value.items()
    }


def host_of(url: str) -> str | None:
    """The host of a URL, without user, port, path and query; None where there is none.

    Examples
    --------
    >>> host_of("https://me:secret@hooks.example.com:8443/in/abc?sig=1")
    'hooks.example.com'
    """
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def fingerprint(value: Any) -> str:
    """Sixteen hex digits, equal for equal JSON values within this process.

    Keyed with a key that is drawn at random and never leaves the process, so that a fingerprint in a saved notebook
    cannot be tried against guesses.
    """
    return hmac.digest(_PROCESS_KEY, _encode(value), "sha256").hex()[:16]

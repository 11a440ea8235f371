"""Masks credentials' parameters before a frame shows them.

Keys stay; values are replaced by their type and length. No part of a value is shown,
not even its first or last characters: they identify a key and make it easier to guess.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...api.redaction import is_secret

# Fields of an opaque object that identify it and are never secret.
_IDENTIFYING = frozenset({"id", "name", "full_name", "type", "kind", "slug", "title", "label", "status"})
NO_HOST = "<no host>"  # shown in place of an address without a host
_PROCESS_KEY = secrets.token_bytes(32)
_encode = msgspec.json.Encoder(order="deterministic").encode


def mask(value: Any) -> Any:
    """A JSON value with every leaf replaced by its type and length.

    Keys, booleans and null stay.

    Examples
    --------
    >>> mask({"token": "sk-12345", "ports": [80], "tls": True})
    {'token': '<string, 8 characters>', 'ports': ['<number>'], 'tls': True}
    """
    if isinstance(value, dict):
        return {key: mask(member) for key, member in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"<string, {len(value)} characters>"
    return "<number>"


def mask_except_names(value: Any) -> Any:
    """Like `mask`, but ids, names, kinds and times inside objects stay.

    They are enough to identify the object.

    Examples
    --------
    >>> mask_except_names({"name": "crm", "owner_id": "7", "token": "sk-12345"})
    {'name': 'crm', 'owner_id': '7', 'token': '<string, 8 characters>'}
    """
    if isinstance(value, list):
        return [mask_except_names(item) for item in value]
    if not isinstance(value, dict):
        return mask(value)
    return {
        key: member
        if isinstance(member, str) and (key in _IDENTIFYING or key.endswith(("_id", "_at")))
        else mask_except_names(member)
        for key, member in value.items()
    }


def mask_secrets(value: Any) -> Any:
    """A JSON value with the fields masked whose names suggest a secret.

    Examples
    --------
    >>> mask_secrets({"region": "eu", "auth": {"api_key": "sk-12345"}, "tokens": 12})
    {'region': 'eu', 'auth': {'api_key': '<string, 8 characters>'}, 'tokens': 12}
    """
    if isinstance(value, list):
        return [mask_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: mask(member) if is_secret(key, member) else mask_secrets(member) for key, member in value.items()}


def masked(mask_: Callable[[Any], Any], value: Any) -> Any:
    """A value masked by one of these functions; as a whole, if it is nested deeply."""
    try:
        return mask_(value)
    except RecursionError:
        return "<masked>"


def host_of(url: str) -> str | None:
    """The host of a URL, without user, port, path and query; None if it has no host.

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

    The HMAC key is random and never leaves the process, so guesses cannot be tested
    against a fingerprint in a saved notebook.
    """
    return hmac.digest(_PROCESS_KEY, _encode(value), "sha256").hex()[:16]

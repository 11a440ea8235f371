"""Masks the client's own credential in agents' texts, which are stored in files."""

from __future__ import annotations

from typing import Any

from ..api.auth import redactor_of


def without_own_key(client: Any, text: str) -> str:
    """A text from the platform with the client's own credential masked.

    Examples
    --------
    >>> client = ab.Client("https://host/v1", credentials=ab.ApiKey("id:s3cret"))
    >>> without_own_key(client, "It is s3cret.")
    'It is ….'
    """
    return redactor_of(getattr(client, "auth", None)).text(text)

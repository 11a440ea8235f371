"""Text that comes from outside the service."""

from __future__ import annotations


def replace_surrogates(text: str) -> str:
    r"""`text` with each lone surrogate replaced by ``?``.

    An engine or a model may produce half of an emoji, which UTF-8 cannot encode.

    Examples
    --------
    >>> replace_surrogates("half \ud83d")
    'half ?'
    """
    return text.encode("utf-8", "replace").decode()

"""Text that comes from outside the service."""

from __future__ import annotations

import unicodedata

# Control characters, those that hide or reorder others, lone surrogates, and line and
# paragraph separators. The joiners, which emoji and some scripts need, are not among
# them.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")


def is_visible(text: str) -> bool:
    r"""Whether `text` is one line in which every character shows.

    Examples
    --------
    >>> is_visible("nightly report"), is_visible("two\nlines"), is_visible("a\u202eb")
    (True, False, False)
    """
    return all(c in _JOINERS or unicodedata.category(c) not in _INVISIBLE for c in text)

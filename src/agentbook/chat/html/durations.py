"""Durations in words."""

from __future__ import annotations


def seconds(value: float) -> str:
    """A duration for people: ``0.4 s``, ``12 s``, ``3 min 5 s``.

    Examples
    --------
    >>> seconds(0.42), seconds(185)
    ('0.4 s', '3 min 5 s')
    """
    if value < 9.95:
        return f"{value:.1f} s"
    total = round(value)
    return f"{total} s" if total < 60 else f"{total // 60} min {total % 60} s"

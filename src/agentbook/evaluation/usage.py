"""What a reply used, from the events of its turn.

The specification has no such field. Platforms send an object ``usage`` next to the
content of an event or inside it, with the names that one model provider or another
uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..frames.analysis.turns import COUNTS, is_estimate, numbers_of


def usage_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The model and the token sums of a turn's events; None where no event has them.

    A sum is also None if one of the events with usage lacks the number.

    Examples
    --------
    >>> events = [{"usage": {"prompt_tokens": 7, "completion_tokens": 2, "model": "m"}}]
    >>> usage_of(events)
    {'model': 'm', 'input_tokens': 7, 'output_tokens': 2, 'tokens': 9}
    """
    sums: dict[str, Any] = {"model": None, **dict.fromkeys(COUNTS)}
    lacking: set[str] = set()
    for event in events:
        content = event.get("content")
        usage = event.get("usage") or (content.get("usage") if isinstance(content, Mapping) else None)
        if isinstance(usage, Mapping):
            model = usage.get("model") or event.get("model")
            sums["model"] = model if isinstance(model, str) else sums["model"]
            numbers = numbers_of(usage)
            for name, number in numbers.items():
                sums[name] = (sums[name] or 0) + number
            if numbers or is_estimate(usage):
                lacking |= COUNTS.keys() - numbers.keys()
    return {**sums, **dict.fromkeys(lacking)}

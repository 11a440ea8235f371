"""Reads YAML from a platform, which may be hostile.

In a few hundred bytes, aliases of aliases can stand for more than fits into memory, and
deep nesting can crash the process, because libyaml's binding recurses in C. So the
events of a document are counted before it is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_BYTES = 16 << 20
MAX_DEPTH = 100
MAX_NODES = 1_000_000  # counting every repetition by aliases


def read_mapping(body: bytes) -> Mapping[str, Any]:
    """The mapping that a document holds; empty if it holds something else.

    Raises
    ------
    ValueError
        If it is not YAML, or is larger or deeper than any API description.

    Examples
    --------
    >>> read_mapping(b"paths: {/me: {}}")
    {'paths': {'/me': {}}}
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if len(body) > MAX_BYTES:
        raise ValueError(f"the document is larger than {MAX_BYTES >> 20} MiB")
    try:
        _check_events(yaml.parse(body, loader))
        document = yaml.load(body, loader)  # noqa: S506 - both loaders are safe
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    return document if isinstance(document, dict) else {}


def _check_events(events: Any) -> None:
    import yaml

    sizes: dict[str | None, int] = {}  # of everything that has an anchor
    open_: list[tuple[str | None, int]] = []  # anchors of collections, and the count at their start
    count = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(f"the alias {event.anchor} names nothing before it")
            count += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, count))
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, begin = open_.pop()
            sizes[anchor] = count - begin
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            sizes[event.anchor] = 1
        if len(open_) > MAX_DEPTH or count > MAX_NODES:
            raise ValueError("the document is nested too deeply, or repeats itself too often")

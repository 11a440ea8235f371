"""The reply that `tests/benchmarks/chat.py` shows."""

from __future__ import annotations

import re

PROSE = re.findall(
    r"\w+",
    "the panel shows what an agent says while the kernel works on and a reader may scroll copy and ask again",
)


def tokens(count: int, mark_every: int = 10) -> list[str]:
    """A reply as tokens of about 4.7 characters each.

    It has headings, prose, lists, code and a table. In prose and lists, every
    `mark_every`-th token is its own number.
    """
    pieces: list[str] = []
    while len(pieces) < count:
        n = len(pieces)
        if n % 400 < 40 and n % 200 < 20:
            pieces += ["\n\n", "## ", "Part ", f"{n} ", "\n\n"]
        for kind in ("prose", "list", "prose", "code", "prose", "table"):
            pieces += _block(kind, len(pieces), mark_every)
    return [*pieces[: count - 1], f" w{count - 1}."]


def _block(kind: str, start: int, mark_every: int) -> list[str]:
    def words(first: int, number: int) -> list[str]:
        return [f"w{n} " if n % mark_every == 0 else f"{PROSE[n % len(PROSE)]} " for n in range(first, first + number)]

    if kind == "prose":
        return [*words(start, 60), "\n\n"]
    if kind == "list":
        out: list[str] = []
        for _ in range(5):
            out += ["\n- ", *words(start + len(out) + 1, 9)]
        return [*out, "\n\n"]
    if kind == "code":
        code = "```python\nfor item in items :\n    total += item . size\nprint ( total )\n```\n\n"
        return re.findall(r"\s*\S+\s*", code)
    row = ["| ", "some ", "| ", "12 ", "|\n"]
    return ["| ", "name ", "| ", "size ", "|\n", "|---|---|\n", *row, *row, *row, "\n"]

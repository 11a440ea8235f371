"""The state of a panel in a page, and the numbered patches that keep it up to date.

`PageState` knows nothing of widgets: it collects changes and hands them out as the
messages that `panel_view` documents.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Turn:
    html: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)  # where the pieces end, in UTF-16 units
    final: int = 0

    def as_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {"html": dict(self.html), "data": dict(self.data)}
        if self.pieces:
            values |= {"body": "".join(self.pieces), "cuts": list(self.cuts), "final": self.final}
        return values


class PageState:
    """The fields and turns of a panel as a page shows them.

    Code that changes it, or takes what it sends, holds `lock` from the first change
    until the patch is taken. So a snapshot never contains half of a patch.

    Attributes
    ----------
    version : int
        The number of the last patch.
    lock : RLock

    Examples
    --------
    >>> state = PageState()
    >>> state.arrange(["t1"])
    >>> state.set_body("t1", ["<p>Hello</p>"])
    >>> state.take_patch()["ops"]
    [['turns', 0, 0, ['t1']], ['body', 't1', 0, 0, '<p>Hello</p>']]
    >>> state.set_body("t1", ["<p>Hello you</p>"])
    >>> state.take_patch()
    {'version': 2, 'ops': [['body', 't1', 8, 0, ' you']]}
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self._fields: dict[str, Any] = {}
        self._order: list[str] = []
        self._turns: dict[str, _Turn] = {}
        self._ops: list[list[Any]] = []

    def set_fields(self, **values: Any) -> None:
        """Set what surrounds the turns, by name, to values of JSON."""
        for name, value in values.items():
            if name not in self._fields or self._fields[name] != value:
                self._fields[name] = value
                self._ops.append(["field", name, value])

    def arrange(self, order: Sequence[str]) -> None:
        """Set the ids of the turns in order; turns that are left out are removed."""
        order = list(order)
        if order == self._order:
            return
        start = _common_length(self._order, order)
        end = _common_length(self._order[start:][::-1], order[start:][::-1])
        removed = len(self._order) - start - end
        self._ops.append(["turns", start, removed, order[start : len(order) - end]])
        self._order = order
        self._turns = {turn: self._turns.get(turn) or _Turn() for turn in order}

    def set_html(self, turn: str, part: str, html: str) -> None:
        """Set a part of a turn to safe HTML; only the changed part of it is sent."""
        values = self._turns[turn].html
        before = values.get(part, "")
        if html != before:
            values[part] = html
            self._ops.append(["html", turn, part, *_splice(before, html)])

    def set_data(self, turn: str, **values: Any) -> None:
        """Set what a turn has besides HTML, by name, to values of JSON."""
        data = self._turns[turn].data
        for name, value in values.items():
            if name not in data or data[name] != value:
                data[name] = value
                self._ops.append(["data", turn, name, value])

    def set_body(self, turn: str, pieces: Sequence[str], final: int = 0) -> None:
        """Set the reply of a turn to pieces of safe HTML.

        The first `final` of them will not change again. Only what changed is sent;
        pieces that are merely cut in another place are not sent again.
        """
        values = self._turns[turn]
        pieces = [piece for piece in pieces if piece]
        first = _common_length(values.pieces, pieces)
        before, after = "".join(values.pieces[first:]), "".join(pieces[first:])
        base = values.cuts[first - 1] if first else 0
        cuts = values.cuts[:first]
        for piece in pieces[first:]:
            cuts.append((cuts[-1] if cuts else 0) + _units(piece))
        if cuts == values.cuts and before == after and final == values.final:
            return
        grown = cuts[:-1] == values.cuts[:-1] and bool(cuts) and final == values.final
        values.pieces, values.cuts, values.final = pieces, cuts, final
        start, removed, text = _splice(before, after)
        self._ops.append(["body", turn, base + start, removed, text, *([] if grown else [first, cuts[first:], final])])

    def take_patch(self) -> dict[str, Any] | None:
        """The changes since the last patch as a message; None without any."""
        if not self._ops:
            return None
        self.version += 1
        ops, self._ops = self._ops, []
        return {"version": self.version, "ops": ops}

    def snapshot(self) -> dict[str, Any]:
        """The whole state as a message; waits until pending changes are complete."""
        with self.lock:
            turns = [[turn, self._turns[turn].as_values()] for turn in self._order]
            return {"kind": "snapshot", "version": self.version, "fields": dict(self._fields), "turns": turns}


def _splice(before: str, after: str) -> tuple[int, int, str]:
    """How `before` becomes `after`: the start, how many units go, and the new text."""
    start = _common_length(before, after)
    ended, begun = before[start:], after[start:]
    end = _common_length(ended[::-1], begun[::-1])
    return _units(after[:start]), _units(ended[: len(ended) - end]), begun[: len(begun) - end]


def _units(text: str) -> int:
    """The length of a text in a page, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _common_length(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many of the first elements are equal."""
    # Comparing halves takes a few calls; comparing elements takes one for each.
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

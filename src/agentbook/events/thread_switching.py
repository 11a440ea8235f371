"""Lets the toolkit's thread run often while a cell is computing.

Only one thread runs Python at a time, and a computing thread keeps the interpreter for
5 milliseconds after another asks for it. Between a token and the message that shows it,
the interpreter changes hands about ten times, so with such a cell running, a reply
would be painted 40 ms later than with an idle kernel. While a reply is on its way, the
interpreter is handed over after half a millisecond instead. That does not measurably
slow down a computing cell: nothing changes unless another thread asks.

Both functions do nothing on threads other than the toolkit's, whose loop never ends: on
another loop, a `hasten` might never get its `relax`.
"""

from __future__ import annotations

import sys

from .loop import on_loop_thread

INTERVAL_S = 0.0005

_count = 0
_before_s = _ours_s = 0.0


def hasten() -> None:
    """Switch threads more often, until `relax` has been called as often as `hasten`."""
    global _count, _before_s, _ours_s
    if not on_loop_thread():
        return
    _count += 1
    current_s = sys.getswitchinterval()
    if _count == 1 and current_s > INTERVAL_S:
        sys.setswitchinterval(INTERVAL_S)
        _before_s, _ours_s = current_s, sys.getswitchinterval()


def relax() -> None:
    """End one `hasten`; the last one restores the interval, unless another was set."""
    global _count, _ours_s
    if not on_loop_thread():
        return
    _count -= 1
    if _count == 0:
        if sys.getswitchinterval() == _ours_s:
            sys.setswitchinterval(_before_s)
        _ours_s = 0.0

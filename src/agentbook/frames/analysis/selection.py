"""Which rows and groups an analysis counts: ``since=``, ``until=`` and ``top=``.

They mean the same wherever they occur, in tables and charts. `groups_of` in
`agentbook.frames.analysis.validate` does the same for ``by=``, and
`agentbook.frames.analysis.periods` for ``freq=`` and ``tz=``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from ...api.errors import EmptyWarning
from ...api.span import Span, parse_span
from ..parse.schemas import STR
from .periods import zone_in
from .validate import moment_of, warn_caller

OTHER = "other"
_LOAD_MORE = 'Load a longer span, as in ab.load_history(client, account, since="90d"), or more sessions.'
P = ParamSpec("P")
T = TypeVar("T")
# Whether a warning was already given; None outside `warns_once` and `silent`.
_has_warned: ContextVar[bool | None] = ContextVar("_has_warned", default=None)


def span_in(frame: pd.DataFrame, column: str, since: Any, until: Any, *, tz: str | None = None) -> Span:
    """As `parse_span`; lengths of time count back from when the frame was loaded.

    If the frame does not say, they count back from the latest value of `column`.
    Without `tz`, dates and clock times are those of the frame's history.
    """
    now = moment_of(frame, None, column) if since is not None or until is not None else None
    return parse_span(since, until, zone_in(tz, frame), now=now)


def rows_in(span: Span, frame: pd.DataFrame, moments: pd.Series, *, caller: str = "") -> pd.DataFrame:
    """The rows of `frame` whose moment lies in the span, with its ``attrs``.

    If there are none, it warns in the name of `caller`.
    """
    if not span:
        return frame
    rows: pd.DataFrame = frame[span.contains(moments).to_numpy()]
    if caller and rows.empty and not frame.empty:
        _warn(
            f"{caller}: none of {len(frame):,} rows lies in the span of since= and until=. They are from "
            f"{moments.min()} to {moments.max()}: choose a span that begins and ends there."
        )
    rows.attrs = frame.attrs
    return rows


def warn_if_empty(frame: pd.DataFrame, *, caller: str, advice: str = _LOAD_MORE) -> None:
    """Warn with `EmptyWarning` if there is nothing to analyse, and say what to do.

    A frame from a history can say better than `advice` why it is empty (`with_advice`).
    """
    if frame.empty:
        advice = frame.attrs.get("agentbook", {}).get("advice") or advice
        _warn(f"{caller}: the frame has no rows, so the result is empty. {advice}")


def with_advice(frame: pd.DataFrame, hint: str) -> pd.DataFrame:
    """The frame; if it is empty, `warn_if_empty` shows `hint`."""
    if not frame.empty or not hint:
        return frame
    frame = frame.copy()
    frame.attrs["agentbook"] = {**frame.attrs.get("agentbook", {}), "advice": f"There are {hint}."}
    return frame


def warns_once(chart: Callable[P, T]) -> Callable[P, T]:
    """Make a chart that builds several tables warn only once that there are no rows."""

    @functools.wraps(chart)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _has_warned.set(bool(_has_warned.get()))
        try:
            return chart(*args, **kwargs)
        finally:
            _has_warned.reset(token)

    return call


@contextmanager
def silent() -> Iterator[None]:
    """No warnings that there are no rows, in this thread."""
    token = _has_warned.set(True)
    try:
        yield
    finally:
        _has_warned.reset(token)


def _warn(text: str) -> None:
    if not _has_warned.get():
        warn_caller(text, EmptyWarning)
    if _has_warned.get() is not None:
        _has_warned.set(True)


def require_top(top: Any, *, caller: str) -> None:
    """Raise a ValueError unless `top` is a positive whole number."""
    if isinstance(top, bool) or not hasattr(top, "__index__") or operator.index(top) < 1:
        raise ValueError(f"{caller} keeps the top= largest groups: a whole number of 1 or more, not {top!r}.")


def keep_top(frame: pd.DataFrame, groups: Sequence[str], top: int | None, *, caller: str) -> pd.DataFrame:
    """The frame, with all but the largest groups together as ``"other"``.

    Parameters
    ----------
    frame : DataFrame
    groups : sequence of str
        The columns to group by.
    top : int or None
        How many groups to keep apart: those with the most rows. None keeps all.
    caller : str
        The function called, for error messages.

    Returns
    -------
    DataFrame
        With columns `groups` as text, if there are more groups than `top`.

    Raises
    ------
    ValueError
        If `top` is not a positive whole number, or there is nothing to group by.

    Examples
    --------
    >>> frame = pd.DataFrame({"agent": ["a", "a", "b", "b", "c", "d"]})
    >>> keep_top(frame, ["agent"], 2, caller="latency")["agent"].to_list()
    ['a', 'a', 'b', 'b', 'other', 'other']
    """
    if top is None:
        return frame
    require_top(top, caller=caller)
    if not groups:
        raise ValueError(f"{caller} has no groups to choose the top {top} of: add by=, or leave top= out.")
    number = frame.groupby(list(groups), observed=True, dropna=False, sort=True).ngroup()
    sizes = number.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    if len(sizes) <= top:
        return frame
    rest = ~number.isin(sizes.index[:top])
    return frame.assign(**{name: frame[name].astype(STR).mask(rest, OTHER) for name in groups})


__all__ = ["OTHER", "keep_top", "rows_in", "silent", "span_in", "warn_if_empty", "with_advice"]

"""Which rows and groups an analysis counts: ``since=``, ``until=`` and ``top=``.

They mean the same wherever they occur, in tables and charts. `groups_of` in
`agentbook.frames.analysis.validate` does the same for ``by=``, and
`agentbook.frames.analysis.periods` for ``freq=`` and ``tz=``.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from ...api.errors import EmptyWarning
from ..parse.schemas import STR
from .periods import local_instant, zone_in
from .validate import instant_of, length_of, moment_of

OTHER = "other"
_LOAD_MORE = 'Load a longer span, as in ab.load_history(client, account, since="90d"), or more sessions.'
_LENGTH = re.compile(r"\s*\d+(?:\.\d+)?\s*[A-Za-z]+\s*")  # "30d"
_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")
_PACKAGE = str(Path(__file__).parents[2])
P = ParamSpec("P")
T = TypeVar("T")
# Whether a warning was already given; None outside `warns_once` and `silent`.
_has_warned: ContextVar[bool | None] = ContextVar("_has_warned", default=None)


@dataclass(frozen=True, slots=True)
class Span:
    """The time from `since` on and before `until`; None leaves an end open.

    When `select` selects nothing, it warns in the name of `caller`, if there is one.

    Examples
    --------
    >>> span = span_of("2026-10-01", "2026-10-08", now=None)
    >>> moments = pd.Series(pd.to_datetime(["2026-10-01T00:00Z", "2026-10-08T00:00Z"]))
    >>> span.contains(moments).to_list()
    [True, False]
    """

    since: pd.Timestamp | None
    until: pd.Timestamp | None
    caller: str = ""

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def contains(self, moments: pd.Series) -> pd.Series:
        """Whether each moment lies in the span; null only if both are open."""
        inside = pd.Series(True, moments.index)
        if self.since is not None:
            inside &= moments >= self.since
        if self.until is not None:
            inside &= moments < self.until
        return inside

    def select(self, frame: pd.DataFrame, moments: pd.Series) -> pd.DataFrame:
        """The rows of `frame` whose moment lies in the span, with its ``attrs``."""
        if not self:
            return frame
        rows = frame[self.contains(moments).to_numpy()]
        if self.caller and rows.empty and not frame.empty:
            _warn(
                f"{self.caller}: none of {len(frame):,} rows lies in the span of since= and until=. They are from "
                f"{moments.min()} to {moments.max()}: choose a span that begins and ends there."
            )
        rows.attrs = frame.attrs
        return rows

    def details(self) -> dict[str, str]:
        """The ends in ISO 8601, for a frame's provenance."""
        ends = {"since": self.since, "until": self.until}
        return {name: moment.isoformat() for name, moment in ends.items() if moment is not None}


def span_of(
    since: Any, until: Any, *, now: Any, tz: str | None = None, names: tuple[str, str] = ("since", "until")
) -> Span:
    """The span of ``since=`` and ``until=``.

    Parameters
    ----------
    since, until : str, datetime, date or Timedelta, optional
        Instants with a time zone; dates such as ``"2026-10-03"``, which begin at
        midnight in `tz`; times on the clock of `tz`; or lengths of time before `now`,
        such as ``"30d"``. None leaves an end open.
    now : Timestamp
        From when lengths of time count back.
    tz : str, optional
        Time zone of dates and clock times, as an IANA name. Without one, dates are in
        UTC, and clock times are refused.
    names : tuple of str
        What error messages call the two ends.

    Raises
    ------
    ValueError
        If an end is not a time, has a clock time without a time zone, or if `since` is
        not before `until`.

    Examples
    --------
    >>> span_of("7d", None, now=pd.Timestamp("2026-10-08", tz="UTC")).since
    Timestamp('2026-10-01 00:00:00+0000', tz='UTC')
    >>> span_of("2026-10-08", "2026-10-01", now=None)
    Traceback (most recent call last):
    ...
    ValueError: since must be before until, and 2026-10-08 00:00 UTC is not before ...
    """
    begin, end = (_end_of_span(value, name, now, tz) for value, name in zip((since, until), names, strict=True))
    if begin is not None and end is not None and begin >= end:
        raise ValueError(
            f"{names[0]} must be before {names[1]}, and {begin:%Y-%m-%d %H:%M} UTC is not before {end:%Y-%m-%d %H:%M} UTC: "
            "exchange them, or leave one out."
        )
    return Span(begin, end)


def span_in(
    frame: pd.DataFrame, column: str, since: Any, until: Any, *, tz: str | None = None, caller: str = ""
) -> Span:
    """As `span_of`; lengths of time count back from when the frame was loaded.

    If the frame does not say, they count back from the latest value of `column`.
    Without `tz`, dates and clock times are those of the frame's history.
    """
    tz = zone_in(tz, frame)
    now = moment_of(frame, None, column) if since is not None or until is not None else None
    # UTC is the default: a clock time should then say that it is meant.
    return replace(span_of(since, until, now=now, tz=None if tz == "UTC" else tz), caller=caller)


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


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that made the call."""
    warnings.warn(text, category, stacklevel=_level_of_caller())


def _warn(text: str) -> None:
    if not _has_warned.get():
        warn_caller(text, EmptyWarning)
    if _has_warned.get() is not None:
        _has_warned.set(True)


def _level_of_caller() -> int:
    """The stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _end_of_span(value: Any, name: str, now: Any, tz: str | None) -> pd.Timestamp | None:
    if value is None:
        return None
    if isinstance(value, (timedelta, np.timedelta64)) or (isinstance(value, str) and _LENGTH.fullmatch(value)):
        return None if now is None or pd.isna(now) else now - length_of(value, name)
    moment: pd.Timestamp
    if (isinstance(value, date) and not isinstance(value, datetime)) or (
        isinstance(value, str) and _DATE.fullmatch(value)
    ):
        moment = local_instant(instant_of(value, name), tz or "UTC")
        return moment
    moment = instant_of(value, name, or_length=True)
    if pd.Timestamp(value).tzinfo is None:
        if tz is not None:
            moment = local_instant(moment, tz)
            return moment
        raise ValueError(
            f"{name} must say its time zone, and {value!r} has none: write {moment:%Y-%m-%dT%H:%M:%SZ} for UTC, or a "
            "date such as '2026-11-01' for midnight."
        )
    return moment


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
    if isinstance(top, bool) or not hasattr(top, "__index__") or operator.index(top) < 1:
        raise ValueError(f"{caller} keeps the top= largest groups: a whole number of 1 or more, not {top!r}.")
    if not groups:
        raise ValueError(f"{caller} has no groups to choose the top {top} of: add by=, or leave top= out.")
    number = frame.groupby(list(groups), observed=True, dropna=False, sort=True).ngroup()
    sizes = number.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    if len(sizes) <= top:
        return frame
    rest = ~number.isin(sizes.index[:top])
    return frame.assign(**{name: frame[name].astype(STR).mask(rest, OTHER) for name in groups})


__all__ = ["OTHER", "Span", "keep_top", "silent", "span_in", "span_of", "warn_caller", "warn_if_empty", "with_advice"]

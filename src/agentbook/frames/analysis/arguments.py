"""The arguments of analyses and charts: columns, ``by=``, spans, ``top=``, ``freq=``.

They mean the same wherever they occur. A wrong one is a `ValueError` that names the
function called and what it accepts. `frame_of` and `events_of`, which take anything
tabular, are in `agentbook.frames.tabular`; `turns_of` is in
`agentbook.frames.analysis.turns`.

Periods (``freq=``) are those of local time: hours, days, weeks and longer. Those up to
an hour follow changes of the UTC offset: a repeated hour is two periods, and a change
within a period starts a new one. Longer periods start at local midnights, or at
multiples of their length since the start of 1970.
"""

from __future__ import annotations

import contextlib
import operator
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from ..._text import nearest
from ...api.errors import EmptyWarning
from ...api.span import Span, parse_instant, parse_span, zone
from ..parse.schemas import STR
from ..tabular import maker_of, without_arrow_dtypes

OTHER = "other"
_OURS = (str(Path(__file__).parents[2]), contextlib.__file__)  # of decorators, such as `warns_once`
# A missing column tells which frame is needed.
_RESOURCES = {
    "content": "events",
    "asked_at": "turns",
    "auth_config_id": "credentials",
    "findings": "credential_report",
}
_LOAD_MORE = 'Load a longer span, as in ab.load_history(client, account, since="90d"), or more sessions.'
# Whether a warning was already given; None outside `warns_once` and `silent`.
_has_warned: ContextVar[bool | None] = ContextVar("_has_warned", default=None)
QUARTER = pd.Timedelta(minutes=15)  # all present UTC offsets are multiples of it
_FIRST_YEAR = pd.Timestamp("0001-01-01")
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)  # no change of the UTC offset is larger
MAX_PERIODS = 1_000_000
_CALENDAR = re.compile(r"\d*[WMQY]")
# pandas' names for offsets that start or end a calendar period.
_PERIODS = {"MS": "M", "ME": "M", "QS": "Q", "QE": "Q", "YS": "Y", "YE": "Y"}


def require(frame: pd.DataFrame, *columns: str, caller: str) -> None:
    """Raise a `ValueError` that names the missing columns and the function called.

    Examples
    --------
    >>> require(pd.DataFrame({"ID": []}), "id", caller="f")
    Traceback (most recent call last):
    ...
    ValueError: f needs the column 'id', and the frame has none (did you mean 'ID'?).
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{caller} needs a DataFrame, not a {type(frame).__name__}.")
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{caller} needs columns of different names, and the frame has {repeated!r} more than once.")
    missing = [name for name in columns if name not in frame.columns]
    if not missing:
        return
    names = list(map(str, frame.columns))
    match = nearest(str(missing[0]), names)
    hint = f" (did you mean {match!r}?)" if match else f" (it has {', '.join(names)})" if names else ""
    plural = "columns" if len(missing) > 1 else "column"
    resource = next((_RESOURCES[name] for name in columns if name in _RESOURCES), None)
    advice = f" {maker_of(resource)} makes a frame that has them." if resource and not match else ""
    raise ValueError(
        f"{caller} needs the {plural} {', '.join(map(repr, missing))}, and the frame has none{hint}.{advice}"
    )


def groups_of(
    by: str | Iterable[str] | None, *reserved: str, caller: str, frame: pd.DataFrame | None = None
) -> list[str]:
    """The columns to group by, without repeats.

    A `ValueError` names a value that is not a column's name, or one of the `reserved`
    names, which are columns of the result. If `frame` is passed, it also names a column
    that the frame does not have, and lists those it has.

    Examples
    --------
    >>> groups_of("agent_id", "turns", caller="failures")
    ['agent_id']
    >>> groups_of("agent", caller="failures", frame=pd.DataFrame({"agent_id": []}))
    Traceback (most recent call last):
    ...
    ValueError: failures cannot group by 'agent', which is not a column (did you ...
    """
    if isinstance(by, (pd.Series, pd.DataFrame, Mapping)) or not isinstance(by, (Iterable, type(None))):
        raise _not_columns(by, caller)
    groups = [by] if isinstance(by, str) else list(() if by is None else by)
    if invalid := [name for name in groups if not isinstance(name, str)]:
        raise _not_columns(invalid[0], caller)
    groups = list(dict.fromkeys(groups))
    if frame is not None and (unknown := [name for name in groups if name not in frame]):
        names = list(map(str, frame.columns))
        match = nearest(unknown[0], names)
        hint = f" (did you mean {match!r}?)" if match else ""
        raise ValueError(
            f"{caller} cannot group by {unknown[0]!r}, which is not a column{hint}: choose one of {', '.join(names)}, or "
            "add it with ab.with_sessions."
        )
    if clash := [name for name in groups if name in reserved]:
        raise ValueError(f"{caller} has a column {clash[0]!r} of its own: rename the one to group by.")
    if frame is not None and (lists := [name for name in groups if isinstance(frame[name].dtype, pd.ArrowDtype)]):
        raise ValueError(
            f"{caller} cannot group by {lists[0]!r}, a column of lists: make a row of each item first, with "
            f"frame.explode({lists[0]!r})."
        )
    return groups


def group_of(by: str, *reserved: str, caller: str, frame: pd.DataFrame | None = None) -> str:
    """Like `groups_of`, for functions that group by a single column."""
    groups = groups_of(by, *reserved, caller=caller, frame=frame)
    if not isinstance(by, str):
        raise ValueError(f"{caller} groups by one column: by= must be its name, not {by!r}.")
    return groups[0]


def _not_columns(by: object, caller: str) -> ValueError:
    shown = f"a {type(by).__name__}" if isinstance(by, (pd.Series, pd.DataFrame, Mapping)) else repr(by)
    return ValueError(
        f"{caller} groups by columns of its frame: by= must be a column's name or a list of them, not {shown}."
    )


def with_instants(frame: pd.DataFrame, *columns: str, caller: str) -> pd.DataFrame:
    """The frame, with those of these columns that it has converted to UTC.

    A `ValueError` names a column that does not hold times with a time zone. Text and
    naive times, as in a file that was read back, are not interpreted. Columns of Arrow
    dtypes (``dtype_backend="pyarrow"``) are converted to pandas' own.

    Examples
    --------
    >>> frame = pd.DataFrame({"at": pd.to_datetime(["2026-10-03T08:00+02:00"])})
    >>> with_instants(frame, "at", caller="turns")["at"].dt.hour.to_list()
    [6]
    """
    frame, changed = without_arrow_dtypes(frame), {}
    for name in columns:
        if name not in frame.columns:
            continue
        series = frame[name]
        if isinstance(series.dtype, pd.DatetimeTZDtype):
            if str(series.dtype.tz) != "UTC":
                changed[name] = series.dt.tz_convert("UTC")
        elif series.isna().all():
            changed[name] = pd.Series(pd.NaT, series.index, dtype="datetime64[us, UTC]")
        else:
            raise ValueError(
                f"{caller} needs the column {name!r} as instants with a time zone, not as {series.dtype}: "
                'convert it with pd.to_datetime(..., utc=True, format="ISO8601").'
            )
    return frame.assign(**changed) if changed else frame


def moment_of(frame: pd.DataFrame, as_of: Any, column: str) -> Any:
    """`as_of` in UTC. Default: when the frame was loaded, else the latest `column`."""
    if as_of is pd.NaT and frame.empty:  # the latest of no times
        as_of = None
    if as_of is None:
        as_of = frame.attrs.get("agentbook", {}).get("loaded_at")
    if as_of is None:
        return frame[column].max()
    return pd.Timestamp(parse_instant(as_of, "as_of"))


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
    return with_details(frame, advice=f"There are {hint}.")


def with_details(frame: pd.DataFrame, **details: Any) -> pd.DataFrame:
    """The frame with these details in its provenance."""
    frame = frame.copy(deep=False)
    frame.attrs = {**frame.attrs, "agentbook": {**frame.attrs.get("agentbook", {}), **details}}
    return frame


@contextlib.contextmanager
def warns_once(already: bool = False) -> Iterator[None]:
    """For a chart that builds several tables: one warning that there are no rows.

    If `already` is True, there is none, in this thread.
    """
    token = _has_warned.set(already or bool(_has_warned.get()))
    try:
        yield
    finally:
        _has_warned.reset(token)


def silent() -> contextlib.AbstractContextManager[None]:
    """No warnings that there are no rows, in this thread."""
    return warns_once(already=True)


def _warn(text: str) -> None:
    if not _has_warned.get():
        warn_caller(text, EmptyWarning)
    if _has_warned.get() is not None:
        _has_warned.set(True)


def require_top(top: Any, *, caller: str) -> None:
    """Raise a ValueError unless `top` is a positive whole number."""
    whole(top, 1, f"{caller} keeps the top= largest groups: a whole number of 1 or more")


def whole(value: Any, least: int, rule: str) -> int:
    """The value as a whole number; a ValueError with the rule if it is none."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise ValueError(f"{rule}, not {value!r}.")
    return operator.index(value)


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


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that made the call."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def zone_in(tz: str | tzinfo | None, frame: pd.DataFrame) -> str:
    """The IANA name of `tz`; without one, of the zone of the frame's history, else UTC.

    Examples
    --------
    >>> zone_in(None, pd.DataFrame())
    'UTC'
    """
    return zone(frame.attrs.get("agentbook", {}).get("tz") or "UTC" if tz is None else tz).key


def local_text(moment: Any, tz: str, format: str = "%Y-%m-%d %H:%M") -> str:
    """A time on the clock of a zone, with the zone's name.

    A time that the zone would put outside the years 1 to 9999 is shown in UTC.

    Examples
    --------
    >>> local_text(pd.Timestamp("2026-10-03T22:30Z"), "Europe/Berlin")
    '2026-10-04 00:30 Europe/Berlin'
    """
    moment = pd.Timestamp(moment)
    try:
        local = moment.tz_convert(zone(tz))
        return f"{local:{format}} {tz}"
    except (OverflowError, ValueError):
        return f"{moment.tz_convert('UTC'):{format}} UTC"


def category(codes: Any, names: Iterable[str], *, ordered: bool = False) -> pd.Categorical:
    """The names with these numbers; null for -1."""
    return pd.Categorical.from_codes(codes, categories=pd.Index([*names], dtype="str"), ordered=ordered)


def period_starts(moments: pd.Series, freq: str, tz: str) -> pd.Series:
    """The start of the period of each moment, in `tz`; null stays null.

    Examples
    --------
    >>> moments = pd.Series(pd.to_datetime(["2026-10-03T22:30:00Z"]))
    >>> str(period_starts(moments, "1D", "Europe/Berlin")[0])
    '2026-10-04 00:00:00+02:00'
    """
    return _period_starts(moments, _step(freq), tz)


def clock_times(moments: pd.Series, tz: str) -> pd.Series:
    """The moments on the clock of `tz`, without a zone; null stays null.

    A `ValueError` says if one is in the year 0 or 10000 there.
    """
    try:
        naive: pd.Series = moments.dt.tz_convert(zone(tz)).dt.tz_localize(None)
        is_in_years = not naive.min() < _FIRST_YEAR  # which is false of NaT
    except OverflowError:
        is_in_years = False
    if not is_in_years:
        raise ValueError(
            f"Times from {moments.min()} to {moments.max()} are not all within the years 1 to 9999 in {tz!r}: use "
            "tz='UTC', or leave out the ends with since= and until=."
        )
    return naive


def _period_starts(moments: pd.Series, step: pd.Timedelta | str, tz: str) -> pd.Series:
    local, naive = moments.dt.tz_convert(zone(tz)), clock_times(moments, tz)
    if isinstance(step, pd.Timedelta):
        floored = naive.dt.floor(step)
        if step <= HOUR:
            starts: pd.Series = local - (naive - floored)
            return _at_offset_changes(starts.astype(local.dtype), local, floored)
    else:
        floored = naive.dt.to_period(step).dt.start_time
    return localize(pd.DatetimeIndex(floored), tz).to_series(index=moments.index)


def period_range(first: Any, last: Any, freq: str, tz: str) -> pd.DatetimeIndex:
    """The starts of all periods from the one at `first` to the one at `last`."""
    step = _step(freq)
    if isinstance(step, pd.Timedelta) and step <= HOUR:
        _check_count(first, last, step, freq)
        return _short_periods(first, last, step, tz)
    begin, end = first.tz_localize(None), last.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        _check_count(begin, end, step, freq)
        return _long_periods(begin, end, step, tz)
    return localize(pd.DatetimeIndex(pd.period_range(begin, end, freq=step).start_time), tz)


def next_period(start: Any, freq: str, tz: str) -> Any:
    """The start of the period after the one at `start`."""
    step, naive = _step(freq), start.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        if step > HOUR:
            return _long_periods(naive, naive + 2 * step + DAY, step, tz)[1]
        return _short_periods(start, start + step + HOUR, step, tz)[1]
    return localize(pd.DatetimeIndex([(pd.Period(naive, freq=step) + 1).start_time]), tz)[0]


def _step(freq: str) -> pd.Timedelta | str:
    """The fixed length of a period, or the name of a calendar period."""
    unknown = ValueError(
        f"{freq!r} is not a period: use one such as '15min', '1h', '1D', 'W' (Monday to Sunday), 'M', 'Q' or 'Y'."
    )
    try:
        offset: Any = to_offset(freq)
        # pandas 3.0 cannot convert a Day to a Timedelta.
        length: Any = pd.Timedelta(days=offset.n) if isinstance(offset, pd.offsets.Day) else pd.Timedelta(offset)
    except (ValueError, TypeError):
        length = pd.NaT
    if isinstance(length, pd.Timedelta):
        if length <= pd.Timedelta(0):
            raise unknown
        return length
    try:
        period: Any = pd.Period("2026-01-01", freq=_PERIODS.get(freq, freq)) if _CALENDAR.match(str(freq)) else None
    except (ValueError, TypeError, AttributeError):
        period = None
    if period is None or period.freq.n != 1:
        raise unknown
    name: str = period.freqstr
    return name


def _at_offset_changes(starts: pd.Series, local: pd.Series, floored: pd.Series) -> pd.Series:
    """The starts, moved to the change of the UTC offset if one has occurred since."""
    crossed = (starts.dt.tz_localize(None) != floored) & starts.notna()
    if crossed.any():
        seconds = local[crossed].dt.tz_convert("UTC").dt.floor("s").dt.tz_convert(local.dt.tz)
        pairs = list(zip(starts[crossed], seconds, strict=True))
        changes = {pair: _offset_change(*pair) for pair in dict.fromkeys(pairs)}
        moved = pd.Series([changes[pair] for pair in pairs], starts.index[crossed], dtype=starts.dtype)
        starts = starts.where(~crossed, moved.reindex(starts.index))
    return starts


def _offset_change(low: pd.Timestamp, high: pd.Timestamp) -> pd.Timestamp:
    """The second after `low` from which the UTC offset is that of `high`."""
    while high - low > pd.Timedelta(seconds=1):
        middle = low + ((high - low) / 2).floor("s")
        low, high = (middle, high) if middle.utcoffset() != high.utcoffset() else (low, middle)
    return high


def _short_periods(first: Any, last: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The starts of periods up to an hour."""
    regular = pd.date_range(first, last, freq=step)
    if (_period_starts(regular.to_series(), step, tz) == regular).all():
        return regular
    # The UTC offset changes in between, by an amount that is not a multiple of the
    # step.
    finer = pd.date_range(first, last, freq=min(step, QUARTER))
    return pd.DatetimeIndex(_period_starts(finer.to_series(), step, tz)).unique()


def _long_periods(begin: Any, end: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The starts of periods longer than an hour, between two local times."""
    # If a change of the UTC offset skips the start of a period, the period starts
    # later.
    starts = localize(pd.date_range(begin.floor(step), end, freq=step), tz).unique()
    # If it skips whole periods, as when Samoa skipped a day, they do not exist.
    return starts[(_period_starts(starts.to_series(), step, tz) == starts).to_numpy()]


def _check_count(begin: Any, end: Any, step: pd.Timedelta, freq: str) -> None:
    # Centuries have too many nanoseconds to divide, and pandas 3.0 rounds 1 ns to 0 s.
    count = (end - begin).total_seconds() / max(step.total_seconds(), 1e-9)
    if count > MAX_PERIODS:
        raise ValueError(
            f"These events span {count:,.0f} periods of {freq!r}, from {begin:%Y-%m-%d} to {end:%Y-%m-%d}: choose a "
            "longer period, a span with since= and until=, or fill=False."
        )


def localize(naive: pd.DatetimeIndex, tz: str) -> pd.DatetimeIndex:
    """Midnights in a time zone.

    A repeated midnight means the first one; a skipped one, the end of the skipped time.
    """
    first = np.ones(len(naive), np.bool_)
    return naive.tz_localize(zone(tz), ambiguous=first, nonexistent="shift_forward").as_unit("us")

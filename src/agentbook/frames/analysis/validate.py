"""What an analysis needs of what it is given: columns, said by name when one is missing; instants; lengths of time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..parse.frame import to_pandas


def require(frame: pd.DataFrame, *columns: str, what: str) -> None:
    """Raise a `ValueError` that names the first missing columns and what was to be computed.

    Examples
    --------
    >>> require(pd.DataFrame({"ID": []}), "id", what="turns")
    Traceback (most recent call last):
    ...
    ValueError: turns needs the column 'id', and the frame has none (did you mean 'ID'?).
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{what} needs a DataFrame, not a {type(frame).__name__}.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{what} needs columns of different names, and the frame has {twice!r} more than once.")
    missing = [name for name in columns if name not in frame.columns]
    if not missing:
        return
    names = {str(name).lower(): str(name) for name in frame.columns}
    close = get_close_matches(str(missing[0]).lower(), names, 1)
    hint = f" (did you mean {names[close[0]]!r}?)" if close else f" (it has {', '.join(map(str, frame.columns))})"
    plural = "columns" if len(missing) > 1 else "column"
    raise ValueError(f"{what} needs the {plural} {', '.join(map(repr, missing))}, and the frame has none{hint}.")


def groups_of(by: str | Iterable[str] | None, *taken: str, what: str) -> list[str]:
    """The columns to group by, each once; a `ValueError` says what is no column's name, or one that the result has too.

    Examples
    --------
    >>> groups_of("agent_id", "turns", what="failures")
    ['agent_id']
    """
    if isinstance(by, (pd.Series, pd.DataFrame, Mapping)) or not isinstance(by, (Iterable, type(None))):
        raise _no_column(what, by)
    groups = [by] if isinstance(by, str) else list(() if by is None else by)
    if wrong := [name for name in groups if not isinstance(name, str)]:
        raise _no_column(what, wrong[0])
    groups = list(dict.fromkeys(groups))
    clash = [name for name in groups if name in taken]
    if clash:
        raise ValueError(f"{what} has a column {clash[0]!r} of its own: rename the one to group by.")
    return groups


def group_of(by: str, *taken: str, what: str) -> str:
    """As `groups_of`, where only one column can be grouped by."""
    groups = groups_of(by, *taken, what=what)
    if not isinstance(by, str):
        raise ValueError(f"{what} groups by one column: by= is its name, not {by!r}.")
    return groups[0]


def _no_column(what: str, by: object) -> ValueError:
    shown = f"a {type(by).__name__}" if isinstance(by, (pd.Series, pd.DataFrame, Mapping)) else repr(by)
    return ValueError(f"{what} groups by columns of its frame: by= is a column's name or a list of them, not {shown}.")


def with_instants(frame: pd.DataFrame, *columns: str, what: str) -> pd.DataFrame:
    """The frame with these columns, as far as it has them, as instants in UTC; a `ValueError` names one that is none.

    Texts and times without a zone are not guessed at: a file that was read back has either. Columns that pandas was told to
    keep as Arrow's (``dtype_backend="pyarrow"``) come as pandas' own.

    Examples
    --------
    >>> frame = pd.DataFrame({"at": pd.to_datetime(["2026-10-03T08:00+02:00"])})
    >>> with_instants(frame, "at", what="turns")["at"].dt.hour.to_list()
    [6]
    """
    frame, changed = _of_pandas(frame), {}
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
                f"{what} needs the column {name!r} as instants with a time zone, not as {series.dtype}: "
                'convert it with pd.to_datetime(..., utc=True, format="ISO8601").'
            )
    return frame.assign(**changed) if changed else frame


def _of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    names = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype)]
    if not names:
        return frame
    table = pa.table({str(name): pa.chunked_array(frame[name].array.__arrow_array__()) for name in names})
    return frame.assign(**to_pandas(table).set_axis(frame.index))


def moment_of(frame: pd.DataFrame, as_of: Any, column: str, name: str = "as_of") -> Any:
    """`as_of` in UTC; without it when the frame was loaded, else the newest instant of `column`."""
    if as_of is None:
        as_of = frame.attrs.get("agentbook", {}).get("loaded_at")
    if as_of is None:
        return frame[column].max()
    return instant_of(as_of, name)


def instant_of(value: Any, name: str) -> Any:
    """An instant in UTC (a naive time is), or a `ValueError` that says which argument is none.

    Examples
    --------
    >>> instant_of("2026-10-03", "since")
    Timestamp('2026-10-03 00:00:00+0000', tz='UTC')
    """
    if _is_number(value):
        raise ValueError(
            f"{name} must be a time such as '2026-11-01T00:00:00Z', not {value!r}: a number has no unit "
            "(of seconds since 1970, write pd.Timestamp(..., unit='s'))."
        )
    try:
        moment: Any = pd.Timestamp(value)
    except (ValueError, TypeError):
        moment = pd.NaT
    if pd.isna(moment):
        raise ValueError(f"{name} must be a time such as '2026-11-01T00:00:00Z', not {value!r}.")
    return moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")


def length_of(value: Any, name: str) -> pd.Timedelta:
    """A length of time, or a `ValueError` that says which argument is none.

    Examples
    --------
    >>> length_of("30min", "after")
    Timedelta('0 days 00:30:00')
    """
    # pandas takes the digits of a text for nanoseconds too.
    if _is_number(value) or (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[\d.]+\s*", value)):
        raise ValueError(
            f"{name} must be a length of time such as '30min' or '7D', not {value!r}: a number has no unit, write '7D'."
        )
    try:
        length: Any = pd.Timedelta(value)
    except (ValueError, TypeError):
        length = pd.NaT
    if not isinstance(length, pd.Timedelta) or length < pd.Timedelta(0):
        raise ValueError(f"{name} must be a length of time such as '30min' or '7D', not {value!r}.")
    return length


def _is_number(value: Any) -> bool:
    """Whether pandas would take it for nanoseconds. To numpy its lengths of time are numbers as well."""
    if isinstance(value, (np.timedelta64, np.datetime64)):
        return np.datetime_data(value.dtype)[0] == "generic"
    return isinstance(value, (Number, np.bool_))

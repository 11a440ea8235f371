"""Checks the arguments of an analysis: columns, times and lengths of time.

`frame_of` and `events_of`, which take anything tabular, are in
`agentbook.frames.tabular`; `turns_of` is in `agentbook.frames.analysis.turns`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..._text import nearest
from ...api.span import parse_instant
from ..tabular import events_of, frame_of, maker_of, part_of, without_arrow_dtypes

_PACKAGE = str(Path(__file__).parents[2])
# What earlier releases called the author of a turn's question.
_OLD_GROUPS = {
    "initiator": "author",
    "initiator_name": "author",
    "initiator_id": "author_id",
    "initiator_type": "author_type",
}
# A missing column tells which frame is needed.
_RESOURCES = {
    "content": "events",
    "asked_at": "turns",
    "auth_config_id": "credentials",
    "findings": "credential_report",
}


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
    if clash := [name for name in groups if name in reserved]:
        raise ValueError(f"{caller} has a column {clash[0]!r} of its own: rename the one to group by.")
    if frame is not None and {"asked_at", "author_id"} <= set(frame.columns):
        groups = [_renamed(name, frame, caller) for name in groups]
    if frame is not None and (unknown := [name for name in groups if name not in frame]):
        raise _unknown_group(unknown[0], frame, caller)
    if frame is not None and (lists := [name for name in groups if isinstance(frame[name].dtype, pd.ArrowDtype)]):
        raise ValueError(
            f"{caller} cannot group by {lists[0]!r}, a column of lists: make a row of each item first, with "
            f"frame.explode({lists[0]!r})."
        )
    return groups


def _renamed(name: str, frame: pd.DataFrame, caller: str) -> str:
    """The column of turns that an earlier release had under this name."""
    author = _OLD_GROUPS.get(name, name)
    if author == name or author not in frame:
        return name
    is_column = name in frame
    warn_caller(
        f"{caller}: by={name!r} "
        + ("groups turns by who started the session" if is_column else f"is called {author!r} now")
        + f"; by={author!r} groups them by who asked.",
        FutureWarning,
    )
    return name if is_column else author


def group_of(by: str, *reserved: str, caller: str, frame: pd.DataFrame | None = None) -> str:
    """Like `groups_of`, for functions that group by a single column."""
    if frame is not None and isinstance(by, str) and by not in frame:
        raise _unknown_group(by, frame, caller)
    groups = groups_of(by, *reserved, caller=caller, frame=frame)
    if not isinstance(by, str):
        raise ValueError(f"{caller} groups by one column: by= must be its name, not {by!r}.")
    return groups[0]


def _unknown_group(name: str, frame: pd.DataFrame, caller: str) -> ValueError:
    names = list(map(str, frame.columns))
    match = _OLD_GROUPS[name] if _OLD_GROUPS.get(name) in names else nearest(name, names)
    hint = f" (did you mean {match!r}?)" if match else ""
    return ValueError(
        f"{caller} cannot group by {name!r}, which is not a column{hint}: choose one of {', '.join(names)}, or add it "
        "with ab.with_sessions."
    )


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


def moment_of(frame: pd.DataFrame, as_of: Any, column: str, name: str = "as_of") -> Any:
    """`as_of` in UTC. Default: when the frame was loaded, else the latest `column`."""
    if as_of is pd.NaT and frame.empty:  # the latest of no times
        as_of = None
    if as_of is None:
        as_of = frame.attrs.get("agentbook", {}).get("loaded_at")
    if as_of is None:
        return frame[column].max()
    return pd.Timestamp(parse_instant(as_of, name))


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that made the call."""
    warnings.warn(text, category, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


__all__ = [
    "events_of",
    "frame_of",
    "group_of",
    "groups_of",
    "moment_of",
    "part_of",
    "require",
    "warn_caller",
    "with_instants",
]

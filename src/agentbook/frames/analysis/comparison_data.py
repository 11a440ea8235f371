"""The data of a comparison: turns and events with their sessions, groups and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...api.span import parse_length, parse_span
from ..parse.schemas import STR
from .event_columns import assign_turns, read_events
from .selection import OTHER, keep_top
from .turns import is_steps, is_turns, steps_as_turns, turns
from .validate import groups_of, moment_of, require, with_instants

GROUP = "(by)"  # in parentheses, so that it cannot clash with a column


@dataclass(frozen=True, slots=True)
class ComparedSpan:
    """A span of time that includes either its start or its end."""

    begin: Any
    end: Any
    includes_end: bool = False

    def contains(self, moments: pd.Series) -> pd.Series:
        """Whether each moment lies in the span."""
        return moments.between(self.begin, self.end, inclusive="right" if self.includes_end else "left")

    @property
    def seconds(self) -> float:
        """Its length."""
        return float((self.end - self.begin).total_seconds())

    def __str__(self) -> str:
        return f"{self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


@dataclass(slots=True)
class Records:
    """Turns and events, one row each.

    Attributes
    ----------
    turns : DataFrame
        ``session`` (a number), ``at``, ``status``, ``latency_s`` and the columns to
        group by.
    events : DataFrame
        ``session``, ``at``, ``weight`` (how many events a row stands for) and the
        columns to group by.
    as_of : Timestamp
        The time at which the data end.
    has_events : bool
        Whether events are known, so that they can be counted.
    """

    turns: pd.DataFrame
    events: pd.DataFrame
    as_of: Any
    has_events: bool = True

    def within(self, span: ComparedSpan) -> Records:
        """The rows in a span."""
        rows, counted = self.turns, self.events
        return Records(
            rows[span.contains(rows["at"])], counted[span.contains(counted["at"])], self.as_of, self.has_events
        )


def read_records(
    frame: pd.DataFrame, groups: Sequence[str], as_of: Any, turn_events: pd.DataFrame | None = None
) -> Records:
    """The records of events, or of the result of `turns`.

    Turns are read from `turn_events`, if there are any.
    """
    if is_steps(frame):
        frame = steps_as_turns(frame)
    records = _of_turns(frame, groups, as_of) if is_turns(frame) else _of_events(frame, groups, as_of)
    if turn_events is not None and turn_events is not frame:
        records.turns = _of_events(turn_events, groups, as_of).turns
    return records


def _of_turns(frame: pd.DataFrame, groups: Sequence[str], as_of: Any) -> Records:
    needed = ("session_id", "asked_at", "replied_at", "status", "latency_s")
    require(frame, *needed, caller="compare_periods")
    groups_of(groups, caller="compare_periods", frame=frame)
    frame = with_instants(frame, "asked_at", "replied_at", caller="compare_periods")
    table = _turn_rows(frame, pd.factorize(frame["session_id"])[0], [frame[name] for name in groups], groups)
    has_events = "events" in frame
    weight = frame["events"].to_numpy(np.float64) if has_events else np.ones(len(frame))
    known = frame.attrs.get("agentbook", {}).get("as_of")
    until = moment_of(frame, as_of if as_of is not None else known, "asked_at")
    return Records(table, table.drop(columns=["status", "latency_s"]).assign(weight=weight), until, has_events)


def _of_events(frame: pd.DataFrame, groups: Sequence[str], as_of: Any) -> Records:
    columns = read_events(frame, caller="compare_periods")
    rows, assignment = columns.events, assign_turns(columns)
    frame = turns(frame, as_of=as_of)
    # A column of the events takes precedence over one of the turns, which may mean
    # something else.
    groups_of([name for name in groups if name not in frame], caller="compare_periods", frame=rows)
    of_turns = [pd.Series(rows[name].array[assignment.starts]) if name in rows else frame[name] for name in groups]
    of_events = [rows[name] if name in rows else pd.Series(frame[name].array[assignment.turn]) for name in groups]
    table = _turn_rows(frame, columns.session[assignment.starts], of_turns, groups)
    counted = pd.DataFrame({"session": columns.session, "at": rows["created_at"].array, "weight": 1.0})
    counted = counted.assign(**{key_of(name): values.array for name, values in zip(groups, of_events, strict=True)})
    until = pd.Timestamp(frame.attrs["agentbook"]["as_of"] or "NaT")
    return Records(table, counted, until)


def _turn_rows(frame: pd.DataFrame, sessions: Any, values: Sequence[pd.Series], groups: Sequence[str]) -> pd.DataFrame:
    at = frame["asked_at"].fillna(frame["replied_at"])
    table = pd.DataFrame(
        {"session": sessions, "at": at.array, "status": frame["status"].array, "latency_s": frame["latency_s"].array}
    )
    return table.assign(**{key_of(name): column.array for name, column in zip(groups, values, strict=True)})


def key_of(group: str) -> str:
    """The name of a group's column in the records, which have other columns too."""
    return f"(by) {group}"


def read_spans(a: Any, b: Any, period: Any, records: Records, tz: str) -> tuple[ComparedSpan, ComparedSpan]:
    """The spans to compare: `a` and `b`, or the last period and the one before it."""
    if a is None and b is None:
        length, until = parse_length(period, "period"), records.as_of
        if not length:
            raise ValueError(f"period must be longer than zero, not {period!r}.")
        # Without a known time, the data end with the latest event, which is included.
        return ComparedSpan(until - 2 * length, until - length, True), ComparedSpan(until - length, until, True)
    first, second = _span(a, "a", records.as_of, tz), _span(b, "b", records.as_of, tz)
    if first.end > second.begin and second.end <= first.begin:
        raise ValueError(f"a must be the earlier span, and a ({first}) is after b ({second}): exchange a= and b=.")
    if first.end > second.begin:
        raise ValueError(
            f"a and b must not overlap, and b ({second}) begins before a ({first}) ends: a span ends where the next begins."
        )
    return first, second


def _span(value: Any, name: str, now: Any, tz: str) -> ComparedSpan:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or any(end is None for end in value):
        raise ValueError(
            f"{name} must be a start and an end, as in {name}=('2026-10-26', '2026-11-02'), not {value!r}. "
            "Pass both a= and b=, or neither to compare the last period= with the one before."
        )
    span = parse_span(*value, tz, now=now, names=(f"the start of {name}", f"the end of {name}"))
    if span.since is None or span.until is None:
        raise ValueError(f"{name} counts back from the latest data, and there are none: write dates, or load events.")
    return ComparedSpan(pd.Timestamp(span.since), pd.Timestamp(span.until))


def check_not_empty(spans: Sequence[ComparedSpan], records: Records) -> None:
    """Raise a `ValueError` that names the span without data, and the data's extent."""
    for name, span in zip("ab", spans, strict=True):
        part = records.within(span)
        if len(part.turns) or len(part.events):
            continue
        moments = pd.concat([records.turns["at"], records.events["at"]]).dropna()
        extent = (
            f"they span {moments.min():%Y-%m-%d %H:%M} to {moments.max():%Y-%m-%d %H:%M} UTC"
            if len(moments)
            else "there are none at all"
        )
        raise ValueError(
            f"compare_periods has no data in {name} ({span}); {extent}. Choose a span within, or load more."
        )


def number_groups(records: Records, groups: list[str], spans: Sequence[ComparedSpan], top: int | None) -> pd.DataFrame:
    """Add the number of each row's group to the records; return the groups' values.

    The number is in the column ``(by)``. Rows outside the spans, and rows without a
    value, have -1.
    """
    parts, names, groups = [records.turns, records.events], groups, [key_of(name) for name in groups]
    if top is not None:
        inside = pd.concat([parts[0][span.contains(parts[0]["at"])] for span in spans])
        largest = keep_top(inside, groups, top, caller="compare_periods")
        if largest is not inside:
            chosen = pd.MultiIndex.from_frame(largest[groups]).unique()
            parts = [_with_other(part, groups, chosen) for part in parts]
    keys = pd.concat([part[groups].astype(object) for part in parts], ignore_index=True)
    moments = pd.concat([part["at"] for part in parts], ignore_index=True)
    rows = keys[pd.concat([span.contains(moments) for span in spans], axis=1).any(axis=1)].dropna()
    number = np.full(len(keys), -1, np.int64)
    number[rows.index] = rows.groupby(groups, sort=True).ngroup()
    records.turns, records.events = (
        part.assign(**{GROUP: numbers}) for part, numbers in zip(parts, np.split(number, [len(parts[0])]), strict=True)
    )
    numbers, first = np.unique(number, return_index=True)
    return keys.iloc[first[numbers >= 0]].reset_index(drop=True).set_axis(names, axis=1)


def _with_other(part: pd.DataFrame, groups: list[str], chosen: pd.MultiIndex) -> pd.DataFrame:
    """The part with all groups that are not chosen as ``"other"``; nulls stay."""
    texts = part[groups].astype(STR)
    rest = ~pd.MultiIndex.from_frame(texts).isin(chosen) & texts.notna().all(axis=1).to_numpy()
    return part.assign(**{name: texts[name].mask(rest, OTHER) for name in groups})

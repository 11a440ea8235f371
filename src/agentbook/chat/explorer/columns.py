"""A table of turns as arrays that can be filtered and counted within milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...api.span import zone
from ...frames.parse.schemas import STR

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

REQUIRED = ("session_id", "turn", "asked_at", "latency_s", "status")
ANSWERED, FIRST, LAST = "answered", ("answered",), ("unanswered", "open")
NO_TIME = np.iinfo(np.int64).min
HOURS = 7 * 24
_SECOND_DAY_MS = int(np.datetime64("0001-01-02", "ms").astype(np.int64))
_LAST_DAY_MS = int(np.datetime64("9999-12-31", "ms").astype(np.int64))


@dataclass(frozen=True, slots=True)
class TurnColumns:
    """What views need from each turn, quickest first and those without latency last.

    Attributes
    ----------
    row : ndarray of int64
        The turn's position in the table.
    at_ms : ndarray of int64
        Milliseconds since 1970 of the question, or of the reply if there is none;
        `NO_TIME` if neither is known.
    latency_s : ndarray of float64
        Not a number for a turn that was not closed.
    slot : ndarray of int64
        The hour of the week, 0 for Monday from midnight to 01:00; -1 without a time.
    outcome, group, session : ndarray of int64
        Positions in `outcomes`, in `groups`, and numbers of sessions.
    outcomes, groups : list of str or None
        The names; None for turns without one.
    tz : str
    """

    row: Integers
    at_ms: Integers
    latency_s: Floats
    slot: Integers
    outcome: Integers
    group: Integers
    session: Integers
    outcomes: list[str | None]
    groups: list[str | None]
    tz: str

    def __len__(self) -> int:
        return len(self.row)

    @property
    def failing(self) -> Flags:
        """Which of `outcomes` are failures."""
        return np.array([name not in (*FIRST, *LAST) for name in self.outcomes], dtype=np.bool_)


def read_columns(turns: pd.DataFrame, by: str | None, tz: str) -> TurnColumns:
    """The arrays of a table that has at least the columns `REQUIRED`.

    `by` names the column of the groups; None puts all turns into one.
    """
    latency = turns["latency_s"].to_numpy(dtype="float64", na_value=np.nan)
    order = np.argsort(latency, kind="stable")
    at = pd.DatetimeIndex(moments(turns)).as_unit("ms")
    at_ms = at.asi8.astype(np.int64)
    local = local_times(at_ms, tz)
    known = at_ms != NO_TIME
    slot = np.where(known, np.nan_to_num(np.asarray(local.day_of_week * 24 + local.hour, dtype="float64")), -1)
    outcome, outcomes = _codes(outcome_names(turns), _rank)
    names = turns[by].astype(STR) if by is not None else pd.Series("all turns", turns.index, dtype=STR)
    group, groups = _codes(names)
    session = pd.factorize(turns["session_id"])[0]
    return TurnColumns(
        order, at_ms[order], latency[order], slot.astype(np.int64)[order], outcome[order], group[order],
        session.astype(np.int64)[order], outcomes, groups, tz,
    )  # fmt: skip


def local_times(at_ms: Integers, tz: str) -> pd.DatetimeIndex:
    """The times in a zone; `NO_TIME` is NaT.

    The first day of the year 1 is shown as the second, and the last day of the
    year 9999 as its first: in some time zones, part of them is in the year 0 or 10000,
    which pandas may not convert.
    """
    within = np.where(at_ms == NO_TIME, NO_TIME, np.clip(at_ms, _SECOND_DAY_MS, _LAST_DAY_MS))
    utc = pd.DatetimeIndex(within.astype("datetime64[ms]"), tz="UTC")
    return utc.tz_convert(zone(tz))


def moments(turns: pd.DataFrame) -> pd.Series:
    """When each turn began: at its question, or at its reply if there is none."""
    asked_at = turns["asked_at"]
    moment: pd.Series = asked_at.fillna(turns["replied_at"]) if "replied_at" in turns else asked_at
    return moment


def outcome_names(turns: pd.DataFrame) -> pd.Series:
    """The kind of failure of each turn, or its status if it did not fail."""
    status = turns["status"].astype(STR)
    names: pd.Series = turns["failure"].astype(STR).fillna(status) if "failure" in turns else status
    return names


def _codes(names: pd.Series, rank: Callable[[str | None], int] = lambda name: 0) -> tuple[Integers, list[str | None]]:
    """Each name's position among the names, and the names, by rank and frequency."""
    codes, values = pd.factorize(names, use_na_sentinel=False)
    labels: list[Any] = [None if pd.isna(value) else str(value) for value in values]
    counts = np.bincount(codes, minlength=len(labels))
    order = sorted(range(len(labels)), key=lambda n: (rank(labels[n]), -counts[n]))
    position = np.empty(len(labels), np.int64)
    position[order] = np.arange(len(labels))
    return position[codes], [labels[n] for n in order]


def _rank(outcome: str | None) -> int:
    """Answered turns first, then failures, then turns without a reply."""
    return 0 if outcome in FIRST else 2 + LAST.index(outcome) if outcome in LAST else 1

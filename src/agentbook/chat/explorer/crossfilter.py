"""Linked views of turns: each is narrowed by the selections in the others.

Every condition is a mask over all turns, so a change costs one comparison, and every
view costs a count of the rows that the other masks leave. A view is not narrowed by its
own selection, so a brush over a chart leaves that chart as it is: only the other views
are counted again. Two hundred thousand turns take about ten milliseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .axes import BANDS, Axes, axes_of
from .columns import ANSWERED, HOURS, NO_TIME, Flags, Floats, Integers, TurnColumns
from .filters import DIMENSIONS, Filters

# What each view itself selects, which does not narrow it.
OWN = {
    "heat": ("hours",),
    "latency": ("time", "latency"),
    "outcomes": ("outcomes",),
    "groups": ("groups",),
    "table": (),
}
MAX_DOTS = 1_000  # up to this many turns are drawn one by one
MAX_SLOWEST = MAX_FAILED = 150  # if there are more turns than that
MAX_GROUPS = 100
QUANTILES = (0.5, 0.95)


class Crossfilter:
    """Filters turns, and counts what each view shows.

    Attributes
    ----------
    columns : TurnColumns
    axes : Axes
    filters : Filters
        What is selected; `apply` changes it.
    changes : dict
        How many times the content of each view has changed.
    """

    def __init__(self, columns: TurnColumns, search: Callable[[str], Flags] | None = None) -> None:
        self.columns = columns
        self._search = search  # which rows of the table of turns have the words of a text
        self.axes: Axes = axes_of(columns)
        self.filters = Filters()
        self._masks: dict[str, Flags] = {}
        self._rows: dict[str, Integers] = {}  # by view, once requested
        self.changes = dict.fromkeys(OWN, 0)
        self._period = self.axes.period_of(columns.at_ms)
        band = self.axes.band_of(columns.latency_s)
        self._drawn = (self._period >= 0) & (band >= 0)
        self._cell = np.where(self._drawn, self._period * BANDS + band, -1)
        self._answered = np.zeros(len(columns), np.bool_)
        if ANSWERED in columns.outcomes:
            self._answered = (columns.outcome == columns.outcomes.index(ANSWERED)) & ~np.isnan(columns.latency_s)
        self._failed = columns.failing[columns.outcome] if len(columns) else self._answered
        self._by_time = np.argsort(columns.at_ms, kind="stable")
        self._all = np.arange(len(columns))

    def apply(self, filters: Filters) -> None:
        """Select by these filters; only conditions that changed are compared again."""
        changed = {name for name in DIMENSIONS if filters.values(name) != self.filters.values(name)}
        for dimension in changed:
            if dimension in filters.active:
                self._masks[dimension] = self._mask(filters, dimension)
            else:
                self._masks.pop(dimension, None)
        for view, own in OWN.items():
            if not changed <= set(own):
                self.changes[view] += 1
                self._rows.pop(view, None)
        self.filters = filters

    def _mask(self, filters: Filters, dimension: str) -> Flags:
        columns = self.columns
        if dimension == "time":
            mask: Flags = columns.at_ms != NO_TIME
            if filters.since is not None:
                mask &= columns.at_ms >= _ms(filters.since)
            return mask if filters.until is None else mask & (columns.at_ms < _ms(filters.until))
        if dimension == "latency":
            low, high = filters.min_latency_s, filters.max_latency_s
            mask = columns.latency_s >= (-np.inf if low is None else low)
            return mask if high is None else mask & (columns.latency_s <= high)
        if dimension == "hours":
            return _in(columns.slot, filters.hours, HOURS)
        if dimension == "text":
            found = np.ones(len(columns), np.bool_) if self._search is None else self._search(filters.text or "")
            return found[columns.row]
        codes, names = {"outcomes": (columns.outcome, columns.outcomes), "groups": (columns.group, columns.groups)}[
            dimension
        ]
        return _in(codes, [names.index(name) for name in getattr(filters, dimension) if name in names], len(names))

    def rows(self, view: str) -> Integers:
        """The turns that a view shows, as indices of `columns`, the quickest first."""
        if view not in self._rows:
            masks = [mask for dimension, mask in self._masks.items() if dimension not in OWN[view]]
            self._rows[view] = np.flatnonzero(functools.reduce(np.logical_and, masks)) if masks else self._all
        return self._rows[view]

    def table_rows(self, sort: str, *, descending: bool) -> Integers:
        """The selected turns in the order of a table; unknown values are last."""
        columns, rows = self.columns, self.rows("table")
        if sort == "asked":
            selected = np.zeros(len(columns), np.bool_)
            selected[rows] = True
            rows = self._by_time[selected[self._by_time]]
            known = columns.at_ms[rows] != NO_TIME
        else:
            known = ~np.isnan(columns.latency_s[rows])
        first = rows[known]
        return np.concatenate([first[::-1] if descending else first, rows[~known]])

    def summary(self) -> dict[str, Any]:
        """Counts and latencies of the selected turns."""
        columns, rows = self.columns, self.rows("table")
        answered = columns.latency_s[rows[self._answered[rows]]]
        median, slow = np.quantile(answered, QUANTILES).tolist() if len(answered) else (None, None)
        return {
            "turns": len(rows),
            "all": len(columns),
            "sessions": int(np.count_nonzero(np.bincount(columns.session[rows], minlength=1))),
            "failed": int(np.count_nonzero(self._failed[rows])),
            "p50": median,
            "p95": slow,
        }

    def heat(self) -> list[int]:
        """Turns by hour of the week."""
        slots = self.columns.slot[self.rows("heat")]
        return _counts(slots[slots >= 0], HOURS)

    def outcomes(self) -> list[int]:
        """Turns by outcome."""
        return _counts(self.columns.outcome[self.rows("outcomes")], len(self.columns.outcomes))

    def groups(self) -> dict[str, list[Any]]:
        """Turns and latencies by group, for the largest groups."""
        columns, rows = self.columns, self.rows("groups")
        answered = rows[self._answered[rows]]
        count = len(columns.groups)
        median, slow = quantiles_by(columns.group[answered], columns.latency_s[answered], count, QUANTILES)
        turns = _counts(columns.group[rows], count)
        return {"turns": turns[:MAX_GROUPS], "p50": rounded(median[:MAX_GROUPS]), "p95": rounded(slow[:MAX_GROUPS])}

    def latency(self) -> dict[str, Any]:
        """Latency over time: quantiles by period, and how many turns in each cell."""
        columns, rows = self.columns, self.rows("latency")
        answered = rows[self._answered[rows] & self._drawn[rows]]
        dated = rows[self._period[rows] >= 0]
        periods = self.axes.periods
        median, slow = quantiles_by(self._period[answered], columns.latency_s[answered], periods, QUANTILES)
        drawn = rows[self._drawn[rows]]
        cells: list[int] = []
        if len(drawn) > MAX_DOTS:
            counts = np.bincount(self._cell[drawn], minlength=1)
            filled = np.flatnonzero(counts)
            cells = np.column_stack([filled, counts[filled]]).ravel().tolist()
        return {
            "turns": _counts(self._period[dated], periods),
            "failed": _counts(self._period[dated[self._failed[dated]]], periods),
            "p50": rounded(median),
            "p95": rounded(slow),
            "cells": cells,
            "drawn": len(drawn),
        }

    def dots(self) -> Integers:
        """The turns that are drawn one by one: all if few, else the extremes."""
        rows = self.rows("latency")
        drawn = rows[self._drawn[rows]]
        if len(drawn) <= MAX_DOTS:
            return drawn
        failed = drawn[self._failed[drawn]]
        return np.union1d(drawn[-MAX_SLOWEST:], failed[-MAX_FAILED:])

    def selected(self) -> Integers:
        """The positions of the selected turns in the table of turns, ascending."""
        return np.sort(self.columns.row[self.rows("table")])


def quantiles_by(keys: Integers, values: Floats, count: int, quantiles: tuple[float, ...]) -> list[Floats]:
    """Quantiles of ascending values by key, with linear interpolation.

    Examples
    --------
    >>> quantiles_by(np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]), 2, (0.5,))
    [array([2., 2.])]
    """
    keys = keys.astype(np.int16 if count < 2**15 else np.int64)  # numpy sorts short integers by radix
    values = values[np.argsort(keys, kind="stable")]
    sizes = np.bincount(keys, minlength=count)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    results = []
    for quantile in quantiles:
        result = np.full(count, np.nan)
        some = np.flatnonzero(sizes)
        position = starts[some] + quantile * (sizes[some] - 1)
        low = np.floor(position).astype(np.int64)
        high = np.minimum(low + 1, starts[some] + sizes[some] - 1)
        result[some] = values[low] + (values[high] - values[low]) * (position - low)
        results.append(result)
    return results


def rounded(values: Floats) -> list[float | None]:
    """Seconds rounded to milliseconds; None for values that are not numbers."""
    return [None if value != value else round(value, 3) for value in values.tolist()]


def _counts(codes: Integers, count: int) -> list[int]:
    counts: list[int] = np.bincount(codes, minlength=count).tolist()
    return counts


def _in(codes: Integers, chosen: tuple[int, ...] | list[int], count: int) -> Flags:
    is_chosen = np.zeros(count + 1, np.bool_)  # the last one is for code -1
    is_chosen[list(chosen)] = True
    mask: Flags = is_chosen[codes]
    return mask


def _ms(moment: pd.Timestamp) -> int:
    return round(moment.timestamp() * 1000)

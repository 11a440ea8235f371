"""Latency by length of the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..tabular import with_provenance
from .arguments import keep_top
from .statistic import aggregate, check_stat
from .turns import Floats, Integers, turns_in

STATS = ("mean", "p50", "p90", "p95")
_NUMBERS = ("prompt_chars", "latency_s")


def prompt_latency(
    data: Any,
    *,
    bins: int | Sequence[float] = 8,
    by: str | list[str] | None = None,
    stat: str | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Latency by length of the question.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`. Answered turns with a question are used.
    bins : int or sequence of float
        Number of bins of about equally many turns, or their edges in characters: a bin
        holds lengths above its lower edge up to its upper one. Default 8.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent"``. The bins are the same in
        all groups.
    stat : str, optional
        One number instead of several: ``"p50"``, ``"p95"`` or another percentile,
        ``"mean"``, ``"min"`` or ``"max"``.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`, as for `latency`.
    top : int, optional
        Number of groups to keep apart: those with the most answered turns. The others
        together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        By group and length: ``chars_from`` and ``chars_to`` (float64, characters: the
        shortest and longest question of the bin), ``n`` (int64, number of turns), and
        ``mean_s``, ``p50_s``, ``p90_s``, ``p95_s`` (float64, seconds).

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "session_id": ["a", "b"], "turn": 1, "status": "answered",
    ...     "latency_s": [1.0, 3.0], "prompt_chars": [10, 200],
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> prompt_latency(table, bins=[0, 100, 1000], stat="p50").values.tolist()
    [[10.0, 10.0, 1.0, 1.0], [200.0, 200.0, 1.0, 3.0]]
    """
    stats = STATS if stat is None else (check_stat(stat, caller="prompt_latency"),)
    columns = [f"{name}_s" for name in stats]
    table, groups, *_ = turns_in(
        data, "session_id", "status", "asked_at", *_NUMBERS, caller="prompt_latency", by=by, since=since, until=until,
        reserved=("chars_from", "chars_to", "n", *columns),
    )  # fmt: skip
    for name in _NUMBERS:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise ValueError(f"prompt_latency needs the column {name!r} as numbers, not as {table[name].dtype}.")
    rows = table[(table["status"] == "answered") & table["asked_at"].notna()].dropna(subset=list(_NUMBERS))
    answered = keep_top(rows, groups, top, caller="prompt_latency")
    number = _bin(answered["prompt_chars"].to_numpy(np.float64), bins)
    grouped = answered.assign(**{"(bin)": number})[number >= 0].groupby([*groups, "(bin)"], observed=True, dropna=False)
    lengths, seconds = grouped["prompt_chars"], grouped["latency_s"]
    result = pd.DataFrame(
        {
            "chars_from": lengths.min().astype("float64"),
            "chars_to": lengths.max().astype("float64"),
            "n": seconds.size(),
            **{column: aggregate(seconds, name) for column, name in zip(columns, stats, strict=True)},
        }
    )
    return with_provenance(result.reset_index().drop(columns="(bin)"), table, "prompt_latency")


def _bin(values: Floats, bins: int | Sequence[float]) -> Integers:
    """The number of each value's bin; -1 outside the bins."""
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        if bins < 1:
            raise ValueError(f"prompt_latency needs at least one of bins=, not {bins}.")
        edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:])) if len(values) else np.zeros(1)
        return np.searchsorted(edges, values).astype(np.int64)
    try:
        edges = np.asarray(bins, np.float64)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError(f"prompt_latency needs bins= as a number, or as two or more ascending edges, not {bins!r}.")
    number = np.searchsorted(edges, values) - 1
    return np.where(number < len(edges) - 1, number, -1).astype(np.int64)

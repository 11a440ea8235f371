"""How two columns of turns go together: prompt length against latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..tabular import with_provenance
from .arguments import groups_of, keep_top, require, rows_in, span_in, with_instants
from .statistic import aggregate, check_stat
from .turns import turns_of

Floats = npt.NDArray[np.float64]

STATS = ("mean", "p50", "p90", "p95")
MAX_PARTS = 40


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
    `rank_correlation` gives one number, with its interval, for how the two go together.
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
    groups = groups_of(by, "chars_from", "chars_to", "n", *columns, caller="prompt_latency")
    answered, source = _answered(data, groups, ("prompt_chars", "latency_s"), since, until, top, "prompt_latency")
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
    return with_provenance(result.reset_index().drop(columns="(bin)"), source, "prompt_latency")


def rank_correlation(
    data: Any,
    x: str = "prompt_chars",
    y: str = "latency_s",
    *,
    by: str | list[str] | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Spearman's rank correlation of two columns of turns, with its interval.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`. Answered turns with both values are used.
    x, y : str
        Two columns of numbers. Default: length of the question, and latency.
    by : str or list of str, optional
        Columns of the turns: one row per value.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`, as for `latency`.
    top : int, optional
        Number of groups to keep apart: those with the most answered turns. The others
        together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        The strongest correlation first: ``n`` (int64, number of turns), ``sessions``
        (int64), ``rho`` (float64, from -1 to 1), ``low`` and ``high`` (float64, its
        95 % interval; null with fewer than 5 sessions).

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.

    Notes
    -----
    The turns of a session resemble each other, so the interval is a jackknife that
    leaves out whole sessions, in up to 40 parts, on Fisher's scale (Cameron and Miller,
    2015). Specification: "Events".

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "session_id": list("abcdef"), "turn": 1, "status": "answered",
    ...     "latency_s": [1.0, 2.0, 3.0, 5.0, 4.0, 6.0], "prompt_chars": range(6),
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 6)})
    >>> rank_correlation(table)[["n", "rho"]].round(2).values.tolist()
    [[6.0, 0.94]]
    """
    groups = groups_of(by, "n", "sessions", "rho", "low", "high", caller="rank_correlation")
    answered, source = _answered(data, groups, (x, y), since, until, top, "rank_correlation")
    parts = answered.groupby(groups, observed=True, dropna=False) if groups else [((), answered)]
    rows = []
    for keys, part in parts:
        session, sessions = pd.factorize(part["session_id"])
        values = (part[x].to_numpy(np.float64), part[y].to_numpy(np.float64))
        rho, low, high = _interval(*values, session % min(MAX_PARTS, max(len(sessions), 1)), len(sessions))
        numbers = {"n": len(part), "sessions": len(sessions), "rho": rho, "low": low, "high": high}
        rows.append({**dict(zip(groups, keys, strict=True)), **numbers})
    result = pd.DataFrame(rows, columns=[*groups, "n", "sessions", "rho", "low", "high"])
    result = result.astype({"n": "int64", "sessions": "int64", "rho": "float64", "low": "float64", "high": "float64"})
    result = result.sort_values("rho", key=abs, ascending=False, kind="stable", ignore_index=True)
    return with_provenance(result, source, "rank_correlation")


def _answered(
    data: Any, groups: list[str], columns: tuple[str, ...], since: Any, until: Any, top: int | None, caller: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The answered turns that have these columns, and the turns they come from."""
    table = turns_of(data, caller=caller)
    groups = groups_of(groups, caller=caller, frame=table)
    require(table, "session_id", "status", "asked_at", *columns, caller=caller)
    table = with_instants(table, "asked_at", caller=caller)
    for name in columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise ValueError(f"{caller} needs the column {name!r} as numbers, not as {table[name].dtype}.")
    span = span_in(table, "asked_at", since, until)
    rows = rows_in(span, table, table["asked_at"], caller=caller)
    rows = rows[(rows["status"] == "answered") & rows["asked_at"].notna()].dropna(subset=list(columns))
    return keep_top(rows, groups, top, caller=caller), table


def _bin(values: Floats, bins: int | Sequence[float]) -> npt.NDArray[np.int64]:
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


def _spearman(x: Floats, y: Floats) -> float:
    if len(x) < 3:
        return math.nan
    ranks = [pd.Series(values).rank().to_numpy(np.float64) for values in (x, y)]
    first, second = (rank - rank.mean() for rank in ranks)
    spread = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / spread if spread else math.nan


def _interval(x: Floats, y: Floats, part: npt.NDArray[np.int64], sessions: int) -> tuple[float, float, float]:
    """The correlation and the ends of its interval."""
    rho = _spearman(x, y)
    count = min(sessions, MAX_PARTS)
    if sessions < 5 or math.isnan(rho):
        return rho, math.nan, math.nan
    centre = _fisher(rho)
    others = np.array([_fisher(_spearman(x[part != n], y[part != n])) for n in range(count)])
    others = others[~np.isnan(others)]
    error = math.sqrt((count - 1) / count * float(((others - others.mean()) ** 2).sum())) if len(others) else math.nan
    reach = _student(count - 1) * error
    return rho, math.tanh(centre - reach), math.tanh(centre + reach)


def _fisher(rho: float) -> float:
    return math.atanh(max(-0.999999, min(0.999999, rho)))


def _student(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution (Cornish and Fisher), from 4 on."""
    return 1.95996 + 2.37227 / freedom + 2.8225 / freedom**2 + 2.55585 / freedom**3

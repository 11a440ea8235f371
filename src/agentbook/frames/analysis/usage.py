"""What turns used: tokens, and their cost by a table of prices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from .labels import with_provenance
from .periods import period_starts, zone_name
from .prices import costs, read_prices
from .selection import keep_top, span_in
from .turns import turns_of
from .validate import groups_of, require, with_instants

_COLUMNS = ("period", "turns", "with_usage", "input_tokens", "output_tokens", "tokens", "cost", "with_cost")


def with_cost(data: Any, prices: Mapping[str, Any] | pd.DataFrame | str | PathLike[str]) -> pd.DataFrame:
    """Turns with a column ``cost``, by a table of prices.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    prices : dict, DataFrame, str or path
        Price of a million tokens by model, in a currency of your choice:
        ``{"small": (0.15, 0.60)}`` for input and output, or a frame with the columns
        ``model``, ``input`` and ``output``; or the path of a CSV file with these, or of
        a JSON or YAML file with the mapping. The model ``"*"`` stands for all others.

    Returns
    -------
    DataFrame
        The turns, with ``cost`` (float64, in the currency of the prices): null without
        usage, without a price for the model, and where only the sum of tokens is known
        and the two prices differ.

    Raises
    ------
    ValueError
        If a column is missing, a price is negative or not a number, or a file is not a
        table of prices.
    OSError
        If a file cannot be read.

    Notes
    -----
    Specification: "Resources and their fields", Session event, has no usage; the
    embedded service's LLM engine sends it.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1], "asked_at": pd.to_datetime(["2026-10-03T08:00Z"]),
    ...     "status": "answered", "model": "small", "input_tokens": [2000],
    ...     "output_tokens": [500], "tokens": [2500]})
    >>> with_cost(table, {"small": (1.0, 2.0)})["cost"].to_list()
    [0.003]
    """
    table = turns_of(data, caller="with_cost")
    require(table, "model", "input_tokens", "output_tokens", "tokens", caller="with_cost")
    tokens = (
        table[name].astype("Float64").to_numpy(np.float64, na_value=np.nan)
        for name in ("input_tokens", "output_tokens", "tokens")
    )
    cost = costs(table["model"].astype("object"), tokens, read_prices(prices))
    costed = table.assign(cost=cost)
    costed.attrs = table.attrs
    return costed


def usage(
    data: Any,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo = "UTC",
    prices: Mapping[str, Any] | pd.DataFrame | str | PathLike[str] | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Tokens, and their cost, by group and period.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    by : str or list of str, optional
        Columns of the turns, such as ``"agent"``, ``"model"`` or ``"initiator_id"``.
    freq : str, optional
        Also group by the period of the question: ``"1h"``, ``"1D"``, ``"W"``, ...
    tz : str or tzinfo
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default UTC.
    prices : dict, DataFrame, str or path, optional
        As for `with_cost`.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`, as for `latency`.
    top : int, optional
        Number of groups to keep apart: those with the most turns. The others together
        are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        By period; without `freq`, the group with the most tokens first: ``turns``,
        ``with_usage`` (int64, turns that carry usage), ``input_tokens``,
        ``output_tokens``, ``tokens`` (int64, of these turns). With `prices`, ``cost``
        (float64) and ``with_cost`` (int64, turns whose cost is known).

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.

    Notes
    -----
    Turns without usage count as zero tokens, so compare ``with_usage`` with ``turns``.
    Specification: "Resources and their fields", Session event, has no usage; the
    embedded service's LLM engine sends it.

    Examples
    --------
    >>> int(usage(events)["with_usage"][0])
    0
    """
    tz = zone_name(tz)
    table = turns_of(data, caller="usage")
    groups = groups_of(by, *_COLUMNS, caller="usage", frame=table)
    require(table, "asked_at", "replied_at", "tokens", "input_tokens", "output_tokens", caller="usage")
    table = with_instants(table, "asked_at", "replied_at", caller="usage")
    at = table["asked_at"].fillna(table["replied_at"])
    rows = (with_cost(table, prices) if prices is not None else table).assign(**{"(at)": at})
    span = span_in(rows, "(at)", since, until, tz=tz, caller="usage")
    rows = keep_top(span.select(rows, at), groups, top, caller="usage")
    if freq is not None:
        rows = rows.assign(period=period_starts(rows["(at)"], freq, tz))
        groups = ["period", *groups]
    counts = {"turns": 1, "with_usage": rows["tokens"].notna().astype("int64")}
    counts |= {name: rows[name].fillna(0).astype("int64") for name in ("input_tokens", "output_tokens", "tokens")}
    if prices is not None:
        counts |= {"cost": rows["cost"].fillna(0.0), "with_cost": rows["cost"].notna().astype("int64")}
    numbers = pd.DataFrame(counts, index=rows.index)
    if not groups:
        result = numbers.sum().to_frame().T.astype(numbers.dtypes.to_dict())
    else:
        keys = [rows[name] for name in groups]
        result = numbers.groupby(keys, observed=True, dropna=False).sum().reset_index()
    if freq is None:
        result = result.sort_values("tokens", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(result, table, "usage", **span.details())

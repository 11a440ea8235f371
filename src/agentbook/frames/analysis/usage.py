"""What turns used: tokens, and their cost by a table of prices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from ...api.errors import PriceWarning
from ..parse.schemas import STR
from ..tabular import with_provenance
from .arguments import keep_top, period_starts, require, warn_caller, with_details
from .prices import ANY_MODEL, Listed, PriceTable, Tokens, costs, gaps, read_prices
from .turn_details import BY_MODEL, COUNTS, MEASURES, models_in
from .turns import turns_in, turns_of

_TOKENS = ["input_tokens", "output_tokens", "tokens"]
_COLUMNS = ("period", "turns", "with_usage", *MEASURES, "cost", "with_cost")
_MODELS = 5  # that a warning names


def with_cost(data: Any, prices: Mapping[str, Any] | pd.DataFrame | str | PathLike[str]) -> pd.DataFrame:
    """Turns with a column ``cost``, by a table of prices.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    prices : dict, DataFrame, str or path
        Price of a million tokens by model, in a currency of your choice:
        ``{"small": (0.15, 0.60)}`` for input and output, and where a prompt cache is
        used ``(0.15, 0.60, 0.08, 0.19)``, with the prices of input tokens read from it
        and written to it, which also have names: ``{"input": 0.15, "output": 0.60,
        "cached": 0.08, "cache_write": 0.19}``. Or a frame with the column ``model`` and
        these; or the path of a CSV file with the columns, or of a JSON or YAML file
        with the mapping. The model ``"*"`` stands for all others. ``"genai"`` is the
        list of the package genai-prices, in US dollars, with today's prices: also as
        the price of ``"*"``, where those of other models win.

    Returns
    -------
    DataFrame
        The turns, with ``cost`` (float64, in the currency of the prices), of several
        models their sum: null without usage, without a price for the model or for the
        tokens of its cache, and where only the sum of tokens is known and the prices
        differ. ``reported_cost``, what the source says, is no part of it.

    Raises
    ------
    ValueError
        If a column is missing, a price is negative or not a number, or a file is not a
        table of prices.
    OSError
        If a file cannot be read.

    Warns
    -----
    PriceWarning
        If models of turns with usage have no price; the message names them.

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
    return _with_cost(turns_of(data, caller="with_cost"), prices, caller="with_cost")


def _with_cost(table: pd.DataFrame, prices: Any, *, caller: str) -> pd.DataFrame:
    require(table, "model", *_TOKENS, caller=caller)
    known = read_prices(prices, caller=caller)
    parts, turns = by_model(table)
    models, tokens = parts["model"].astype("object").to_list(), _tokens_of(parts)
    cost = costs(models, tokens, known)
    _warn_without_price(models, tokens, cost, turns, known, caller)
    sums = np.zeros(len(table))
    np.add.at(sums, turns, cost)
    costed = table.assign(cost=sums)
    return with_details(costed, prices=known.source) if isinstance(known, Listed) else costed


def _tokens_of(parts: pd.DataFrame) -> Tokens:
    unknown = np.full(len(parts), np.nan)
    return {
        name: parts[name].astype("Float64").to_numpy(np.float64, na_value=np.nan) if name in parts else unknown
        for name in COUNTS
    }


def by_model(table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """What each model used in each turn, and the number of its turn."""
    has_any = BY_MODEL in table and bool(table[BY_MODEL].notna().any())
    texts = table[BY_MODEL].to_list() if has_any else []
    used = {turn: parts for turn, text in enumerate(texts) if (parts := models_in(text))}
    turns = np.repeat(np.arange(len(table)), [len(used.get(turn, "1")) for turn in range(len(table))])
    if not used:
        return table, turns
    expanded = table.iloc[turns].reset_index(drop=True).astype({"model": STR})
    places = np.flatnonzero(np.isin(turns, [*used]))
    models, numbers = zip(*(part for parts in used.values() for part in parts), strict=True)
    values = {"model": models, BY_MODEL: [None] * len(places)}
    values |= {name: [each.get(name) for each in numbers] for name in MEASURES if name in table}
    for name, column in values.items():
        expanded.loc[places, name] = pd.array(column, dtype=expanded[name].dtype)
    expanded.attrs = table.attrs
    return expanded, turns


def _warn_without_price(
    models: list[Any], tokens: Tokens, cost: np.ndarray, turns: np.ndarray, prices: PriceTable, caller: str
) -> None:
    """Warn if turns have usage, and the prices none for it."""
    if not np.isnan(cost).any():
        return
    missing = pd.Series([*gaps(models, tokens, prices)], turns, dtype="object").dropna()
    counts = missing.value_counts()
    if counts.empty:
        return
    names = counts.index[:_MODELS]
    more = f" and {len(counts) - _MODELS:,} more" if len(counts) > _MODELS else ""
    unknown = missing.index.nunique()
    priced = f"it has {', '.join(map(repr, list(prices)[:_MODELS]))}" if prices else "it is empty"
    has_cache = any("cache" in name for name in names)
    warn_caller(
        f"{caller}: the cost of {unknown:,} turn{'' if unknown == 1 else 's'} is not known, because prices= has no price "
        f"for {', for '.join(names)}{more}; {priced}. "
        + ("Add these prices, as in (0.15, 0.60, 0.08, 0.19): input, output, read from a cache, written to it." if has_cache
           else f"Correct the names, or add {ANY_MODEL!r} for all other models."),
        PriceWarning,
    )  # fmt: skip


def usage(
    data: Any,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo | None = None,
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
        Columns of the turns, such as ``"agent"``, ``"model"`` or ``"author_id"``.
    freq : str, optional
        Also group by the period of the question: ``"1h"``, ``"1D"``, ``"W"``, ...
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.
    prices : dict, DataFrame, str or path, optional
        Prices by model, or a file of them, as for `with_cost`.
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
        ``output_tokens``, ``tokens``, ``cached_tokens``, ``cache_write_tokens`` (Int64,
        sums over those of these turns that tell the number; null if none does), and
        ``reported_cost`` (float64, what the source says). With `prices`, ``cost``
        (float64) and ``with_cost`` (int64, turns whose cost is known). Both costs are
        null unless they are known for every turn with usage. By ``"model"``, a turn of
        several models counts for each, with what it used.

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.

    Warns
    -----
    PriceWarning
        If models of turns with usage have no price; the message names them.

    Notes
    -----
    What turns without usage used is not known, so compare ``with_usage`` with
    ``turns``. A cost that is known in part is null, because a part would look like the
    total; ``by="model"`` shows the part. Specification: "Resources and their fields",
    Session event, has no usage; the embedded service's LLM engine sends it.

    Examples
    --------
    >>> at = pd.to_datetime(["2026-10-03T08:00Z"] * 3)
    >>> table = pd.DataFrame({
    ...     "turn": [1, 1, 2], "agent": ["guide", "helpdesk", "helpdesk"],
    ...     "status": "answered", "asked_at": at, "replied_at": at,
    ...     "input_tokens": [None, 900, 1100], "output_tokens": [None, 40, 60],
    ...     "tokens": [None, 940, 1160]})
    >>> used = usage(table, by="agent")
    >>> used[["agent", "turns", "with_usage", "input_tokens", "tokens"]]
          agent  turns  with_usage  input_tokens  tokens
    0  helpdesk      2           2          2000    2100
    1     guide      1           0          <NA>    <NA>
    """
    table, groups, tz, span = turns_in(
        data, "asked_at", "replied_at", "tokens", "input_tokens", "output_tokens", caller="usage", by=by, since=since,
        until=until, tz=tz, or_replied=True, reserved=_COLUMNS,
    )  # fmt: skip
    rows = table
    if "model" in groups:
        rows, _ = by_model(rows)
    if prices is not None:
        rows = _with_cost(rows, prices, caller="usage")
    rows = keep_top(rows, groups, top, caller="usage")
    if freq is not None:
        rows = rows.assign(period=period_starts(rows["(at)"], freq, tz))
        groups = ["period", *groups]
    numbers = pd.DataFrame({"turns": 1, "with_usage": rows[_TOKENS].notna().any(axis=1).astype("int64")}, rows.index)
    for name in MEASURES:
        numbers[name] = rows.get(name, pd.Series(None, rows.index, "Int64")).astype(
            "Int64" if name in COUNTS else "float64"
        )
    if prices is not None:
        numbers = numbers.assign(cost=rows["cost"], with_cost=rows["cost"].notna().astype("int64"))
    numbers["(reported)"] = (numbers["reported_cost"].notna() & (numbers["with_usage"] > 0)).astype("int64")
    keys = [rows[name] for name in groups] or [pd.Series(0, rows.index)]
    grouped = numbers.groupby(keys, observed=True, dropna=False)
    result = grouped.sum(min_count=1)
    result["reported_cost"] = result["reported_cost"].where(result.pop("(reported)") == result["with_usage"])
    if prices is not None:
        result["cost"] = result["cost"].where(result["with_cost"] == result["with_usage"])
    if groups:
        result = result.reset_index()
    elif result.empty:
        counts = dict.fromkeys(("turns", "with_usage", "with_cost"), 0)
        result = result.reindex([0]).fillna(counts).astype(numbers.dtypes[result.columns].to_dict())
    if freq is None:
        result = result.sort_values("tokens", ascending=False, kind="stable", ignore_index=True)
    listed = {"prices": source} if (source := rows.attrs.get("agentbook", {}).get("prices")) else {}
    return with_provenance(result, table, "usage", **span.details(), **listed)

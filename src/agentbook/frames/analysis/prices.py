"""What models cost: the user's prices, as a mapping, a frame or a file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from ..tabular import frame_of
from .arguments import require
from .turn_details import COUNTS

ANY_MODEL = "*"
_MILLION = 1_000_000
_COLUMNS = ("model", "input", "output")

PRICES_VARIABLE = "AGENTBOOK_PRICES"
PriceTable = Mapping[str, tuple[float, float]]


def read_prices(prices: Any, *, caller: str = "with_cost") -> dict[str, tuple[float, float]]:
    """Prices of a million tokens of input and of output, by model.

    Parameters
    ----------
    prices : dict, DataFrame, str or path
        A mapping of model to two numbers; a frame with the columns ``model``, ``input``
        and ``output``; a CSV file with these, or a JSON or YAML file with the mapping.
    caller : str
        The calling function, for messages.

    Raises
    ------
    ValueError
        If a column is missing, a price is negative or not a number, or the file is not
        a table of prices.
    OSError

    Examples
    --------
    >>> read_prices({"small": (0.15, 0.6), "*": {"input": 1, "output": 2}})
    {'small': (0.15, 0.6), '*': (1.0, 2.0)}
    """
    if isinstance(prices, str | PathLike):
        prices = _read_file(Path(prices).expanduser())
    if not isinstance(prices, Mapping):
        frame = frame_of(prices, caller=caller)
        require(frame, *_COLUMNS, caller=f"{caller} (prices)")
        pairs = zip(frame["input"], frame["output"], strict=True)
        prices = dict(zip(frame["model"], pairs, strict=True))
    return {model: _price(model, price) for model, price in prices.items()}


def costs(models: Iterable[object], tokens: Iterable[np.ndarray], prices: PriceTable) -> np.ndarray:
    """The cost of each turn; NaN where it is not known.

    Parameters
    ----------
    models : iterable of str or None
    tokens : iterable of array of float
        Input tokens, output tokens, and their sum; NaN where not known.
    prices : mapping
        From `read_prices`.

    Examples
    --------
    >>> tokens = np.array([2000.0]), np.array([500.0]), np.array([2500.0])
    >>> costs(["small"], tokens, {"small": (1.0, 2.0)}).tolist()
    [0.003]
    """
    into, out, total = tokens
    default = prices.get(ANY_MODEL, (math.nan, math.nan))
    pairs = [prices.get(name, default) if isinstance(name, str) else default for name in models]
    first, second = np.array(pairs, np.float64).reshape(-1, 2).T
    cost = (into * first + out * second) / _MILLION
    only_total = np.isnan(cost) & (first == second)
    cost[only_total] = (total * first)[only_total] / _MILLION
    return cost


def price_table(prices: Any = None) -> PriceTable | None:
    """The prices in any form that `agentbook.with_cost` takes, checked.

    If none are passed, those in the file that ``AGENTBOOK_PRICES`` names, if it is set.

    Raises
    ------
    ValueError
        If they are not prices.
    OSError
        If a file cannot be read.
    """
    if prices is None:
        prices = os.environ.get(PRICES_VARIABLE) or None
    return None if prices is None else read_prices(prices, caller="prices")


def cost_of(usage: Mapping[str, Any], prices: PriceTable) -> float | None:
    """The cost of a turn, as `agentbook.with_cost` computes it; None if not known.

    Examples
    --------
    >>> cost_of({"tokens": 3, "input_tokens": 1, "output_tokens": 2}, {"*": (1e6, 1e6)})
    3.0
    """
    tokens = (np.array([usage.get(name)], np.float64) for name in COUNTS)
    [cost] = costs([usage.get("model")], tokens, prices).tolist()
    return None if math.isnan(cost) else cost


def _read_file(path: Path) -> Any:
    kind = path.suffix.lower()
    try:
        if kind == ".csv":
            return pd.read_csv(path, dtype={"model": "str"}, skipinitialspace=True, encoding="utf-8-sig")
        text = path.read_text(encoding="utf-8-sig")
        data = json.loads(text) if kind == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as prices: {error}") from error
    if not isinstance(data, Mapping):
        raise ValueError(
            f"{path} is not a table of prices. Write a line per model, as in `gpt-4o-mini: [0.15, 0.60]` (YAML), or a "
            "CSV file with the columns model, input and output."
        )
    return data


def _price(model: object, price: Any) -> tuple[float, float]:
    values: Any = (price.get("input"), price.get("output")) if isinstance(price, Mapping) else price
    try:
        first, second = (float(value) for value in values)
        if min(first, second) >= 0 and math.isfinite(first + second):
            return first, second
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"prices needs two numbers of 0 or more for the model {model!r}, for a million tokens of input and of output, as in "
        f"{{{model!r}: (0.15, 0.60)}}, not {price!r}."
    )

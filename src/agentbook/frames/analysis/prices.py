"""What models cost: the user's prices, as a mapping, a frame or a file, or a list."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from ..tabular import frame_of
from .arguments import require
from .turn_details import BY_MODEL, COUNTS, models_in

ANY_MODEL = "*"
GENAI = "genai"  # the list of the package genai-prices, which others keep up to date
_MILLION = 1_000_000
_PRICES = ("input", "output", "cached", "cache_write")

PRICES_VARIABLE = "AGENTBOOK_PRICES"
PriceTable = Mapping[str, tuple[float, ...]]
Tokens = Mapping[str, np.ndarray]


def read_prices(prices: Any, *, caller: str = "with_cost") -> dict[str, tuple[float, ...]]:
    """Prices of a million tokens of input and of output, by model.

    A price may have a third number, for input tokens that came from a prompt cache, and
    a fourth, for those that were written to one; NaN where it has only the fourth.

    Parameters
    ----------
    prices : dict, DataFrame, str or path
        ``"genai"`` for the list of the package genai-prices, also for the model ``"*"``
        of a mapping, whose other prices win. Or a mapping of model to the numbers, in
        this order or by the names ``input``, ``output``, ``cached`` and
        ``cache_write``; a frame with a column ``model`` and these, of which the last
        two may be missing; a CSV file with the columns, or a JSON or YAML file with the
        mapping.
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
    if isinstance(prices, str) and prices == GENAI:
        prices = {ANY_MODEL: GENAI}
    if isinstance(prices, str | PathLike):
        prices = _read_file(Path(prices).expanduser())
    if not isinstance(prices, Mapping):
        frame = frame_of(prices, caller=caller)
        require(frame, "model", *_PRICES[:2], caller=f"{caller} (prices)")
        rows = frame.reindex(columns=[*_PRICES]).to_dict("records")
        prices = dict(zip(frame["model"], rows, strict=True))
    own = {model: _price(model, price) for model, price in prices.items() if (model, price) != (ANY_MODEL, GENAI)}
    return own if len(own) == len(prices) else Listed(own)


class Listed(dict[str, tuple[float, ...]]):
    """One's own prices, and those of the package genai-prices for all other models."""

    def __init__(self, own: Mapping[str, tuple[float, ...]]) -> None:
        super().__init__(own)
        try:
            self.source = f"genai-prices {metadata.version('genai-prices')}"
        except metadata.PackageNotFoundError:
            raise ImportError("prices='genai' needs a package: pip install genai-prices.") from None

    def get(self, model: str, default: Any = ()) -> Any:
        """The price of a model, by the part of its name that the list knows."""
        return super().get(model) or _listed(model) or default


@functools.cache
def _listed(model: str) -> tuple[float, ...]:
    """The list's price today, and the number of input tokens up to which it holds.

    Empty if the list has none, or one that depends on the time of day.
    """
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import TieredPrices, TimeOfDateConstraint

    name = model
    while True:  # gateways put their names before the model's
        try:
            _, found = get_snapshot().find_provider_model(name, None, None, None)
            break
        except LookupError:
            _, slash, name = name.partition("/")
            if not slash:
                return ()
    if isinstance(found.prices, list) and any(isinstance(p.constraint, TimeOfDateConstraint) for p in found.prices):
        return ()
    today = found.get_prices(datetime.now(UTC))
    values = [getattr(today, f"{kind}_mtok", None) for kind in ("input", "output", "cache_read", "cache_write")]
    limits = [tier.start for value in values if isinstance(value, TieredPrices) for tier in value.tiers]
    numbers = [value.base if isinstance(value, TieredPrices) else value for value in values]
    prices = [math.nan if number is None else float(number) for number in numbers]
    return (*prices, min(limits, default=math.inf)) if not math.isnan(prices[0] + prices[1]) else ()


def costs(models: Sequence[object], tokens: Tokens, prices: PriceTable) -> np.ndarray:
    """The cost of what models used; NaN where it is not known.

    Input tokens that no source says to come from a cache cost the price of input.

    Parameters
    ----------
    models : sequence of str or None
    tokens : mapping of array of float
        The numbers by the names of `COUNTS`; NaN where not known.
    prices : mapping
        From `read_prices`.

    Examples
    --------
    >>> used = {"input_tokens": 2000, "output_tokens": 500, "cached_tokens": 1000}
    >>> tokens = {name: np.array([used.get(name)], np.float64) for name in COUNTS}
    >>> costs(["small"], tokens, {"small": (1.0, 2.0, 0.5)}).tolist()
    [0.0025]
    """
    known = [_numbers(model, prices) for model in models]
    into, out, cached, write, limit = np.array(known, np.float64).reshape(-1, 5).T
    read, written = (np.nan_to_num(tokens[name]) for name in ("cached_tokens", "cache_write_tokens"))
    cost = (tokens["input_tokens"] - read - written) * into + tokens["output_tokens"] * out
    flat = np.isnan(cost) & (into == out)
    cost[flat] = ((tokens["tokens"] - read - written) * into)[flat]
    for count, price in ((read, cached), (written, write)):
        cost += np.where(count > 0, count * price, 0)
    cost[tokens["input_tokens"] > limit] = math.nan
    return np.asarray(cost / _MILLION)


def gaps(models: Sequence[object], tokens: Tokens, prices: PriceTable) -> Iterator[str | None]:
    """For what a price is missing, in words, of each cost; None where none is."""
    used = np.any([~np.isnan(tokens[name]) for name in COUNTS], axis=0)
    cache = zip(tokens["cached_tokens"] > 0, tokens["cache_write_tokens"] > 0, tokens["input_tokens"], strict=True)
    for model, has_used, (has_read, has_written, count) in zip(models, used, cache, strict=True):
        into, _, cached, write, limit = _numbers(model, prices)
        name = f"the model {model!r}" if isinstance(model, str) else "no model"
        if not has_used:
            yield None
        elif math.isnan(into):
            yield name
        elif count > limit:
            yield f"more than {limit:,.0f} input tokens of {name}"
        elif has_read and math.isnan(cached):
            yield f"cached tokens of {name}"
        else:
            yield f"tokens that {name} wrote to a cache" if has_written and math.isnan(write) else None


def _numbers(model: object, prices: PriceTable) -> tuple[float, ...]:
    """The prices of a model, and the number of input tokens up to which they hold."""
    default = prices.get(ANY_MODEL, ())
    price = prices.get(model, default) if isinstance(model, str) else default
    return (*price, *[math.nan] * (4 - len(price)), math.inf) if len(price) < 5 else price


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
    cost = float(costs(*_parts(usage), prices).sum())
    return None if math.isnan(cost) else cost


def gap_of(usage: Mapping[str, Any], prices: PriceTable) -> str | None:
    """For what a price is missing to know the cost of a turn; None if none is."""
    return ", for ".join(filter(None, gaps(*_parts(usage), prices))) or None


def _parts(usage: Mapping[str, Any]) -> tuple[list[str | None], Tokens]:
    """What each model used."""
    models, parts = zip(*models_in(usage.get(BY_MODEL)) or [(usage.get("model"), usage)], strict=True)
    return [*models], {name: np.array([part.get(name) for part in parts], np.float64) for name in COUNTS}


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
            "CSV file with the columns model, input and output (and cached and cache_write)."
        )
    return data


def _price(model: object, price: Any) -> tuple[float, ...]:
    values: Any = [price.get(name) for name in _PRICES] if isinstance(price, Mapping) else price
    try:
        numbers = [math.nan if value is None else float(value) for value in values]
        while len(numbers) > 2 and math.isnan(numbers[-1]):
            numbers.pop()
        of_cache = [each for each in numbers[2:] if not math.isnan(each)]
        if 2 <= len(numbers) <= 4 and all(0 <= each < math.inf for each in numbers[:2] + of_cache):
            return tuple(numbers)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"prices needs two numbers of 0 or more for the model {model!r}, for a million tokens of input and of output, as in "
        f"{{{model!r}: (0.15, 0.60)}}, and may have two more, for tokens read from and written to a cache; not {price!r}."
    )

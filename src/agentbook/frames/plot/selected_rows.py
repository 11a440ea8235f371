"""Which rows of a chart a person has selected, by brush or click."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .style import ROW


def selected_rows(rows: pd.DataFrame, selection: Any) -> Any:
    """Whether each row is in a selection, as Vega reports it.

    Parameters
    ----------
    rows : DataFrame
        The rows as the page has them, with times as texts in UTC.
    selection : Mapping
        For a click, the numbers of the rows as ``_row``. For a brush, by field: two
        ends, which are numbers or milliseconds since 1970, or the names that it covers.

    Returns
    -------
    array of bool

    Examples
    --------
    >>> rows = pd.DataFrame({"agent": ["a", "b"], "latency_s": [1.0, 3.0]})
    >>> selected_rows(rows, {"latency_s": [2.5, 4]}).tolist()
    [False, True]
    >>> selected_rows(rows, {"_row": [0]}).tolist()
    [True, False]
    """
    inside = np.zeros(len(rows), np.bool_)
    if not isinstance(selection, Mapping):
        return inside
    if ROW in selection:
        numbers = [n for n in selection[ROW] if isinstance(n, int) and 0 <= n < len(rows)]
        inside[numbers] = True
        return inside
    fields = {name: values for name, values in selection.items() if name in rows and isinstance(values, list)}
    if fields:
        inside[:] = np.logical_and.reduce([_is_within(rows[name], values) for name, values in fields.items()])
    return inside


def _is_within(column: pd.Series, values: list[Any]) -> Any:
    if len(values) != 2 or not all(isinstance(value, (int, float)) for value in values):
        return column.isin(values).to_numpy()
    if not pd.api.types.is_numeric_dtype(column):
        moments = pd.to_datetime(column, utc=True, format="ISO8601").dt.as_unit("ms")
        column = moments.astype("int64").astype("float64").where(moments.notna())
    elif pd.api.types.is_integer_dtype(column) and min(values) == max(values):
        return (column == values[0]).to_numpy(dtype=bool, na_value=False)
    return column.between(min(values), max(values)).to_numpy(dtype=bool, na_value=False)

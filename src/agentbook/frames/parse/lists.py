"""Columns of lists: Arrow lists in pandas.

``frame["tags"].list.len()``, ``frame["tags"].list[0]`` and ``frame.explode("tags")``
work on them, and they stay lists in Parquet files, Polars and DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd
from pandas.api.extensions import ExtensionDtype, register_extension_dtype

from .schemas import ARROW_TYPES, DTYPES

TEXTS = ARROW_TYPES[DTYPES["list"]]


def list_column(values: Iterable[Any], index: pd.Index | None = None, type_: Any = TEXTS) -> pd.Series:
    """A column of lists; None is null.

    Examples
    --------
    >>> list_column([["a", "b"], None]).list.len().to_list()
    [2, <NA>]
    """
    dtype: Any = pd.ArrowDtype(type_)
    column: pd.Series = pd.Series(list(values), index, dtype=dtype)
    return column


def is_empty(lists: pd.Series) -> pd.Series:
    """Whether each list has no items; False for null."""
    empty: pd.Series = lists.list.len().eq(0).fillna(False).astype("bool")
    return empty


@register_extension_dtype
class ArrowListName(ExtensionDtype):
    """Understands the names of Arrow lists, which pandas writes and cannot read.

    ``frame.to_parquet`` stores the dtype ``list<...>[pyarrow]``. Without this class,
    ``pd.read_parquet`` of that file raises "data type not understood" (pandas 3.1).
    """

    name = "list<...>[pyarrow]"
    type = list

    @classmethod
    def construct_from_string(cls, string: str) -> ArrowListName:
        if isinstance(string, str) and re.fullmatch(r"list<.*>\[pyarrow\]", string):
            return cls()
        raise TypeError(f"{string!r} is not the name of an Arrow list.")

    def __from_arrow__(self, array: Any) -> pd.api.extensions.ExtensionArray:
        return pd.arrays.ArrowExtensionArray(array)


__all__ = ["TEXTS", "ArrowListName", "is_empty", "list_column"]

"""Columns of lists: Arrow lists in pandas.

``frame["tags"].list.len()``, ``frame["tags"].list[0]`` and ``frame.explode("tags")``
work on them, and they stay lists in Parquet files, Polars and DuckDB. So do operations
that compare values, such as ``frame.describe(include="all")``, which pandas refuses on
Arrow lists of its own: Arrow has no hash of a list. Texts or tuples would do that too,
but lose the type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionDtype, register_extension_dtype

from .schemas import ARROW_TYPES, DTYPES, STR

TEXTS = ARROW_TYPES[DTYPES["list"]]


class ListArray(pd.arrays.ArrowExtensionArray):
    """An array of Arrow lists, whose values are compared by their JSON.

    Examples
    --------
    >>> tags = list_column([["a"], None, ["a"]])
    >>> tags.drop_duplicates().to_list(), tags.nunique(), tags.value_counts().to_list()
    ([['a'], <NA>], 1, [2])
    """

    def _texts(self) -> Any:
        values = self.__arrow_array__().to_pylist()
        return pd.array([None if value is None else json.dumps(value, default=str) for value in values], dtype=STR)

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Any, Any]:
        codes, _ = self._texts().factorize(use_na_sentinel=use_na_sentinel)
        first = np.unique(codes, return_index=True)[1]
        return codes, self.take(first[codes[first] >= 0])

    def unique(self) -> Any:
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Any = "first") -> Any:
        return self._texts().duplicated(keep)

    def argsort(self, **options: Any) -> Any:
        return self._texts().argsort(**options)

    def isin(self, values: Any) -> Any:
        return self._texts().isin(
            ListArray(pa.array(list(values), self.__arrow_array__().type, from_pandas=True))._texts()
        )

    def value_counts(self, dropna: bool = True) -> pd.Series:
        codes, values = self.factorize(use_na_sentinel=dropna)
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        return pd.Series(counts, index=pd.Index(values), name="count")


def list_column(values: Iterable[Any], index: pd.Index | None = None, type_: Any = TEXTS) -> pd.Series:
    """A column of lists; None is null.

    Examples
    --------
    >>> list_column([["a", "b"], None]).list.len().to_list()
    [2, <NA>]
    """
    return pd.Series(ListArray(pa.array(list(values), type_, from_pandas=True)), index)


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
        return ListArray(array)

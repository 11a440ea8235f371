"""Joins the pages of a list operation into one DataFrame.

A `FrameBuilder` holds pages as Arrow record batches. pandas is used once, at the end.
So peak memory is the table and one page, and no Python object is made per row.

Columns of lists are Arrow lists in pandas. ``frame["tags"].list.len()``,
``frame["tags"].list[0]`` and ``frame.explode("tags")`` work on them, and they stay
lists in Parquet files, Polars and DuckDB. So do operations that compare values, such as
``frame.describe(include="all")``, which pandas refuses on Arrow lists of its own: Arrow
has no hash of a list. Texts or tuples would do that too, but lose the type.
"""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionDtype, register_extension_dtype

from ..._text import in_kernel
from .problems import MAX_PROBLEMS, Problem
from .reader import PageReader, ParsedPage, constant
from .schemas import ARROW_TYPES, DTYPES, STR, arrow_schema, schema_of

TEXTS = ARROW_TYPES[DTYPES["list"]]
_JOINED_ROWS = 8_192  # small batches are joined up to this many rows
_PANDAS_TYPES: dict[Any, Any] = {
    pa.int64(): pd.Int64Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


class FrameBuilder:
    """Builds one table from pages.

    Parameters
    ----------
    resource : str
        A key of `agentbook.frames.parse.schemas.SCHEMAS`.
    context : mapping, optional
        Values known from the request, such as ``{"session_id": "..."}``. They fill the
        nulls of a column of that name, or add a column.
    reveal : bool
        If True, credentials' secrets are not masked, and a notebook shows a warning.

    Attributes
    ----------
    rows : int
        Number of rows so far.
    problems : list of dict
        The first `MAX_PROBLEMS` problems; `problem_count` counts all of them.
    readable : bool
        False once a page could not be read at all.

    Examples
    --------
    >>> builder = FrameBuilder("events", {"session_id": "s1"})
    >>> builder.add(b'{"items": [{"id": "e1", "content": {"text": "Hi"}}]}')
    1
    >>> builder.finish()[["session_id", "text"]].values.tolist()
    [['s1', 'Hi']]
    """

    def __init__(self, resource: str, context: Mapping[str, Any] | None = None, *, reveal: bool = False) -> None:
        self.resource = resource
        self.rows = 0
        self.problems: list[dict[str, Any]] = []
        self.problem_count = 0
        self.readable = True
        self._schema = schema_of(resource)
        self._context = dict(context or {})
        self._reader = PageReader(self._schema, reveal=reveal)
        self._hide = self._schema.secret and not reveal
        self._names = frozenset(column.name for column in self._schema.columns)
        self._tables: list[Any] = []
        self._small: list[Any] = []  # the latest batches, not joined yet
        self._small_rows = 0
        if reveal and self._schema.secret and in_kernel():
            warnings.warn(
                "This frame will hold secrets: clear its outputs before you share the notebook.", stacklevel=2
            )

    def add(self, page: bytes, context: Mapping[str, Any] | None = None) -> int:
        """Parse and append the JSON body of one page; returns its number of rows.

        Parameters
        ----------
        page : bytes
            ``{"items": [...], "pagination": {...}}``. The content of a page never
            raises an error; see `problems`.
        context : mapping, optional
            Context of this page alone, added to the builder's.
        """
        parsed = self._reader.read(page, {**self._context, **(context or {})})
        self.append(parsed)
        return parsed.rows

    def append(self, page: ParsedPage) -> None:
        """Append a page that a `PageReader` of the same resource has read."""
        if page.rows:
            self._small.append(page.batch)
            self._small_rows += page.rows
            if self._small_rows >= _JOINED_ROWS:
                self._join()
        self._add_problems(page.problems, page.context)
        self.readable = self.readable and page.readable
        self.rows += page.rows

    def _join(self) -> None:
        """Join small batches, so that the final columns have few chunks."""
        for _, batches in itertools.groupby(self._small, key=lambda batch: batch.schema):
            self._tables.append(pa.Table.from_batches(list(batches)).combine_chunks())
        self._small, self._small_rows = [], 0

    def _add_problems(self, problems: list[Problem], context: Mapping[str, Any]) -> None:
        self.problem_count += len(problems)
        for problem in problems[: MAX_PROBLEMS - len(self.problems)]:
            row = None if problem.row is None else self.rows + problem.row
            raw = "<masked>" if self._hide and problem.raw is not None else problem.raw
            known = replace(problem, row=row, raw=raw).described()
            self.problems.append(known | {name: str(value) for name, value in context.items()})

    def to_arrow(self) -> Any:
        """The rows so far as a `pyarrow.Table` with every column of the schema."""
        fields = list(arrow_schema(self._schema))
        fields += [
            pa.field(name, constant(value, 0).type) for name, value in self._context.items() if name not in self._names
        ]
        empty = pa.schema(fields).empty_table()
        self._join()
        if all(table.schema.equals(empty.schema) for table in self._tables):
            return pa.concat_tables(self._tables or [empty]).unify_dictionaries()
        # A context of some pages has added columns.
        return pa.concat_tables([empty, *self._tables], promote_options="permissive").unify_dictionaries()

    def finish(self, provenance: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """The rows so far as a DataFrame, with provenance in ``attrs["agentbook"]``."""
        frame = to_pandas(self.to_arrow())
        frame.attrs["agentbook"] = self.describe(provenance or {})
        return frame

    def describe(self, provenance: Mapping[str, Any]) -> dict[str, Any]:
        """The value of ``attrs["agentbook"]``.

        Holds the caller's provenance, the resource and the problems.
        """
        known = jsonable(provenance)
        complete = bool(known.pop("complete", True)) and self.readable
        problems = [*known.pop("problems", []), *self.problems]
        count = int(known.pop("problem_count", 0)) + self.problem_count
        return {"resource": self.resource, **known, "complete": complete, "problem_count": count, "problems": problems}


def to_frame(
    resource: str,
    pages: Iterable[bytes],
    *,
    provenance: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    reveal: bool = False,
) -> pd.DataFrame:
    """A DataFrame of the items of a list operation's pages.

    Use it for pages that you saved, and for a few made-up items that test an analysis.

    Parameters
    ----------
    resource : str
        What the items are, such as ``"events"``, ``"sessions"`` or ``"agents"``; the
        error of an unknown one lists all.
    pages : iterable of bytes
        JSON bodies ``{"items": [...], "pagination": {...}}``, in order.
    provenance : mapping, optional
        What the caller knows about the load (operation, parameters, loaded_at,
        requests, complete). Stored as JSON values in ``attrs["agentbook"]``, together
        with ``problems`` (row, field, problem, raw) and ``problem_count``.
    context : mapping, optional
        Values known from the request and not in the items, such as
        ``{"session_id": "s1"}`` for events.
    reveal : bool
        If True, credentials' secrets are not masked. Default False.

    Returns
    -------
    DataFrame
        One row per item, in the order of the pages. The columns are those of a loaded
        list, even without items: ids and texts ``str``, enums ``category``, times
        ``datetime64[us, UTC]``, integers ``Int64``, booleans ``boolean``. Unknown
        fields and unreadable values are JSON text in ``extra``.

    Raises
    ------
    ValueError
        If there is no such resource. The contents of pages never raise.

    Notes
    -----
    Specification: "Resources and their fields".

    Examples
    --------
    >>> page = b'''{"items": [{"id": "w1", "name": "lab",
    ...   "owner": {"name": "ada", "type": "user"}}], "pagination": {}}'''
    >>> frame = to_frame("workspaces", [page])
    >>> frame[["name", "owner_name", "owner_type"]].values.tolist()
    [['lab', 'ada', 'user']]
    >>> to_frame("workspaces", []).dtypes["created_at"]
    datetime64[us, UTC]
    """
    builder = FrameBuilder(resource, context, reveal=reveal)
    for page in pages:
        builder.add(page)
    return builder.finish(provenance)


def _pandas_type(type_: Any) -> Any:
    return ArrowListName() if pa.types.is_list(type_) else _PANDAS_TYPES.get(type_)


def to_pandas(table: Any) -> pd.DataFrame:
    """A DataFrame with the dtypes of `schemas.DTYPES` from an Arrow table."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type, split_blocks=True)
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            # Sorted, so that equal rows make equal frames however they were paged.
            categories = pd.Index(sorted(map(str, dtype.categories)), dtype="str")
            frame[name] = frame[name].cat.set_categories(categories)
    return frame


def jsonable(value: Any) -> Any:
    """`value` as JSON: times as ISO 8601, tuples and sets as lists, others as text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


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

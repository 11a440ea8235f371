"""Joins the pages of a list operation into one DataFrame.

A `FrameBuilder` parses pages as they arrive and holds Arrow record batches. pandas is
used once, at the end. So peak memory is the table and one page, an interrupted load
keeps the pages that have arrived, and no Python object is made per row.
"""

from __future__ import annotations

import bisect
import copy
import functools
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from ..._text import in_kernel
from .columns import BatchMaker, arrow_schema, constant
from .json_columns import PageReader, Values
from .parsed_page import ParsedPage, batches_of
from .problems import MAX_PROBLEMS, Problem
from .schemas import schema_of

# Small batches are joined up to this many rows while they arrive: the memory they free
# is reused at once, and few batches make the final table cheaper.
JOINED_ROWS = 8_192
# Memory for the joined columns. Arrow's own pool mixes them with the short-lived
# columns of pages and cannot reuse the gaps between: a load then takes a third more
# memory.
_LASTING = pa.system_memory_pool()
# Raw JSON is not joined if its chunks are large anyway: its bytes are not in that pool.
_RAW_COLUMNS, _RAW_ROWS = frozenset({"content", "extra"}), 2_500
_GROUP = 3  # pages that are parsed together
_PANDAS_TYPES: dict[Any, Any] = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


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
        self.pages = 0
        self.problems: list[dict[str, Any]] = []
        self.problem_count = 0
        self.readable = True
        self._schema = schema_of(resource)
        self._context = dict(context or {})
        self._reveal = reveal
        self._hide = self._schema.secret and not reveal
        self._names = frozenset(column.name for column in self._schema.columns)
        self._tables: list[Any] = []
        self._small: list[ParsedPage] = []  # the latest pages with rows, not joined yet
        self._small_rows = 0
        self._constants: dict[int, tuple[list[Any], Any, Any]] = {}  # of the columns with one value
        if reveal and self._schema.secret and in_kernel():
            warnings.warn(
                "This frame will hold secrets: clear its outputs before you share the notebook.", stacklevel=2
            )

    @functools.cached_property
    def _reader(self) -> PageReader:  # not needed to append pages that others parsed
        return PageReader(self._schema)

    @functools.cached_property
    def _maker(self) -> BatchMaker:
        return BatchMaker(self._schema, reveal=self._reveal)

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
        parsed = self.parse(page, context)
        self.append(parsed)
        return parsed.rows

    def parse(self, page: bytes, context: Mapping[str, Any] | None = None) -> ParsedPage:
        """Parse a page without appending it: for pages that arrive out of order."""
        full_context = {**self._context, **(context or {})}
        values = self._reader.read(page)
        batch = self._batch(values, full_context)
        return ParsedPage(values.count, batch, values.problems, full_context, values.readable)

    def _batch(self, values: Values, context: Mapping[str, Any]) -> Any:
        """The record batch for some values; None if there are no rows."""
        if not values.count:
            return None
        batch: Any = self._maker.make(values, context)
        for name, value in context.items():
            if name not in self._names:
                batch = batch.append_column(name, constant(value, values.count))
        return batch

    def parse_together(self, pages: Sequence[bytes], contexts: Sequence[Mapping[str, Any]]) -> list[ParsedPage]:
        """Parse several pages into slices of one record batch.

        Making the columns of a batch costs as much as a hundred of its rows, so this is
        faster than `parse` for each.
        """
        together = self._reader.read_together(pages) if len(pages) > 1 else None
        contexts = [{**self._context, **context} for context in contexts]
        shared = contexts[0] if all(context == contexts[0] for context in contexts[1:]) else None
        names = {name for context in contexts for name in context}
        if together is None or (shared is None and not together[0].fields.keys() >= {(name,) for name in names}):
            return [self.parse(page, context) for page, context in zip(pages, contexts, strict=True)]
        values, counts = together
        if shared is None:
            _fill_from_contexts(values, names, contexts, counts)
        batch = self._batch(values, shared or {})
        ends = list(itertools.accumulate(counts))
        problems: list[list[Problem]] = [[] for _ in pages]
        for problem in values.problems:
            row = problem.row or 0
            page_number = bisect.bisect_right(ends, row)
            first_row = ends[page_number] - counts[page_number]
            problems[page_number].append(replace(problem, row=row - first_row))
        return [
            ParsedPage(
                count,
                batch.slice(end - count, count) if count else None,
                page_problems,
                context,
                whole=batch,
                start=end - count,
            )
            for count, end, page_problems, context in zip(counts, ends, problems, contexts, strict=True)
        ]

    def append(self, page: ParsedPage) -> None:
        """Append a page parsed by this or another builder of the same resource."""
        if page.joined:
            self._join()
            self._tables.append(page.batch)
        elif page.rows:
            self._small.append(page)
            self._small_rows += page.rows
            ends_batch = page.whole is None or page.start + page.rows == len(page.whole)
            if self._small_rows >= JOINED_ROWS and ends_batch:
                self._join()
        self._add_problems(page.problems, page.context)
        self.readable = self.readable and page.readable
        self.rows += page.rows
        self.pages += 1

    def extend(self, pieces: list[ParsedPage]) -> None:
        """Append pieces in order; the list is emptied, so that no row is held twice."""
        pieces.reverse()
        while pieces:
            self.append(pieces.pop())

    def join_latest(self, pieces: list[ParsedPage], least_rows: int) -> bool:
        """Join the last pages of a list, in place, if they have enough rows.

        For pages that are appended later, all at once: until then the processor is idle
        now and then, waiting for the network; joining afterwards would keep the caller
        waiting. Returns whether they were joined.
        """
        first, rows = len(pieces), 0
        while first and not pieces[first - 1].joined:
            first -= 1
            rows += pieces[first].rows
        if rows < least_rows or len(pieces) - first < 2:
            return False
        latest, problems, row = pieces[first:], list[Problem](), 0
        for piece in latest:
            problems += [
                problem if problem.row is None else replace(problem, row=row + problem.row)
                for problem in piece.problems
            ]
            row += piece.rows
        table = pa.concat_tables(self._joined([piece for piece in latest if piece.rows]))
        readable = all(piece.readable for piece in latest)
        pieces[first:] = [ParsedPage(rows, table, problems, latest[0].context, readable, joined=True)]
        return True

    def _join(self) -> None:
        pages, self._small, self._small_rows = self._small, [], 0
        self._tables += self._joined(pages)

    def _joined(self, pages: list[ParsedPage]) -> list[Any]:
        """Tables with the rows of some pages: just one if they have equal columns."""
        small = batches_of(pages) if len(pages) > 1 else [page.batch for page in pages]
        # Batches differ in schema only if a context adds columns.
        if len(small) <= 1 or not all(batch.schema.equals(small[0].schema) for batch in small[1:]):
            return [pa.Table.from_batches([batch]) for batch in small]
        names, rows = small[0].schema.names, sum(map(len, small))
        apart = _RAW_COLUMNS if rows >= _RAW_ROWS * len(small) else frozenset()
        columns = [[batch.column(n) for batch in small] for n in range(len(names))]
        joined = [
            pa.chunked_array(arrays) if name in apart else self._join_column(n, arrays)
            for n, (name, arrays) in enumerate(zip(names, columns, strict=True))
        ]
        return [pa.table(joined, schema=small[0].schema)]

    def _join_column(self, number: int, arrays: list[Any]) -> Any:
        """One array of several; a column that repeats one array is joined only once."""
        key = [
            (len(array), array.offset, *(buffer and buffer.address for buffer in array.buffers())) for array in arrays
        ]
        last = self._constants.get(number)
        if last is not None and last[0] == key:
            return last[2]
        joined = pa.concat_arrays(arrays, memory_pool=_LASTING)
        if all(each == key[0] for each in key):
            self._constants[number] = key, arrays[0], joined  # keeps the addresses in use
        return joined

    def copy(self) -> FrameBuilder:
        """An independent builder with the same rows."""
        other = copy.copy(self)
        vars(other).update({name: list(value) for name, value in vars(self).items() if isinstance(value, list)})
        return other

    def _add_problems(self, problems: list[Problem], context: Mapping[str, Any]) -> None:
        self.problem_count += len(problems)
        for problem in problems[: MAX_PROBLEMS - len(self.problems)]:
            row = None if problem.row is None else self.rows + problem.row
            raw = problem.raw if problem.raw is None or len(problem.raw) <= 200 else problem.raw[:199] + "…"
            if self._hide and raw is not None:
                raw = "<masked>"
            self.problems.append(
                {"row": row, "field": problem.field, "problem": problem.problem, "raw": raw}
                | {name: str(value) for name, value in context.items()}
            )

    def to_arrow(self) -> Any:
        """The rows so far as a `pyarrow.Table` with every column of the schema."""
        fields = list(arrow_schema(self._schema))
        fields += [
            pa.field(name, constant(value, 0).type) for name, value in self._context.items() if name not in self._names
        ]
        empty = pa.schema(fields).empty_table()
        if not self._tables and all(page.batch.schema.equals(empty.schema) for page in self._small):
            # With few pages, nothing is gained by what `_join` does for many.
            return pa.Table.from_batches([page.batch for page in self._small], empty.schema).combine_chunks(_LASTING)
        self._join()
        # Tables of one schema are concatenated without reading their values. Only mixed
        # contexts need promotion.
        if all(table.schema.equals(empty.schema) for table in self._tables):
            table = pa.concat_tables(self._tables)
        else:
            table = pa.concat_tables([empty, *self._tables], promote_options="permissive").combine_chunks()
        # Large chunks are not combined: that would copy every byte once more.
        return table.unify_dictionaries()

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

    Parameters
    ----------
    resource : str
        What the items are: a key of `agentbook.frames.parse.schemas.SCHEMAS`, such as
        ``"events"``.
    pages : iterable of bytes
        JSON bodies ``{"items": [...], "pagination": {...}}``, in order.
    provenance : mapping, optional
        What the caller knows about the load (operation, parameters, loaded_at,
        requests, complete). Stored as JSON values in ``attrs["agentbook"]``, together
        with ``problems`` (row, field, problem, raw) and ``problem_count``.
    context : mapping, optional
        Values known from the request, such as ``{"session_id": "..."}``.
    reveal : bool
        If True, credentials' secrets are not masked. Default False.

    Returns
    -------
    DataFrame
        One row per item, in the order of the pages. The columns are always those that
        `describe(resource)` lists: ids and texts ``str``, enums ``category``, times
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
    pages = iter(pages)
    while group := list(itertools.islice(pages, _GROUP if builder.pages else 1)):  # the first shows what pages hold
        builder.extend(builder.parse_together(group, [{}] * len(group)))
    return builder.finish(provenance)


def _fill_from_contexts(
    values: Values, names: Iterable[str], contexts: Sequence[Mapping[str, Any]], counts: Sequence[int]
) -> None:
    """Replace the nulls of columns by values known from each page's request."""
    for name in names:
        defaults = itertools.chain.from_iterable(
            itertools.repeat(context.get(name), count) for context, count in zip(contexts, counts, strict=True)
        )
        values.fields[(name,)] = [
            default if value is None else value for value, default in zip(values.fields[(name,)], defaults, strict=True)
        ]


def _pandas_type(type_: Any) -> Any:
    return pd.ArrowDtype(type_) if pa.types.is_list(type_) else _PANDAS_TYPES.get(type_)


def to_pandas(table: Any) -> pd.DataFrame:
    """A DataFrame with the dtypes of `schemas.DTYPES` from an Arrow table."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type, split_blocks=True)
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            # Sorted, so that equal rows make equal frames however they were paged.
            categories = sorted(map(str, dtype.categories))
            if dtype.categories.dtype == "str" and categories == [*dtype.categories]:
                continue
            frame[name] = frame[name].cat.set_categories(pd.Index(categories, dtype="str"))
    return frame


def jsonable(value: Any) -> Any:
    """`value` as JSON: times as ISO 8601, tuples and sets as lists, others as text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))

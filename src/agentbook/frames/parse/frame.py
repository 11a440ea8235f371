"""Loading: the pages of a list operation become one DataFrame.

A `FrameBuilder` takes pages as they arrive and holds Arrow record batches; pandas comes in once, at the end. So the
peak is the table and one page, an interrupt keeps what has arrived, and no Python object stands for a row.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from .columns import TEXT, BatchMaker, arrow_schema, constant
from .json_columns import PageReader, Problem
from .schemas import schema_of

# More are counted, not listed: pandas copies `attrs` with every slice.
MAX_PROBLEMS = 100
# Batches are joined to such a size while they arrive: what is freed is used again at once, and few pieces make quick columns.
_JOINED = 32_768
_PANDAS_TYPES: dict[Any, Any] = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A page that was read: its rows as a record batch (None where there are none), and what could not be read."""

    rows: int
    batch: Any
    problems: list[Problem]
    context: Mapping[str, Any]
    readable: bool = True


class FrameBuilder:
    """Pages in, one table out.

    Parameters
    ----------
    resource : str
        A key of `agentbook.frames.parse.schemas.SCHEMAS`.
    context : mapping, optional
        Values known from the request, such as ``{"session_id": "..."}``: they fill a column of that name, or add one.
    reveal : bool
        True leaves credentials' secrets as they came; in a notebook that warns.

    Attributes
    ----------
    rows : int
        Rows so far.
    problems : list of dict
        What could not be read, at most `MOST_PROBLEMS`; `problem_count` counts all.
    readable : bool
        False once a page could not be read at all.

    Examples
    --------
    >>> builder = FrameBuilder("events", {"session_id": "s1"})
    >>> builder.add(b'{"items": [{"id": "e1", "type": "runtime_done", "content": {"text": "Hi"}}], "pagination": {}}')
    1
    >>> builder.finish()[["session_id", "type", "text"]].values.tolist()
    [['s1', 'runtime_done', 'Hi']]
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
        self._batches: list[Any] = []
        self._small: list[Any] = []  # the last ones, not joined yet
        self._small_rows = 0
        if reveal and self._schema.secret and _in_notebook():
            warnings.warn(
                "This frame will hold secrets: clear its outputs before you share the notebook.", stacklevel=2
            )

    @functools.cached_property
    def _reader(self) -> PageReader:  # a builder that only keeps what others read needs none
        return PageReader(self._schema)

    @functools.cached_property
    def _maker(self) -> BatchMaker:
        return BatchMaker(self._schema, reveal=self._reveal)

    def add(self, page: bytes, context: Mapping[str, Any] | None = None) -> int:
        """Take in the JSON body of one page; the number of rows it held.

        Parameters
        ----------
        page : bytes
            ``{"items": [...], "pagination": {...}}``. Whatever it holds, nothing is raised: see `problems`.
        context : mapping, optional
            As for the builder, for this page alone; added to the builder's.
        """
        piece = self.parse(page, context)
        self.append(piece)
        return piece.rows

    def parse(self, page: bytes, context: Mapping[str, Any] | None = None) -> ParsedPage:
        """The same without keeping it: for pages that arrive in another order than they are wanted in."""
        known = {**self._context, **(context or {})}
        values = self._reader.read(page)
        batch: Any = self._maker.make(values, known) if values.count else None
        for name in [name for name in known if name not in self._names] if values.count else []:
            batch = batch.append_column(name, constant(known[name], values.count))
        return ParsedPage(values.count, batch, values.problems, known, values.readable)

    def parse_together(self, pages: Sequence[bytes], contexts: Sequence[Mapping[str, Any]]) -> list[ParsedPage]:
        """As `parse` for each of several small pages, whose rows become slices of one batch.

        The columns of a batch cost as much as a hundred rows of it.
        """
        together = self._reader.read_together(pages) if len(pages) > 1 else None
        told = {name for context in contexts for name in context}
        if together is None or self._context or not together[0].fields.keys() >= {(name,) for name in told}:
            return [self.parse(page, context) for page, context in zip(pages, contexts, strict=True)]
        values, counts = together
        ends = list(itertools.accumulate(counts))
        for name in told:
            each = itertools.chain.from_iterable(
                itertools.repeat(context.get(name), count) for context, count in zip(contexts, counts, strict=True)
            )
            found = values.fields[(name,)]
            values.fields[(name,)] = [known if one is None else one for one, known in zip(found, each, strict=True)]
        batch: Any = self._maker.make(values, {}) if values.count else None
        problems: list[list[Problem]] = [[] for _ in pages]
        for problem in values.problems:
            row = problem.row or 0
            at = bisect.bisect_right(ends, row)
            problems[at].append(replace(problem, row=row - (ends[at] - counts[at])))
        return [
            ParsedPage(count, batch.slice(end - count, count) if count else None, mine, context)
            for count, end, mine, context in zip(counts, ends, problems, contexts, strict=True)
        ]

    def append(self, piece: ParsedPage) -> None:
        """Append what `parse` gave, to this builder or another of the same resource."""
        if piece.rows:
            self._small.append(piece.batch)
            self._small_rows += piece.rows
            if self._small_rows >= _JOINED:
                self._join()
        self._note(piece.problems, piece.context)
        self.readable = self.readable and piece.readable
        self.rows += piece.rows
        self.pages += 1

    def _join(self) -> None:
        small, self._small, self._small_rows = self._small, [], 0
        # Only contexts that add columns make batches of several schemas.
        joinable = len(small) > 1 and all(batch.schema.equals(small[0].schema) for batch in small[1:])
        self._batches += [pa.concat_batches(small)] if joinable else small

    def copy(self) -> FrameBuilder:
        """Another builder with the same rows, to go on with apart from this one."""
        other = FrameBuilder(self.resource, self._context, reveal=self._reveal)
        other.rows, other.pages, other.readable = self.rows, self.pages, self.readable
        other.problems, other.problem_count = list(self.problems), self.problem_count
        other._batches, other._small, other._small_rows = list(self._batches), list(self._small), self._small_rows
        return other

    def _note(self, problems: list[Problem], known: Mapping[str, Any]) -> None:
        self.problem_count += len(problems)
        for problem in problems[: MAX_PROBLEMS - len(self.problems)]:
            where = {name: str(value) for name, value in known.items()}
            row = None if problem.row is None else self.rows + problem.row
            raw = problem.raw if problem.raw is None or len(problem.raw) <= 200 else problem.raw[:199] + "…"
            if self._hide and raw is not None:
                raw = "<masked>"
            self.problems.append({"row": row, "field": problem.field, "problem": problem.problem, "raw": raw, **where})

    def to_arrow(self) -> Any:
        """The rows so far as a `pyarrow.Table` with every column of the schema."""
        fields = list(arrow_schema(self._schema))
        fields += [
            pa.field(name, constant(value, 0).type) for name, value in self._context.items() if name not in self._names
        ]
        empty = pa.schema(fields).empty_table()
        self._join()
        if not self._batches:
            return empty
        # Batches of one schema concatenate without a look at their values; only mixed contexts need promotion.
        if all(batch.schema.equals(empty.schema) for batch in self._batches):
            table = pa.Table.from_batches(self._batches, empty.schema)
        else:
            tables = [pa.Table.from_batches([batch]) for batch in self._batches]
            table = pa.concat_tables([empty, *tables], promote_options="permissive").combine_chunks()
        # Large batches stay as they are: joining them once more would touch every byte again.
        return table.unify_dictionaries()

    def finish(self, provenance: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """The rows so far as a DataFrame; `provenance` goes to ``attrs["agentbook"]``."""
        table = self.to_arrow()
        frame = to_pandas(table)
        frame.attrs["agentbook"] = self.describe(provenance or {})
        return frame

    def describe(self, provenance: Mapping[str, Any]) -> dict[str, Any]:
        """What ``attrs["agentbook"]`` holds: the caller's provenance, the resource, and what could not be read."""
        said = jsonable(provenance)
        complete = bool(said.pop("complete", True)) and self.readable
        problems = [*said.pop("problems", []), *self.problems]
        count = int(said.pop("problem_count", 0)) + self.problem_count
        return {"resource": self.resource, **said, "complete": complete, "problem_count": count, "problems": problems}


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
        What the items are: a key of `agentbook.frames.parse.schemas.SCHEMAS`, such as ``"events"``.
    pages : iterable of bytes
        JSON bodies ``{"items": [...], "pagination": {...}}``, in order.
    provenance : mapping, optional
        What the caller knows of the load (operation, parameters, loaded_at, requests, complete); kept as JSON values in
        ``attrs["agentbook"]``, with ``problems`` (row, field, problem, raw) and ``problem_count`` added.
    context : mapping, optional
        Values known from the request, such as ``{"session_id": "..."}``.
    reveal : bool
        True leaves credentials' secrets as they came; default False.

    Returns
    -------
    DataFrame
        One row per item, in the order of the pages, with the columns that `describe(resource)` lists, whatever the
        items hold. ids and texts ``str``, enums ``category``, times ``datetime64[us, UTC]``, integers ``Int64``,
        booleans ``boolean``. Unknown fields and values that could not be read stand in ``extra`` as JSON text.

    Raises
    ------
    ValueError
        There is no such resource. What the pages hold never raises.

    Notes
    -----
    Specification: "Resources and their fields".

    Examples
    --------
    >>> page = b'{"items": [{"id": "w1", "name": "lab", "owner": {"name": "ada", "type": "user"}}], "pagination": {}}'
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


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


def to_pandas(table: Any) -> pd.DataFrame:
    """An Arrow table of this package's column types as a DataFrame with the dtypes of `schemas.DTYPES`."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS_TYPES.get, split_blocks=True)
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            # Sorted, so that equal rows make equal frames however they were paged.
            seen = sorted(map(str, dtype.categories))
            frame[name] = frame[name].cat.set_categories(pd.Index(seen, dtype="str"))
    return frame


def jsonable(value: Any) -> Any:
    """`value` as JSON values: instants as ISO 8601 text, tuples and sets as lists, anything else as text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


__all__ = ["MAX_PROBLEMS", "TEXT", "FrameBuilder", "ParsedPage", "jsonable", "to_frame", "to_pandas"]

"""Numbers in place of texts: equal texts have equal numbers.

A hash table of a million ids costs more than everything else that turns need. Events
come session by session, so only the first row of each run of equal ids is looked up,
and a table for UUIDs is filled by whole columns.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.ids import offsets_of
from ..parse.schemas import STR

Integers = npt.NDArray[np.int64]

_WIDTH = 36  # characters of a UUID
# Places of eight bytes where UUIDs of any version are random, and odd factors without a
# pattern that spread them.
_FACTORS = {20: 0xC2B2AE3D27D4EB4F, 28: 0xD6E8FEB86659FD93}
_ROUNDS = 5


def to_arrow(series: pd.Series) -> Any:
    """The series as Arrow text, without a copy if it holds Arrow text already."""
    return pa.array(series.astype(STR), from_pandas=True)


def texts_at(texts: Any, rows: Integers) -> Any:
    """The texts at these row numbers as a `pyarrow.Array`; null for -1.

    Arrow's own ``take`` first copies the whole column if it has several chunks.

    Examples
    --------
    >>> texts = pa.chunked_array([["a"], ["b", "c"]])
    >>> texts_at(texts, np.array([2, -1, 0])).to_pylist()
    ['c', None, 'a']
    """
    if not isinstance(texts, pa.ChunkedArray):
        return texts.take(pa.array(rows, mask=rows < 0))
    present = rows[rows >= 0]
    is_sorted = bool((present[1:] > present[:-1]).all())
    ascending = present if is_sorted else np.sort(present)
    begins = np.concatenate(([0], np.cumsum([len(chunk) for chunk in texts.chunks], dtype=np.int64)))
    cuts = np.searchsorted(ascending, begins)
    parts = [
        chunk.take(pa.array(ascending[first:last] - begin))
        for chunk, begin, first, last in zip(texts.chunks, begins, cuts, cuts[1:], strict=False)
        if first < last
    ]
    stored = pa.concat_arrays(parts) if parts else pa.array([], texts.type)
    if is_sorted and len(stored) == len(rows):
        return stored
    return stored.take(pa.array(np.searchsorted(ascending, rows), mask=rows < 0))


def factorize(series: pd.Series) -> tuple[Integers, pd.Index]:
    """Codes in order of first appearance (-1 for null), and their values.

    Examples
    --------
    >>> codes, values = factorize(pd.Series(["b", "b", None, "a", "b"], dtype="str"))
    >>> codes.tolist(), values.to_list()
    ([0, 0, -1, 1, 0], ['b', 'a'])
    """
    starts = _starts_of_runs(series) if series.dtype == STR and len(series) else None
    if starts is None or 2 * len(starts) > len(series):
        codes, values = pd.factorize(series)
        return codes.astype(np.int64), pd.Index(values)
    codes, values = pd.factorize(pd.Series(pd.array(texts_at(to_arrow(series), starts), STR)))
    return np.repeat(codes.astype(np.int64), np.diff(starts, append=len(series))), pd.Index(values)


def _starts_of_runs(series: pd.Series) -> Integers:
    texts = to_arrow(series)
    changes = pc.not_equal(texts.slice(1), texts.slice(0, len(texts) - 1))
    changes = pc.fill_null(changes, True) if texts.null_count else changes
    starts: Integers = np.flatnonzero(np.asarray(changes)) + 1
    return np.concatenate(([0], starts))


def number_texts(series: pd.Series, groups: Integers) -> Integers:
    """The first row of the same group that has the same text; -1 for null.

    `groups` ascend.

    Examples
    --------
    >>> texts = pd.Series(["b", None, "a", "b", "b"], dtype="str")
    >>> number_texts(texts, np.array([0, 0, 0, 0, 1])).tolist()
    [0, -1, 2, 0, 4]
    """
    texts = to_arrow(series)
    if texts.null_count:
        rows = np.flatnonzero(np.asarray(texts.is_valid()))
        return _with(np.full(len(texts), -1), rows, rows[number_texts(series.iloc[rows], groups[rows])])
    first, returning = _number_runs(texts, groups)
    if len(returning):
        part = returning if len(returning) < len(texts) else slice(None)
        rows = np.arange(len(texts))[part]
        _with(first, rows, rows[_number_anywhere(series.iloc[part], groups[part])])
    return first


def _number_runs(texts: Any, groups: Integers) -> tuple[Integers, Integers]:
    """The first row of each run of equal texts, and the rows for which that is wrong.

    Task ids are created in the order of time. So in most groups they never descend, and
    none reappears after another one.
    """
    rows = np.arange(len(texts))
    goes_on = groups[1:] == groups[:-1]
    before, after = texts.slice(0, max(len(texts) - 1, 0)), texts.slice(1)
    ascends = np.asarray(pc.less(before, after)) | ~goes_on
    if ascends.all():
        return rows, rows[:0]
    repeats = np.asarray(pc.equal(before, after)) & goes_on
    descends = np.flatnonzero(~(ascends | repeats))
    first = rows.copy()
    first[1:][repeats] = 0
    flags = np.zeros(int(groups[-1]) + 1, np.bool_)
    flags[groups[descends]] = True
    return np.maximum.accumulate(first), np.flatnonzero(flags[groups])


def _number_anywhere(series: pd.Series, groups: Integers) -> Integers:
    """As `number_texts`, whatever the order of the texts; none is null."""
    uuids = _as_bytes(to_arrow(series))
    return _first_rows(pd.factorize(series)[0], groups) if uuids is None else _first_uuids(uuids, groups)


def _first_rows(codes: Integers, groups: Integers) -> Integers:
    """The first row with the same code and group."""
    pair = groups * (int(codes.max(initial=0)) + 1) + codes
    _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    rows: Integers = first[inverse]
    return rows


def _as_bytes(texts: Any) -> npt.NDArray[np.uint8] | None:
    """A row of 36 bytes for each text; None if one has another length."""
    grids = [np.zeros((0, _WIDTH), np.uint8)]
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        array = pc.cast(chunk, pa.large_string())
        offsets = offsets_of(array)
        if not (np.diff(offsets) == _WIDTH).all():
            return None
        if len(array):
            data = np.frombuffer(array.buffers()[2], np.uint8, _WIDTH * len(array), int(offsets[0]))
            grids.append(data.reshape(-1, _WIDTH))
    return grids[1] if len(grids) == 2 else np.concatenate(grids)


def _first_uuids(uuids: npt.NDArray[np.uint8], groups: Integers) -> Integers:
    """The first row of the same group with the same 36 bytes.

    Each row writes its number into its group's part of a table, at a place that its
    bytes determine; the first rows write last. In the end each place holds the first
    row of its text, or of another text. Rows that find another text there take part in
    another round, with other places.
    """
    count = len(uuids)
    if not count:
        return np.zeros(0, np.int64)
    keys = functools.reduce(
        operator.add,
        (np.ndarray(count, np.uint64, uuids, at, (_WIDTH,)) * np.uint64(factor) for at, factor in _FACTORS.items()),
    )
    texts = uuids.view(f"S{_WIDTH}")[:, 0]
    begins = np.concatenate(([0], np.flatnonzero(groups[1:] != groups[:-1]) + 1))
    sizes = np.diff(begins, append=count)
    begin, width = np.repeat(4 * begins, sizes), np.repeat(4 * sizes.astype(np.uint64), sizes)
    table = np.empty(4 * count, np.int32 if count < 2**31 else np.int64)  # read only where the same round has written
    first = rows = np.arange(count)
    key = keys
    for _ in range(_ROUNDS):
        positions = begin + ((key >> np.uint64(32)) * width >> np.uint64(32)).astype(np.int64)
        table[positions[::-1]] = rows[::-1]
        stored = table[positions].astype(np.int64)
        other = np.flatnonzero(stored != rows)
        alike = keys[rows[other]] == keys[stored[other]]
        alike[alike] = texts[rows[other[alike]]] == texts[stored[other[alike]]]
        clashes = other[~alike]
        first = stored if first is rows else _with(first, rows, stored)
        rows, begin, width = rows[clashes], begin[clashes], width[clashes]
        if not len(rows):
            return first
        key = key[clashes] * np.uint64(_FACTORS[28])
    # Crafted input: texts of different bytes with the same sum of products.
    return _with(first, rows, rows[_first_rows(pd.factorize(texts[rows])[0], groups[rows])])


def _with(values: Integers, rows: Integers, new: Integers) -> Integers:
    values[rows] = new
    return values


__all__ = ["factorize", "number_texts", "texts_at", "to_arrow"]

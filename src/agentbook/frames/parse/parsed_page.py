"""A parsed page, the rows of it to keep, and the batches of several pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from .problems import Problem


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page: a record batch of its rows (None if it has none), and problems.

    If the batch is a slice, `whole` is what it was cut from, and `start` its first row.
    Several pages that were `joined` have a table in place of a batch.
    """

    rows: int
    batch: Any
    problems: list[Problem]
    context: Mapping[str, Any]
    readable: bool = True
    whole: Any = None
    start: int = 0
    joined: bool = False


def keep_rows(piece: ParsedPage, keep: list[bool] | None) -> ParsedPage:
    """The rows of a piece flagged in `keep`, with their problems; None keeps all."""
    if keep is None:
        return piece
    numbers = {row: number for number, row in enumerate(row for row, flag in enumerate(keep) if flag)}
    problems = [
        problem if problem.row is None else replace(problem, row=numbers[problem.row])
        for problem in piece.problems
        if problem.row is None or problem.row in numbers
    ]
    first, rows = next(iter(numbers), 0), len(numbers)
    if rows and all(keep[first : first + rows]):  # most often a page repeats one row of the previous one
        batch = piece.batch.slice(first, rows)
        return replace(piece, rows=rows, batch=batch, problems=problems, start=piece.start + first)
    batch = piece.batch.filter(pa.array(keep)) if rows else None
    return replace(piece, rows=rows, batch=batch, problems=problems, whole=None)


def batches_of(pages: Iterable[ParsedPage]) -> list[Any]:
    """The batches of some pages; consecutive slices of one batch are joined again."""
    batches: list[Any] = []
    slices: list[ParsedPage] = []  # of one batch
    for page in pages:
        if slices and (page.whole is not slices[0].whole or page.start < slices[-1].start + slices[-1].rows):
            batches.append(_joined_slices(slices))
            slices = []
        if page.whole is None:
            batches.append(page.batch)
        else:
            slices.append(page)
    return [*batches, _joined_slices(slices)] if slices else batches


def _joined_slices(slices: Sequence[ParsedPage]) -> Any:
    """One batch of neighbouring slices, some rows of which may have been dropped."""
    first, last = slices[0], slices[-1]
    end = last.start + last.rows
    whole = first.whole.slice(first.start, end - first.start)
    if len(whole) == sum(page.rows for page in slices):
        return whole
    keep = np.zeros(len(whole), dtype=bool)
    for page in slices:
        keep[page.start - first.start :][: page.rows] = True
    return whole.filter(pa.array(keep))


__all__ = ["ParsedPage", "batches_of", "keep_rows"]

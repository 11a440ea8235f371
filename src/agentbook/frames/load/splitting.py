"""Where to split a list that is paged by id, so that more requests can be under way."""

from __future__ import annotations

from collections.abc import Iterable

from .id_ranges import IdRange, ListLoad

SPLIT_PAGES = 1  # a range is split only if it has more than this many pages left
_SPARE = 0.05  # share of a range's last page left free, because the range's length is an estimate


def is_worth_splitting(load: ListLoad) -> bool:
    """Whether a list can be split, and has enough rows left, as far as is known."""
    remaining = None if load.total is None else load.total - load.rows
    enough = remaining is None or remaining > SPLIT_PAGES * load.page_rows
    return load.pages > 0 and load.splittable and enough


def cut_off_part(ranges: Iterable[IdRange], requests: int) -> IdRange | None:
    """Cut off the end of the longest range, and return it; None if it is too short.

    The new range is as long as if each of the `requests` that may be made now had its
    own range, so that all of them end at about the same time. Its length is a little
    less than a whole number of pages, so that its last page is nearly full.
    """
    rows: dict[IdRange, float] = {}
    for load in dict.fromkeys(id_range.load for id_range in ranges):
        rows |= load.rows_to_come()
    longest = max(rows, key=rows.__getitem__, default=None)
    page_rows = 1 if longest is None else max(longest.load.page_rows, 1)
    if longest is None or rows[longest] <= SPLIT_PAGES * page_rows:
        return None
    average = sum(rows.values()) / (len(rows) + requests)
    part_rows = half = rows[longest] / 2
    if average < half > page_rows:
        part_rows = _rows_of_pages(average, page_rows)
    elif half > page_rows:
        part_rows = rows[longest] - _rows_of_pages(half, page_rows)
    return longest.cut_off(part_rows / rows[longest])


def _rows_of_pages(rows: float, page_rows: int) -> float:
    """About `rows`: a little less than the nearest whole number of pages."""
    return (max(round(rows / page_rows + _SPARE), 1) - _SPARE) * page_rows


__all__ = ["cut_off_part", "is_worth_splitting"]

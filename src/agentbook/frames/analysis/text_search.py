"""Finds the few rows of a long column of texts that contain one of some words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.byte_search import positions_of_each
from ..parse.ids import offsets_of


def rows_with(texts: Any, words: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which texts contain one of the words; False for null.

    Parameters
    ----------
    texts : pyarrow.Array or ChunkedArray of string
    words : sequence of str

    Notes
    -----
    The words are searched in the bytes of many texts at once. That is several times
    faster than to match each text, as long as few texts contain them.

    Examples
    --------
    >>> rows_with(pa.array(["limit exceeded", None, "fine"]), ["exceed"]).tolist()
    [True, False, False]
    """
    flags = np.zeros(len(texts), np.bool_)
    encoded = tuple(word.encode() for word in words)
    begin = 0
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        array = pc.cast(chunk, pa.large_string())
        offsets, data = offsets_of(array), array.buffers()[2]
        if data is not None and offsets[0] < offsets[-1]:
            text = data[int(offsets[0]) : int(offsets[-1])]
            for word, at in zip(encoded, positions_of_each(text, encoded), strict=True):
                if len(at):
                    flags[begin + _rows_of(at, offsets - offsets[0], len(word))] = True
        begin += len(array)
    if texts.null_count:  # bytes may lie under a null, too
        flags &= np.asarray(texts.is_valid())
    return flags


def _rows_of(positions: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """The rows in which the positions lie, without words that lie in two rows."""
    rows: npt.NDArray[np.int64] = np.searchsorted(offsets, positions, "right") - 1
    return rows[positions + length <= offsets[rows + 1]]


__all__ = ["rows_with"]

"""Parses columns of UUIDs into numbers: order, version, and the time of a UUIDv7."""

from __future__ import annotations

import binascii
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .json_arrays import INSTANT, TEXT

# The bytes of a canonical UUID: 1 for a hexadecimal digit, 2 for a hyphen.
_SHAPE = np.frombuffer(bytes(2 if i in (8, 13, 18, 23) else 1 for i in range(36)), np.uint8)
_IS_DIGIT = _SHAPE == 1
_PUNCTUATED = np.array([8, 13, 18, 23, 36])
_PUNCTUATION = np.frombuffer(b"----\n", np.uint8)  # with a line feed behind each id
_DIGITS = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)]
_BLOCK = 8192  # ids per block; intermediate arrays then fit the processor's cache
# The end of the year 9999: Python and pandas cannot represent later dates.
_LAST_MS = 253_402_300_799_999

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


def parse_ids(ids: Any) -> tuple[Words, Words, Flags]:
    """The two 64-bit words of each UUIDv7, and which ids are UUIDv7s.

    Parameters
    ----------
    ids : pyarrow.Array or ChunkedArray of string
        Null, draft and other ids yield zeros and False (see
        `agentbook.api.event_ids.is_persisted`).

    Returns
    -------
    high, low : ndarray of uint64
        Sorting by (high, low) sorts by id.
    valid : ndarray of bool

    Examples
    --------
    >>> ids = pa.array(["019a0b1c-0000-7000-8000-000000000001", "draft-1", None])
    >>> high, low, valid = parse_ids(ids)
    >>> valid.tolist(), int(milliseconds(high)[0])
    ([True, False, False], 1761122975744)
    """
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if isinstance(array, pa.ChunkedArray):  # past 2 GB of text
        array = pc.cast(ids, pa.large_string()).combine_chunks()
    array = pc.cast(array, pa.large_string())
    if not array.null_count and (np.diff(_offsets(array)) == 36).all():
        return _parse_canonical(array)
    canonical = pc.fill_null(pc.equal(pc.binary_length(array), 36), False).to_numpy(zero_copy_only=False)
    high = np.zeros(len(array), np.uint64)
    low = np.zeros(len(array), np.uint64)
    valid = np.zeros(len(array), np.bool_)
    high[canonical], low[canonical], valid[canonical] = _parse_canonical(array.filter(pa.array(canonical)))
    return high, low, valid


def _offsets(array: Any) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, 8 * array.offset)


def _parse_canonical(array: Any) -> tuple[Words, Words, Flags]:
    count = len(array)
    words, valid = np.zeros((count, 2), np.uint64), np.zeros(count, np.bool_)
    if count:
        data = np.frombuffer(array.buffers()[2], np.uint8, 36 * count, int(_offsets(array)[0])).reshape(-1, 36)
        for start in range(0, count, _BLOCK):
            block = slice(start, start + _BLOCK)
            words[block], valid[block] = _parse_block(data[block])
    return words[:, 0], words[:, 1], valid


def _parse_block(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], Flags]:
    # Arithmetic on whole columns of bytes is vectorized; a table lookup is not.
    is_digit = ((data - 48) < 10) | (((data | 32) - 97) < 6)
    mismatch = ((is_digit.view(np.uint8) | ((data == 45).view(np.uint8) << 1)) ^ _SHAPE).view(np.uint32)
    # By column, because numpy reduces short rows slowly.
    valid = functools.reduce(np.bitwise_or, mismatch.T) == 0
    nibbles = (data & 15) + (data >> 6) * 9
    valid &= (nibbles[:, 14] == 7) & (nibbles[:, 19] >> 2 == 2)
    pairs = nibbles.compress(_IS_DIGIT, axis=1).view("<u2")
    words = ((pairs << 4) | (pairs >> 8)).astype(np.uint8).view(">u8").astype(np.uint64)
    words[~valid] = 0
    return words, valid


def instants_of_ids(texts: Sequence[str | None]) -> tuple[Any, Any]:
    """The column of some ids, and the instants that the UUIDv7s among them carry.

    Examples
    --------
    >>> ids, at = instants_of_ids(["019a0b1c-0000-7000-8000-000000000001", "draft-1"])
    >>> at.is_null().to_pylist()
    [False, True]
    """
    columns = _instants_of_canonical(texts)
    if columns is not None:
        return columns
    ids = pa.array(texts, TEXT)
    high, _, valid = parse_ids(ids)
    return ids, pa.array(milliseconds(high) * 1000, INSTANT, mask=~valid)


def _instants_of_canonical(texts: Sequence[str | None]) -> tuple[Any, Any] | None:
    """As `instants_of_ids`, where all are UUIDv7s in their usual form; else None.

    The digits of all ids are decoded in one call.
    """
    count, width = len(texts), len(_SHAPE) + 1
    try:
        data = "\n".join(texts).encode() + b"\n"  # type: ignore[arg-type]
        if not count or len(data) != count * width:
            return None
        grid = np.frombuffer(data, np.uint8).reshape(count, width)
        if not (grid[:, _PUNCTUATED] == _PUNCTUATION).all():
            return None
        digits = np.concatenate([grid[:, start:end] for start, end in _DIGITS], axis=1)
        octets = np.frombuffer(binascii.unhexlify(digits.tobytes()), np.uint8)
    except (TypeError, ValueError):  # a null, or something else than digits
        return None
    octets = octets.reshape(count, 16)
    if ((octets[:, 6] >> 4) != 7).any() or ((octets[:, 8] >> 6) != 2).any():
        return None
    high = np.ascontiguousarray(octets[:, :8]).view(">u8").astype(np.uint64).reshape(count)
    offsets = np.arange(0, (count + 1) * len(_SHAPE), len(_SHAPE), dtype=np.int64)
    characters = np.ascontiguousarray(grid[:, :-1])
    ids = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))
    return ids, pa.array(milliseconds(high) * 1000, INSTANT)


def milliseconds(high: Words) -> npt.NDArray[np.int64]:
    """Milliseconds since the epoch, from UUIDv7s' high words; capped at year 9999."""
    return np.minimum((high >> np.uint64(16)).astype(np.int64), _LAST_MS)

"""Parses columns of UUIDs into numbers: order, version, and the time of a UUIDv7."""

from __future__ import annotations

import binascii
import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .json_arrays import INSTANT, TEXT, array_of_lines, equal_lines

# The bytes of a canonical UUID: 1 for a hexadecimal digit, 2 for a hyphen.
_SHAPE = np.frombuffer(bytes(2 if i in (8, 13, 18, 23) else 1 for i in range(36)), np.uint8)
_IS_DIGIT = _SHAPE == 1
_HYPHENS = np.array([8, 13, 18, 23])
_BLOCK = 4096  # ids per block; intermediate arrays then fit the processor's cache
# The hyphens and version digits of a block of UUIDv7s; zero where any digit may be.
_EXPECTED = np.tile(np.frombuffer(b"00000000-0000-7000-0000-000000000000".replace(b"0", b"\0"), np.uint8), (_BLOCK, 1))
# The end of the year 9999: Python and pandas cannot represent later dates.
_LAST_MS = 253_402_300_799_999

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


def normalize(session: str) -> str:
    """The id of a session as this package writes it: a UUID in lower case."""
    return session.lower() if _UUID.fullmatch(session) else session


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
    if not array.null_count and (np.diff(offsets_of(array)) == 36).all():
        return _parse_canonical(array)
    canonical = pc.fill_null(pc.equal(pc.binary_length(array), 36), False).to_numpy(zero_copy_only=False)
    high = np.zeros(len(array), np.uint64)
    low = np.zeros(len(array), np.uint64)
    valid = np.zeros(len(array), np.bool_)
    high[canonical], low[canonical], valid[canonical] = _parse_canonical(array.filter(pa.array(canonical)))
    return high, low, valid


def offsets_of(array: Any) -> npt.NDArray[np.int64]:
    """Where each text of a `pyarrow.LargeStringArray` begins, and the last ends."""
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, 8 * array.offset)


def ascend(ids: Any, groups: npt.NDArray[np.int64]) -> bool:
    """Whether all are UUIDv7s in lower case that ascend within each group.

    Several times faster than `parse_ids`.

    Examples
    --------
    >>> ids = pa.array([f"019a0b1c-0000-7000-8000-00000000000{n}" for n in (1, 2, 0)])
    >>> ascend(ids, np.array([0, 0, 1])), ascend(ids, np.array([0, 0, 0]))
    (True, False)
    """
    chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    if ids.null_count or not _are_canonical(chunks):
        return False
    # Texts of one length in lower case sort like their numbers.
    later = np.asarray(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1)))
    return bool((later | (groups[1:] != groups[:-1])).all())


def _are_canonical(chunks: Sequence[Any]) -> bool:
    """Whether all are UUIDv7s in lower case."""
    # Working memory, allocated once: allocating it costs as much as using it.
    scratch = np.empty((_BLOCK, 36), np.uint8), np.empty((_BLOCK, 36), np.bool_), np.empty((_BLOCK, 36), np.bool_)
    for chunk in chunks:
        array = pc.cast(chunk, pa.large_string())
        offsets, count = offsets_of(array), len(array)
        if not (np.diff(offsets) == 36).all():
            return False
        if not count:
            continue
        grid = np.frombuffer(array.buffers()[2], np.uint8, 36 * count, int(offsets[0])).reshape(-1, 36)
        for start in range(0, count, _BLOCK):
            if not _block_is_canonical(grid[start : start + _BLOCK], *scratch):
                return False
    return True


def _block_is_canonical(
    block: npt.NDArray[np.uint8], shifted: npt.NDArray[np.uint8], is_digit: Flags, flags: Flags
) -> bool:
    count = len(block)
    shifted, is_digit, flags = shifted[:count], is_digit[:count], flags[:count]
    np.less(np.subtract(block, ord("0"), out=shifted), 10, out=is_digit)
    np.less(np.subtract(block, ord("a"), out=shifted), 6, out=flags)
    np.logical_or(is_digit, flags, out=is_digit)
    # The counts suffice: a hyphen is not a digit, and no digit is expected to be zero.
    if np.count_nonzero(is_digit) != 32 * count:
        return False
    if np.count_nonzero(np.equal(block, _EXPECTED[:count], out=flags)) != 5 * count:
        return False
    variant = block[:, 19]
    return bool(((variant - ord("8") < 2) | (variant - ord("a") < 2)).all())


def _parse_canonical(array: Any) -> tuple[Words, Words, Flags]:
    count = len(array)
    words, valid = np.zeros((count, 2), np.uint64), np.zeros(count, np.bool_)
    if count:
        data = np.frombuffer(array.buffers()[2], np.uint8, 36 * count, int(offsets_of(array)[0])).reshape(-1, 36)
        for start in range(0, count, _BLOCK):
            block = slice(start, start + _BLOCK)
            words[block], valid[block] = _parse_block(data[block])
    return words[:, 0], words[:, 1], valid


def _parse_block(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], Flags]:
    octets = _octets(data, data.tobytes())
    if octets is not None:
        valid = (octets[:, 6] >> 4 == 7) & (octets[:, 8] >> 6 == 2)
        words = octets.view(">u8").astype(np.uint64)
    else:
        words, valid = _parse_digits(data)
    words[~valid] = 0
    return words, valid


def _octets(grid: npt.NDArray[np.uint8], data: bytes) -> npt.NDArray[np.uint8] | None:
    """The 16 bytes of each UUID, decoded in one call; None if one is not a UUID.

    `grid` has a row for each, and `data` are its bytes.
    """
    if not (grid[:, _HYPHENS] == ord("-")).all():
        return None
    try:
        return np.frombuffer(binascii.unhexlify(data.translate(None, b"-\n")), np.uint8).reshape(len(grid), 16)
    except ValueError:  # something other than digits, or too few
        return None


def _parse_digits(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], Flags]:
    """The words digit by digit, for blocks in which some are not UUIDs."""
    # Arithmetic on whole columns of bytes is vectorized; a table lookup is not.
    is_digit = ((data - 48) < 10) | (((data | 32) - 97) < 6)
    mismatch = ((is_digit.view(np.uint8) | ((data == 45).view(np.uint8) << 1)) ^ _SHAPE).view(np.uint32)
    # By column, because numpy reduces short rows slowly.
    valid = functools.reduce(np.bitwise_or, mismatch.T) == 0
    nibbles = (data & 15) + (data >> 6) * 9
    valid &= (nibbles[:, 14] == 7) & (nibbles[:, 19] >> 2 == 2)
    pairs = nibbles.compress(_IS_DIGIT, axis=1).view("<u2")
    return ((pairs << 4) | (pairs >> 8)).astype(np.uint8).view(">u8").astype(np.uint64), valid


def instants_of_ids(texts: Sequence[str | None]) -> tuple[Any, Any]:
    """The column of some ids, and the times that the UUIDv7s among them carry.

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
    """As `instants_of_ids`, if all are UUIDv7s in the usual form; else None.

    The digits of all ids are decoded in one call.
    """
    lines = equal_lines(texts)
    if lines is None or lines[1].shape[1] != len(_SHAPE) + 1:
        return None
    data, grid = lines
    octets = _octets(grid, data)
    if octets is None or ((octets[:, 6] >> 4) != 7).any() or ((octets[:, 8] >> 6) != 2).any():
        return None
    high = octets.view(">u8")[:, 0].astype(np.uint64)
    return array_of_lines(grid), pa.array(milliseconds(high) * 1000).view(INSTANT)


def milliseconds(high: Words) -> npt.NDArray[np.int64]:
    """Milliseconds since the epoch, from UUIDv7s' high words; capped at year 9999."""
    return np.minimum((high >> np.uint64(16)).astype(np.int64), _LAST_MS)

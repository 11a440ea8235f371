"""Columns of UUIDs as numbers: order, version, and the time of a UUIDv7."""

from __future__ import annotations

import binascii
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .schemas import INSTANT

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
    texts = pc.cast(ids, pa.large_string())
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    octets = _octets(array)
    valid: Flags = np.ones(len(array), np.bool_)
    if octets is None:
        is_uuid = pc.fill_null(pc.match_substring_regex(array, f"^{_UUID.pattern}$"), False)
        valid = np.array(is_uuid)
        octets = np.zeros((len(array), 16), np.uint8)
        octets[valid] = _octets(array.filter(is_uuid))
    valid &= (octets[:, 6] >> 4 == 7) & (octets[:, 8] >> 6 == 2)
    words = np.where(valid[:, None], octets.view(">u8"), 0).astype(np.uint64)
    return words[:, 0], words[:, 1], valid


def _octets(texts: Any) -> Any:
    """The 16 bytes of each UUID; None if one of the texts is something else."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    if texts.null_count or (np.diff(offsets) != 36).any():
        return None
    data = memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]]
    grid = np.frombuffer(data, np.uint8).reshape(-1, 36)
    try:
        digits = binascii.unhexlify(bytes(data).translate(None, b"-"))
    except ValueError:
        return None
    if (grid[:, [8, 13, 18, 23]] != ord("-")).any():
        return None
    return np.frombuffer(digits, np.uint8).reshape(-1, 16)


def instants_of_ids(ids: Any) -> Any:
    """The times that the UUIDv7s among some ids carry.

    Examples
    --------
    >>> ids = pa.array(["019a0b1c-0000-7000-8000-000000000001", "draft-1"])
    >>> instants_of_ids(ids).is_null().to_pylist()
    [False, True]
    """
    high, _, valid = parse_ids(ids)
    return pa.array(milliseconds(high) * 1000, INSTANT, mask=~valid)


def milliseconds(high: Words) -> npt.NDArray[np.int64]:
    """Milliseconds since the epoch, from UUIDv7s' high words; capped at year 9999."""
    return np.minimum((high >> np.uint64(16)).astype(np.int64), _LAST_MS)

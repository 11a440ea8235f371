"""Ids as this package writes them, and the times that UUIDv7s carry."""

from __future__ import annotations

import binascii
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .schemas import INSTANT

# The end of the year 9999: Python and pandas cannot represent later dates.
_LAST_MS = 253_402_300_799_999

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def normalize(session: str) -> str:
    """The id of a session as this package writes it: a UUID in lower case."""
    return session.lower() if _UUID.fullmatch(session) else session


def instants_of_ids(ids: Any) -> Any:
    """The times that the UUIDv7s among some ids carry; null for other ids.

    Parameters
    ----------
    ids : pyarrow.Array or ChunkedArray of string
        For what is a UUIDv7, see `agentbook.api.span.is_persisted`.

    Examples
    --------
    >>> ids = pa.array(["019a0b1c-0000-7000-8000-000000000001", "draft-1"])
    >>> instants_of_ids(ids).is_null().to_pylist()
    [False, True]
    """
    texts = pc.cast(ids, pa.large_string())
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    octets = _octets(array)
    if octets is None:
        is_uuid = pc.fill_null(pc.match_substring_regex(array, f"^{_UUID.pattern}$"), False)
        octets = np.zeros((len(array), 16), np.uint8)
        octets[np.array(is_uuid)] = _octets(array.filter(is_uuid))
    valid = (octets[:, 6] >> 4 == 7) & (octets[:, 8] >> 6 == 2)
    milliseconds = (octets.view(">u8")[:, 0] >> np.uint64(16)).astype(np.int64)
    return pa.array(np.minimum(milliseconds, _LAST_MS) * 1000, INSTANT, mask=~valid)


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

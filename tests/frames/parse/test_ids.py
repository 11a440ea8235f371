"""Columns of ids: the same numbers, order and times as parsing each id alone."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.span import is_persisted, milliseconds_of
from agentbook.frames.parse.reader import instants_of_ids

V7 = st.integers(0, 2**128 - 1).map(lambda n: str(uuid.UUID(int=(n & ~(0xF << 76) & ~(3 << 62)) | 7 << 76 | 2 << 62)))
NEARLY = st.tuples(V7, st.integers(0, 35), st.sampled_from("gG-/:@`{ ~0afAF7é")).map(
    lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :]
)
ANY = st.none() | V7 | V7.map(str.upper) | NEARLY | st.uuids().map(str) | st.text(max_size=40)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
@given(st.lists(ANY, max_size=8), st.integers(0, 8))
def test_ids_are_read_as_one_by_one(type_: pa.DataType, texts: list[str | None], cut: int) -> None:
    whole_array = pa.array(texts, type_)
    for array, expected in (
        (whole_array, texts),
        (whole_array[cut:], texts[cut:]),
        (pa.chunked_array([whole_array[:cut], whole_array[cut:]], type_), texts),
    ):
        latest = 253_370_764_799_999  # the end of 9998
        assert instants_of_ids(array).cast(pa.int64()).to_pylist() == [
            min(milliseconds_of(text), latest) * 1000 if text and is_persisted(text) else None for text in expected
        ]

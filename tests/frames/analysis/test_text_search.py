"""Words are found in the rows that contain them, as if each text were searched."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.frames.analysis.text_search import rows_with
from agentbook.frames.parse import byte_search

WORDS = ["exceed", "aba", "é", "x"]
TEXTS = st.none() | st.sampled_from(["", "exceed", "exce", "ed", "ababa", "ab", "a", "Grüße, é", "xxx"]) | st.text(
    st.sampled_from("abexcdé "), max_size=12
)  # fmt: skip


@given(st.lists(st.lists(TEXTS, max_size=6), max_size=3), st.integers(0, 4), st.booleans())
def test_rows_are_those_of_a_search_of_each_text(chunks: list[list[str | None]], cut: int, large: bool) -> None:
    type_ = pa.large_string() if large else pa.string()
    texts = pa.chunked_array([pa.array(chunk, type_) for chunk in chunks], type_)[cut:]
    expected = [text is not None and any(word in text for word in WORDS) for text in texts.to_pylist()]
    with pytest.MonkeyPatch.context() as patch:
        for block in (2, 8192):
            patch.setattr(byte_search, "_BLOCK", block)
            assert rows_with(texts, WORDS).tolist() == expected


def test_the_bytes_under_a_null_do_not_count() -> None:
    texts = pa.array(["exceed", "exceed"], mask=[False, True])
    hidden = pa.LargeStringArray.from_buffers(2, *_buffers("exceedexceed", [0, 6, 12]), pa.py_buffer(b"\x01"))
    assert rows_with(texts, ["exceed"]).tolist() == rows_with(hidden, ["exceed"]).tolist() == [True, False]


def _buffers(text: str, offsets: list[int]) -> tuple[pa.Buffer, pa.Buffer]:
    return pa.array(offsets, pa.int64()).buffers()[1], pa.py_buffer(text.encode())

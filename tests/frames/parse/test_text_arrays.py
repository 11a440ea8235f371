"""Columns of texts of one length are made from the bytes of all texts at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.frames.parse.json_arrays import TEXT, equal_lines, text_array

LETTERS = st.sampled_from(["a", "b", "\n", "é", "€", "😀", "\0"])


@given(st.lists(st.none() | st.text(LETTERS, max_size=3), max_size=5))
def test_the_column_is_that_of_arrow(texts: list[str | None]) -> None:
    array = text_array(texts)
    array.validate(full=True)
    assert array.equals(pa.array(texts, TEXT))


@given(st.lists(st.text("ab\n", min_size=2, max_size=2), min_size=2, max_size=4))
def test_a_line_feed_within_a_text_is_no_end(texts: list[str]) -> None:
    assert text_array(texts).to_pylist() == texts


@pytest.mark.parametrize("texts", [["ab", "cd"], ["é", "ö"]])
def test_texts_of_one_length_are_lines(texts: list[str]) -> None:
    lines = equal_lines(texts)
    assert lines is not None
    assert lines[1].tobytes() == lines[0] == "\n".join([*texts, ""]).encode()


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", ""],
        ["a", "bc"],
        ["ab", None],
        ["a\n", "bc"],
        ["a\nc", "d\nf"],
        ["\ud800"],
        ["a\n", "\n", ""],
        ["a", "", "bc"],
    ],
)
def test_other_texts_are_not(texts: list[str | None]) -> None:
    assert equal_lines(texts) is None

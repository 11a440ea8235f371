"""Numbers in place of texts are those that a search from the first row on finds."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.frames.analysis import text_codes
from agentbook.frames.analysis.text_codes import factorize, number_texts, texts_at
from agentbook.frames.parse.ids import ascend, parse_ids

UUIDS = [str(uuid.UUID(int=n)) for n in (0, 1, 2**64, 2**127 + 1)]
TEXTS = st.sampled_from([*UUIDS, *UUIDS, None, "short"])
CHUNKS = st.lists(st.lists(TEXTS, max_size=8), max_size=4)


def series_of(chunks: list[list[str | None]]) -> pd.Series:
    column = pa.chunked_array([pa.array(chunk, pa.large_string()) for chunk in chunks], pa.large_string())
    return pd.Series(pd.array(column, pd.StringDtype(na_value=np.nan)))


@given(CHUNKS, st.booleans(), st.booleans(), st.data())
def test_a_number_is_the_first_row_of_the_group_with_the_text(
    chunks: list[list[str | None]], only_uuids: bool, clash: bool, data: st.DataObject
) -> None:
    if only_uuids:
        chunks = [[text for text in chunk if text != "short"] for chunk in chunks]
    series = series_of(chunks)
    texts = [text for chunk in chunks for text in chunk]
    groups = np.cumsum([data.draw(st.booleans()) for _ in texts] or [0])[: len(texts)].astype(np.int64)
    expected = [
        -1 if text is None else next(n for n in range(len(texts)) if texts[n] == text and groups[n] == groups[row])
        for row, text in enumerate(texts)
    ]
    with pytest.MonkeyPatch.context() as patch:
        if clash:  # then all texts have the same place in each round
            patch.setattr(text_codes, "_FACTORS", {28: 0})
        assert number_texts(series, groups).tolist() == expected


@given(CHUNKS, st.integers(1, 4))
def test_codes_are_those_of_pandas(chunks: list[list[str | None]], repeats: int) -> None:
    series = series_of([[text for text in chunk for _ in range(repeats)] for chunk in chunks])
    codes, values = factorize(series)
    expected, expected_values = pd.factorize(series)
    assert codes.tolist() == expected.tolist()
    assert values.tolist() == expected_values.tolist()


@given(CHUNKS, st.data())
def test_texts_at_rows_of_several_chunks(chunks: list[list[str | None]], data: st.DataObject) -> None:
    texts = pa.chunked_array([pa.array(chunk, pa.large_string()) for chunk in chunks], pa.large_string())
    rows = data.draw(st.lists(st.integers(-1, len(texts) - 1), max_size=9))
    for chosen in (rows, sorted(set(rows))):
        expected = [None if row < 0 else texts[row].as_py() for row in chosen]
        assert texts_at(texts, np.array(chosen, np.int64)).to_pylist() == expected


IDS = st.sampled_from(
    [f"019a0b1c-0000-7000-8000-00000000000{n}" for n in range(4)]
    + ["019A0B1C-0000-7000-8000-000000000001", "019a0b1c-0000-4000-8000-000000000001", "draft-1", None]
    + ["019a0b1c-0000-7000-c000-000000000001", "019a0b1c-0000-7000-8000-00000000000g", "019a0b1c00000-7000-8000-000000000001"]
)  # fmt: skip


@given(st.lists(st.lists(IDS, max_size=4), max_size=3), st.data())
def test_ids_ascend_if_their_numbers_do(chunks: list[list[str | None]], data: st.DataObject) -> None:
    ids = pa.chunked_array([pa.array(chunk, pa.large_string()) for chunk in chunks], pa.large_string())
    groups = np.cumsum([data.draw(st.booleans()) for _ in range(len(ids))] or [0])[: len(ids)].astype(np.int64)
    high, low, valid = parse_ids(ids)
    pairs = list(zip(groups.tolist(), high.tolist(), low.tolist(), strict=True))
    ascending = all(first < second for first, second in itertools.pairwise(pairs))
    lower = all(text is None or text == text.lower() for text in ids.to_pylist())
    assert ascend(ids, groups) == bool(valid.all() and ascending and lower)

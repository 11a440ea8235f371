"""The parser of pages gives the values that a slow and obvious reading gives, whatever
the pages hold and in whatever order they come.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.frames.parse.frame import to_frame
from frames.parse.reference import COLUMNS, read_page

ID = "019a0b1c-{:04x}-7000-8000-{:012x}"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["text", '"text"', '{"text":1}', "line\nbreak", 'say "text": no', "\\u0074ext", "x" * 100, "Grüße", "", "a\\"]
)
KEYS = st.sampled_from(["text", "tool", "arguments", "Text", "te\u0078t", "texts", 'a"b', "ключ", "", "x"]) | TEXTS
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
CONTENTS = st.one_of(
    st.fixed_dictionaries({"text": TEXTS}),
    st.just({}),
    st.fixed_dictionaries({"tool": TEXTS, "arguments": st.dictionaries(KEYS, VALUES, max_size=3)}),
    st.fixed_dictionaries({"text": TEXTS}, optional={"usage": VALUES}),
    st.dictionaries(KEYS, VALUES, max_size=4),
    VALUES,
)
MOMENTS = st.sampled_from(
    ["2026-10-03T08:15:00Z", "2026-10-03T08:15:00.123456Z", "2026-10-03T10:15:00+02:00", "2026-10-03T08:15:00"]
)
USUAL = {
    "id": st.builds(ID.format, st.integers(0, 2**16 - 1), st.integers(0, 2**48 - 1)),
    "type": st.sampled_from(["message", "runtime_done", "tool_call"]),
    "content": CONTENTS,
    "created_at": MOMENTS,
}
OPTIONAL = {
    "session_id": st.just("s"),
    "task_id": TEXTS,
    "updated_at": MOMENTS,
    "author": st.fixed_dictionaries({}, optional={"type": TEXTS, "id": TEXTS, "name": TEXTS, "team": VALUES}) | VALUES,
    "trace_id": VALUES,
    "région": TEXTS,
}
UNUSUAL = {"id": VALUES, "type": VALUES, "task_id": VALUES, "created_at": VALUES | st.just("yesterday")}
ITEMS = st.fixed_dictionaries(USUAL, optional=OPTIONAL)
ODD_ITEMS = st.fixed_dictionaries({"content": CONTENTS}, optional={**OPTIONAL, **UNUSUAL})
PAGES = st.lists(ITEMS, max_size=8) | st.lists(ITEMS | ODD_ITEMS, max_size=4)
STYLES = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"separators": (",", ":"), "ensure_ascii": False},
        {},
        {"indent": 1, "ensure_ascii": False},
    ]
)


def encode(items: list[Any], style: dict[str, Any]) -> bytes:
    return json.dumps({"items": items, "pagination": {}}, **style).encode()


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame[list(COLUMNS)].astype(object).where(frame[list(COLUMNS)].notna(), None).to_dict("records")
    for row in rows:
        for name in ("content", "extra"):
            row[name] = None if row[name] is None else json.loads(row[name])
    return rows


def typed(value: Any) -> Any:
    """A value that is equal only to values of the same types: True is not 1."""
    if isinstance(value, dict):
        return {key: typed(member) for key, member in value.items()}
    if isinstance(value, list):
        return [typed(member) for member in value]
    return (isinstance(value, bool), value)


@given(st.lists(st.tuples(PAGES, STYLES), min_size=1, max_size=4))
def test_values_are_those_of_a_slow_reading(pages: list[tuple[list[Any], dict[str, Any]]]) -> None:
    bodies = [encode(*page) for page in pages]
    expected = [row for body in bodies for row in read_page(body)]
    assert [typed(row) for row in rows_of(to_frame("events", bodies))] == [typed(row) for row in expected]


@pytest.mark.parametrize(
    ("content", "text", "rest"),
    [
        ('{"text":"a"}', "a", "{}"),
        ('{"text":null}', None, "{}"),
        ("{}", None, "{}"),
        ("null", None, None),
        ('"a"', "a", None),
        ('"text"', "text", None),
        ('{"text":5}', None, '{"text":5}'),
        ('{"text":"a","usage":{"tokens":1.10}}', "a", '{"usage":{"tokens":1.10}}'),
        ('{"usage":1e2,"text":"a"}', "a", '{"usage":1e2}'),
        ('{"t\\u0065xt":"a","b":1}', "a", '{"b":1}'),
        ('{"text":"a","text":"b"}', "b", "{}"),
        ('{"text":"a","text":5}', None, '{"text":5}'),
        ('{"text":["a",{"text":"b"}]}', "a\nb", '{"text":["a",{"text":"b"}]}'),
        ('{ "text" : "a" }', "a", "{}"),
        ('{"type":"text","text":"a"}', "a", '{"type":"text"}'),
        ('{"parts":[{"type":"text","text":"a"}]}', None, '{"parts":[{"type":"text","text":"a"}]}'),
        ('{"say":"\\"text\\": no"}', None, '{"say":"\\"text\\": no"}'),
        ('{"big":123456789012345678901234567890}', None, '{"big":123456789012345678901234567890}'),
        ('{"a" : [1,  2]}', None, '{"a" : [1,  2]}'),
    ],
)
def test_a_content_keeps_its_bytes_without_its_text(content: str, text: str | None, rest: str | None) -> None:
    """Beside another one, which makes the reader keep contents raw."""
    page = b'{"items":[{"id":"1","content":{"tool":"t"}},{"id":"2","content":%s}]}' % content.encode()
    frame = to_frame("events", [page])
    assert frame.attrs["agentbook"]["problem_count"] == content.endswith('"text":5}')
    row = frame.astype(object).where(frame.notna(), None).iloc[1]
    assert (row["text"], row["content"]) == (text, rest)


def test_bytes_that_are_no_text_are_replaced_and_never_raise() -> None:
    """Also in the page in which the reader first meets an unknown field."""
    for content in (
        b'{"tool":"\xff"}', b'{"text":"\xff"}', b'{"\xff":1}', b'{"text":"a","b":"\xff"}',
        b'{"tool":"\\ud800"}', b'{"text":"\\ud800"}', b'{"text":"a","b":"\\ud800"}',
    ):  # fmt: skip
        page = b'{"items":[{"id":"1","content":{"tool":"t"}},{"id":"2","content":' + content + b"}]}"
        frame = to_frame("events", [page, page])
        assert frame["id"].tolist() == ["1", "2", "1", "2"]
        assert [json.loads(text) for text in frame["content"][::2]] == [{"tool": "t"}] * 2
        shown = frame["text"].fillna("") + frame["content"]
        assert shown[1::2].str.contains("\ufffd|[?]").all(), content


def test_ids_of_a_page_keep_their_spelling_and_give_their_instant() -> None:
    good = [ID.format(n, n) for n in range(5)]
    odd = [good[0].upper(), "{" + good[0][1:], good[0].replace("-7", "-4"), good[0][:-1] + "\n", good[0][:-1] + "é"]
    for ids in (good, *([*good, each] for each in odd), odd):
        frame = to_frame("events", [json.dumps({"items": [{"id": each} for each in ids]}).encode()])
        assert frame["id"].tolist() == ids
        expected = [
            None if each in odd[1:] else pd.Timestamp(int(each[:8] + each[9:13], 16), unit="ms", tz="UTC")
            for each in ids
        ]
        assert frame["at"].astype(object).where(frame["at"].notna(), None).tolist() == expected

"""The parser of pages gives the values that a slow and obvious reading gives, whatever
the pages hold and in whatever order they come.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from agentbook.frames.parse.frame import to_frame
from frames.parse.reference import COLUMNS

ID = "019a0b1c-{:04x}-7000-8000-{:012x}"


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

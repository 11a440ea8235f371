"""Pages that no JSON library writes give the values of a slow and obvious reading.

`test_parity` encodes values with Python's own encoder. Here the JSON text itself is
drawn: repeated keys, keys spelt with escapes, lone surrogates, NaN, and numbers in
every spelling.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentbook.frames.parse.frame import to_frame
from frames.parse.reference import read_page
from frames.parse.test_parity import rows_of, typed

GAPS = st.sampled_from(["", "", " ", "\n\t"])
KEYS = st.sampled_from(
    [r'"text"', r'"\u0074ext"', r'"te\u0078t"', '"tool"', '"texts"', r'"a\"b"', r'"\ud83d\ude00"', '"é"', r'"\u00e9"', '""']
)  # fmt: skip
LEAVES = st.sampled_from(
    [
        "null", "true", "1", "-0", "1e2", "1E+2", "1.10", "1e-7", "123456789012345678901234567890",
        '"a"', '"text"', r'"\"text\":"', r'"a\nb"', r'"\u0000"', '"Grüße"', "{}", "[]", '[{"text":"b"}]',
    ]
)  # fmt: skip
LAWLESS = st.sampled_from([r'"\ud800"', r'"\udc00x"', "NaN", "-Infinity", "1e400"])


def joined(opening: str, parts: list[str], closing: str, gap: str) -> str:
    return f"{opening}{gap}{f'{gap},{gap}'.join(parts)}{gap}{closing}"


def objects(keys: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text of an object; its keys may repeat."""
    member = st.tuples(keys, GAPS, values).map(lambda parts: f"{parts[0]}{parts[1]}:{parts[2]}")
    return st.builds(lambda members, gap: joined("{", members, "}", gap), st.lists(member, max_size=4), GAPS)


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda parts, gap: joined("[", parts, "]", gap), st.lists(values, max_size=2), GAPS)


def items(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text of an event; its keys may repeat."""
    values = st.recursive(
        leaves,
        lambda inner: objects(KEYS, inner) | arrays(inner),
        max_leaves=6,
    )  # fmt: skip
    fields = {
        "id": st.sampled_from(
            ['"019a0b1c-0000-7000-8000-000000000001"', '"019A0B1C-0000-7000-8000-000000000002"', '"e1"', '"é"', "null", "7"]
        ),
        "type": st.sampled_from(['"message"', '"runtime_done"', '"runt\\u0069me_done"', '"new"', "null", "[]"]),
        "content": objects(KEYS, values) | values,
        "author": objects(st.sampled_from(['"type"', '"id"', r'"n\u0061me"', '"team"']), leaves) | leaves,
        "task_id": st.sampled_from(['"t1"', '"019a0b1c-0000-7000-8000-000000000001"', "null"]) | leaves,
        "created_at": st.sampled_from(['"2026-10-03T08:15:00Z"', '"2026-10-03T10:15:00+02:00"', '"soon"', "null"]),
        "updated_at": st.sampled_from(['"2026-10-03T08:15:00Z"', '"2026-10-03T08:15:00.123456Z"']),
        "trace": values,
    }  # fmt: skip
    member = st.sampled_from(sorted(fields)).flatmap(
        lambda name: st.tuples(st.just(name), fields[name]).map(lambda pair: f'"{pair[0]}":{pair[1]}')
    )
    usual = st.builds(lambda n: f'"id":"019a0b1c-0000-7000-8000-{n:012x}"', st.integers(0, 2**48 - 1))
    return st.builds(
        lambda start, members, gap: joined("{", [start, *members], "}", gap), usual, st.lists(member, max_size=6), GAPS
    )


def pages(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return st.lists(items(leaves), max_size=5).map(lambda each: f'{{"items":[{",".join(each)}]}}'.encode())


def readable(value: Any) -> Any:
    """A value in which lone surrogates are replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {readable(key): readable(member) for key, member in value.items()}
    return [readable(member) for member in value] if isinstance(value, list) else value


@given(st.lists(pages(LEAVES) | pages(LEAVES | LAWLESS), min_size=1, max_size=4))
def test_hostile_pages_have_the_values_of_a_slow_reading(bodies: list[bytes]) -> None:
    expected = [typed(readable(row)) for body in bodies for row in read_page(body)]
    assert [typed(readable(row)) for row in rows_of(to_frame("events", bodies))] == expected

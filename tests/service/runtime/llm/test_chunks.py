from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbook.service.engines.llm.chunks import MOST_CHARACTERS, Answer, Gathering, Malformed, ToolCall

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def odd(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with fields of the right names and often the right types."""
    return JSON | st.fixed_dictionaries({}, optional={name: JSON | values for name, values in known.items()})


FUNCTIONS = odd(name=st.text(max_size=5), arguments=st.text(max_size=5))
FRAGMENTS = odd(index=st.integers(0, 3), id=st.sampled_from(["a", "b"]), function=FUNCTIONS)
DELTAS = odd(content=st.text(max_size=5), refusal=st.text(max_size=5), tool_calls=st.lists(FRAGMENTS, max_size=3))
CHOICES = odd(index=st.integers(0, 1), delta=DELTAS, finish_reason=st.sampled_from(["stop", "length"]))
CHUNKS = odd(choices=st.lists(CHOICES, max_size=2), usage=odd(total_tokens=st.integers()))


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int | None, id_: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}]})


def gathered(*chunks: dict[str, Any]) -> Answer:
    gathering = Gathering()
    for one in chunks:
        gathering.feed(one)
    return gathering.answer()


@settings(deadline=None)
@given(st.lists(CHUNKS, max_size=6))
def test_whatever_an_endpoint_sends_is_an_answer_or_malformed(chunks: list[Any]) -> None:
    gathering, said = Gathering(), ""
    try:
        for one in chunks:
            said += gathering.feed(one)
    except Malformed:
        return
    answer = gathering.answer()
    assert answer.text == said
    assert gathering.has_text is bool(said)
    assert all(isinstance(value, str) for call in answer.calls for value in (call.id, call.name, call.arguments))
    assert len({call.id for call in answer.calls}) <= len(answer.calls)
    assert answer.tokens is None or answer.tokens >= 0


@pytest.mark.parametrize("chunk", [None, "data", [], 3, {"choices": "x"}, {"choices": [None]}])
def test_what_is_no_chunk(chunk: Any) -> None:
    with pytest.raises(Malformed):
        Gathering().feed(chunk)


def test_text_refusal_finish_and_usage() -> None:
    found = gathered(
        chunk({"role": "assistant", "content": "Hel"}),
        chunk({"content": "lo", "refusal": None}, "stop"),
        {"choices": [], "usage": {"total_tokens": 9}},
        {"choices": None},
    )
    assert found == Answer("Hello", (), "stop", 9)
    assert gathered(chunk({"refusal": "I will not."}, "stop")).text == "I will not."
    assert gathered({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}).text == ""


@pytest.mark.parametrize(
    "fragments",
    [
        # as OpenAI sends them: interleaved, the id and the name once
        [
            call(0, "a", "one", ""),
            call(1, "b", "two", ""),
            call(0, None, None, "{"),
            call(1, None, None, "{}"),
            call(0, None, None, "}"),
        ],
        # every call numbered 0, each whole
        [call(0, "a", "one", "{}"), call(0, "b", "two", "{}")],
        # without numbers, the id and the name repeated
        [call(None, "a", "one", "{"), call(None, "a", "one", "}"), call(None, "b", "two", "{}")],
        # every call numbered 0, in fragments that name their id
        [call(0, "a", "one", "{"), call(0, "b", "two", "{"), call(0, "a", None, "}"), call(0, "b", None, "}")],
    ],
)
def test_calls_in_the_dialects_of_endpoints(fragments: list[dict[str, Any]]) -> None:
    assert gathered(*fragments).calls == (ToolCall("a", "one", "{}"), ToolCall("b", "two", "{}"))


def test_a_call_without_an_id_gets_one_and_without_a_name_is_none() -> None:
    assert gathered(call(0, None, "one", "{}")).calls == (ToolCall("call_0", "one", "{}"),)
    assert gathered(call(0, "a", None, "{}")).calls == ()


def test_an_answer_without_end_is_cut() -> None:
    gathering = Gathering()
    gathering.feed(chunk({"content": "x" * MOST_CHARACTERS}))
    assert not gathering.is_full
    gathering.feed(chunk({"content": "x"}))
    assert gathering.is_full
    assert gathering.answer().finish == "length"

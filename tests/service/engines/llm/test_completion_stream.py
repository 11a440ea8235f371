from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.engines.llm.completion_stream import (
    MAX_CHARACTERS,
    Completion,
    MalformedChunk,
    ToolCall,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with fields of the right names, often with the right types."""
    return JSON | st.fixed_dictionaries({}, optional={name: JSON | values for name, values in fields.items()})


FUNCTIONS = objects(name=st.text(max_size=5), arguments=st.text(max_size=5))
FRAGMENTS = objects(index=st.integers(0, 3), id=st.sampled_from(["a", "b"]), function=FUNCTIONS)
DELTAS = objects(content=st.text(max_size=5), refusal=st.text(max_size=5), tool_calls=st.lists(FRAGMENTS, max_size=3))
CHOICES = objects(index=st.integers(0, 1), delta=DELTAS, finish_reason=st.sampled_from(["stop", "length"]))
CHUNKS = objects(choices=st.lists(CHOICES, max_size=2), usage=objects(total_tokens=st.integers()))


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int | None, id_: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}]})


def completed(*chunks: dict[str, Any]) -> Completion:
    completion = Completion()
    for part in chunks:
        completion.add(part)
    return completion


@given(st.lists(CHUNKS, max_size=6))
def test_any_chunks_give_a_completion_or_are_malformed(chunks: list[Any]) -> None:
    completion, text = Completion(), ""
    try:
        for part in chunks:
            text += completion.add(part)
    except MalformedChunk:
        return
    calls = completion.tool_calls
    assert completion.text == text
    assert all(isinstance(value, str) for call in calls for value in (call.id, call.name, call.arguments))
    assert len({call.id for call in calls}) <= len(calls)
    assert completion.tokens is None or completion.tokens >= 0


@pytest.mark.parametrize("chunk", [None, "data", [], 3, {"choices": "x"}, {"choices": [None]}])
def test_malformed_chunks(chunk: Any) -> None:
    with pytest.raises(MalformedChunk):
        Completion().add(chunk)


def test_text_refusal_finish_and_usage() -> None:
    completion = completed(
        chunk({"role": "assistant", "content": "Hel"}),
        chunk({"content": "lo", "refusal": None}, "stop"),
        {"choices": [], "usage": {"total_tokens": 9}},
        {"choices": None},
    )
    assert (completion.text, completion.tool_calls) == ("Hello", ())
    assert (completion.finish_reason, completion.tokens) == ("stop", 9)
    assert completed(chunk({"refusal": "I will not."}, "stop")).text == "I will not."
    assert completed({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}).text == ""


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2, "audio_tokens": None}}, (4, 2)),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, (0, None)),
        *[({"prompt_tokens_details": wrong}, (None, None)) for wrong in (None, 4, [], {"cached_tokens": "4"})],
        ({}, (None, None)),
    ],
)
def test_tokens_of_a_prompt_cache_are_passed_on(details: dict[str, Any], expected: tuple[Any, Any]) -> None:
    usage = {"total_tokens": 9, "prompt_tokens": 7, "completion_tokens": 2, **details}
    completion = completed({"choices": [], "usage": usage})
    counted = {"input_tokens": 7, "output_tokens": 2, "cached_tokens": expected[0], "cache_write_tokens": expected[1]}
    assert (completion.tokens, completion.counts) == (9, counted)


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
        # every call numbered 0, each complete in one fragment
        [call(0, "a", "one", "{}"), call(0, "b", "two", "{}")],
        # without numbers, the id and the name repeated
        [call(None, "a", "one", "{"), call(None, "a", "one", "}"), call(None, "b", "two", "{}")],
        # every call numbered 0, in fragments that name their id
        [call(0, "a", "one", "{"), call(0, "b", "two", "{"), call(0, "a", None, "}"), call(0, "b", None, "}")],
    ],
)
def test_tool_calls_in_the_dialects_of_endpoints(fragments: list[dict[str, Any]]) -> None:
    assert completed(*fragments).tool_calls == (ToolCall("a", "one", "{}"), ToolCall("b", "two", "{}"))


def test_a_call_without_an_id_gets_one_and_a_call_without_a_name_is_omitted() -> None:
    assert completed(call(0, None, "one", "{}")).tool_calls == (ToolCall("call_0", "one", "{}"),)
    assert completed(call(0, "a", None, "{}")).tool_calls == ()


def test_an_endless_answer_is_cut_off() -> None:
    completion = Completion()
    completion.add(chunk({"content": "x" * MAX_CHARACTERS}))
    assert not completion.is_full
    completion.add(chunk({"content": "x"}))
    assert completion.is_full
    assert completion.finish_reason == "length"

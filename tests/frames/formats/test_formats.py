"""Each format: the shapes of its public examples, and that nothing is lost on the way.

The examples have the shapes of OpenAI's guides to fine-tuning, function calling, vision
and the Responses API; of the README of the package `atif`, Harbor's RFC 0001 and logs
of coding and GUI agents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import atif
import msgspec
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.analysis.turn_details import numbers_of
from agentbook.frames.formats.model import Conversation, Message, ToolCall, conversations_of, events_of
from agentbook.frames.formats.registry import SUFFIXES
from agentbook.frames.parse import to_frame

EXAMPLES = Path(__file__).parent / "examples"
# File -> sessions; statuses of the turns; names of the steps; problems; the last turn.
EXPECTED: dict[str, tuple[int, str, list[str], int, tuple[str | None, str | None]]] = {
    "openai/fine-tuning.jsonl": (2, "aaa", [], 0, ("How far is the Moon from Earth?", "384,400 km.")),
    "openai/tools.jsonl": (
        1, "a", ["get_current_weather", "get_current_weather"], 0,
        ("What is the weather in San Francisco and in Paris?", "It is 21 degrees in San Francisco and 18 in Paris."),
    ),
    "openai/vision.jsonl": (1, "a", [], 1, ("Describe the image", "A lake.")),
    "openai/response.json": (
        1, "a", ["get_current_weather"], 0, ("What is the weather like in Boston today?", "It is 12 degrees."),
    ),
    "openai/log.json": (2, "aa", ["add"], 0, ("Add 2 and 2.", "4")),
    "atif/readme.json": (1, "a", ["now"], 0, ("What time is it?", "Let me check.")),
    "atif/rfc.json": (
        1, "a", ["financial_search", "financial_search"], 0,
        (
            "What is the current trading price of Alphabet (GOOGL)?",
            "As of October 11, 2025, Alphabet (GOOGL) is trading at $185.35 with a volume of 1.5M shares traded.",
        ),
    ),
    "atif/coding.json": (1, "a", ["Bash", "Edit"], 0, ("Fix the failing test.", "The test passes.")),
    "atif/subagents.json": (2, "aa", ["delegate"], 0, ("Write it.", "It was a good year.")),
    "atif/multimodal.jsonl": (2, "aa", ["click"], 4, ("Again.", "Done.")),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_are_read(name: str) -> None:
    history = ab.read_conversations(EXAMPLES / name)
    sessions, statuses, steps, problems, last = EXPECTED[name]
    turns = history.turns
    said = tuple(None if text != text else text for text in turns[["prompt", "reply"]].iloc[-1])
    assert len(history.sessions) == sessions
    assert "".join(status[0] for status in turns["status"]) == statuses
    assert ab.steps(history)["name"].to_list() == steps
    assert len(ab.load_problems(history)) == problems
    assert history.complete == (not problems)
    assert said == last


def test_what_a_trajectory_says() -> None:
    history = ab.read_conversations(EXAMPLES / "atif/rfc.json")
    turn, steps = history.turns.iloc[0], ab.steps(history)
    assert (turn["agent"], turn["agent_version"], turn["model"]) == ("harbor-agent", "1.0.0", "gemini-2.5-flash")
    assert (turn["input_tokens"], turn["output_tokens"], turn["tokens"]) == (1120, 124, 1244)
    assert (turn["latency_s"], str(turn["asked_at"])) == (5.0, "2025-10-11 10:30:00+00:00")
    assert json.loads(steps["arguments"][1]) == {"ticker": "GOOGL", "metric": "volume"}
    assert steps["duration_s"].isna().all(), "it does not say when a call began"
    failed = ab.steps(ab.read_conversations(EXAMPLES / "atif/coding.json"))
    assert failed[["status", "error"]].values.tolist()[0] == ["failed", "FAIL: undefined: Abs"]


def test_results_belong_to_their_calls() -> None:
    steps = ab.steps(ab.read_conversations(EXAMPLES / "openai/tools.jsonl"))
    assert [(json.loads(step.arguments)["location"], json.loads(step.result)) for step in steps.itertuples()] == [
        ("San Francisco, USA", "21 degrees"),
        ("Paris", "18 degrees"),
    ]


def test_a_result_that_is_an_error_is_one_and_a_refusal_is_a_reply() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    use = {"type": "tool_use", "id": "c", "name": "find", "input": {}}
    results = [  # of LangChain and of Anthropic
        ({"tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "No.", "status": "error"}),
        ({"tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "", "status": "error"}),
        ({"content": [use]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": "No.", "is_error": True}]}),
    ]  # fmt: skip
    for asked, result in results:
        said = [{"role": "user", "content": "Hi"}, {"role": "assistant", **asked}, result]
        said.append({"role": "assistant", "content": None, "refusal": "I cannot."})
        history = ab.read_conversations(pd.DataFrame({"messages": [said]}))
        [step] = ab.steps(history).to_dict("records")
        assert (step["status"], step["error"]) == ("failed", "error" if result["content"] == "" else "No.")
        assert history.turns["reply"].to_list() == ["I cannot."]


def test_a_picture_is_a_part_of_the_question_beside_it() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}
    asked, said = {"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A lake."}
    for messages, prompts in (([asked, picture, said], ["What is it?"]), ([picture, asked, said], ["What is it?"]),
                              ([picture, said], [None])):  # fmt: skip
        turns = ab.read_conversations(pd.DataFrame({"messages": [messages]})).turns
        assert turns["prompt"].astype(object).where(turns["prompt"].notna(), None).to_list() == prompts
        assert turns["reply"].to_list() == ["A lake."]


# -- replies beside the messages, and other shapes ----------------------------------

ASKED: dict[str, Any] = {"role": "user", "content": "Six times seven?"}
SAID: dict[str, Any] = {"role": "assistant", "content": "42"}


@pytest.mark.parametrize(
    "beside",
    [
        {"response": {"status": "ok"}},
        {"response": 42},
        {"answer": "42"},
        {"generations": [[{"text": "42"}]]},
        {"chosen": SAID, "rejected": {"role": "assistant", "content": "41"}},
        {"choices": [{"message": SAID}, {"message": SAID}]},
        {"response": "42", "completion": "43"},
        {"response": "42", "error": "too late"},
    ],
)
def test_a_reply_that_is_not_read_is_listed(tmp_path: Path, beside: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"messages": [ASKED], **beside}))
    history = ab.read_conversations(tmp_path / "a.json")
    assert not history.complete
    assert len(history.turns) == 1


def test_a_reply_that_is_an_error_fails_the_turn(tmp_path: Path) -> None:
    records = [
        {"messages": [ASKED], **beside} for beside in ({"error": {"message": "slow"}}, {"response": {"error": "slow"}})
    ]
    (tmp_path / "a.json").write_text(json.dumps(records))
    turns = ab.read_conversations(tmp_path / "a.json").turns
    assert turns[["status", "failure_message"]].values.tolist() == [["failed", "slow"]] * 2


# -- round trips -------------------------------------------------------------------

_BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
texts = st.text(min_size=1, max_size=12)
counts = st.integers(0, 10**9)
cache = {"cached_tokens": st.integers(0, 99), "cache_write_tokens": st.integers(0, 99), "reported_cost": st.just(0.5)}
usages = st.none() | st.fixed_dictionaries({"input_tokens": counts, "output_tokens": counts}, optional=cache)
arguments = st.dictionaries(st.sampled_from("abc"), st.one_of(texts, counts, st.none(), st.lists(texts, max_size=2)))
users = st.builds(Message, st.just("user"), st.text(max_size=12), author=st.one_of(st.none(), st.just("ada")))
agents = st.builds(Message, st.just("assistant"), texts, usage=usages, model=st.one_of(st.none(), st.just("large")))
failures = st.builds(Message, st.just("assistant"), error=texts)
systems = st.builds(Message, st.just("system"), texts)
calls = st.builds(ToolCall, texts, arguments, result=st.one_of(st.none(), texts))
failed_calls = st.builds(ToolCall, texts, arguments, error=texts)


@st.composite
def conversations(draw: st.DrawFn, *items: st.SearchStrategy[Any]) -> Conversation:
    talk = Conversation(draw(st.uuids()).hex, agent="desk")
    talk.items = [*draw(st.lists(systems, max_size=1)), draw(users), *draw(st.lists(st.one_of(items), max_size=8))]
    at = _BEGIN
    for item in talk.items:
        at += timedelta(microseconds=draw(st.integers(0, 10**8)))
        if isinstance(item, Message):
            item.at = None if item.role == "system" else at
        else:
            item.started_at = at
            has_ended = item.result is not None or item.error is not None or draw(st.booleans())
            item.ended_at = at + timedelta(seconds=1) if has_ended else None
    return talk


def said(talks: Iterable[Conversation], *, times: bool) -> list[Any]:
    """The roles, texts, calls, and with `times` all that a format with times holds."""
    found = []
    for talk in talks:
        for item in talk.items:
            if isinstance(item, ToolCall):
                ends = (item.started_at, item.ended_at) if times else None
                found.append((talk.id if times else "", item.name, item.arguments, item.result, item.error, ends))
            else:
                usage = numbers_of(item.usage or {})
                more = (item.at, usage, item.model, item.error, item.author) if times else ()
                found.append((talk.id if times else "", item.role, item.text, *more))
    return found


def _round_trip(folder: Path, suffix: str, talks: list[Conversation]) -> tuple[Path, list[Conversation]]:
    path = folder / f"talks{suffix}"
    with path.open("wb") as file:
        SUFFIXES[suffix](talks, file)
    history = ab.read_conversations(path)
    assert history.complete, ab.load_problems(history)
    return path, [*conversations_of(history)]


# Many conversations at once: a history takes far longer than a conversation.
_SETTINGS = settings(
    max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(st.lists(conversations(users, agents, agents, failures, calls, failed_calls, systems), min_size=5, max_size=15))
def test_atif_keeps_everything(tmp_path: Path, talks: list[Conversation]) -> None:
    path, read = _round_trip(tmp_path, ".atif.jsonl", talks)
    assert said(read, times=True) == said(talks, times=True)
    for line in path.read_bytes().splitlines():
        atif.Trajectory.model_validate(json.loads(line))


@_SETTINGS
@given(st.lists(conversations(users, agents, agents, calls, systems), min_size=5, max_size=15))
def test_openai_keeps_texts_roles_and_tool_calls(tmp_path: Path, talks: list[Conversation]) -> None:
    for talk in talks:  # a model is trained to write a reply, so what follows the last one is left out
        talk.add("user", "And?", at=None)
        talk.add("assistant", "That is all.", at=None)
    _, read = _round_trip(tmp_path, ".openai.jsonl", talks)
    for call in (item for talk in talks for item in talk.items if isinstance(item, ToolCall)):
        call.result = "" if call.ended_at and call.result is None else call.result  # there must be a message
    assert said(read, times=False) == said(talks, times=False)


def test_a_reply_of_several_models_survives_files_whose_messages_have_one(tmp_path: Path) -> None:
    used = {"large": {"input_tokens": 9, "output_tokens": 1}, "small": {"input_tokens": 3, "output_tokens": 2}}
    talk = Conversation("s", agent="desk")
    talk.add("user", "Hi", at=_BEGIN)
    talk.add("assistant", "Hello.", at=_BEGIN, usage={"usage_by_model": used}, model="small")
    events = to_frame("events", [msgspec.json.encode({"items": events_of(talk, "s")})])
    history = ab.read_conversations(ab.export(events, tmp_path / "a.atif.jsonl"))
    cost = ab.with_cost(history.turns, {"large": (10, 20), "small": (1, 2)})["cost"]
    assert cost.to_list() == pytest.approx([117e-6])
    assert history.turns["reply"].to_list() == ["Hello."]

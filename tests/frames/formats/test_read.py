"""`read_conversations`: what is read and refused, and what analyses make of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.formats.model import UNKNOWN_TIME_MS, Conversation, ToolCall, events_of
from agentbook.frames.parse import to_frame
from chat.prompt_lab.lab_platform import make_lab


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def chat(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in messages]}


TALK = chat(("user", "Where is my invoice?"), ("assistant", "Sent on Monday."))


@pytest.fixture
def history(tmp_path: Path) -> ab.History:
    talks = [
        chat(("system", "Be kind."), ("user", f"Where is invoice {number}?"), ("assistant", "It is sent."))
        for number in range(12)
    ]
    return ab.read_conversations(write(tmp_path / "talks.jsonl", *talks))


# -- turns -------------------------------------------------------------------------


def turns_of(*messages: tuple[str, str]) -> list[list[Any]]:
    talk = Conversation()
    for role, text in messages:
        talk.add(role, text)
    frame = to_frame("events", [json.dumps({"items": events_of(talk, "s")}).encode()])
    table = ab.turns(frame, texts=True)
    return table[["prompt", "reply"]].astype(object).where(table[["prompt", "reply"]].notna(), None).values.tolist()


def test_a_question_without_a_reply_shifts_nothing() -> None:
    said = (("user", "a"), ("user", "b"), ("assistant", "B"), ("user", "c"), ("assistant", "C"))
    assert turns_of(*said) == [["a", None], ["b", "B"], ["c", "C"]]


def test_the_last_message_before_the_next_question_is_the_reply() -> None:
    assert turns_of(("user", "a"), ("assistant", "thinking"), ("system", "now"), ("assistant", "A")) == [["a", "A"]]


def test_an_agent_may_speak_first() -> None:
    said = (("system", "s"), ("assistant", "Hello"), ("user", "a"), ("assistant", "A"))
    assert turns_of(*said) == [[None, "Hello"], ["a", "A"]]


def test_calls_of_the_same_id_stay_apart() -> None:
    talk = Conversation()
    talk.add("user", "a")
    talk.items += [ToolCall("sql", 1, result="1"), ToolCall("sql", 2), ToolCall("sql", 3, error="no")]
    frame = to_frame("events", [json.dumps({"items": events_of(talk, "s")}).encode()])
    assert ab.steps(frame)["status"].to_list() == ["done", "open", "failed"]


def test_what_has_no_time_has_none(history: ab.History) -> None:
    turns = history.turns
    assert history.events[["at", "created_at"]].isna().all(axis=None)
    assert turns[["asked_at", "replied_at", "latency_s", "tokens", "model", "agent"]].isna().all(axis=None)
    assert set(turns["status"]) == {"answered"}
    assert ab.session_summary(history)["active_s"].isna().all()
    first = int(history.events["id"].iloc[0].replace("-", "")[:12], 16)
    assert first == UNKNOWN_TIME_MS


def test_ids_are_the_same_whenever_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "talks.jsonl", TALK, TALK)
    first, second = ab.read_conversations(path), ab.read_conversations(path)
    assert first.events["id"].is_unique
    assert first.events.equals(second.events)
    assert first.sessions["id"].to_list() == ["talks.jsonl:1", "talks.jsonl:2"]


# -- our own exports ---------------------------------------------------------------


@pytest.fixture
def timed(tmp_path: Path) -> ab.History:
    step = {"source": "agent", "message": "=1+1\n- yes", "timestamp": "2026-03-01T10:00:02Z"}
    step["metrics"] = {"prompt_tokens": 3}  # type: ignore[assignment]
    steps = [{"source": "user", "message": "-- who?", "timestamp": "2026-03-01T10:00:00Z"}, step]
    own = {"extra": {"agentbook": {"title": "Who", "workspace": "acme~desk", "initiator": "ada"}}}
    atif = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "2"}, "steps": steps, **own}
    records = [{**atif, "session_id": name} for name in ("s1", "s2")]
    return ab.read_conversations(write(tmp_path / "timed.jsonl", *records))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_exported_events_come_back(timed: ab.History, tmp_path: Path, suffix: str) -> None:
    back = ab.read_conversations(ab.export(timed.events, tmp_path / f"events{suffix}"))
    pd.testing.assert_frame_equal(back.events, timed.events)
    pd.testing.assert_frame_equal(back.turns, timed.turns)
    assert back.sessions["created_at"].to_list() == timed.sessions["created_at"].to_list()


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_exported_turns_come_back(timed: ab.History, tmp_path: Path, suffix: str) -> None:
    back = ab.read_conversations(ab.export(timed.turns, tmp_path / f"turns{suffix}")).turns
    same = ["asked_at", "author", "status", "latency_s", "prompt", "reply", "message_id", "reply_id", "input_tokens"]
    pd.testing.assert_frame_equal(back[same], timed.turns[same])


def test_turns_without_texts_keep_what_they_say(timed: ab.History, tmp_path: Path) -> None:
    turns = timed.turns.drop(columns=["prompt", "reply"])
    back = ab.read_conversations(ab.export(turns, tmp_path / "turns.csv"))
    same = ["status", "latency_s", "input_tokens", "message_id"]
    pd.testing.assert_frame_equal(back.turns[same], turns[same])
    assert back.turns["prompt"].isna().all()
    assert "without texts" in ab.load_problems(back)["problem"].item()


def test_a_damaged_session_of_an_export_is_listed_and_the_next_one_is_whole(tmp_path: Path) -> None:
    said = {"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message", "content": {"text": "Hi"}}
    exchanges = {"s0": [5], "s1": [{"events": [said]}], "s2": [{"events": [{**said, "created_at": {}}]}]}
    exchanges |= {"s3": [{"events": [{**said, "created_at": 5}, {**said, "created_at": "x"}]}], "s4": exchanges["s1"]}
    kind = {"format": "agentbook-transcript"}
    records = [{**kind, "session_id": name, "exchanges": each} for name, each in exchanges.items()]
    back = ab.read_conversations(write(tmp_path / "talks.jsonl", *records))
    assert back.events["session_id"].to_list() == ["s1", "s2", "s3", "s3", "s4"]
    problems = ab.load_problems(back)
    assert problems.loc[problems["problem"].str.startswith("damaged"), "line"].to_list() == ["1"]


@pytest.mark.parametrize("part", ["events", "turns"])
def test_exports_of_two_weeks_are_one_history(timed: ab.History, tmp_path: Path, part: str) -> None:
    table = getattr(timed, part)
    parts = (table[:-1], table)
    back = ab.read_conversations([ab.export(rows, tmp_path / f"{n}.jsonl") for n, rows in enumerate(parts)])
    assert sorted(back.sessions["id"]) == ["s1", "s2"]
    assert sorted(back.turns["message_id"]) == sorted(timed.turns["message_id"])


def test_a_reply_before_its_question_has_no_latency(timed: ab.History, tmp_path: Path) -> None:
    early = timed.turns["asked_at"] - pd.Timedelta("1s")
    turns = ab.export(timed.turns.assign(replied_at=early), tmp_path / "turns.csv")
    events = timed.events.copy()
    events.loc[events["type"] == "runtime_done", "created_at"] -= pd.Timedelta("1h")
    steps = [{"source": "user", "message": "a", "timestamp": "2026-11-02T10:00"}]
    steps.append({"source": "agent", "message": "b", "timestamp": "2026-11-02T09:00"})
    atif = write(tmp_path / "a.json", {"schema_version": "ATIF-v1.8", "steps": steps})
    for source, field in ((turns, "replied_at"), (events, "created_at"), (atif, "created_at")):
        back = ab.read_conversations(source)
        assert back.turns["latency_s"].isna().all()
        assert set(ab.load_problems(back)["field"]) == {field}
        assert set(back.turns["status"]) == {"answered"}


def test_tables_of_a_spreadsheet_with_semicolons_are_read(timed: ab.History, tmp_path: Path) -> None:
    path = tmp_path / "turns.csv.zip"  # whatever the name says
    path.write_text(timed.turns.to_csv(sep=";", index=False), "utf-8")
    assert ab.read_conversations(path).turns["reply"].to_list() == timed.turns["reply"].to_list()


def test_tables_and_folders_are_read(timed: ab.History, tmp_path: Path) -> None:
    assert len(ab.read_conversations(timed.events).turns) == 2
    messages = pd.DataFrame({"messages": [TALK["messages"]] * 3})
    assert ab.read_conversations(messages).sessions["id"].to_list() == ["table:1", "table:2", "table:3"]
    (folder := tmp_path / "folder").mkdir()
    write(folder / "a.jsonl", TALK)
    write(folder / "b.json", {"schema_version": "ATIF-v1.8", "steps": [{"source": "user", "message": "Hi"}]})
    both = ab.read_conversations(folder)
    assert (len(both.turns), both.events.attrs["agentbook"]["format"]) == (2, ["OpenAI chat", "ATIF"])


def test_what_a_folder_has_besides_conversations_is_listed(tmp_path: Path) -> None:
    (inner := tmp_path / "folder" / "inner").mkdir(parents=True)
    texts = {"notes.txt": "Dear all,", "a.jsonl.gz": "\x1f\x8b", ".hidden": "x", "blank.json": "\n" * 999}
    for name, text in texts.items():
        (inner / name).write_text(text, "latin-1")
    write(inner / "a.jsonl", TALK)
    write(inner.parent / "a.jsonl", TALK | {"id": "x"}, TALK | {"id": "x"}, TALK | {"id": "x"})
    (inner / "loop").symlink_to(inner.parent)
    (inner / "dir.jsonl").mkdir()
    history = ab.read_conversations(inner.parent)
    assert history.sessions["id"].to_list() == ["x", "x-2", "x-3", "inner/a.jsonl:1"]
    assert ab.load_problems(history)[["file", "line"]].values.tolist() == [
        ["a.jsonl", "2"], ["a.jsonl", "3"],
        *([f"inner/{name}", ""] for name in ("a.jsonl.gz", "blank.json", "loop", "notes.txt")),
    ]  # fmt: skip
    (inner / "a.jsonl").unlink()
    with pytest.raises(ValueError, match=r"has no conversations: .*gzip"):
        ab.read_conversations(inner)


def test_links_out_of_a_folder_and_what_has_no_end_are_not_read(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    outside, inside = write(tmp_path / "outside.jsonl", TALK), write(folder / "inside.jsonl", TALK)
    for name, target in (("out.jsonl", outside), ("same.jsonl", inside), ("zero.jsonl", Path("/dev/zero"))):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.jsonl")
    history = ab.read_conversations(folder)
    assert history.sessions["id"].to_list() == ["inside.jsonl:1"]
    assert ab.load_problems(history)["file"].to_list() == ["out.jsonl", "pipe.jsonl", "same.jsonl", "zero.jsonl"]
    assert len(ab.read_conversations(folder / "out.jsonl").turns) == 1
    for path in ("/dev/zero", folder / "pipe.jsonl"):
        with pytest.raises(ValueError, match="neither a file nor a folder"):
            ab.read_conversations(path)


@pytest.mark.parametrize(
    "beside",
    [
        {"type": "summary", "summary": "A test", "leafUuid": "x"},
        {"resourceSpans": []},
        {"custom_id": "1", "response": {"body": {"object": "list", "data": [{"embedding": [1]}]}}},
        {"traceId": "t", "spanId": "s", "name": "GET /", "startTimeUnixNano": "1793613600000000000", "attributes": []},
    ],
)
def test_a_file_without_a_conversation_is_an_error_and_is_listed_in_a_folder(
    tmp_path: Path, beside: dict[str, Any]
) -> None:
    path = write(tmp_path / "beside.jsonl", beside)
    with pytest.raises(ValueError, match=r"beside.jsonl has no conversation"):
        ab.read_conversations(path)
    write(tmp_path / "talk.jsonl", TALK)
    assert "beside.jsonl" in set(ab.load_problems(ab.read_conversations(tmp_path))["file"])


# -- what cannot be read -----------------------------------------------------------

BOMB = io.BytesIO()
with zipfile.ZipFile(BOMB, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("talks.jsonl", b"0" * 1_000_000)
LINE = json.dumps(TALK).encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.jsonl", gzip.compress(b"0" * 1_000_000)),
        ("bomb.xlsx", BOMB.getvalue()),
        ("wide.jsonl", json.dumps(TALK).encode("utf-16")),
        ("empty.jsonl", b""),
        ("blank.jsonl", b"\n \n"),
        ("prose.txt", b"Dear all,\n\nsee below\n"),
        ("other.csv", b"a,b\n1,2\n"),
        ("damaged.parquet", b"PAR1" + b"\x00" * 50),
        ("other.json", b'{"a": [1, 2, {"b": null}]}'),
        ("numbers.json", b"[1, 2, 3]"),
        ("sharegpt.json", b'{"conversations": [{"from": "human", "value": "Hi"}]}'),
        ("cut.json", b'{"messages": [{"role": "user", '),
        ("deep.json", b"[" * 100_000),
    ],
)
def test_what_is_no_conversation_is_refused_in_one_sentence(tmp_path: Path, name: str, data: bytes) -> None:
    (path := tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=name) as raised:
        ab.read_conversations(path)
    sentence, _, code = str(raised.value).partition("\n\n")
    assert "\n" not in sentence
    assert not code or "json.dumps" in code


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"messages": [',
        b'{"messages": [{"role": "user", "content": "caf\xe9"}]}',
        b'{"messages": [{"role": "oracle", "content": "x"}, {"role": "user", "content": 7}]}',
        b'{"messages": [{"role": "user", "content": {"a": 1}}, 7, null]}',
        b'{"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}, {"role": "user", "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": ""}], "choices": 7}',
        b'{"messages": [{"role": ["user"], "content": ""}]}',
        b'{"messages": [{"role": "assistant", "tool_calls": [7, {"function": {"name": 7}}]}]}',
        b'{"messages": []}',
        b"17",
        pytest.param(
            b'{"messages": [], "nan": NaN, "x": "' + b"x" * (17 << 20) + b'"}', id="a long line that is not JSON"
        ),
    ],
)
def test_a_damaged_line_is_listed_and_the_others_are_read(tmp_path: Path, damaged: bytes) -> None:
    (path := tmp_path / "talks.jsonl").write_bytes(b"\n".join([LINE, damaged, LINE]))
    history = ab.read_conversations(path)
    problems = ab.load_problems(history)
    assert {"talks.jsonl:1", "talks.jsonl:3"} <= set(history.sessions["id"])
    assert set(problems["line"]) == {"2"}
    assert set(problems["file"]) == {"talks.jsonl"}
    assert not history.complete


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    texts = ["=HYPERLINK(1)", "<script>alert(1)</script>", "\u202e", "a\u0000b", "{{ 7 * 7 }}", "x" * 100_000]
    deep = '{"q": ' + "[" * 5_000 + "]" * 5_000 + "}"
    numbers = '{"n": ' + "9" * 400 + ', "f": 1e999, "m": NaN}'
    call = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "function": {"name": "t", "arguments": each}} for each in (deep, numbers, "not JSON")
    ]}  # fmt: skip
    record = {"messages": [*chat(*(("user", text) for text in texts))["messages"], call]}
    history = ab.read_conversations(write(tmp_path / "talks.jsonl", record))
    assert history.turns["prompt"].to_list() == texts
    assert len(ab.steps(history)) == 3
    atif = {"schema_version": "ATIF-v1.99", "agent": 7, "steps": [
        7, {"source": "user", "message": "Hi", "timestamp": "99999-13-01", "metrics": {"prompt_tokens": 10**30}},
        {"source": "agent", "message": "Hello", "timestamp": "2026-11-02"},
    ], "subagent_trajectories": [{"steps": None}]}  # fmt: skip
    history = ab.read_conversations(write(tmp_path / "atif.jsonl", atif))
    assert history.turns["prompt"].to_list() == ["Hi"]
    assert len(ab.load_problems(history)) == 5


WRONG = [-7, 1.5, "many", True, 1e30, 10**30, "1.5"]


def numbers_of_tokens(value: Any) -> dict[str, Any]:
    """A record of each format whose input has this many tokens."""
    usage = {"input_tokens": value, "output_tokens": 2}
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    ids = {"id": "a", "trace_id": "t"}
    return {
        "openai": {"messages": said, "usage": {"prompt_tokens": value, "completion_tokens": 2}},
        "atif": {"schema_version": "ATIF-v1.8", "agent": {"name": "desk"}, "steps": [
            {"source": "user", "message": "Hi"},
            {"source": "agent", "message": "Hello.", "metrics": {"prompt_tokens": value, "completion_tokens": 2}},
        ]},
        "langfuse": {**ids, "type": "GENERATION", "input": said[:1], "output": said[1], "usage_details": {
            "input": value, "output": 2,
        }},
        "turns": {
            "session_id": "s", "turn": 1, "asked_at": "2026-11-01T09:00:00Z", "status": "answered", "prompt": "Hi",
            "reply": "Hello.", "message_id": "m", **usage,
        },
        "events": {
            "id": "0199c2f0-0000-7000-8000-000000000001", "session_id": "s", "type": "runtime_done", "text": "Hello.",
            "author_type": "agent", "created_at": "2026-11-01T09:00:00Z", "extra": {"usage": usage},
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", numbers_of_tokens(0))
def test_a_number_of_tokens_that_cannot_be_is_listed(tmp_path: Path, name: str) -> None:
    records = [numbers_of_tokens(value)[name] for value in WRONG]
    for number, record in enumerate(records):
        record |= {key: f"{record[key]}{number}" for key in ("id", "trace_id", "session_id") if key in record}
    if name == "events":
        records = [{**record, "id": f"0199c2f0-0000-7000-8000-00000000000{n}"} for n, record in enumerate(records)]
    history = ab.read_conversations(write(tmp_path / "talks.jsonl", *records))
    problems = ab.load_problems(history)
    assert problems["line"].to_list() == [str(number) for number in range(1, len(WRONG) + 1)]
    assert all("is not a number of tokens" in problem for problem in problems["problem"])
    assert problems["raw"].to_list()[:3] == ["-7", "1.5", "many"]
    if name != "events":
        turns = history.turns
        assert turns["input_tokens"].isna().all()
        assert turns["output_tokens"].to_list() == [2] * len(WRONG)
    good = [numbers_of_tokens(value)[name] for value in (7, None)]
    assert ab.read_conversations(write(tmp_path / "good.jsonl", good[0])).complete
    assert ab.read_conversations(write(tmp_path / "none.jsonl", good[1])).complete


def test_an_error_that_names_a_file_or_lists_names_leaves_a_terminal_as_it_is(tmp_path: Path) -> None:
    (folder := tmp_path / "of\x1b[2J").mkdir()
    for source, text in ((folder, None), (folder / "a\x1b]0;x\x07.jsonl", ""), (folder / "b\x1b[2J.csv", "a,b\n1,2\n")):
        if text is not None:
            source.write_text(text)
        with pytest.raises(ValueError, match=r"of⟨U|no conversations") as refused:
            ab.read_conversations(source)
        assert str(refused.value).replace("\n", "").isprintable()
    atif = {"schema_version": "ATIF-v1.8", "agent": {"name": "desk\x1b]0;title\x07"}}
    history = ab.read_conversations(
        write(tmp_path / "a.jsonl", {**atif, "steps": [{"source": "user", "message": "Hi"}]})
    )
    with pytest.raises(ValueError, match="it has desk") as raised:
        history.where(agent="nobody")
    assert str(raised.value).isprintable()


def test_secrets_in_arguments_are_masked(tmp_path: Path) -> None:
    function = {"name": "login", "arguments": json.dumps({"api_key": "sk-very-secret-value"})}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": function}]}
    history = ab.read_conversations(write(tmp_path / "talks.jsonl", {"messages": [*TALK["messages"][:1], call]}))
    assert "very-secret" not in history.events.to_csv()


def test_an_export_that_fails_leaves_the_file_as_it_was(history: ab.History, tmp_path: Path) -> None:
    (path := tmp_path / "x.atif.jsonl").write_text("before")
    with pytest.raises(TypeError):
        ab.export("events", path)
    assert path.read_text() == "before"


# -- all that a history is for -----------------------------------------------------


def test_what_was_read_is_explored_labelled_scored_and_shared(history: ab.History, tmp_path: Path) -> None:
    assert "12 turns" in repr(ab.Explorer(history))
    assert len(ab.topics(history).of(history)) == 12
    assert ab.label(history, {"solved": bool}, folder=tmp_path / "labels", rater="ada") is not None
    assert ab.score(history, ["sent"])["passed"].all()
    assert len(ab.anonymize(history).turns) == 12
    lab = make_lab()
    talk = history.turns[history.turns["session_id"] == "talks.jsonl:1"]
    assert len(lab.add_conversation(talk)) == 1
    assert lab.inputs == ["Where is invoice 0?"]

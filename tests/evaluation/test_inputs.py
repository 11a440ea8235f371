"""Inputs: texts, rows, templates and past turns, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import agentbook as ab
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.evaluation.file import lab_data
from agentbook.evaluation.inputs import Input, combine, format_inputs, parse_inputs, read_inputs
from agentbook.events.turns import Turn
from chat.prompt_lab.lab_platform import LabPlatform, make_lab


@pytest.mark.parametrize(
    "inputs",
    [
        ["one", "two"],
        "one\n\n  two  \none\n",
        "1. one\n2) two",
        pd.Series(["one", None, "two"]),
        pd.DataFrame({"input": ["one", "two"], "expected": [1, 2]}),
        ("one", "", "two"),
    ],
)
def test_inputs_may_be_lines_lists_or_columns(inputs: Any) -> None:
    assert [each.message for each in combine(inputs)] == ["one", "two"]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, "no inputs"),
        (
            pd.DataFrame({"question": ["x"], "n": [1]}),
            ValueError,
            r"it has question, n. Pass one of its columns: frame\[name\]",
        ),
        ([1], TypeError, "not int"),
        ({"a": "b"}, TypeError, "not dict"),
        (7, TypeError, "not int"),
        (["one", "cut \ud83d"], ValueError, r"cut \\ud83d' is .*valid Unicode"),
        ("one\ncut \ud83d", ValueError, "valid Unicode"),
    ],
)
def test_invalid_inputs_raise(inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        combine(inputs)


def test_the_name_of_a_file_is_not_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_inputs("in.csv") == ["in.csv"]
    Path("in.csv").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'in.csv' is a file.*read_text"):
        read_inputs("in.csv")
    assert read_inputs(Path("in.csv").read_text(encoding="utf-8")) == ["one", "two"]


def test_the_path_of_a_csv_file_stands_for_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "my inputs.csv"):
        Path(name).write_text("input,expected\none,1\n", encoding="utf-8")
        assert [(each.text, each.row["expected"]) for each in combine(name)] == [("one", "1")]
        assert combine(name) == combine(Path(name))
    with pytest.raises(FileNotFoundError, match=r"inptus\.csv"):
        combine("inptus.csv")
    assert [each.text for each in combine("What is in a.csv")] == ["What is in a.csv"]


def test_formatted_inputs_parse_back() -> None:
    assert parse_inputs(format_inputs(["one\ntwo", "three"])) == ["one\ntwo", "three"]


def test_every_row_that_differs_is_asked_and_repetitions_are_said() -> None:
    rows = [{"input": "Why?", "expected": expected, "id": 7} for expected in ("a", "b", "a")] + [{"input": "How?"}]
    for inputs, table, names in ((None, rows, ()), ("Why?", rows[:3], ()), ("Why?", rows[:3], ["expected"])):
        made = combine(inputs, table, names)
        assert [each.row["expected"] for each in made if each.message == "Why?"] == ["a", "b"]
        assert [each.text for each in made[:2]] == ["Why? [expected: a]", "Why? [expected: b]"]
        assert [each.times for each in made[:2]] == [2, 1]
    lab = make_lab(LabPlatform())
    lab.add_variant("now")
    for options in ({"rows": rows}, {"inputs": ["a", "b", "a", "c"]}, {"inputs": [["a", "b"], ["a", "b"], "c", "d"]}):
        with pytest.warns(UserWarning, match="1 of the 4 inputs"):
            assert len(lab.run(**options, progress=False)) == 3


TOPICS = {"topic": ["tides", "rain"], "words": [5, None]}


@pytest.mark.parametrize(
    "rows", [pd.DataFrame(TOPICS), pa.table(TOPICS), [{"topic": "tides", "words": 5}, {"topic": "rain", "words": None}]]
)
def test_names_are_filled_from_any_table(rows: Any) -> None:
    filled = combine("Explain {{ topic }} in {{words}} words.", rows)
    assert [each.message for each in filled] == ["Explain tides in 5 words.", "Explain rain in  words."]
    assert [each.row["topic"] for each in filled] == ["tides", "rain"]


def test_a_csv_file_is_a_table_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('\ufefftopic,number\ntides,007\n"rain, hail",NA\n', encoding="utf-8")
    for rows in (path, str(path)):
        assert [each.message for each in combine("{{topic}}: {{number}}", rows)] == ["tides: 007", "rain, hail: NA"]
    path.write_text("input,topic\nExplain {{topic}}.,tides\n", encoding="utf-8")
    assert [each.message for each in combine(path)] == ["Explain tides."]
    path.write_bytes(b"input\n\xff\n")
    with pytest.raises(ValueError, match="not in UTF-8"):
        combine(path)


@pytest.mark.parametrize(
    ("prompt", "inputs", "rows", "message"),
    [
        (
            "Be kind.",
            "{{topik}}?",
            [{"topic": "x"}],
            r"names \{\{topik\}\}, and there is no such column: there are topic",
        ),
        ("Know {{topik}}.", "Hi", [{"topic": "x"}], r"of variant 'a' names \{\{topik\}\}.*there are topic"),
        ("Be kind.", "{{topic}}?", None, r"no such column: there are no columns.*rows=.*raw"),
        ("Know {{topic}}.", "Hi", None, "no such column: there are no columns"),
    ],
)
def test_a_name_without_a_column_is_refused_before_anything_is_sent(
    platform: LabPlatform, lab: PromptLab, prompt: str, inputs: str, rows: Any, message: str
) -> None:
    lab.add_variant("a", prompt)
    with pytest.raises(ValueError, match=message):
        lab.run(inputs, rows=rows, progress=False)
    lab.inputs = [inputs]
    with pytest.raises(ValueError, match="no such column"):
        lab.run(progress=False)
    assert platform.calls == []


def test_prompts_and_inputs_are_filled_and_the_input_keeps_its_row(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("expert", "You know {{topic}}.")
    lab.add_variant("now")
    rows = pd.DataFrame({"topic": ["tides", "rain"], "expected": ["moon", "cloud"]})
    preview = lab.preview("What is it?", rows)
    assert preview.loc[preview["variant"] == "expert", "system_prompt"].tolist() == [
        "You know tides.",
        "You know rain.",
    ]
    assert preview["message"].unique().tolist() == ["What is it?"]
    assert platform.calls == []
    questions: list[str] = []

    def check(reply: str, question: str) -> bool:
        questions.append(question)
        return True

    frame = lab.run("What is it?", rows=rows, checks={"seen": check}, progress=False)
    assert frame["input"].tolist() == ["What is it? [topic: tides]", "What is it? [topic: rain]"] * 2
    assert frame["reply"].tolist() == [
        "You know tides.: What is it?", "You know rain.: What is it?", *["original: What is it?"] * 2,
    ]  # fmt: skip
    assert frame["topic"].tolist() == ["tides", "rain"] * 2
    assert frame["expected"].tolist() == ["moon", "cloud"] * 2
    assert set(questions) == set(platform.questions()) == {"What is it?"}
    assert platform.prompts() == ["original", "You know tides.", "You know rain.", "original"]


def test_rows_survive_in_the_file(platform: LabPlatform, lab: PromptLab, tmp_path: Path) -> None:
    lab.add_variant("now")
    lab.run("Explain {{topic}}.", rows=[{"topic": "tides", "status": "new"}], progress=False)
    loaded = PromptLab.load(lab.save(tmp_path / "lab.json"), platform)  # type: ignore[arg-type]
    assert loaded == lab
    assert loaded.results.loc[0, ["topic", "input_status"]].tolist() == ["tides", "new"]
    assert loaded.preview()["message"].tolist() == ["Explain tides."]


def test_what_is_raw_is_sent_as_it_is(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run(["Explain {% raw %}{{topic}}{% endraw %}, {{ 1 }} and {{'x'}}."], progress=False)
    assert platform.questions() == ["Explain {{topic}}, {{ 1 }} and {{'x'}}."]


def test_a_prompt_for_rows_is_not_applied_to_the_agent(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("a", "You know {{topic}}.")
    with pytest.raises(ValueError, match=r"names \{\{topic\}\}"):
        lab.apply("a")
    assert platform.calls == []


TURNS = pd.DataFrame(
    {
        "session_id": ["s1", "s1", "s2"],
        "turn": [1, 2, 1],
        "status": ["answered", "failed", "answered"],
        "prompt": ["What is {{it}}?", None, "Why?"],
        "reply": ["A thing.", None, "Because."],
        "initiator_id": ["ada", "ada", "bob"],
        "prompt_chars": [14, None, 4],
    }
)


def test_turns_are_inputs_and_keep_where_they_are_from(platform: LabPlatform) -> None:
    lab = PromptLab(platform, "acme~writer", "acme~lab", follow=platform.follow, inputs=TURNS)  # type: ignore[arg-type]
    assert lab.inputs == ["What is {{it}}?", "Why?"]
    lab.add_variant("now")
    frame = lab.run(progress=False)
    assert frame["input_session_id"].tolist() == ["s1", "s2"]
    assert frame["input_reply"].tolist() == ["A thing.", "Because."]
    assert frame["input_status"].tolist() == ["answered", "answered"]
    assert "initiator_id" not in frame
    assert platform.questions() == ["What is {{it}}?", "Why?"]


def test_turns_without_texts_say_how_to_get_them() -> None:
    with pytest.raises(ValueError, match=r"ab\.turns\(events, texts=True\)"):
        combine(TURNS.drop(columns=["prompt", "reply"]))


ASKED = pd.DataFrame(
    {
        "session_id": ["0199a0b2-0000-7000-8000-000000000001"] * 3,
        "turn": [1, 2, 3],
        "asked_at": pd.to_datetime(["2026-10-03T08:00Z", "2026-10-03T09:00Z", None]),
        "prompt": ["Where is my order? I am ada@acme.test.", "Thanks", None],
        "initiator_name": ["Ada", "Ada", "Ada"],
    }
)


def inputs_of(lab: PromptLab) -> list[Input]:
    return [lab._lab.input_set.find(text) for text in lab.inputs]


def test_turns_become_inputs_and_keep_their_origin(lab: PromptLab, platform: LabPlatform) -> None:
    lab.inputs = ["typed"]
    added = lab.add_inputs(ASKED)
    assert lab.inputs == ["typed", "Where is my order? I am […].", "Thanks"]
    assert added["masked"].tolist() == ["an e-mail address", ""]
    assert "Ada" not in str(lab_data(lab._lab))
    lab.add_variant("kind", "Be kind.")
    lab.run(progress=False)
    message = ResultRows(lab._lab, "seed").changes(None)
    assert message is not None
    assert [row["origin"] for row in message["rows"]] == [
        "",
        "from session …00000001, asked 2026-10-03T08:00",
        "from session …00000001, asked 2026-10-03T09:00",
    ]


def test_the_turns_of_a_failure_mode_come_with_their_check(lab: PromptLab) -> None:
    said = ASKED.head(2).assign(message_id=["m1", "m2"], question="note", value="rude", kind="text", rater="ada")
    turns = ASKED.assign(message_id=["m1", "m2", "m3"], reply_id=None, status="answered")
    modes = ab.failure_modes(said, "note", turns)
    lab.add_inputs(modes["rude"])
    assert [str(check) for each in inputs_of(lab) for check in each.checks] == [
        "judge: It does not fail in this way: rude."
    ] * 2
    lab.judge.agent = "acme~judge"  # before or after
    lab.add_inputs(modes["rude"].assign(prompt=["Other one?", "Other two?"]))
    assert {check.judges for each in inputs_of(lab) for check in each.checks} == {("acme~judge",)}
    assert lab_data(lab._lab)["inputs"]


def test_turns_of_tests_and_of_other_agents_are_not_in_the_test_set(platform: LabPlatform) -> None:
    lab, other = make_lab(platform), make_lab(platform)
    for each in (lab, other):
        each.add_variant("now")
        each.run("why?", progress=False)
    tested = [answer.session_id for answer in (*lab._lab.answers, *other._lab.answers)]
    turns = pd.DataFrame({"session_id": [*tested, "s1", "s2", "s3"], "prompt": "why?"})
    assert lab.in_test_set(turns).tolist() == [False, False, True, True, True]
    turns["agent"] = ["writer", "writer", "writer", "reader", None]
    assert lab.in_test_set(turns).tolist() == [False, False, True, False, True]
    lab.agent = platform.find("acme~writer")  # by its id
    turns["agent_id"] = [lab.agent, lab.agent, lab.agent, "other", None]
    assert lab.in_test_set(turns).tolist() == [False, False, True, False, True]


def test_turns_of_a_panel_and_texts_can_be_added(lab: PromptLab) -> None:
    lab.add_inputs([Turn("s1", prompt="one"), "two", {"prompt": "three", "session_id": "s3"}])
    assert lab.inputs == ["one", "two", "three"]
    assert lab._lab.input_set.known("one").origin["session_id"] == "s1"
    for empty in (ASKED.iloc[2:], [], Turn("s1")):
        with pytest.raises(ValueError, match="no question"):
            lab.add_inputs(empty)
    with pytest.raises(ValueError, match="need the column 'prompt'"):
        lab.add_inputs(ASKED[["turn"]])
    with pytest.raises(TypeError, match="not int"):
        lab.add_inputs(5)

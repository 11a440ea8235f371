"""Templates: names in braces, rows, and what is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.inputs import combine

from .lab_platform import LabPlatform

TOPICS = {"topic": ["tides", "rain"], "words": [5, None]}


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame(TOPICS),
        pa.table(TOPICS),
        [{"topic": "tides", "words": 5}, {"topic": "rain", "words": None}],
    ],
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
    with pytest.raises(ValueError, match="cannot be read as CSV in UTF-8"):
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

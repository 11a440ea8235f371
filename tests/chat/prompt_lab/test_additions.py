"""Turns that happened, added to the test inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import agentbook as ab
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.evaluation.file import lab_data
from agentbook.evaluation.inputs import Input
from agentbook.events.turns import Turn

from .lab_platform import LabPlatform, make_lab

TURNS = pd.DataFrame(
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
    preview = lab.preview_inputs(TURNS)
    assert lab.inputs == ["typed"]
    added = lab.add_inputs(TURNS)
    assert added.equals(preview)
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
    said = TURNS.head(2).assign(message_id=["m1", "m2"], question="note", value="rude", kind="text", rater="ada")
    turns = TURNS.assign(message_id=["m1", "m2", "m3"], reply_id=None, status="answered")
    modes = ab.failure_modes(said, "note", turns)
    lab.add_inputs(modes["rude"])
    assert [str(check) for each in inputs_of(lab) for check in each.checks] == [
        "judge: It does not fail in this way: rude."
    ] * 2
    assert lab_data(lab._lab)["inputs"]


def test_every_way_in_makes_the_same_masked_inputs(platform: LabPlatform, tmp_path: Path) -> None:
    labs = [make_lab(platform) for _ in range(3)]
    labs[0].add_inputs(TURNS)
    labs[1].add_inputs(Turn(**{name: TURNS.loc[0, name] for name in ("session_id", "prompt")}))
    for lab, turns in ((labs[2], TURNS), (labs[1], TURNS)):
        lab._lab.input_set.use(lab._lab.input_set.fill(turns, None, ()))
    stored = inputs_of(labs[0])
    assert [inputs_of(lab) for lab in labs] == [stored] * 3
    assert stored[0].message == "Where is my order? I am […]."
    assert (stored[0].row["turn"], stored[0].masked) == (1, ("an e-mail address",))
    for lab in labs:
        lab.add_variant("now")
    loaded = inputs_of(PromptLab.load(labs[0].save(tmp_path / "lab.yaml"), platform))  # type: ignore[arg-type]
    assert loaded == [replace(each, masked=()) for each in stored], "where they are from, and no longer what was masked"


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
    for empty in (TURNS.iloc[2:], [], Turn("s1")):
        with pytest.raises(ValueError, match="no question"):
            lab.add_inputs(empty)
    with pytest.raises(ValueError, match="need the column 'prompt'"):
        lab.add_inputs(TURNS[["turn"]])
    with pytest.raises(TypeError, match="not int"):
        lab.add_inputs(5)


def test_a_loaded_lab_keeps_the_rows_of_its_inputs(lab: PromptLab, platform: LabPlatform, tmp_path: Path) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run("Explain {{topic}}.", rows=[{"topic": "tides"}, {"topic": "rain"}], progress=False)
    path = lab.save(tmp_path / "lab.json")
    lab._lab.read(path)
    assert inputs_of(lab) == inputs_of(PromptLab.load(path, platform))  # type: ignore[arg-type]
    assert inputs_of(lab)[1].row == {"topic": "rain"}
    assert lab.inputs == ["Explain tides.", "Explain rain."]

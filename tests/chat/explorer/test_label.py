"""Labelling as a person and a page do it, without a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.chat.explorer.label import Labeller, _events_of, _saved_html

QUESTIONS: dict[str, Any] = {"solved": bool, "kind": ["wrong", "unclear"]}


def turns(count: int = 6) -> pd.DataFrame:
    """Turns of sessions of two, with texts."""
    numbers = range(count)
    at = pd.date_range("2026-10-01", periods=count, freq="h", tz="UTC")
    return pd.DataFrame(
        {
            "session_id": [f"s{n // 2}" for n in numbers], "turn": [n % 2 + 1 for n in numbers],
            "message_id": [f"m{n}" for n in numbers], "reply_id": [f"r{n}" for n in numbers],
            "status": "answered", "latency_s": 2.0, "asked_at": at, "replied_at": at + pd.Timedelta("2s"),
            "prompt": [f"Question {n}" for n in numbers], "reply": [f"**Reply** {n}" for n in numbers],
        }
    )  # fmt: skip


def label(folder: Path, rater: str = "ada", data: Any = None, **options: Any) -> Labeller:
    options = {"questions": QUESTIONS, **options}
    return ab.label(turns() if data is None else data, folder=folder, rater=rater, **options)


def shown(labeller: Labeller) -> str:
    return "" if labeller.current is None else str(labeller.current["message_id"])


def say(labeller: Labeller, kind: str, **more: Any) -> dict[str, Any]:
    """What a page draws after its message."""
    return labeller._react({"kind": kind, "item": labeller._current, **more})


def test_answers_are_kept_at_once_and_a_later_call_goes_on(tmp_path: Path) -> None:
    first = label(tmp_path)
    first.answer(solved=True, kind="unclear")
    first.answer(solved=False)
    assert shown(first) == "m1", "one question is open"
    again = label(tmp_path)
    assert shown(again) == "m1"
    again.answer(kind="wrong")
    assert shown(again) == "m2"
    labels = ab.read_labels(tmp_path)
    assert labels[["message_id", "session_id", "question", "value", "kind", "rater", "source"]].values.tolist() == [
        ["m0", "s0", "solved", "yes", "bool", "ada", "person"],
        ["m0", "s0", "kind", "unclear", "choice", "ada", "person"],
        ["m1", "s0", "solved", "no", "bool", "ada", "person"],
        ["m1", "s0", "kind", "wrong", "choice", "ada", "person"],
    ]
    assert labels["at"].is_monotonic_increasing
    assert ab.with_labels(turns(), tmp_path)["solved"].tolist()[:2] == [True, False]


def test_a_page_answers_goes_on_skips_and_takes_back(tmp_path: Path) -> None:
    labeller = label(tmp_path)
    assert "Question 0" in labeller._state()["html"]
    assert say(labeller, "next")["item"] == "m0", "nothing was answered"
    assert labeller._notice
    assert say(labeller, "skip")["item"] == "m1"
    say(labeller, "answer", name="solved", value="yes")
    state = say(labeller, "answer", name="kind", value="wrong")
    assert (state["item"], state["notice"]) == ("m2", "")
    late = labeller._react({"kind": "answer", "item": "m1", "name": "solved", "value": "no"})
    assert late["item"] == "m2"
    for _ in range(2):
        state = say(labeller, "undo")
        assert state["item"] == "m1"
    assert state["values"] == [None, None]
    assert ab.read_labels(tmp_path).empty
    state = say(labeller, "undo")
    assert (state["item"], state["undo"]) == ("m0", False)
    assert say(labeller, "answer", name="kind", value="other")["notice"]


def test_what_was_skipped_comes_again_at_the_end(tmp_path: Path) -> None:
    labeller = label(tmp_path)
    labeller.skip()
    for _ in range(5):
        labeller.answer(solved=True, kind="wrong")
    assert shown(labeller) == "m0"
    labeller.answer(solved=True, kind="wrong")
    assert labeller.current is None
    with pytest.raises(ValueError, match="undo"):
        labeller.answer(solved=True)
    labeller.undo()
    assert shown(labeller) == "m0"


def test_what_the_shown_turn_lacks_is_none(tmp_path: Path) -> None:
    lacking: dict[str, Any] = {"reply": None, "latency_s": float("nan"), "replied_at": pd.NaT, "tokens": pd.NA}
    current = label(tmp_path, data=turns(1).assign(**lacking)).current
    assert current is not None
    assert {name: current[name] for name in lacking} == dict.fromkeys(lacking)
    assert (current["prompt"], current["turn"]) == ("Question 0", 1)


def test_a_text_waits_until_the_person_goes_on(tmp_path: Path) -> None:
    labeller = label(tmp_path, questions={"solved": bool}, expected=True)
    assert say(labeller, "answer", name="solved", value="no")["item"] == "m0"
    assert say(labeller, "answer", name="expected", value=" On Monday \ud83d. ")["item"] == "m0"
    assert say(labeller, "next")["item"] == "m1"
    labels = ab.read_labels(tmp_path).set_index("question")
    assert labels.loc["expected", ["value", "kind"]].tolist() == ["On Monday ?.", "text"]


def test_raters_get_a_share_together_and_the_rest_once(tmp_path: Path) -> None:
    data = turns(40)
    raters = [label(tmp_path, rater, data, double=0.2, seed=3) for rater in ("ada", "tim")]
    seen: dict[str, list[str]] = {"ada": [], "tim": []}
    while any(each.current is not None for each in raters):
        for each, texts in zip(raters, seen.values(), strict=True):
            if each.current is not None:
                texts.append(shown(each))
                each.answer(solved=True, kind="wrong")
    both = set(seen["ada"]) & set(seen["tim"])
    assert set(seen["ada"]) | set(seen["tim"]) == set(data["message_id"])
    assert seen["ada"][:8] == seen["tim"][:8], "the share comes first, so that agreement is known early"
    assert both >= set(seen["ada"][:8])
    assert len(both) <= 10, "two who label at the same time meet when hardly any turn is left"
    assert set(ab.agreement(tmp_path)["items"]) == {len(both)}
    other = label(tmp_path, "zoe", data, double=0.2, seed=3)
    assert repr(other) == "<Labeller: zoe has labelled 0 of 8 turns>"


def test_names_and_choices_are_read_as_they_are_shown(tmp_path: Path) -> None:
    labeller = label(tmp_path, questions={" how\u202emany ": [1, " 2 ", 2]})
    [[name, _, choices]] = labeller._state()["questions"]
    assert choices == ["1", "2"]
    say(labeller, "answer", name=name, value="2")
    assert ab.read_labels(tmp_path)[["question", "value"]].values.tolist() == [[name, "2"]]


def test_nobody_sees_what_others_said(tmp_path: Path) -> None:
    label(tmp_path, "tim").answer(solved=True, kind="wrong")
    mine = label(tmp_path)
    assert mine._state()["values"] == [None, None]
    assert mine.labels.empty


def test_a_team_sees_how_far_each_is(tmp_path: Path) -> None:
    tim = label(tmp_path, "tim", double=0.5)
    for _ in range(2):
        tim.answer(solved=True, kind="wrong")
    row = {"session_id": "s9", "message_id": "m9", "question": "solved", "value": "yes", "rater": "zoe"}
    ab.save_labels(pd.DataFrame([row | {"at": "2026-10-01T08:00:00Z"}]), tmp_path)  # of another list
    ada = label(tmp_path, double=0.5)
    assert "(tim: 2 done, 4 left, 0 shared, today)" in ada._state()["sentence"]
    ada.answer(solved=False)
    solved = ada.progress[ada.progress["question"] == "solved"].set_index("rater")
    assert list(solved.index) == ["ada", "tim"]
    assert solved[["done", "left", "overlap"]].to_numpy().tolist() == [[1, 5, 1], [2, 4, 1]]
    assert solved["days"].between(0, 1).all()
    of_kind = ada.progress[ada.progress["question"] == "kind"].set_index("rater")
    assert of_kind.loc["ada", ["done", "left", "overlap"]].tolist() == [0, 6, 0]
    assert pd.isna(of_kind.loc["ada", "days"])


def test_failure_modes_are_renamed_merged_and_split_where_one_chooses_them(tmp_path: Path) -> None:
    notes = ["no source", "no source", "late reply", "late reply", "wrong price", "wrong price"]
    said = turns().assign(question="note", value=notes, kind="text", rater="ada")
    modes = ab.failure_modes(said, k=3)
    late, price, source = sorted(modes)
    labeller = label(tmp_path, questions={"mode": modes})
    for mode in (source, source, late, late, source):
        labeller.answer(mode=mode)
    state = say(labeller, "rename", name=source, to=" No source. ")
    assert state["questions"][0][2] == state["modes"] == list(labeller.modes)
    assert ab.read_labels(tmp_path)["value"].to_list().count("No source.") == 3
    state = say(labeller, "rename", name=price, to=late)
    assert sorted(state["modes"]) == sorted([late, "No source."]), "the same name makes them one"
    assert not state["undo"]
    state = say(labeller, "split", name=late)
    assert len(state["modes"]) == 3
    labels = ab.read_labels(tmp_path).set_index("message_id")["value"]
    assert labels["m2"] == labels["m3"] in state["modes"]
    assert (labels["m4"], len(labels)) == ("No source.", 5)
    assert say(labeller, "rename", name="gone", to="x")["notice"]
    assert "alike" in say(labeller, "split", name="No source.")["notice"]
    assert list(modes) != list(labeller.modes), "modes do not change"


def test_sessions_are_labelled_too(tmp_path: Path) -> None:
    sessions = pd.DataFrame({"id": ["s0", "s1"], "type": "CHAT", "name": "one"})  # as the platform lists them
    labeller = label(tmp_path, data=sessions, events=_events_of(turns()))
    assert 'class="ab-x-turn' in labeller._state()["html"]
    labeller.answer(solved=True, kind="wrong")
    labels = ab.read_labels(tmp_path)
    assert labels["message_id"].isna().all()
    assert ab.with_labels(sessions, labels)["solved"].tolist()[0] is True


def test_events_bring_their_conversations(tmp_path: Path) -> None:
    events = _events_of(turns()).assign(author_id="a1", task_id=None, content=None)
    labeller = label(tmp_path, data=events.rename(columns={"at": "created_at"}))
    assert "Question 0" in labeller._opened.html
    labeller.answer(solved=True, kind="wrong")
    assert "Question 1" in labeller._opened.html.split("ab-x-here")[1]


def test_texts_of_turns_are_their_conversation(tmp_path: Path) -> None:
    """A selection without its events, in any order, opens at the turn."""
    labeller = label(tmp_path, data=turns().iloc[::-1])
    assert shown(labeller) == "m5"
    here = labeller._opened.html.split("ab-x-here")[1]
    assert "Question 5" in here
    assert "Question 4" not in here


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": turns().drop(columns="reply")}, "texts=True"),
        ({"data": pd.DataFrame({"id": ["s1"]})}, "events="),
        ({"data": turns(0)}, "empty"),
        ({"questions": {"solved": int}}, "solved"),
        ({"questions": {"kind": ["one"]}}, "kind"),
        ({"questions": ["solved"]}, "bool, str"),
        ({"questions": {}}, "bool, str"),
        ({"questions": {"status": bool}}, "'status'"),
        ({"double": 2}, "double"),
        ({"rater": " "}, "rater="),
        ({"rater": 5}, "rater="),
        ({"folder": Path(os.devnull)}, os.devnull),
    ],
)
@pytest.mark.filterwarnings("ignore::agentbook.api.errors.EmptyWarning")
def test_what_cannot_be_labelled_is_said_in_a_sentence(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    options = {"folder": tmp_path, **change}
    with pytest.raises((OSError, ValueError), match=message):
        label(**options)


def test_a_folder_that_goes_away_is_told_in_the_page(tmp_path: Path) -> None:
    labeller = label(tmp_path / "labels")
    (tmp_path / "labels").rmdir()
    state = say(labeller, "answer", name="solved", value="yes")
    assert state["values"] == [None, None]
    assert "labels" in state["notice"]


def test_a_saved_notebook_shows_the_turn(tmp_path: Path) -> None:
    labeller = label(tmp_path)
    html = _saved_html(*labeller._saved(), "uid")
    assert "Question 0" in html
    assert "ada has labelled 0 of 6 turns" in html

"""From a reading list to failure modes: what is drawn, grouped, and said of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.events.turns import Turn
from agentbook.frames.analysis.shares import shares
from agentbook.frames.labels import labels_in


def turns(count: int = 400, seed: int = 0) -> pd.DataFrame:
    """Turns of sessions with five turns each, a few of which failed or were slow."""
    rng, number = np.random.default_rng(seed), np.arange(count)
    failed = rng.random(count) < 0.03
    table = pd.DataFrame(
        {
            "session_id": [f"s{n // 5}" for n in number],
            "turn": number % 5 + 1,
            "message_id": [f"m{n}" for n in number],
            "reply_id": [f"r{n}" for n in number],
            "asked_at": pd.Timestamp("2026-10-03T08:00Z") + pd.to_timedelta(number, unit="min"),
            "replied_at": pd.Timestamp("2026-10-03T09:00Z"),
            "latency_s": rng.lognormal(1, 1, count),
            "status": np.where(failed, "failed", "answered"),
            "agent": rng.choice(["often", "often", "often", "rare"], count),
            "author": rng.choice(["ada", "tim"], count),
            "prompt": [f"Question {n}?" for n in number],
            "reply": "An answer.",
            "prompt_chars": rng.integers(5, 60, count),
            "reply_chars": rng.integers(5, 600, count),
        }
    )
    texts = dict.fromkeys(
        ("session_id", "message_id", "reply_id", "status", "agent", "author", "prompt", "reply"), "str"
    )
    return table.astype(texts)


def notes(*texts: Any, todo: pd.DataFrame | None = None, rater: str = "ada") -> pd.DataFrame:
    """Labels: a note, or none, of each turn that was read, and whether it was fine."""
    todo = turns() if todo is None else todo
    rows = []
    for text, row in zip(texts, todo.to_dict("records"), strict=False):
        target = {"session_id": row["session_id"], "message_id": row.get("message_id"), "rater": rater}
        target |= {"weight": row.get("weight")}
        rows += [{**target, "question": "ok", "value": "yes" if text is None else "no", "kind": "bool"}]
        rows += [] if text is None else [{**target, "question": "note", "value": text, "kind": "text"}]
    return pd.DataFrame(rows)


def test_a_list_is_seeded_says_why_and_undoes_its_choice_by_weights() -> None:
    table = turns()
    todo = ab.reading_list(table, n=60)
    pd.testing.assert_frame_equal(todo, ab.reading_list(table, n=60))
    assert not todo["message_id"].equals(ab.reading_list(table, n=60, seed=1)["message_id"])
    assert len(set(todo["message_id"])) == 60
    third = todo["why"].replace(["slow", "unlike the rest"], "failed").value_counts()
    assert third.to_dict() == {"random": 20, "failed": 20, "spread over agents and people": 20}
    assert (todo.loc[todo["why"] == "failed", "status"] == "failed").all()
    assert (todo["agent"] == "rare").mean() > (table["agent"] == "rare").mean()
    sums = [ab.reading_list(table, n=60, seed=seed)["weight"].sum() for seed in range(40)]
    assert np.mean(sums) == pytest.approx(len(table), rel=0.05)


def test_a_list_can_be_of_sessions_or_of_all_there_is() -> None:
    sessions = ab.reading_list(turns(), n=20, unit="session")
    assert sessions["session_id"].is_unique
    assert "message_id" not in sessions
    everything = ab.reading_list(turns(30), n=100)
    assert (len(everything), set(everything["weight"])) == (30, {1.0})
    with pytest.warns(ab.errors.EmptyWarning):
        assert len(ab.reading_list(turns().head(0))) == 0
    for wrong in ({"n": 0}, {"n": "many"}, {"unit": "week"}, {"seed": -1}):
        with pytest.raises(ValueError, match="reading_list"):
            ab.reading_list(turns(), **wrong)


def test_an_interval_covers_what_is_true_of_all_turns() -> None:
    """500 lists gave 97 to 99 %; here are fewer, so the bar is lower."""
    table, rng = turns(2_000), np.random.default_rng(3)
    session = pd.factorize(table["session_id"])[0].astype(np.int64)
    slow = (table["latency_s"] > table["latency_s"].quantile(0.8)).to_numpy()
    has = {
        "2 % of all": rng.random(len(table)) < 0.02,
        "a tenth of the slow": slow & (rng.random(len(table)) < 0.1),
        "a tenth of the sessions": (rng.random(session.max() + 1) < 0.1)[session],
    }
    covered: dict[str, list[bool]] = {name: [] for name in has}
    for seed in range(80):
        todo = ab.reading_list(table, n=100, seed=seed)
        row = todo["message_id"].str[1:].astype(int).to_numpy()
        for name, is_so in has.items():
            hit, weight = is_so[row].astype(float), todo["weight"].to_numpy()
            _, low, high = (each[0] for each in shares(hit, np.zeros(100, np.int64), session[row], weight))
            covered[name].append(low <= is_so.mean() <= high)
    assert {name for name, each in covered.items() if np.mean(each) < 0.93} == set()
    said = notes(*("bad" if each else None for each in is_so[row]), todo=todo)
    [rate] = ab.failure_modes(said).rates(table).to_dict("records")
    assert (rate["low"], rate["high"]) == (pytest.approx(low), pytest.approx(high))
    assert rate["about"] == round(rate["share"] * len(table))


def test_notes_are_grouped_and_a_person_renames_merges_and_splits() -> None:
    said = notes(*["names no source", "source is not named"] * 6, *["wrong price"] * 5, "price wrong by 2 %", None)
    modes = ab.failure_modes(said, k=2)
    assert sorted(modes.frame["notes"]) == [6, 12]
    assert modes.frame["share"].sum() == pytest.approx(1)
    source, price = modes
    assert modes.frame["examples"].iloc[0] == ["names no source", "source is not named"]
    named = modes.rename({source: "no source", price: "price"})
    assert list(named) == ["no source", "price"]
    assert list(modes) == [source, price], "the modes are as they were"
    assert named.merge(["no source", "price"], "all").frame["notes"].to_list() == [18]
    parts = named.split("price", {"by how much": "BY 2"})
    assert parts.frame.set_index("mode")["notes"].to_dict() == {"no source": 12, "price": 5, "by how much": 1}
    assert len(named.split("no source", 2)) == 3
    for wrong in (
        lambda: named.rename({"prise": "x"}),
        lambda: named.split("price", {"x": "zebra"}),
        lambda: named["x"],
        lambda: named.merge("prise", "x"),
        lambda: named.split("price", 9),
        lambda: ab.failure_modes(said, "note", turns().tail(1), k=1)["source, names, named"],
    ):
        with pytest.raises(ValueError, match=r"no mode '\w{2}|No note|9 groups|No turn|no mode 'x'"):
            wrong()


def test_names_that_an_agent_proposes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(client: Any, workspace: Any, agent: Any, text: str, timeout_s: float) -> Turn:
        asked.append(text)
        return Turn("s1", text='["No source", "Price"]')

    monkeypatch.setattr("agentbook.frames.analysis.topics.ask_first", ask)
    said = notes(*["names no source, write to ada@acme.test"] * 6, *["wrong price"] * 5)
    modes = ab.failure_modes(said, k=2, names="acme~namer", client=object(), workspace="acme~playground")
    assert modes.frame["proposed"].to_list() == ["No source", "Price"]
    assert not {"No source", "Price"} & set(modes)
    assert "ada@acme.test" not in asked[0]
    taken = modes.rename(dict(zip(modes.frame["mode"], modes.frame["proposed"], strict=True)))
    assert list(taken) == ["No source", "Price"]


def test_a_mode_that_a_person_chose_counts_instead_of_the_words(tmp_path: Path) -> None:
    todo = turns(12)
    modes = ab.failure_modes(notes(*["bad tone"] * 6, *["no source"] * 6, todo=todo), k=2)
    ab.save_labels(modes.labels, tmp_path)
    assert set(labels_in(tmp_path)["question"]) == {"mode"}
    labeller = ab.label(todo, {"mode": ["rude", *modes]}, folder=tmp_path / "own", rater="ada")
    labeller.answer(mode="rude")
    said = pd.concat([notes(*["bad tone"] * 6, *["no source"] * 6, todo=todo), labeller.labels])
    assert ab.failure_modes(said, k=2).frame["notes"].to_list() == [6, 5, 1]
    own = ab.failure_modes(labeller.labels, "mode")
    assert (list(own), own.rates(todo.head(1))["share"].to_list()) == (["rude"], [1])
    unnoted = labeller.labels.assign(message_id="m11", session_id="s2")
    both = pd.concat([notes(*["bad tone"] * 6, todo=todo), unnoted])
    assert ab.failure_modes(both, k=1).frame["notes"].to_list() == [6, 1]


def test_the_turns_of_a_mode_become_inputs_with_a_check() -> None:
    todo = ab.reading_list(turns(), n=12)
    modes = ab.failure_modes(notes(*["bad tone"] * 4, *["no source"] * 4, todo=todo), k=2).rename({})
    with pytest.raises(ValueError, match="todo"):
        modes["bad, tone"]
    modes.rates(turns())  # which then knows the questions
    mine = modes["bad, tone"]
    assert sorted(mine["message_id"]) == sorted(todo["message_id"].head(4))
    assert set(mine["note"]) == {"bad tone"}
    assert mine.attrs["agentbook"]["check"] == "judge: It does not fail in this way: bad, tone."


def test_a_label_keeps_the_weight_of_its_list(tmp_path: Path) -> None:
    todo = ab.reading_list(turns(), n=10)
    labeller = ab.label(todo, {"ok": bool, "note": str}, folder=tmp_path, rater="ada")
    labeller.answer(ok=False, note="bad")
    weights = ab.read_labels(tmp_path)["weight"]
    assert weights.to_list() == [todo["weight"].iloc[0]] * 2
    read = ab.failure_modes(tmp_path).rates(turns())
    assert read["notes"].to_list() == [1]
    assert 0 < read["low"].iloc[0] < 1


def test_two_raters_share_a_turn_and_all_read_is_no_sample() -> None:
    table = turns(10)
    both = pd.concat([notes(*["bad"] * 2, *[None] * 8, todo=table), notes("bad", *[None] * 9, todo=table, rater="tim")])
    row = ab.failure_modes(both, k=1).rates(table).iloc[0]
    assert (row["share"], row["low"], row["high"], row["about"]) == (0.15, 0.15, 0.15, 2)


@pytest.mark.parametrize(
    "texts",
    [
        ["bad"] * 8,
        ["bad", "wrong", "slow", "rude", "late"],
        ["价格错误", "价格不对", "没有来源", "没有来源", "السعر خطأ", "السعر غير صحيح"],
        ["?!", "…", "123"],
        ["x" * 100_000, "short"],
        ["one note"],
    ],
    ids=["alike", "one word", "other languages", "no words", "long", "one"],
)
def test_any_notes_are_in_a_group_each(texts: list[str]) -> None:
    modes = ab.failure_modes(notes(*texts, None, ""))
    assert modes.frame["notes"].sum() == len(texts)
    assert "<table" in modes._repr_html_()
    with pytest.warns(UserWarning, match="how their turns were drawn"):
        rates = modes.rates(turns())
    assert rates[["share", "low", "high", "about"]].isna().all(axis=None), "never 0"


def test_what_says_nothing_about_a_history_is_refused() -> None:
    with pytest.raises(ValueError, match="no note of the question 'why'"):
        ab.failure_modes(notes("bad"), "why")
    with pytest.raises(ValueError, match="no note"):
        ab.failure_modes(notes(None, "  "))
    todo = ab.reading_list(turns(), n=10)
    modes = ab.failure_modes(notes("bad", "bad", todo=todo), k=1)
    with pytest.raises(ValueError, match="2 of the 2 that were read are not in this history"):
        modes.rates(turns().assign(message_id="other"))
    bare = notes("bad", todo=todo.drop(columns="weight"))
    assert ab.failure_modes(bare, "note", todo).rates(turns())["share"].notna().all()

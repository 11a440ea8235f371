"""Which answer a person prefers, and what is hidden until then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agentbook.chat.compare.text import static_html
from chat.compare.agents import Agents, PageReader, buttons, words
from chat.panels import eventually, on_loop


def test_a_click_stores_a_preference_and_another_changes_it(make: Any) -> None:
    compare = make("echo", "shout")
    assert len(compare.preferences) == 0
    compare.ask("Hello")
    assert set(buttons(compare)) == {"Prefer echo", "Prefer shout", "Tie", "None of them"}
    buttons(compare)["Prefer shout"].click()
    eventually(compare, lambda: compare.rounds[0].preferred == 1)
    assert set(buttons(compare)) == {"Prefer echo", "✓ shout preferred", "Tie", "None of them"}
    row = compare.preferences.iloc[0]
    assert (row["round"], row["message"], row["preferred"], row["column"]) == (1, "Hello", "shout", 2)
    assert row["agents"] == ["echo", "shout"]
    assert row["session_ids"] == list(compare.session_ids.values())
    assert all(seconds >= 0 for seconds in row["latencies_s"])
    assert str(row["preferred_at"].tz) == "UTC"
    assert "preferred: shout 1" in words(compare)
    assert compare.to_pandas()["preferred"].to_list() == [False, True]
    labels = compare.labels
    assert labels[["question", "value", "source"]].values.tolist() == [
        ["preferred", "no", "person"],
        ["preferred", "yes", "person"],
    ]
    assert labels["session_id"].tolist() == list(compare.session_ids.values())
    assert labels["message_id"].notna().all()
    assert (labels["at"] == row["preferred_at"]).all()

    buttons(compare)["Tie"].click()
    eventually(compare, lambda: compare.rounds[0].preferred == "tie")
    assert compare.preferences["preferred"].to_list() == ["tie"]
    assert compare.preferences["column"].isna().all()
    buttons(compare)["✓ Tie"].click()
    eventually(compare, lambda: compare.rounds[0].preferred is None)
    assert len(compare.preferences) == 0

    compare.ask("Once more")
    compare.prefer("echo", round=1)
    compare.prefer("none")
    assert compare.preferences["preferred"].to_list() == ["echo", "none"]
    compare.prefer(None)
    assert compare.preferences["preferred"].to_list() == ["echo"]


def test_only_answered_sides_can_be_preferred(make: Any, agents: Agents) -> None:
    compare = make("echo", "fails", "never")
    asking = threading.Thread(target=compare.ask, args=("Hello",))
    asking.start()
    eventually(compare, lambda: bool(compare.rounds) and compare.rounds[0].exchanges[2].text == "Let me")
    eventually(compare, lambda: len(compare.comparison.pending) == 1)
    assert all(button.disabled for button in buttons(compare).values())
    page = PageReader(compare)
    assert page.fields["composer"]["busy"]
    assert "1 of 3 answered, 1 failed…" in words(compare)
    with pytest.raises(ValueError, match="does not allow"):
        compare.prefer("echo")
    page.say(do="stop")
    asking.join(60)
    assert {name for name, button in buttons(compare).items() if not button.disabled} == {"Prefer echo", "None of them"}
    for choice, message in (("fails", "does not allow"), ("tie", "does not allow"), ("nobody", "not one of these")):
        with pytest.raises(ValueError, match=message):
            compare.prefer(choice)
    with pytest.raises(ValueError, match="There is no round 2: the last is 1"):
        compare.prefer("echo", round=2)
    # A late reply appears, and can be preferred then.
    on_loop(lambda: agents.started[2].reply("At last"))
    eventually(compare, lambda: compare.rounds[0].exchanges[2].status == "answered")
    compare.prefer("never")
    assert compare.preferences["preferred"].to_list() == ["never"]


def test_names_are_hidden_until_there_is_a_preference(make: Any) -> None:
    compare = make("echo", "shout", blind=True, seed=1)
    for _ in range(8):
        compare.ask("Hello")
    text = words(compare) + static_html(compare.comparison, "ap-0")
    assert "echo" not in text
    assert "shout" not in text
    assert set(buttons(compare)) == {"Prefer A", "Prefer B", "Tie", "None of them"}
    orders = [round_.order for round_ in compare.rounds]
    assert [0, 1] in orders
    assert [1, 0] in orders
    again = make("echo", "shout", blind=True, seed=1)
    for _ in range(8):
        again.ask("Hello")
    assert [round_.order for round_ in again.rounds] == orders

    compare.prefer("shout", round=1)
    column = orders[0].index(1)
    assert f"{'AB'[column]} · shout" in words(compare)
    row = compare.preferences.iloc[0]
    assert (row["preferred"], row["column"], row["blind"]) == ("shout", column + 1, True)
    assert row["agents"] == [["echo", "shout"][side] for side in orders[0]]
    assert "HELLO" in PageReader(compare).columns(0)[column]["body"]
    compare.prefer(None, round=1)
    assert f"{'AB'[column]} · shout" in words(compare), "names stay visible once shown"

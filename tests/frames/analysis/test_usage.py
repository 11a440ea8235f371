"""Tokens and cost, from the usage that events carry."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.analysis.turns import turns
from agentbook.frames.analysis.usage import usage, with_cost
from agentbook.frames.parse.frame import FrameBuilder

from .test_steps import event, rows

COUNTS = ("model", "input_tokens", "output_tokens", "tokens")
OPENAI = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
OURS = {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150, "model": "small"}


def table_of(*replies: dict[str, Any], between: dict[str, Any] | None = None) -> pd.DataFrame:
    """One turn per reply; its fields replace those of the event."""
    builder = FrameBuilder("events")
    for number, reply in enumerate(replies):
        ask = event(0, "message", {"text": "?"}, author="user")
        inner = [event(1, "note", {}, **between)] if between else []
        items = [ask, *inner, {**event(9, "runtime_done", {"text": "!"}), **reply}]
        builder.add(json.dumps({"items": items}).encode(), {"session_id": f"s{number}"})
    return turns(builder.finish())


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"usage": OURS}, ("small", 100, 50, 150)),
        ({"usage": OPENAI, "model": "big"}, ("big", 10, 5, 15)),
        ({"content": {"text": "!", "usage": {"input_tokens": 3, "output_tokens": 4}}}, (None, 3, 4, 7)),
        ({"usage": {"total_tokens": 9}}, (None, None, None, 9)),
        ({}, (None,) * 4),
        *[
            ({"usage": hostile}, (None,) * 4)
            for hostile in (None, 7, [], "many", {}, {"total_tokens": -1}, {"total_tokens": True}, {"tokens": 2**60})
        ],
        ({"usage": {"total_tokens": "9", "input_tokens": 1.5, "output_tokens": 2}}, (None, None, 2, None)),
    ],
)
def test_the_usage_of_a_reply_is_that_of_its_turn(reply: dict[str, Any], expected: tuple[Any, ...]) -> None:
    table = table_of(reply, {"usage": OURS})
    assert rows(table, *COUNTS) == [expected, ("small", 100, 50, 150)]
    assert table.dtypes.astype("str")[list(COUNTS)].to_list() == ["str", "Int64", "Int64", "Int64"]


def test_the_usage_of_all_events_of_a_turn_adds_up() -> None:
    table = table_of({"usage": OURS}, between={"usage": OPENAI})
    assert rows(table, *COUNTS) == [("small", 110, 55, 165)]


def test_what_one_event_of_a_turn_does_not_tell_is_not_known() -> None:
    """A part would look like the sum. An estimate of the platform is no count."""
    estimate = {"total_tokens": 88, "model": "small", "estimated": True}
    for partial, expected in (
        ({"prompt_tokens": 10}, ("small", 110, None, None)),
        ({"total_tokens": 9}, ("small", None, None, 159)),
        (estimate, ("small", None, None, None)),
    ):
        assert rows(table_of({"usage": OURS}, between={"usage": partial}), *COUNTS) == [expected]
    table = table_of({"usage": estimate})
    assert rows(table, *COUNTS) == [("small", None, None, None)]
    total = usage(table, prices={"*": (1, 1)})
    assert total["with_usage"].to_list() == [0]
    assert total[["tokens", "cost"]].isna().all(axis=None)


def test_cost_by_a_table_of_prices() -> None:
    table = table_of({"usage": OURS}, {"usage": OPENAI, "model": "big"}, {"usage": {"total_tokens": 9}}, {})
    with pytest.warns(ab.errors.PriceWarning, match=r"the cost of 1 turn.* no model"):
        cost = with_cost(table, {"small": (1.0, 2.0), "big": {"input": 10, "output": 20}})["cost"]
    assert cost.isna().to_list() == [False, False, True, True]
    assert cost[:2].to_list() == pytest.approx([200e-6, 200e-6])
    # One price for both serves where only the sum is known.
    assert with_cost(table, {"*": (4, 4)})["cost"][:3].to_list() == pytest.approx([600e-6, 60e-6, 36e-6])
    frame = pd.DataFrame({"model": ["small"], "input": [1.0], "output": [2.0]})
    with pytest.warns(ab.errors.PriceWarning, match="'big'"):
        assert with_cost(table, frame)["cost"].to_list()[0] == pytest.approx(200e-6)
    totals = usage(table, prices={"*": (4, 4)}).iloc[0]
    assert totals.to_dict() == pytest.approx(
        {"turns": 4, "with_usage": 3, "input_tokens": 110, "output_tokens": 55, "tokens": 174, "cost": 696e-6, "with_cost": 3}
    )  # fmt: skip
    by_model = usage(table, by="model")
    assert rows(by_model, "model", "turns", "tokens") == [("small", 1, 150), ("big", 1, 15), (None, 2, 9)]
    daily = usage(table, freq="1D", since="2026-10-03", until="2026-10-04")
    assert rows(daily, "turns", "tokens") == [(4, 174)]


@pytest.mark.parametrize("prices", [{"m": 1}, {"m": (1, -1)}, {"m": ("a", 1)}, {"m": (1,)}, {"m": (1, float("nan"))}])
def test_prices_that_make_no_sense_are_explained(prices: Any) -> None:
    with pytest.raises(ValueError, match="prices needs two numbers of 0 or more for the model 'm'"):
        with_cost(table_of({}), prices)


INTEGERS = {
    "turns": "int64",
    "with_usage": "int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "tokens": "Int64",
}


@pytest.mark.parametrize("by", [None, "agent", ["agent", "model"]])
@pytest.mark.parametrize("freq", [None, "1D"])
@pytest.mark.parametrize("rows", ["without usage", "without rows"])
def test_what_is_not_known_is_null_and_typed(by: Any, freq: str | None, rows: str) -> None:
    table = table_of({}, {}).assign(agent="a")
    table = table.iloc[:0] if rows == "without rows" else table
    found = ab.usage(table, by=by, freq=freq, prices={"small": (1, 2)})
    types = {**INTEGERS, "cost": "float64", "with_cost": "int64"}
    assert found.dtypes.astype("str")[list(types)].to_dict() == types
    assert found[["input_tokens", "output_tokens", "tokens", "cost"]].isna().all(axis=None)
    assert found[["with_usage", "with_cost"]].sum().to_list() == [0, 0]
    assert found["turns"].sum() == len(table)
    assert len(found) == (len(table) > 0 or (by is None and freq is None))


def test_a_cost_that_is_known_in_part_is_null() -> None:
    """A turn without usage, as one that failed, makes no cost unknown."""
    table = table_of({"usage": OURS}, {}, {"usage": {**OURS, "model": "big"}}, {"usage": OPENAI, "model": "big"})
    table = table.assign(agent=["a", "a", "a", "b"])
    with pytest.warns(ab.errors.PriceWarning) as warned:
        by_agent = ab.usage(table, by=["agent", "model"], prices={"small": (1.0, 2.0)})
    by_agent = by_agent.set_index(["agent", "model"])
    with pytest.warns(ab.errors.PriceWarning, match="'big'"):
        total = ab.usage(table, prices={"small": (1.0, 2.0)}).iloc[0]
    assert by_agent.loc[("a", "small"), "cost"] == pytest.approx(200e-6)
    assert by_agent["cost"].isna().sum() == 3
    assert pd.isna(total["cost"])
    assert total[["tokens", "with_usage", "with_cost"]].to_list() == [315, 3, 1]
    [warning] = warned
    assert "'big'" in str(warning.message)
    assert warning.filename == __file__
    whole = ab.usage(table, by="agent", prices={"small": (1.0, 2.0), "*": (1.0, 2.0)}).set_index("agent")
    assert whole["cost"].to_list() == pytest.approx([400e-6, 20e-6])
    with pytest.warns(ab.errors.PriceWarning, match="'big'"):
        top = ab.usage(table, by="model", top=1, prices={"small": (1.0, 2.0)}).set_index("model")
    assert top["cost"].fillna(-1).to_dict() == {"big": -1, "other": pytest.approx(200e-6)}


def test_only_models_in_the_span_need_a_price() -> None:
    table = table_of({"usage": OURS})
    assert ab.usage(table, until="2000-01-01", prices={"other": (1, 1)})["cost"].isna().all()

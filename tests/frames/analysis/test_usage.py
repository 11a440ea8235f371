"""Tokens and cost, from the usage that events carry."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

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


def test_cost_by_a_table_of_prices() -> None:
    table = table_of({"usage": OURS}, {"usage": OPENAI, "model": "big"}, {"usage": {"total_tokens": 9}}, {})
    cost = with_cost(table, {"small": (1.0, 2.0), "big": {"input": 10, "output": 20}})["cost"]
    assert cost.isna().to_list() == [False, False, True, True]
    assert cost[:2].to_list() == pytest.approx([200e-6, 200e-6])
    # One price for both serves where only the sum is known.
    assert with_cost(table, {"*": (4, 4)})["cost"][:3].to_list() == pytest.approx([600e-6, 60e-6, 36e-6])
    frame = pd.DataFrame({"model": ["small"], "input": [1.0], "output": [2.0]})
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

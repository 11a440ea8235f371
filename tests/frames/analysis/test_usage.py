"""Tokens and cost, from the usage that events carry."""

from __future__ import annotations

import json
import math
import random
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.analysis.prices import cost_of
from agentbook.frames.analysis.turn_details import CACHE, MEASURES, numbers_of, usage_of
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
        ({"usage": OURS, "content": {"text": "!", "usage": OURS}}, ("small", 100, 50, 150)),
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


# 1,000 tokens of input, of which 600 came from a cache and 100 were written to one.
SOURCES: dict[str, dict[str, Any]] = {
    "OpenAI's chat": {
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100, "audio_tokens": None},
    },
    "OpenAI's responses": {
        "input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010,
        "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
    },
    "Anthropic": {
        "input_tokens": 300, "output_tokens": 10, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
    },
    "LangChain": {
        "input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010,
        "input_token_details": {"cache_read": 600, "cache_creation": 0, "ephemeral_1h_input_tokens": 100},
    },
    "thoughts beside the output": {
        "input_tokens": 1000, "output_tokens": 4, "total_tokens": 1010, "output_token_details": {"reasoning": 6},
        "input_token_details": {"cache_read": 600, "cache_creation": 100},
    },
    "MLflow": {
        "input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010, "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
    },
    "LiteLLM": {
        "prompt_tokens": 1000, "completion_tokens": 10, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 100,
    },
    "ATIF": {"prompt_tokens": 1000, "completion_tokens": 10, "cached_tokens": 600, "cache_creation_input_tokens": 100},
    "more than the whole": {"input_tokens": 300, "output_tokens": 10, "cached_tokens": 600, "cache_write_tokens": 100},
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_input_tokens_include_those_of_a_cache_whatever_the_source_counts(source: str) -> None:
    table = table_of({"usage": {**SOURCES[source], "model": "small"}})
    assert rows(table, *COUNTS, *CACHE) == [("small", 1000, 10, 1010, 600, 100)]
    prices = {"small": (10.0, 20.0, 1.0, 12.5)}
    right = (300 * 10 + 10 * 20 + 600 * 1 + 100 * 12.5) / 1e6
    assert with_cost(table, prices)["cost"].to_list() == pytest.approx([right])
    assert cost_of(usage_of([{"usage": {**SOURCES[source], "model": "small"}}]), prices) == pytest.approx(right)
    total = usage(table, prices=prices).iloc[0]
    assert total[["cached_tokens", "cache_write_tokens", "cost"]].to_list() == pytest.approx([600, 100, right])


@pytest.mark.parametrize(
    ("price", "missing"),
    [
        ((10.0, 20.0), "cached tokens"),
        ((10.0, 20.0, 1.0), "wrote to a cache"),
        ({"input": 10, "output": 20, "cache_write": 1}, "cached tokens"),
    ],
)
def test_a_cache_whose_price_is_missing_makes_the_cost_unknown(price: Any, missing: str) -> None:
    table = table_of({"usage": {**SOURCES["Anthropic"], "model": "small"}}, {"usage": OURS})
    with pytest.warns(ab.errors.PriceWarning, match=rf"the cost of 1 turn .*{missing}|'small'.*{missing}") as warned:
        cost = with_cost(table, {"small": price})["cost"]
    assert "'small'" in str(warned[0].message)
    assert cost.isna().to_list() == [True, False], "without a cache, two prices suffice"


@pytest.mark.parametrize("form", ["tuple", "names", "frame", "csv", "json", "yaml"])
def test_prices_of_a_cache_in_every_form(form: str, tmp_path: Path) -> None:
    names = {"input": 10.0, "output": 20.0, "cached": 1.0, "cache_write": 12.5}
    two = {"input": 1.0, "output": 2.0}
    frame = pd.DataFrame([{"model": "small", **names}, {"model": "big", **two}])
    (tmp_path / "p.csv").write_text(frame.to_csv(index=False))
    (tmp_path / "p.json").write_text(json.dumps({"small": names, "big": two}))
    (tmp_path / "p.yaml").write_text("small: [10, 20, 1, 12.5]\nbig: [1, 2]\n")
    forms = {
        "tuple": {"small": (10, 20, 1, 12.5), "big": (1, 2)},
        "names": {"small": names, "big": two},
        "frame": frame,
    }
    table = table_of({"usage": {**SOURCES["Anthropic"], "model": "small"}}, {"usage": {**OURS, "model": "big"}})
    cost = with_cost(table, forms.get(form, tmp_path / f"p.{form}"))["cost"]
    assert cost.to_list() == pytest.approx([5050e-6, 200e-6])


def test_several_models_of_a_turn_each_have_their_price(tmp_path: Path) -> None:
    large = {"input_tokens": 1000, "output_tokens": 100, "model": "large", "cached_tokens": 400}
    table = table_of({"usage": OURS}, {"usage": OURS}, between={"usage": large})
    prices = {"large": (10.0, 20.0, 1.0), "small": (1.0, 2.0)}
    right = (600 * 10 + 400 * 1 + 100 * 20 + 100 * 1 + 50 * 2) / 1e6
    assert rows(table, *COUNTS, "cached_tokens") == [("small", 1100, 150, 1250, None)] * 2
    table.to_parquet(tmp_path / "t.parquet")
    table.assign(asked_at=table["asked_at"].astype(str), replied_at=None).to_excel(tmp_path / "t.xlsx")
    for turns_ in (table, pd.read_parquet(tmp_path / "t.parquet"), pd.read_excel(tmp_path / "t.xlsx")):
        assert with_cost(turns_, prices)["cost"].to_list() == pytest.approx([right] * 2)
    by_model = usage(table, by="model", prices=prices)
    assert rows(by_model, "model", "turns", "tokens", "cached_tokens") == [
        ("large", 2, 2200, 800),
        ("small", 2, 300, None),
    ]
    assert by_model["cost"].to_list() == pytest.approx([0.0168, 400e-6])
    with pytest.warns(ab.errors.PriceWarning, match="2 turns .*'large'"):
        assert with_cost(table, {"small": (1, 2)})["cost"].isna().all()
    nested = {"total_tokens": 1250, "model": "small", "usage_by_model": {"large": large, "small": OURS}}
    assert with_cost(table_of({"usage": nested}), prices)["cost"].to_list() == pytest.approx([right])


def test_what_the_source_says_that_it_cost_stays_apart() -> None:
    table = table_of({"usage": {**OURS, "cost": 0.5}}, {"usage": {**OURS, "cost_usd": 0.25}}, {"usage": OURS})
    assert table["reported_cost"].to_list()[:2] == [0.5, 0.25]
    assert with_cost(table, {"*": (1, 1)})["cost"].to_list() == pytest.approx([150e-6] * 3)
    assert math.isnan(usage(table)["reported_cost"][0]), "one turn with usage does not say it"
    assert usage(table[:2])["reported_cost"].to_list() == [0.75]


@pytest.mark.parametrize("seed", range(4))
def test_generated_tokens_add_up_by_model(seed: int) -> None:
    """Costs are sums over events; parts stay below the whole; unknown stays null."""
    chance = random.Random(seed)
    prices = {"a": (3.0, 15.0, 0.3, 3.75), "b": (1.0, 1.0), "c": (2.0, 8.0, 1.0)}

    def used() -> dict[str, Any]:
        parts = {name: chance.randrange(1000) for name in ("input_tokens", "output_tokens", *CACHE)}
        parts["input_tokens"] += sum(parts[name] for name in CACHE)
        known = {name: count for name, count in parts.items() if chance.random() < 0.8}
        return {**known, "model": chance.choice("abc")}

    sessions = [[used() for _ in range(chance.randint(1, 3))] for _ in range(60)]
    builder = FrameBuilder("events")
    for number, usages in enumerate(sessions):
        done = [event(n + 1, "runtime_done", {}, usage=each) for n, each in enumerate(usages)]
        items = [event(0, "message", {"text": "?"}, author="user"), *done]
        builder.add(json.dumps({"items": items}).encode(), {"session_id": f"s{number}"})
    table = turns(builder.finish())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ab.errors.PriceWarning)
        cost = with_cost(table, prices)["cost"]
        by_model = usage(table, by="model").set_index("model")
    for usages, row, total in zip(sessions, table.astype(object).to_dict("records"), cost, strict=True):
        numbers = [each for each in map(numbers_of, usages) if each]
        costs = [cost_of({"model": each["model"], **numbers_of(each)}, prices) for each in usages if numbers_of(each)]
        right = None if None in costs or not costs else sum(filter(None, costs))
        # What one event lacks, another of the same model cannot make known.
        assert (right is None) == math.isnan(total)
        assert right is None or total == pytest.approx(right)
        for name in MEASURES[:-1]:
            is_known = bool(numbers) and all(name in each for each in numbers)
            assert pd.isna(row[name]) != is_known
            assert not is_known or row[name] == sum(each[name] for each in numbers)
        wholes = [row[name] for name in ("cached_tokens", "input_tokens", "tokens")]
        assert all(part <= whole for part, whole in pairwise(wholes) if not pd.isna(part) and not pd.isna(whole))
    for model, row in by_model.iterrows():
        known = [numbers_of(each) for usages in sessions for each in usages if each["model"] == model]
        assert row["cached_tokens"] == sum(each.get("cached_tokens", 0) for each in known)


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
    totals = usage(table, prices={"*": (4, 4)}).drop(columns=[*CACHE, "reported_cost"]).iloc[0]
    assert totals.to_dict() == pytest.approx(
        {"turns": 4, "with_usage": 3, "input_tokens": 110, "output_tokens": 55, "tokens": 174, "cost": 696e-6, "with_cost": 3}
    )  # fmt: skip
    by_model = usage(table, by="model")
    assert rows(by_model, "model", "turns", "tokens") == [("small", 1, 150), ("big", 1, 15), (None, 2, 9)]
    daily = usage(table, freq="1D", since="2026-10-03", until="2026-10-04")
    assert rows(daily, "turns", "tokens") == [(4, 174)]


def test_prices_of_a_list_that_others_keep() -> None:
    from genai_prices import Usage, calc_price

    small, long = ({"input_tokens": n, "output_tokens": 500} for n in (1000, 300_000))
    names = ["gpt-4o-mini", "openai/gpt-4o-mini", "claude-sonnet-4-5", "small", "nobody/knows", "deepseek-chat"]
    rows = [{"usage": small, "model": name} for name in names] + [{"usage": long, "model": "claude-sonnet-4-5"}]
    table = table_of(*rows)
    with pytest.warns(ab.errors.PriceWarning, match=r"3 turns.*nobody"):
        costed = with_cost(table, {"small": (1.0, 2.0), "*": "genai"})
    # Beyond a model's first tier, the sum of a turn does not tell what its calls cost.
    assert costed["cost"].isna().to_list() == [False] * 4 + [True] * 3
    for cost, name in zip(costed["cost"], ["gpt-4o-mini", "gpt-4o-mini", "claude-sonnet-4-5"], strict=False):
        assert cost == pytest.approx(float(calc_price(Usage(**small), name).total_price))
    assert costed["cost"][3] == pytest.approx(0.002)
    assert costed.attrs["agentbook"]["prices"].startswith("genai-prices ")
    assert usage(table.head(2), prices="genai")["cost"][0] == pytest.approx(2 * costed["cost"][0])


@pytest.mark.parametrize("prices", [{"m": 1}, {"m": (1, -1)}, {"m": ("a", 1)}, {"m": (1,)}, {"m": (1, float("nan"))}])
def test_prices_that_make_no_sense_are_explained(prices: Any) -> None:
    with pytest.raises(ValueError, match="prices needs two numbers of 0 or more for the model 'm'"):
        with_cost(table_of({}), prices)


INTEGERS = {
    "turns": "int64", "with_usage": "int64", "input_tokens": "Int64", "output_tokens": "Int64", "tokens": "Int64"
}  # fmt: skip


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

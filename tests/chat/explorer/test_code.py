"""The code of a selection is Python that makes an equal frame."""

from __future__ import annotations

import ast

import msgspec
import pandas as pd
import pytest

import agentbook as ab
from agentbook.chat.explorer.filters import Filters
from agentbook.chat.explorer.model import ExplorerModel
from agentbook.chat.explorer.source import source_of, variable_of
from agentbook.frames.parse import to_frame
from chat.explorer.tables import NAMES, make_events, make_turns
from chat.explorer.test_crossfilter import FILTERS

TURNS = make_turns(500)


def model_of(data: object, **options: object) -> ExplorerModel:
    return ExplorerModel(source_of(data, events=None, client=None, by=options.get("by")), "Europe/Berlin")  # type: ignore[arg-type]


def run(code: str, **names: object) -> pd.DataFrame:
    """Run a cell; the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    scope = dict(names)
    exec(compile(tree, "cell", "exec"), scope)
    frame = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
    assert isinstance(frame, pd.DataFrame)
    return frame


@pytest.mark.parametrize("filters", [*FILTERS, *(Filters(groups=(name,)) for name in NAMES)])
def test_the_code_makes_the_selection(filters: Filters) -> None:
    model = model_of(TURNS)
    model.select(filters)
    code = model.code()
    pd.testing.assert_frame_equal(run(code, turns=TURNS), model.selection)
    if filters.active:
        assert 0 < len(model.selection) < len(TURNS)
    assert max(map(len, code.splitlines())) <= 100


@pytest.mark.parametrize(
    "turns",
    [
        TURNS.drop(columns=["replied_at", "failure"]),
        TURNS.assign(agent=TURNS["agent"].astype("category")),
        TURNS.assign(agent=range(500)).assign(agent=lambda frame: frame["agent"] % 3),
        TURNS.set_index(pd.Index(range(500, 1000), name="label")),
    ],
    ids=["without columns", "categories", "numbers", "index"],
)
def test_whatever_the_columns_are(turns: pd.DataFrame) -> None:
    model = model_of(turns)
    model.select(
        Filters(
            since=pd.Timestamp("2026-09-25T00:00Z"),
            hours=tuple(range(100)),
            outcomes=tuple(model.columns.outcomes[:2]),
            groups=(model.columns.groups[0],),
        )
    )
    assert 0 < len(model.selection) < 500
    pd.testing.assert_frame_equal(run(model.code("mine"), mine=turns), model.selection)


def test_code_for_events_makes_the_turns_first() -> None:
    items = make_events(("One?", "1"), ("Two?", "2"))
    events = to_frame("events", [msgspec.json.encode({"items": items})])
    model = model_of(events)
    model.select(Filters(min_latency_s=1.5))
    pd.testing.assert_frame_equal(run(model.code("events"), events=events), model.selection)
    assert "import agentbook as ab" in model.code()
    assert len(model.selection) == 2
    assert ab.turns(events)["latency_s"].to_list() == [2.0, 2.0]


def test_the_notebooks_own_variable_is_used() -> None:
    history = object()
    assert variable_of(history, {"_": history, "_3": history, "last month": history, "month": history}) == "month"
    assert variable_of(history, {"_": history}) is None

"""Every view counts the turns that the selections of the other views leave."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.chat.explorer.axes import BANDS, MAX_PERIODS
from agentbook.chat.explorer.columns import moments, outcome_names, read_columns
from agentbook.chat.explorer.crossfilter import MAX_DOTS, OWN, Crossfilter
from agentbook.chat.explorer.filters import Filters, has_words
from chat.explorer.tables import make_turns

TURNS = make_turns(3_000)
ZONE = "Europe/Berlin"  # its clocks change within these turns
FILTERS = [
    Filters(),
    Filters(since=pd.Timestamp("2026-09-28T08:00Z"), until=pd.Timestamp("2026-10-02T00:00Z")),
    Filters(min_latency_s=4.0),
    Filters(text="OF question 7", outcomes=("answered",)),
    Filters(max_latency_s=9.5, hours=(9, 10, 33, 34, 35)),
    Filters(outcomes=("error", "unanswered"), groups=("data-desk", None)),
    Filters(
        since=pd.Timestamp("2026-09-25T00:00Z"),
        min_latency_s=1.0,
        hours=tuple(range(24, 72)),
        outcomes=("answered", "turn_timeout"),
        groups=("guide", "'); import os; ('"),
    ),
]


def filtered(filters: Filters, view: str) -> pd.DataFrame:
    """The turns of a view by pandas alone."""
    at, local = moments(TURNS), moments(TURNS).dt.tz_convert(ZONE)
    slot = local.dt.day_of_week * 24 + local.dt.hour
    conditions = {
        "time": (at >= (filters.since or at.min())) & ((at < filters.until) if filters.until else at.notna()),
        "latency": TURNS["latency_s"].between(filters.min_latency_s or 0, filters.max_latency_s or np.inf),
        "hours": slot.isin(filters.hours),
        "outcomes": outcome_names(TURNS).isin(filters.outcomes),
        "groups": TURNS["agent"].isin(filters.groups) | (TURNS["agent"].isna() & (None in filters.groups)),
        "text": TURNS["prompt"].str.lower().str.contains((filters.text or "").split(" ")[-1], regex=False),
    }
    keep = pd.Series(True, TURNS.index)
    for dimension in filters.active:
        if dimension not in OWN[view]:
            keep &= conditions[dimension]
    return TURNS[keep]


@pytest.fixture(scope="module")
def crossfilter() -> Crossfilter:
    return Crossfilter(read_columns(TURNS, "agent", ZONE), lambda text: has_words(TURNS, text).to_numpy())


@pytest.mark.parametrize("filters", FILTERS)
def test_each_view_is_narrowed_by_the_others_and_not_by_itself(crossfilter: Crossfilter, filters: Filters) -> None:
    crossfilter.apply(filters)
    columns = crossfilter.columns

    local = moments(filtered(filters, "heat")).dt.tz_convert(ZONE).dropna()
    slots = (local.dt.day_of_week * 24 + local.dt.hour).value_counts()
    assert crossfilter.heat() == [int(slots.get(slot, 0)) for slot in range(168)]

    outcomes = outcome_names(filtered(filters, "outcomes")).value_counts()
    assert crossfilter.outcomes() == [int(outcomes.get(name, 0)) for name in columns.outcomes]

    groups = filtered(filters, "groups")["agent"].fillna("(none)").value_counts()
    assert crossfilter.groups()["turns"] == [int(groups.get(name or "(none)", 0)) for name in columns.groups]

    latency = crossfilter.latency()
    assert sum(latency["turns"]) == moments(filtered(filters, "latency")).notna().sum()
    assert latency["drawn"] == filtered(filters, "latency")["latency_s"].notna().sum()
    expected = filtered(filters, "table").index
    assert crossfilter.selected().tolist() == expected.tolist()
    assert sorted(columns.row[crossfilter.table_rows("asked", descending=True)]) == expected.tolist()


@pytest.mark.parametrize("filters", FILTERS[:3])
def test_latencies_are_those_of_the_analyses(crossfilter: Crossfilter, filters: Filters) -> None:
    crossfilter.apply(filters)
    by_agent = ab.latency(filtered(filters, "groups").fillna({"agent": "(none)"}), by="agent").set_index("agent")
    for position, name in enumerate(crossfilter.columns.groups):
        for quantile in ("p50", "p95"):
            expected = by_agent.loc[name or "(none)", f"{quantile}_s"]
            assert crossfilter.groups()[quantile][position] == pytest.approx(expected, abs=1e-3)
    overall = ab.latency(filtered(filters, "table")).iloc[0]
    assert crossfilter.summary()["p95"] == pytest.approx(overall["p95_s"])

    selected = filtered(filters, "latency")
    axes = crossfilter.axes
    period = (moments(selected) - pd.Timestamp(axes.begin_ms, unit="ms", tz="UTC")) // pd.Timedelta(
        axes.length_ms, "ms"
    )
    answered = selected.assign(period=period)[selected["status"] == "answered"]
    medians = answered.groupby("period")["latency_s"].median()
    assert crossfilter.latency()["p50"] == [
        pytest.approx(medians[n], abs=1e-3) if n in medians else None for n in range(axes.periods)
    ]


def test_a_page_holds_few_marks_however_many_turns_there_are() -> None:
    crossfilter = Crossfilter(read_columns(make_turns(40_000), "agent", "UTC"))
    view = crossfilter.latency()
    dots = crossfilter.dots()
    assert len(view["turns"]) <= MAX_PERIODS
    assert len(view["cells"]) // 2 <= MAX_PERIODS * BANDS
    assert sum(view["cells"][1::2]) == view["drawn"]
    assert len(dots) < MAX_DOTS / 2
    slowest = crossfilter.columns.row[dots[-1]]
    assert slowest == make_turns(40_000)["latency_s"].idxmax()
    crossfilter.apply(Filters(since=pd.Timestamp("2026-10-25T00:00Z"), groups=("guide",), min_latency_s=50))
    assert crossfilter.rows("table").size < MAX_DOTS


def test_a_table_is_sorted_with_what_is_unknown_at_its_end(crossfilter: Crossfilter) -> None:
    crossfilter.apply(Filters())
    for sort, column in (("latency", TURNS["latency_s"]), ("asked", moments(TURNS))):
        for descending in (True, False):
            rows = crossfilter.columns.row[crossfilter.table_rows(sort, descending=descending)]
            values = column.iloc[rows]
            known = values.dropna()
            assert values.isna().to_numpy().tolist() == sorted(values.isna())
            assert known.is_monotonic_decreasing if descending else known.is_monotonic_increasing


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_turns(count: int) -> None:
    crossfilter = Crossfilter(read_columns(TURNS.iloc[:count], "agent", "UTC"))
    crossfilter.apply(Filters(min_latency_s=0.5))
    assert crossfilter.summary()["all"] == count
    assert crossfilter.latency()["cells"] == []
    assert crossfilter.axes.message()["high"] > crossfilter.axes.message()["low"] > 0
    assert sum(crossfilter.heat()) == crossfilter.summary()["turns"]

"""The charts of what one asks next: rates, questions, spans, people, steps."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.span import first_id_at
from agentbook.frames import plot
from agentbook.frames.parse.frame import to_frame
from agentbook.frames.plot import session
from frames.plot.test_chart import _cached_vega, select  # noqa: F401 - a fixture
from frames.plot.test_groups import turns_of
from frames.plot.test_plot import assert_says_why, events_of

START = datetime(2026, 10, 3, 8, tzinfo=UTC)


def tooltip_fields(drawing: Any) -> set[str]:
    return {field["title"] for field in _walk(drawing.chart.to_dict(), "tooltip")}


def _walk(node: Any, key: str) -> list[Any]:
    if isinstance(node, dict):
        return [item for name, value in node.items() for item in (value if name == key else _walk(value, key))]
    return [item for value in node for item in _walk(value, key)] if isinstance(node, list) else []


# -- latency --


def test_latency_draws_the_statistic_that_is_asked_for() -> None:
    table = turns_of([40])
    for stat, value, words in (("p50", 20.5, "median 20.5 s"), ("p95", 38.05, "95th percentile 38"), ("mean", 20.5, "mean"),
                               ("max", 40.0, "maximum 40 s"), ("p99.9", 39.961, "99.9th percentile 40 s")):  # fmt: skip
        drawing = plot.latency(table, stat=stat, freq="W")
        assert words in drawing.text
        assert drawing.data[f"{stat}_s"].max() <= 40
        whole = plot.latency(table, stat=stat, freq="Y")
        assert whole.data[f"{stat}_s"].to_list() == pytest.approx([value])
        assert [row["value_s"] for row in _values(whole)] == pytest.approx([value])
    with pytest.raises(ValueError, match=r"plot\.latency has no stat 'p95_s' \(did you mean 'p95'"):
        plot.latency(table, stat="p95_s")


@pytest.mark.parametrize("draw", [plot.latency, plot.failure_rate], ids=lambda draw: str(draw.__name__))
@pytest.mark.parametrize(
    ("questions_at", "freq", "labels"),
    [
        (["2026-11-25T19:50Z"], "15min", {"19:45"}),
        (["2026-11-25T18:50Z", "2026-11-25T19:20Z"], "15min", {"18:50", "19:00"}),
        (["2026-11-25T10:00Z", "2026-11-26T09:00Z"], "1h", {"12:00", "18:00", "Thu 26", "09:00"}),
    ],
)
def test_axes_show_the_hours_of_a_day(draw: Any, questions_at: list[str], freq: str, labels: set[str]) -> None:
    table = turns_of([len(questions_at)], asked_at=pd.to_datetime(questions_at, format="ISO8601"))
    svg = draw(table, freq=freq).svg()
    shown = {node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert labels <= shown
    assert "M" not in {str(text)[-1] for text in shown}, "no AM or PM"


def _values(drawing: Any) -> list[dict[str, Any]]:
    datasets: dict[str, list[dict[str, Any]]] = drawing.chart.to_dict()["datasets"]
    return max(datasets.values(), key=len)


# -- activity --


def test_activity_counts_people_too_and_marks_where_a_version_began() -> None:
    events = events_of(15).assign(author_id=lambda rows: rows["session_id"], agent="helper")
    versions = ["1.0.0"] * 5 + ["2.0.0"] * 10
    drawing = plot.activity(events.assign(agent_version=versions * 3), freq="1h")
    table = ab.activity(events, "1h")
    counts = drawing.data.pivot(index="period", columns="count", values="n")
    assert counts["people"].to_list() == table["people"].to_list()
    assert counts["people"].max() == 3
    assert "Began: helper 2.0.0 (Sat 2026-10-03 11:00)." in drawing.text
    assert "helper 2.0.0" in drawing.svg()
    for plain in (events, events.assign(agent_version=None), events.assign(agent_version="1.0.0")):
        assert "Began" not in plot.activity(plain).text


# -- failure_rate --


def test_the_rate_of_failures_is_of_the_turns_of_the_period_and_group() -> None:
    table = turns_of([8, 8])
    table["status"] = ["failed", *["answered"] * 7, "failed", "failed", *["answered"] * 6]
    table["failure"] = ["error", *[None] * 7, "budget", "error", *[None] * 6]
    overall = plot.failure_rate(table, freq="1D")
    assert overall.data[["n", "turns", "sessions", "share"]].to_numpy().tolist() == [[16, 3, 3, 3 / 16]]
    by_agent = plot.failure_rate(table, by="agent", freq="1D").data
    assert by_agent[["agent", "n", "share"]].to_numpy().tolist() == [["agent 00", 8, 1 / 8], ["agent 01", 8, 2 / 8]]
    by_kind = plot.failure_rate(table, by="kind", freq="1D").data
    assert by_kind[["kind", "n", "share"]].to_numpy().tolist() == [["budget", 16, 1 / 16], ["error", 16, 2 / 16]]
    assert overall.text == "3 of 16 turns failed (18.8 %). Highest rate: 18.8 % (Thu 2026-10-01)."


# -- comparison --


def compared_turns() -> pd.DataFrame:
    table = turns_of([200])
    table["asked_at"] = pd.date_range("2026-10-01", periods=200, freq="2h", tz="UTC")
    late = table["asked_at"] >= pd.Timestamp("2026-10-09", tz="UTC")
    table["latency_s"] = np.where(late, 9.0, 3.0) + np.arange(200) % 7 / 10
    return table.assign(replied_at=table["asked_at"] + pd.to_timedelta(table["latency_s"], unit="s"))


def test_spans_are_compared_with_what_is_more_than_noise() -> None:
    spans: Any = {"a": ("2026-10-01", "2026-10-09"), "b": ("2026-10-09", "2026-10-17")}
    drawing = plot.comparison(compared_turns(), **spans, metric=["latency", "turns"])
    assert drawing.text.startswith("2 changes, 1 of them more than noise: latency_p50_s +18")
    table = ab.compare_periods(compared_turns(), **spans, metric=["latency", "turns"])
    assert plot.comparison(table).svg() == drawing.svg()
    assert {"before", "after", "change", "standard errors", "n", "this is"} <= tooltip_fields(drawing)
    by_agent = plot.comparison(compared_turns(), **spans, by="agent")
    assert by_agent.data["agent"].to_list() == ["agent 00"]


def random_turns(draw: np.random.Generator, agents: int) -> pd.DataFrame:
    """Two weeks of turns; some agents change, and some latencies are equal."""
    rows = []
    for agent in range(agents):
        factor = draw.choice([1.0, 1.0, 1.3, 1.6, 2.5])
        digits = int(draw.integers(0, 3))
        for number in range(int(draw.integers(4, 40))):
            day = int(draw.integers(0, 14))
            for turn in range(int(draw.integers(1, 4))):
                seconds = round(float(np.exp(draw.normal(0.3, 0.6))) * (factor if day >= 7 else 1), digits)
                status = "failed" if draw.random() < 0.2 else "answered"
                rows.append((f"{agent}-{number}", turn + 1, f"a{agent}", day * 24 + 8 + turn, seconds, status))
    table = pd.DataFrame(rows, columns=["session_id", "turn", "agent", "hour", "latency_s", "status"])
    asked_at = pd.Timestamp("2026-10-01", tz="UTC") + pd.to_timedelta(table["hour"], unit="h")
    return table.assign(asked_at=asked_at, replied_at=asked_at + pd.to_timedelta(table["latency_s"], unit="s"))


@pytest.mark.parametrize(("seed", "by"), list(enumerate([None, "agent", None, "agent", "agent"])))
def test_a_range_leaves_out_zero_exactly_where_the_change_is_more_than_noise(seed: int, by: str | None) -> None:
    draw = np.random.default_rng(seed)
    table = random_turns(draw, int(draw.integers(2, 12)))
    changes = ab.compare_periods(
        table, a=("2026-10-01", "2026-10-08"), b=("2026-10-08", "2026-10-15"), by=by,
        stat=str(draw.choice(["p50", "p90", "mean"])), unit=str(draw.choice(["turns", "sessions"])),
    )  # fmt: skip
    assert not changes.loc[changes["significant"], "change"].eq(0).any()
    for part in (changes, changes[changes["metric"] == str(draw.choice(changes["metric"].unique()))], changes.tail(9)):
        [drawn] = [rows for rows in ab.plot.comparison(part).chart.to_dict()["datasets"].values() if "low" in rows[0]]
        for row in drawn:
            low, high = row["low"], row["high"]
            leaves_out_zero = low is not None and not low <= 0 <= high
            assert leaves_out_zero == (row["clear"] == "more than noise"), row


def test_the_range_of_a_share_ends_where_all_turns_have_it() -> None:
    table = pd.DataFrame(
        {
            "metric": ["sourced", "failed_share", "latency_p50_s", "turns"],
            "before": [0.7, 0.5, 0.7, 0.7], "after": [1.0, 0.4, 1.0, 1.0], "change": [0.3, -0.1, 0.3, 0.3],
            "ratio": [1 / 0.7, 0.8, 1 / 0.7, 1 / 0.7], "z": [1.2, -0.2, 1.2, 1.2],
            "n": [79, 79, 79, 79], "significant": [False] * 4,
        }
    )  # fmt: skip
    [drawn] = [rows for rows in plot.comparison(table).chart.to_dict()["datasets"].values() if "low" in rows[0]]
    highest = {row["label"]: row["before"] * (1 + row["high"]) for row in drawn}
    assert highest["sourced"] == pytest.approx(1)
    assert highest["failed_share"] == pytest.approx(1)
    assert min(highest["latency_p50_s"], highest["turns"]) > 1


def test_the_correction_is_named_with_its_number_of_groups() -> None:
    table = random_turns(np.random.default_rng(3), 7)
    spans: Any = {"a": ("2026-10-01", "2026-10-08"), "b": ("2026-10-08", "2026-10-15")}
    drawing = ab.plot.comparison(table, **spans, by="agent")
    changes = ab.compare_periods(table, **spans, by="agent", metric="latency")
    tested = int(changes["p"].notna().sum())
    for part in (drawing, ab.plot.comparison(changes), ab.plot.comparison(changes.head(2))):
        assert f"{tested} groups (Holm)" in part.text
        assert f"{tested} groups (Holm)" in "".join(part.chart.to_dict()["title"]["subtitle"])
    alone = ab.plot.comparison(table, **spans, metric="latency")
    assert "Holm" not in alone.text + "".join(alone.chart.to_dict()["title"]["subtitle"])


# -- usage --


def test_who_asks_most_comes_first_and_the_rest_is_other() -> None:
    table = turns_of([12], author=["Ada", "Ada", "CI", None] * 3, author_id=["u1", "u1", "k1", "s1"] * 3)
    table["author_type"] = ["user", "user", "api_key", "schedule"] * 3
    drawing = plot.authors(table)
    assert drawing.text == "12 turns of 3 authors. Most: Ada 6, CI 3, s1 3."
    assert drawing.data.equals(ab.authors(table))
    few = plot.authors(table, top=1)
    assert few.data["author_id"].to_list() == ["u1", "other", "other"]
    assert [(row["name"], row["kind"]) for row in _values(few)] == [
        *(("Ada", "user"), ("other", "api_key"), ("other", "schedule"))
    ]
    assert few.text == drawing.text


def test_two_people_of_one_name_have_bars_of_their_own() -> None:
    table = turns_of([4], author="Ada", author_id=["0a1b2c3d4e", "9f8e7d6c5b"] * 2)
    assert sorted(row["name"] for row in _values(plot.authors(table))) == ["Ada (0a1b2c3d)", "Ada (9f8e7d6c)"]


# -- waterfall --


def event(seconds: float, kind: str, content: Any, author: str | None = None) -> dict[str, Any]:
    at = START + timedelta(seconds=seconds)
    item = {"id": first_id_at(at), "type": kind, "content": content, "created_at": at.isoformat()}
    return {**item, "author": {"type": author}} if author else item


def tool_events() -> pd.DataFrame:
    items = [
        event(0, "message", {"text": "How many?"}, "user"),
        event(1, "tool_call", {"tool": "sql", "arguments": {"limit": 5}, "call_id": "c1"}),
        event(3, "tool_result", {"tool": "sql", "result": [1, 2], "call_id": "c1"}),
        event(4, "tool_call", {"tool": "search", "arguments": {"q": '"</script>'}, "call_id": "c2"}),
        event(6, "tool_result", {"tool": "search", "error": "timed out", "call_id": "c2"}),
        event(9, "runtime_done", {"text": "Two."}),
        event(20, "message", {"text": "And now?"}, "user"),
        event(21, "tool_call", {"tool": "sql", "arguments": {}, "call_id": "c3"}),
    ]
    return to_frame("events", [json.dumps({"items": items}).encode()], context={"session_id": "s1"})


@pytest.mark.usefixtures("_cached_vega")
def test_a_waterfall_has_a_bar_for_the_turn_and_for_each_step() -> None:
    drawing = plot.waterfall(tool_events(), turn=1)
    assert drawing.text == "Turn 1 of session s1: 2 steps, 1 done, 1 failed. The longest is sql (2 s)."
    bars = [(row["label"].strip(), row["kind"], row["from_s"], row["to_s"]) for row in _values(drawing)]
    assert bars == [("sql", "tool", 1, 3), ("search", "failed", 4, 6), ("How many?", "turn", 0, 9)]
    assert {"arguments", "result", "error", "status", "takes (s)"} <= tooltip_fields(drawing)
    assert drawing.data["name"].to_list() == ["sql", "search"]
    select(drawing.live(), "click", [1, 2])
    assert drawing.selection["name"].to_list() == ["search"], "the bar of the turn is not a step"
    root = ET.fromstring(drawing.svg())
    assert {"How many?", "sql", "search"} <= {element.text for element in root.iter()}


def test_a_waterfall_names_what_has_no_text() -> None:
    events = to_frame(
        "events",
        [
            json.dumps(
                {"items": [event(0, "message", None, "user"), event(1, "tool_call", {}), event(3, "runtime_done", {})]}
            ).encode()
        ],
        context={"session_id": "s1"},
    )
    chart = plot.waterfall(events)
    assert "(no text)" in chart.svg()
    assert "nan" not in chart.text.lower()


def test_a_waterfall_of_steps_alone_is_of_the_same_steps() -> None:
    steps = ab.steps(tool_events())
    alone = plot.waterfall(steps, "s1", turn=1)
    assert [(row["label"], row["from_s"]) for row in _values(alone)] == [("sql", 0.0), ("search", 3.0)]
    assert alone.data.equals(plot.waterfall(tool_events(), turn=1).data)


def test_which_turn_must_be_said_and_an_open_step_has_no_end() -> None:
    with pytest.raises(ValueError, match="2 turns of the session have steps: choose one, such as turn=1"):
        plot.waterfall(tool_events())
    with pytest.raises(ValueError, match=r"Turn 7 of the session has no steps; the turns with steps are: 1, 2\."):
        plot.waterfall(tool_events(), turn=7)
    assert repr(plot.waterfall(tool_events().iloc[[0, 5]])) == "No steps of session s1."
    opened = plot.waterfall(tool_events(), turn=2)
    assert opened.text == "Turn 2 of session s1: 1 step, 1 open."
    assert [row["kind"] for row in _values(opened)] == ["open", "turn"]


def test_a_long_turn_is_drawn_in_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_STEPS", 1)
    drawing = plot.waterfall(tool_events(), turn=1)
    assert drawing.text.endswith("The first 1 are drawn.")
    assert len(drawing.data) == 1


# -- all of them --


def test_a_turn_without_steps_says_so_in_its_picture() -> None:
    for events in (events_of(0), tool_events().iloc[[0, 5]]):
        assert_says_why(plot.waterfall(events))


def test_changes_that_cannot_be_drawn_say_why() -> None:
    nothing = plot.comparison(events_of(0))
    assert nothing.text == "Nothing to compare: there are no data in either span."
    first_week = plot.comparison(turns_of([5]), metric="turns")
    assert first_week.text.startswith("1 change, ")
    assert first_week.text.endswith("Nothing is drawn: a change from zero has no percentage. "
                                    "Choose other spans with a= and b=.")  # fmt: skip
    for drawing in (nothing, first_week):
        assert_says_why(drawing)

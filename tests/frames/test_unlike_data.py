"""Frames unlike the demo's: odd texts, times centuries apart, a name twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.parse.frame import to_frame

NAMES = ("helper", "helper \x00", "\u202eevil \U0001f600", "=1+1", "\ud83d half", "שלום\x1b[2J")
MOMENTS = ("1970-01-01T00:00:00Z", "2026-11-01T00:00:00Z", "2100-01-01T00:00:00Z", "9998-12-31T23:59:58Z")


def page(items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"items": items}).encode("utf-8", "surrogatepass")


def an_event(number: int, type: Any, content: Any, at: Any, author: Any = None) -> dict[str, Any]:
    name = f"0199a0b2-0000-7000-8000-{number:012x}"
    return {"id": name, "type": type, "content": content, "created_at": at, "author": author, "task_id": None}


@pytest.fixture(scope="module")
def history() -> ab.History:
    """A session per agent; each agent asks at another of the moments."""
    events, sessions = [], []
    for number, name in enumerate(NAMES):
        at = MOMENTS[number % len(MOMENTS)]
        person = {"type": "api_key", "id": "k1", "name": name}
        items = [
            an_event(10 * number, "message", {"text": f"{name}?"}, at, person),
            an_event(10 * number + 1, "quantum flux \x00", {"deep": [None, {"a": name}]}, at),
            an_event(10 * number + 2, None, None, None),
            an_event(10 * number + 3, "runtime_done", {"text": name}, at),
        ]
        events.append(to_frame("events", [page(items)], context={"session_id": f"s{number}"}))
        sessions.append({"id": f"s{number}", "workspace_id": None, "agent_id": f"a{number}", "name": name})
    sessions.append({"id": "empty", "workspace_id": None, "agent_id": "deleted", "name": None})
    agents = [{"id": f"a{number}", "name": name} for number, name in enumerate((*NAMES, "helper"))]
    return ab.History(
        pd.concat(events, ignore_index=True),
        to_frame("sessions", [page(sessions)]),
        agents=to_frame("agents", [page(agents)]),
    )


DRAWN: dict[str, Callable[[ab.History], ab.plot.Chart]] = {
    "latency by agent": lambda history: ab.plot.latency(history, by="agent"),
    "latency by session": lambda history: ab.plot.latency(history, by="session", freq="YE"),
    "failure rate": lambda history: ab.plot.failure_rate(history, by="agent"),
    "authors": ab.plot.authors,
    "heat map": ab.plot.activity_heatmap,
    "comparison": lambda history: ab.plot.comparison(history, by="agent", as_of="2026-11-02T00:00Z"),
    "timeline": lambda history: ab.plot.turn_timeline(history.events, "s1"),
    "waterfall": lambda history: ab.plot.waterfall(history.events, "s2"),
    "beside": lambda history: ab.plot.authors(history) | ab.plot.latency(history, by="agent"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_chart_is_drawn_and_hides_nothing(name: str, history: ab.History) -> None:
    chart = DRAWN[name](history)
    shown = chart.svg() + chart.text + json.dumps(chart.to_dict(), ensure_ascii=False)
    assert not {"\x00", "\x1b", "\u202e"} & set(shown)
    shown.encode()


def test_a_chart_spells_hidden_characters_out(history: ab.History) -> None:
    assert "helper ⟨U+0000⟩" in DRAWN["latency by agent"](history).svg()


@pytest.mark.parametrize("suffix", ["xlsx", "csv", "parquet", "html", "jsonl"])
def test_every_file_has_every_row(suffix: str, history: ab.History, tmp_path: Any) -> None:
    for name in ("events", "turns", "sessions", "agents"):
        frame = getattr(history, name)
        path = ab.export(frame, tmp_path / f"{name}.{suffix}")
        if suffix == "xlsx":
            assert len(pd.read_excel(path)) == len(frame)
        elif suffix == "parquet":
            assert pd.read_parquet(path).shape == frame.shape
        else:
            path.read_text("utf-8")


def test_a_table_as_a_page_spells_hidden_characters_out(history: ab.History, tmp_path: Any) -> None:
    text = ab.export(history.turns, tmp_path / "t.html").read_text("utf-8")
    assert not {"\x00", "\x1b", "\u202e"} & set(text)
    assert "helper ⟨U+0000⟩?" in text


def test_the_report_is_one_readable_page(history: ab.History, tmp_path: Any) -> None:
    text = history.report(tmp_path / "r.html").read_text("utf-8")
    assert not {"\x00", "\x1b", "\u202e"} & set(text)


def test_too_many_periods_tell_which_times_there_are(history: ab.History) -> None:
    with pytest.raises(ValueError, match=r"from 1970-01-01 to 9998-12-31: .* a span with since= and until="):
        ab.activity(history, "1D")
    assert len(ab.activity(history, "1D", fill=False)) == len(MOMENTS)


def test_the_explorer_shows_centuries_on_a_few_ticks(history: ab.History) -> None:
    explorer = ab.Explorer(history, by="agent", tz="Pacific/Kiritimati")
    snapshot = explorer._model.snapshot()
    ticks = snapshot["fixed"]["axes"]["time_ticks"]
    assert 2 <= len(ticks) <= 10
    assert all(label.split()[0].isalpha() for _, label in ticks)


@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_explorer_shows_the_first_year_and_the_last(tz: str) -> None:
    """The local time may be in the year 0 or 10000."""
    moments = ("0001-01-01T00:00:00Z", "2026-11-01T00:00:00Z", "9999-12-31T00:00:00Z")
    items = [
        an_event(number, "message", {"text": "?"}, None, {"type": "api_key", "id": "k1"})
        for number in range(len(moments))
    ]
    events = to_frame("events", [page(items)], context={"session_id": "s"})
    events["created_at"] = pd.to_datetime(pd.Series(moments), utc=True, format="ISO8601").dt.as_unit("us")
    sessions = to_frame("sessions", [page([{"id": "s", "workspace_id": None, "agent_id": None, "name": None}])])
    snapshot = ab.Explorer(ab.History(events, sessions), tz=tz)._model.snapshot()
    axes = snapshot["fixed"]["axes"]
    assert axes["begin"] <= pd.Timestamp("0001-01-01", tz="UTC").timestamp() * 1000
    assert 2 <= len(axes["time_ticks"]) <= 10


def test_excel_has_no_time_after_the_last_that_it_knows(tmp_path: Any) -> None:
    import openpyxl

    frame = pd.DataFrame({"at": pd.to_datetime(["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:58.5Z"])})
    sheet = openpyxl.load_workbook(ab.export(frame, tmp_path / "t.xlsx")).active
    assert [sheet.cell(row, 1).is_date for row in (2, 3)] == [False, True]
    assert sheet.cell(2, 1).value == "9999-12-31T23:59:59.999999"

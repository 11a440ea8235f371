"""Charts: their texts, their contents, and that they read on white and on black."""

from __future__ import annotations

import functools
import json
import xml.etree.ElementTree as ET
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from agentbook.api.errors import EmptyWarning
from agentbook.api.record import Record
from agentbook.api.span import first_id_at
from agentbook.frames import plot
from agentbook.frames.analysis.turns import turns as turns_of
from agentbook.frames.parse.frame import FrameBuilder, to_frame
from agentbook.frames.plot import session, style
from agentbook.frames.plot.chart import Chart
from agentbook.frames.plot.style import COLOURS, INK, MAX_ROWS, SEVERITY_COLOURS

START = datetime(2026, 10, 3, 8, tzinfo=UTC)


@functools.cache
def events_of(count: int = 40, sessions: int = 3) -> pd.DataFrame:
    builder = FrameBuilder("events")
    for number in range(sessions):
        items = []
        for n in range(count):
            kind, content, author = (
                ("message", {"text": "<b>?</b>"}, "user"),
                ("runtime_done", {}, None),
                ("runtime_done", {"text": "!"}, None),
                ("message", {"text": "?"}, "user"),
                ("runtime_error", {"message": "TURN_TIMEOUT: 600"}, None),
            )[n % 5]
            at = START + timedelta(hours=3 * (n // 5), seconds=2 * (n % 5))
            item = {
                "id": first_id_at(at)[:-6] + f"{n:06d}",
                "type": kind,
                "content": content,
                "created_at": at.isoformat(),
            }
            items.append({**item, "author": {"type": author}} if author else item)
        builder.add(json.dumps({"items": items}).encode(), {"session_id": f"s{number}", "workspace_id": f"w{number}"})
    return builder.finish()


def credentials_of(count: int) -> pd.DataFrame:
    items = [
        {"id": str(n), "integration": f"i{n % 50}", "owner_id": "o", "params": {"token": "sk-5ecret"},
         "webhook_enabled": n % 7 == 0, "webhook_url": "https://hooks.example.com/sk-5ecret"}
        for n in range(count)
    ]  # fmt: skip
    return to_frame("credentials", [json.dumps({"items": items}).encode()])


DRAWN: list[tuple[str, Any, str]] = [
    (
        "activity_heatmap",
        lambda: plot.activity_heatmap(events_of(), tz="Europe/Berlin"),
        "120 events by weekday and hour",
    ),
    ("latency", lambda: plot.latency(events_of()), "Latency of 24 answered turns: median 4 s, 95th percentile 4 s."),
    ("latency by", lambda: plot.latency(events_of(), by="workspace_id", freq="1h"), "Slowest by workspace_id: w0"),
    ("turn_timeline", lambda: plot.turn_timeline(events_of(), "s1"), "Session s1: 16 turns, 8 answered, 8 failed."),
    ("failures", lambda: plot.failures(events_of()), "24 of 48 turns failed (50.0 %): turn_timeout 24."),
    ("credentials", lambda: plot.credentials(credentials_of(99)), "99 credentials of 50 integrations."),
]


@pytest.mark.parametrize(("draw", "text"), [pytest.param(draw, text, id=name) for name, draw, text in DRAWN])
def test_a_chart_says_what_it_shows_and_is_small_svg_that_repeats_itself(draw: Any, text: str) -> None:
    drawing: Chart = draw()
    assert text in drawing.text
    bundle = drawing._repr_mimebundle_()
    assert list(bundle) == ["text/html", "image/svg+xml", "text/plain"]
    assert bundle["text/html"] == drawing.html()
    image = ET.fromstring(bundle["text/html"].replace('">', '"/>'))
    assert image.attrib["alt"] == drawing.text
    assert b64decode(image.attrib["src"].partition(",")[2]).decode() == bundle["image/svg+xml"]
    assert bundle["text/plain"] == repr(drawing) == drawing.text
    root = ET.fromstring(bundle["image/svg+xml"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert [child.text for child in root if child.tag.endswith("title")] == [drawing.text]
    texts = [element for element in root.iter() if element.tag.endswith("}text")]
    assert texts
    assert {element.get("fill", INK) for element in texts} <= {INK}
    assert "background: white" not in bundle["image/svg+xml"]
    assert not [element for element in root if element.tag.endswith("rect") and element.get("fill") == "white"]
    plot.failures(events_of(7)).svg()
    assert draw().svg() == bundle["image/svg+xml"]
    assert len(drawing.data) <= MAX_ROWS
    sent = json.dumps(drawing.to_dict())
    assert "sk-5ecret" not in bundle["image/svg+xml"] + sent
    assert len(json.dumps(bundle)) < 90_000, "bytes in a notebook"
    assert len(sent) < 60_000, "bytes to a page"


@pytest.mark.parametrize("name", [name for name in plot.__all__ if name != "with_text"])
def test_a_chart_of_nothing_says_so_once_and_is_drawn(name: str) -> None:
    nothing = credentials_of(0) if name == "credentials" else to_frame("events", [], context={"session_id": "s1"})
    with pytest.warns(EmptyWarning) as caught:
        drawing = getattr(plot, name)(nothing)
    assert [warning.filename for warning in caught] == [__file__]
    assert "NaN" not in drawing.svg()
    if drawing.data.empty:
        assert_says_why(drawing)


def assert_says_why(drawing: Any) -> None:
    """Assert that a picture without data is small, and says so in place of axes."""
    root = ET.fromstring(drawing.svg())
    assert 100 < float(root.attrib["width"]) < 500
    assert 20 < float(root.attrib["height"]) < 120
    texts = [" ".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert " ".join(texts[1:]) == drawing.text


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    light, dark = sorted([luminance(first), luminance(second)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_text_and_marks_stand_out_on_white_and_on_black(background: str) -> None:
    assert contrast(INK, background) >= 4
    for colour in (*COLOURS, *(SEVERITY_COLOURS[name] for name in ("low", "medium", "high"))):
        assert contrast(colour, background) >= 3, colour


def test_too_many_rows_are_refused_before_they_are_drawn() -> None:
    table = pd.DataFrame(
        {
            "turn": range(6000),
            "status": "answered",
            "latency_s": 1.0,
            "asked_at": pd.date_range("2026-01-01", periods=6000, freq="h", tz="UTC"),
        }
    )
    with pytest.raises(ValueError, match="choose a longer period"):
        plot.latency(table, freq="1h")
    assert len(plot.latency(table).data) <= 260


def test_the_bars_of_a_timeline_are_the_steps_of_each_turn() -> None:
    bars = plot.turn_timeline(events_of(7, sessions=1)).data
    assert bars.to_numpy().tolist() == [
        [1, "subtask", 0.0, 2.0],
        [1, "reply", 2.0, 4.0],
        [2, "failure", 0.0, 2.0],
        [3, "subtask", 0.0, 2.0],
        [3, "waiting", 2.0, 2.0],
    ]


def test_which_session_must_be_said() -> None:
    with pytest.raises(ValueError, match="3 sessions: choose one"):
        plot.turn_timeline(events_of())
    with pytest.raises(ValueError, match="no session 'x'; it has s0, s1, s2"):
        plot.turn_timeline(events_of(), "x")
    record = Record({"id": "s1", "workspace_id": "w"})
    address = "https://host/v1/sessions/s1/events"
    for named in (record, address, [record], pd.Series({"session_id": "s1"})):
        assert plot.turn_timeline(events_of(), named).text == plot.turn_timeline(events_of(), "s1").text
    with pytest.raises(ValueError, match="draws one session, and session_id= names 2"):
        plot.turn_timeline(events_of(), ["s0", "s1"])


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, package: str | None = None) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(style, "import_module", absent)
    with pytest.raises(ImportError, match="pip install altair"):
        plot.failures(events_of())


def test_a_long_session_is_drawn_in_part_and_says_so() -> None:
    long = plot.turn_timeline(events_of(5 * 210, sessions=1))
    assert long.text.endswith("The first 200 are drawn.")
    assert long.data["turn"].max() == 200
    assert len(long.data) <= MAX_ROWS
    steps = events_of(30, sessions=1).assign(type="runtime_done", text=None, author_type=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "MAX_BARS", 7)
        part = plot.turn_timeline(steps)
    assert part.text.endswith("Of their 31 bars the first 7 are drawn.")
    assert len(part.data) == 7


def test_the_slowest_is_named_as_it_is_and_nothing_is_no_name() -> None:
    events = events_of(4, sessions=2)
    assert "Slowest by turn: 1 (" in plot.latency(events, by="turn").text
    assert "Slowest by agent_id: (unknown) (" in plot.latency(events.assign(agent_id=None), by="agent_id").text


@pytest.mark.parametrize("name", ["a:b", 'it\'s "one"', "x.y[0]", "group", "p50:Q"])
def test_a_column_to_draw_by_may_have_any_name(name: str) -> None:
    turns = turns_of(events_of(10))
    drawn = plot.latency(turns.assign(**{name: turns["session_id"]}), by=name, freq="1h")
    assert {"s0", "s1", "s2", name} <= {element.text for element in ET.fromstring(drawn.svg()).iter() if element.text}
    assert name in drawn.data, "the drawing's data have the column's own name"


def test_only_charts_are_listed_and_a_misspelt_name_is_corrected() -> None:
    assert dir(plot) == [
        *(
            "activity",
            "activity_heatmap",
            "authors",
            "comparison",
            "credentials",
            "failure_rate",
            "failures",
            "latency",
        ),
        *("paths", "turn_timeline", "waterfall", "with_text"),
    ]
    with pytest.raises(AttributeError, match="has no attribute 'latncy'; did you mean 'latency'"):
        _ = plot.latncy

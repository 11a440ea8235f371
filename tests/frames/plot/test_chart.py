"""A chart's files, its combinations, what it weighs, and what a page selects in it."""

from __future__ import annotations

import gzip
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.frames import plot
from agentbook.frames.plot import chart as chart_module
from agentbook.frames.plot import live, vega
from agentbook.frames.plot.chart import Chart
from agentbook.frames.plot.style import INK
from frames.plot.test_plot import DRAWN, events_of

VEGA = "globalThis.agentbookVegaEmbed = () => Promise.resolve(); // </script>"


@pytest.fixture
def _cached_vega(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder with a small script in place of Vega, which takes seconds."""
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    file = tmp_path / "agentbook" / f"vega-{vega.version()}.js.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(VEGA.encode()))


# -- files --


@pytest.mark.usefixtures("_cached_vega")
@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<!doctype html>")]
)
def test_a_chart_is_saved_in_each_format(tmp_path: Path, ending: str, start: bytes) -> None:
    path = plot.failures(events_of()).save(tmp_path / f"one.{ending.upper()}")
    assert path.read_bytes().startswith(start)
    assert [file.name for file in tmp_path.iterdir() if file.suffix] == [path.name], "nothing else is left behind"


def test_an_unknown_ending_names_those_there_are_and_writes_nothing(tmp_path: Path) -> None:
    for name in ("one.gif", "one"):
        with pytest.raises(ValueError, match=rf"as \.svg, \.png, \.html or \.pdf, not as '{name}'"):
            plot.failures(events_of()).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def background_of(svg: str) -> str | None:
    """The colour of the rectangle behind everything, if there is one."""
    first = next(child for child in ET.fromstring(svg) if child.tag.endswith(("rect", "g")))
    return first.get("fill") if first.tag.endswith("rect") else None


def test_a_file_is_white_unless_another_colour_or_none_is_chosen(tmp_path: Path) -> None:
    drawing = plot.failures(events_of())
    assert background_of(drawing.svg()) is None
    assert background_of(drawing.save(tmp_path / "a.svg").read_text()) == "white"
    assert background_of(drawing.save(tmp_path / "a.svg", background="#111").read_text()) == "#111"
    assert drawing.save(tmp_path / "a.svg", background=None).read_text() == drawing.svg()
    opaque, clear = drawing.png(), drawing.png(background=None)
    assert opaque != clear
    assert opaque == drawing.save(tmp_path / "a.png").read_bytes()


def test_a_colour_that_is_none_is_refused_with_the_nearest(tmp_path: Path) -> None:
    for background, hint in (("whit", "did you mean 'white'"), ("url(#x)", "must be a CSS colour"), (3, "not 3")):
        with pytest.raises(ValueError, match=hint):
            plot.failures(events_of()).save(tmp_path / "a.svg", background=background)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_cached_vega")
def test_a_page_holds_all_it_needs_and_no_text_of_a_user_ends_its_script(tmp_path: Path) -> None:
    events = events_of(5, sessions=1).assign(text="</script><script>alert(1)</script>")
    page = plot.turn_timeline(events).save(tmp_path / "a.html").read_text()
    assert page.count("</script>") == page.count("<script") == 2
    assert "default-src 'none'" in page
    assert "src=" not in page
    assert "href=" not in page


# -- Vega's bundle --


def test_vega_is_bundled_once_and_a_damaged_copy_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled: list[str] = []
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(vega, "_bundled", lambda: bundled.append("") or VEGA)
    assert gzip.decompress(vega.bundle()).decode() == VEGA
    assert vega.bundle() == vega.bundle()
    assert len(bundled) == 1
    [file] = (tmp_path / "agentbook").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert gzip.decompress(vega.bundle()).decode() == VEGA
    assert len(bundled) == 2


def test_vega_is_bundled_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentbook").write_text("a file where the folder should be")
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(vega, "_bundled", lambda: VEGA)
    assert gzip.decompress(vega.bundle()).decode() == VEGA


# -- combinations --


def test_charts_combine_into_one(tmp_path: Path) -> None:
    bars, lines = plot.failures(events_of()), plot.latency(events_of(), by="workspace_id", freq="1h")
    heat = plot.activity_heatmap(events_of())
    both = (bars | lines) & heat
    assert repr(both) == both.text == f"{bars.text} {lines.text} {heat.text}"
    assert len(both.data) == len(bars.data) + len(lines.data) + len(heat.data)
    assert {"kind", "p50_s", "weekday"} <= set(both.data)
    root = ET.fromstring(both.svg())
    texts = {element.text for element in root.iter() if element.tag.endswith("}text")}
    assert {"Failed turns by kind", "Latency of turns", "Events by weekday and hour", "w0", "turn_timeout"} <= texts
    assert both.svg() == ((bars | lines) & heat).svg()
    assert both.save(tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    assert (bars & bars).svg() != (bars | bars).svg(), "a chart combines with itself too"


def test_titles_of_a_combination_have_the_colour_of_a_charts() -> None:
    both = plot.failures(events_of()) & plot.latency(events_of())
    fills = {element.get("fill") for element in ET.fromstring(both.svg()).iter() if element.tag.endswith("}text")}
    assert fills == {INK}


@pytest.mark.parametrize("other", [3, None, "chart", pd.DataFrame()])
def test_anything_else_to_combine_with_is_refused_with_a_sentence(other: Any) -> None:
    drawing = plot.failures(events_of())
    for combine in (lambda: drawing | other, lambda: drawing & other):
        with pytest.raises(TypeError, match=r"combines with another chart of agentbook, not with"):
            combine()


# -- what a page selects --


def test_what_is_selected_in_a_page_are_rows_of_the_data() -> None:
    lines = plot.latency(events_of(), freq="1h")
    assert lines.selection.empty
    at = [int(moment.timestamp() * 1000) for moment in lines.data["period"].iloc[[1, 3]]]
    lines.select({"brush": {"at": at}})
    assert lines.selection["period"].to_list() == lines.data["period"].to_list()[1:4]
    lines.select({"brush": {}, "click": {"_row": [0], "vlPoint": {}}})
    assert lines.selection.index.to_list() == [0]
    lines.select({})
    assert lines.selection.empty
    heat = plot.activity_heatmap(events_of())
    heat.select({"brush": {"weekday": ["Monday"], "hour": [8, 9, 10]}})
    assert heat.selection[["weekday", "hour"]].to_numpy().tolist() == [["Monday", 8], ["Monday", 9], ["Monday", 10]]


def test_a_selection_in_a_part_of_a_combination_is_of_its_rows() -> None:
    bars, lines = plot.failures(events_of()), plot.latency(events_of(), freq="1h")
    both = bars | lines | bars
    names = {param["name"] for param in both.live_spec()["params"]}
    assert len(names) == 4, names
    both.select({"click_1_1": {"_row": [0]}})
    assert both.selection["kind"].to_list() == ["turn_timeout"]
    both.select({"click_2": {"_row": [0]}})
    assert both.selection.index.to_list() == [len(both.data) - 1]


@pytest.mark.parametrize(
    "selection", [{"brush": None}, {"brush": 3}, {"click": {"_row": [99, -1, "x"]}}, {"other": {"x": [1, 2]}}]
)
def test_a_selection_that_makes_no_sense_selects_nothing(selection: dict[str, Any]) -> None:
    lines = plot.latency(events_of(), freq="1h")
    lines.select(selection)
    assert lines.selection.empty


# -- in a notebook --


class Page:
    """The messages of a kernel's widget, in place of a page."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chart_module, "in_kernel", lambda: True)
        monkeypatch.setattr(live, "_widget", None)
        self.messages: list[tuple[dict[str, Any], Any]] = []
        monkeypatch.setattr(
            live.LiveCharts, "send", lambda _, content, buffers=None: self.messages.append((content, buffers))
        )

    def ask(self, **message: Any) -> list[dict[str, Any]]:
        self.messages.clear()
        assert live._widget is not None
        live._widget._handle_custom_msg(message, [])
        return [content for content, _ in self.messages]


def name_of(drawing: Chart) -> str:
    """The name by which a page asks for a chart that is displayed."""
    match = re.search(r"ab-chart-(\w+)", drawing._repr_mimebundle_()["text/html"])
    assert match is not None
    return match[1]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(monkeypatch)


def test_a_notebook_stores_a_picture_and_the_page_asks_for_the_chart(page: Page) -> None:
    drawing = plot.latency(events_of())
    bundle = drawing._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}, "a stored widget hides the picture"
    name = name_of(drawing)
    assert bundle["text/html"].startswith(f'<img class="ab-chart ab-chart-{name}" alt=')
    [reply] = page.ask(type="charts", names=[name, "0123456789abcdef"])
    assert reply == {"type": "chart", "name": name, "spec": drawing.live_spec()}
    assert reply["spec"]["description"] == drawing.text
    page.ask(type="selection", name=name, selection={"click": {"_row": [0]}})
    assert len(drawing.selection) == 1
    assert page.ask(type="selection", name="unknown", selection={}) == page.ask(type="nothing") == []


def test_equal_charts_are_served_as_the_same_and_selected_together(page: Page) -> None:
    first, second = plot.latency(events_of()), plot.latency(events_of())
    names = {name_of(drawing) for drawing in (first, second, first)}
    assert len(names) == 1
    page.ask(type="selection", name=names.pop(), selection={"click": {"_row": [1]}})
    assert first.selection.equals(second.selection)
    assert len(first.selection) == 1


def test_a_kernel_keeps_the_latest_charts(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_CHARTS", 2)
    drawings = [plot.latency(events_of(n)) for n in (5, 10, 15)]
    names = [name_of(drawing) for drawing in drawings]
    assert [reply["name"] for reply in page.ask(type="charts", names=names)] == names[1:]


def test_a_narrow_page_shrinks_a_picture_no_further_than_its_labels_are_legible() -> None:
    image = plot.latency(events_of(5)).html()
    width = float(re.search(r'<svg[^>]*width="([\d.]+)', plot.latency(events_of(5)).svg())[1])  # type: ignore[index]
    assert f'style="max-width:100%;min-width:{int(0.7 * width)}px"' in image


def test_without_widgets_the_picture_is_all_there_is(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no comms here")

    monkeypatch.setattr(live, "serve", fail)
    drawing = plot.failures(events_of())
    assert drawing._repr_mimebundle_()["text/html"] == drawing.html()


def test_outside_of_a_kernel_no_widget_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "serve", lambda *_: pytest.fail("a terminal has no page"))
    drawing = plot.failures(events_of())
    assert drawing._repr_mimebundle_()["text/html"] == drawing.html()


# -- what charts weigh --


@pytest.mark.parametrize(("name", "draw"), [(name, draw) for name, draw, _ in DRAWN])
def test_a_chart_is_small(name: str, draw: Any) -> None:
    drawing: Chart = draw()
    stored = len(json.dumps(drawing._repr_mimebundle_()))
    assert stored < 90_000, f"{name}: {stored:,} bytes in a notebook"
    sent = len(json.dumps(drawing.live_spec()))
    assert sent < 60_000, f"{name}: {sent:,} bytes to a page"


def test_ten_charts_of_a_notebook_share_one_widget_without_vega_in_its_state(page: Page) -> None:
    for n in range(10):
        plot.latency(events_of(5 + 5 * n))._repr_mimebundle_()
    assert live._widget is not None
    state = json.dumps(live._widget.get_state(), default=str)
    assert len(state) < 20_000
    assert len(live._widget._charts) == 10

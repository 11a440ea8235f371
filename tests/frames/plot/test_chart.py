"""A chart's files, its combinations, and what a page selects in it."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import operator
import pickle
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt
import IPython
import IPython.display
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from ipywidgets.widgets.widget import _instances

from agentbook.frames import plot
from agentbook.frames.analysis.turns import turns
from agentbook.frames.plot import chart as chart_module
from agentbook.frames.plot import vega
from agentbook.frames.plot.style import INK
from frames.plot.test_plot import events_of

VEGA = "globalThis.agentbookVegaEmbed = () => Promise.resolve(); // </script>"
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def _cached_vega(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small script in place of Vega, which takes seconds to bundle."""
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(vega, "_bundled", lambda: VEGA)
    vega._live_class.cache_clear()


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


def test_a_name_with_a_separator_of_lines_is_drawn() -> None:
    table = turns(events_of())
    table["agent"] = ["first\u2028second" if turn % 2 else "other\u2029one" for turn in table["turn"]]
    assert "first second" in plot.latency(table, by="agent").svg()


# -- Vega's bundle --


def test_vega_is_bundled_once_and_a_damaged_copy_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled: list[str] = []
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(vega, "_bundled", lambda: bundled.append("") or VEGA)
    assert vega.bundle() == vega.bundle() == VEGA
    assert len(bundled) == 1
    [file] = (tmp_path / "agentbook").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert vega.bundle() == VEGA
    assert len(bundled) == 2


def test_vega_is_bundled_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentbook").write_text("a file where the folder should be")
    monkeypatch.setattr(vega.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(vega, "_bundled", lambda: VEGA)
    assert vega.bundle() == VEGA


def test_the_bundle_holds_all_that_a_page_imports() -> None:
    script = vega.bundle()
    assert "agentbookVegaEmbed" in script
    assert not re.search(r"(?m)^import .*https?:", script)
    assert "esm.sh" not in script


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
    assert (bars & bars).to_dict()["vconcat"], "a chart combines with itself too"


@pytest.mark.parametrize("other", [3, None, "chart", pd.DataFrame()])
def test_anything_else_to_combine_with_is_refused(other: Any) -> None:
    drawing = plot.failures(events_of())
    for combine in (operator.or_, operator.and_, operator.add):
        with pytest.raises(TypeError):
            combine(drawing, other)


# -- what Altair's documentation says --


def rule() -> Any:
    return alt.Chart(alt.InlineData(values=[{"limit": 3}])).mark_rule().encode(y="limit:Q")


@functools.cache
def lines() -> Any:
    return plot.latency(events_of(), by="workspace_id", freq="1h")


@pytest.mark.parametrize(
    "change",
    [
        lambda chart: chart.properties(width=900, title="Mine"),
        lambda chart: chart.interactive(),
        lambda chart: chart.configure_axis(labelFontSize=20),
        lambda chart: chart.transform_filter("datum.group != 'w0'"),
        lambda chart: chart.facet("group:N", columns=2),
        lambda chart: chart + rule(),
        lambda chart: chart | rule(),
        lambda chart: chart & rule() & rule(),
    ],
)
def test_a_changed_chart_keeps_its_text_its_data_and_its_picture(change: Any) -> None:
    chart = lines()
    before = json.dumps(chart.to_dict())
    changed = change(chart)
    assert changed.text == chart.text
    assert changed.data.equals(chart.data)
    bundle = changed._repr_mimebundle_()
    assert chart.text in bundle["text/html"].replace("&#x27;", "'")
    root = ET.fromstring(bundle["image/svg+xml"])
    texts = {element.text: element.get("fill") for element in root.iter() if element.text}
    assert texts["seconds"] == INK
    assert json.dumps(chart.to_dict()) == before, "the chart itself is as it was"


def test_a_copy_is_the_same_chart() -> None:
    chart = lines()
    for same in (chart.copy(), copy.copy(chart), copy.deepcopy(chart), pickle.loads(pickle.dumps(chart))):
        assert (same.text, same.to_dict(), same.data.equals(chart.data)) == (chart.text, chart.to_dict(), True)


def test_a_change_is_in_the_specification() -> None:
    assert lines().properties(title="Mine").to_dict()["title"] == "Mine"
    assert lines().to_dict(format="vega")["$schema"].endswith("vega/v6.json")
    axis = lines().configure_axis(labelFontSize=20).to_dict()["config"]["axis"]
    assert (axis["labelFontSize"], axis["labelColor"]) == (20, INK)
    both = (lines() | lines()).resolve_scale(color="shared").properties(spacing=5).to_dict()
    assert (both["resolve"]["scale"]["color"], both["spacing"]) == ("shared", 5)
    assert lines().properties(usermeta={"mine": 1}).to_dict()["usermeta"] == {"mine": 1}
    pans = lines().interactive().to_dict()["params"]
    assert [param.get("bind") for param in pans if param["select"]["type"] == "interval"] == ["scales"]


def test_a_combination_grows_as_in_altair_and_takes_any_chart() -> None:
    bars, heat = plot.failures(events_of()), plot.activity_heatmap(events_of())
    three = bars | lines() | heat
    assert len(three.to_dict()["hconcat"]) == 3
    assert sorted(set(three.data["part"])) == [1, 2, 3]


@pytest.mark.parametrize("combine", [alt.hconcat, alt.concat])
def test_a_notebook_shows_what_altairs_functions_combine_with_picture_and_text(page: Page, combine: Any) -> None:
    bars, lines_ = plot.failures(events_of()), lines()
    bundle = page.shown(combine(bars, lines_))
    assert bundle["text/plain"] == f"{bars.text} {lines_.text}"
    root = ET.fromstring(bundle["image/svg+xml"])
    fills = {element.get("fill") for element in root.iter() if element.tag.endswith("}text")}
    assert fills == {INK}
    assert {"Failed turns by kind", "Latency of turns"} <= {element.text for element in root.iter()}


def test_other_peoples_charts_are_shown_as_they_are(page: Page) -> None:
    renderer, theme = alt.renderers.active, alt.theme.active
    plot.failures(events_of())
    assert (alt.renderers.active, alt.theme.active) == (renderer, theme)
    with alt.renderers.enable("mimetype"):  # without an id that differs each time
        assert page.shown(rule()).items() >= rule()._repr_mimebundle_()[0].items()
    assert not alt.JupyterChart._is_offline
    assert page.displayed == []


# -- what a page selects --


def select(widget: Any, kind: str, value: Any) -> None:
    """What a page sends when a person clicks marks or drags over them."""
    [name] = [name for name in widget._vl_selections if name.startswith(kind)]
    if kind == "click":
        value = {"_row": value, "vlPoint": {"or": [{"_row": row} for row in value]}}
    widget._vl_selections = {**widget._vl_selections, name: {"value": value, "store": []}}


@pytest.mark.usefixtures("_cached_vega")
def test_what_is_selected_in_a_page_are_rows_of_the_data() -> None:
    lines = plot.latency(events_of(), freq="1h")
    assert lines.selection.empty
    at = [int(moment.timestamp() * 1000) for moment in lines.data["period"].iloc[[1, 3]]]
    live = lines.live()
    select(live, "brush", {"at": at})
    assert lines.selection["period"].to_list() == lines.data["period"].to_list()[1:4]
    select(live, "brush", {})
    select(live, "click", [0])
    assert lines.selection.index.to_list() == [0]
    select(live, "click", [])
    assert lines.selection.empty
    heat = plot.activity_heatmap(events_of())
    select(heat.live(), "brush", {"weekday": ["Monday"], "hour": [8, 9, 10]})
    assert heat.selection[["weekday", "hour"]].to_numpy().tolist() == [["Monday", 8], ["Monday", 9], ["Monday", 10]]


@pytest.mark.usefixtures("_cached_vega")
def test_a_selection_in_a_part_of_a_combination_is_of_its_rows() -> None:
    bars, lines = plot.failures(events_of()), plot.latency(events_of(), freq="1h")
    both = bars | lines
    assert len({param["name"] for param in both.to_dict()["params"]}) == 3
    select(both.live(), "brush", {"at": [0, 9e12]})
    assert both.selection["part"].to_list() == [2] * len(lines.data)
    assert len(lines.selection) == len(lines.data)
    assert bars.selection.empty


@pytest.mark.usefixtures("_cached_vega")
@pytest.mark.parametrize(("kind", "value"), [("brush", None), ("brush", {"other": [1, 2]}), ("click", [99, -1, "x"])])
def test_a_selection_that_makes_no_sense_selects_nothing(kind: str, value: Any) -> None:
    lines = plot.latency(events_of(), freq="1h")
    select(lines.live(), kind, value)
    assert lines.selection.empty


# -- in a notebook --


class Page:
    """IPython's side of a notebook, in place of a kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.formatter = DisplayFormatter()
        self.displayed: list[dict[str, Any]] = []
        self.request: dict[str, Any] = {}
        shell = SimpleNamespace(kernel=object(), display_formatter=self.formatter, get_parent=lambda: self.request)
        monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
        monkeypatch.setattr(IPython.display, "display", lambda data, raw: self.displayed.append(data))
        chart_module._show_in_notebooks.cache_clear()

    def shown(self, chart: Any) -> dict[str, Any]:
        """What a cell with a chart at its end shows."""
        bundle: dict[str, Any] = self.formatter.format(chart)[0]
        return bundle


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, _cached_vega: None) -> Iterator[Page]:
    yield Page(monkeypatch)
    chart_module._show_in_notebooks.cache_clear()


def test_a_notebook_stores_a_picture_after_the_live_chart(page: Page) -> None:
    drawing = plot.latency(events_of())
    bundle = page.shown(drawing)
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}, "a stored widget hides the picture"
    assert bundle["text/html"].endswith(drawing.html().partition("alt=")[2])
    [live] = page.displayed
    assert WIDGET in live
    assert live["text/plain"] == "", "an untrusted notebook would show it above the picture"


def widgets_of(page: Page) -> list[Any]:
    """The open live charts among those displayed."""
    shown = [_instances.get(live[WIDGET]["model_id"]) for live in page.displayed]
    return [widget for widget in shown if widget is not None]


def test_charts_share_one_copy_of_vega(page: Page) -> None:
    for drawing in (plot.latency(events_of()), plot.failures(events_of())):
        page.shown(drawing)
    first, second = widgets_of(page)
    assert first.vega is second.vega
    assert gzip.decompress(first.vega.script).decode() == vega.bundle() == VEGA
    assert VEGA not in str(first.get_state())
    first.vega.close()
    page.shown(plot.latency(events_of()))
    assert widgets_of(page)[-1].vega.comm is not None, "a chart after Widget.close_all finds it"


def test_a_cell_that_runs_again_closes_what_it_showed(page: Page) -> None:
    def run(cell: str, number: str, charts: int) -> None:
        page.request = {"metadata": {"cellId": cell}, "header": {"msg_id": number}}
        for _ in range(charts):
            page.shown(plot.failures(events_of()))

    run("a", "1", 2)
    run("b", "2", 1)
    assert len(widgets_of(page)) == 3
    run("a", "3", 1)
    assert [live[WIDGET]["model_id"] for live in page.displayed[2:]] == [each.model_id for each in widgets_of(page)]


def test_without_widgets_the_picture_is_all_there_is(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no comms here")

    drawing = plot.failures(events_of())
    monkeypatch.setattr(chart_module, "live_chart", fail)
    assert page.shown(drawing)["text/html"] == drawing.html()


def test_a_narrow_page_shrinks_a_picture_no_further_than_its_labels_are_legible() -> None:
    image = plot.latency(events_of(5)).html()
    width = float(re.search(r'<svg[^>]*width="([\d.]+)', plot.latency(events_of(5)).svg())[1])  # type: ignore[index]
    assert f'style="max-width:100%;min-width:{int(0.7 * width)}px"' in image

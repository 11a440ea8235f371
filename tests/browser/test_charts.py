"""Charts in JupyterLab: interactive while the kernel runs, pictures otherwise."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

CELLS = [
    """
import pandas as pd
import agentbook as ab
rows = pd.DataFrame({
    "session_id": ["s1", "s2", "s3"] * 4, "turn": 1, "status": "answered", "latency_s": [float(n) for n in range(1, 13)],
    "prompt": [f"Question {n}: <b>why?</b>" for n in range(12)], "prompt_chars": range(20, 140, 10), "agent": ["a", "b"] * 6,
    "asked_at": pd.date_range("2026-10-01", periods=12, freq="12h", tz="UTC")})
line = ab.plot.latency(rows, freq="1D")
line
""",
    "heat = ab.plot.activity_heatmap(ab.load_events(ab.connect(), []))\nheat & line",
    "line.selection.shape[0], (heat & line).selection.shape[0]",
]
PICTURE = '.jp-OutputArea img[src^="data:image/svg+xml"]'
LIVE = ".jp-OutputArea svg.marks"


@pytest.fixture
def notebook(lab: Lab) -> Path:
    return write_notebook(lab.root / "charts.ipynb", CELLS)


def drag(page: Page, chart: Locator, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag over a part of a chart, given as fractions of its size."""
    box = chart.bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + begin[0] * box["width"], box["y"] + begin[1] * box["height"])
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + end[0] * box["width"], box["y"] + end[1] * box["height"], steps=5)
    page.page.mouse.up()


def test_a_chart_can_be_touched_and_is_a_picture_in_the_file(lab: Lab, page: Page, notebook: Path) -> None:
    page.open(notebook.name)
    page.run_all()
    live = page.page.locator(LIVE)
    expect(live).to_have_count(2)
    expect(page.page.locator(PICTURE).first).to_be_hidden()
    check_the_tooltip(page, live.first)
    check_that_a_brush_is_readable(page, live.first)
    check_what_is_stored(page, notebook)
    page.reload()  # the kernel keeps running
    expect(live).to_have_count(2)
    check_that_a_narrow_window_scrolls_it(page)
    assert page.errors == []
    page.end_kernels()
    page.reload()
    page.end_kernel()
    check_that_there_are_pictures_alone(page)


def check_the_tooltip(page: Page, chart: Locator) -> None:
    chart.locator("[class*=points_][class*=_marks] path").nth(1).hover()
    tip = page.page.locator("#ab-chart-tooltip.visible")
    expect(tip).to_contain_text("Fri 2026-10-02")
    expect(tip).to_contain_text("turns2")
    page.screenshot("chart-tooltip")


def check_that_a_brush_is_readable(page: Page, chart: Locator) -> None:
    drag(page, chart, (0.5, 0.4), (0.9, 0.6))
    page.screenshot("chart-brush")
    expect(chart.locator("[class*=brush_x_][class$=_brush] path")).to_be_visible()
    # The page reports a selection as it changes, and the last time once it has come to
    # rest. A combination has the selection of its parts.
    while page.output_text(2) != "(2, 2)":
        page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2; }")
        page.command("notebook:run-cell")


def check_what_is_stored(page: Page, notebook: Path) -> None:
    page.save()
    stored = nbformat.read(notebook, 4)
    outputs = [
        output.data for cell in stored.cells for output in cell.outputs if "image/svg+xml" in output.get("data", {})
    ]
    assert [set(data) for data in outputs] == [{"text/html", "image/svg+xml", "text/plain"}] * 2
    assert "widgets" not in stored.metadata
    assert notebook.stat().st_size < 150_000


def check_that_a_narrow_window_scrolls_it(page: Page) -> None:
    page.page.set_viewport_size({"width": 400, "height": 900})
    page.hide_file_browser()
    # The last of its width can be reached, and only the output moves.
    page.page.wait_for_function(
        """() => Array.from(document.querySelectorAll('.jp-OutputArea svg.marks')).every(chart => {
            const output = chart.closest('.jp-OutputArea-output');
            output.scrollLeft = output.scrollWidth;
            const { right } = output.getBoundingClientRect();
            return right <= innerWidth && chart.getBoundingClientRect().right <= right + 1;
        })"""
    )
    page.screenshot("chart-narrow")
    page.page.set_viewport_size({"width": 1200, "height": 1000})


def check_that_there_are_pictures_alone(page: Page) -> None:
    pictures = page.page.locator(PICTURE)
    expect(pictures).to_have_count(2)
    for picture in pictures.all():
        expect(picture).to_be_visible()
        assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth > 0)")
    assert page.page.locator(LIVE).count() == 0
    expect(page.page.get_by_text("widget").filter(visible=True)).to_have_count(0)  # a style hides what was live

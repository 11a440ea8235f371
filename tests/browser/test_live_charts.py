"""The module that draws live charts, in a separate page with a simulated kernel."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import agentbook
from agentbook.frames import plot
from frames.plot.test_groups import turns_of

pytestmark = pytest.mark.browser

MODULE = (Path(agentbook.__file__).parent / "frames" / "plot" / "assets" / "live.js").read_text()
NAME = "0123456789abcdef"
# In place of Vega: draws a rectangle as wide as the specification says.
VEGA = """export default async (element, spec) => {
  if (spec.description === 'broken') throw new Error('cannot draw this');
  element.innerHTML = `<svg class="marks" width="${spec.width + 40}" height="50"></svg>`;
  window.drawn = (window.drawn ?? 0) + 1;
  const listeners = {};
  window.touch = (name, value) => { listeners[name].value = value; listeners[name].forEach((heard) => heard()); };
  return {
    view: {
      addSignalListener: (name, heard) => (listeners[name] ??= []).push(heard),
      signal: (name) => listeners[name]?.value,
    },
    finalize: () => { window.drawn -= 1; },
  };
}"""
KERNEL = """async ([module, vega, name, spec]) => {
  const url = URL.createObjectURL(new Blob([module], { type: 'text/javascript' }));
  const { initialize } = (await import(url)).default;
  const bytes = Uint8Array.from(atob(vega), (character) => character.charCodeAt(0));
  window.kernels = (window.kernels ?? []);
  const heard = [], sent = [];
  const reply = (message, buffers = []) => setTimeout(() => heard.slice().forEach((handler) => handler(message, buffers)));
  const model = {
    get: () => 'version-' + bytes.length,
    on: (event, handler) => heard.push(handler),
    send: (message) => {
      if (window.kernelIsGone) throw new Error('no kernel');
      sent.push(message);
      if (message.type === 'vega') reply({ type: 'vega' }, [new DataView(bytes.buffer)]);
      if (message.type === 'charts' && message.names.includes(name)) reply({ type: 'chart', name, spec });
    },
  };
  window.kernels.push({ sent, close: initialize({ model }) });
}"""


@pytest.fixture(scope="module")
def shared_page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    yield page
    page.close()


@pytest.fixture
def page(shared_page: Page) -> Page:
    shared_page.goto("about:blank")
    return shared_page


def picture() -> str:
    drawing = plot.failures(turns_of([4]))
    return drawing.html().replace("<img ", f'<img class="ab-chart ab-chart-{NAME}" ')


def start(page: Page, html: str, vega: str = VEGA, **spec: Any) -> None:
    page.set_content(f'<div id="place">{html}</div>')
    page.locator("img").first.evaluate("picture => picture.decode()")
    start_kernel(page, vega, **spec)


def start_kernel(page: Page, vega: str = VEGA, **spec: Any) -> None:
    spec = {"width": 480, "params": [{"name": "click", "select": {"type": "point"}}], **spec}
    compressed = base64.b64encode(gzip.compress(vega.encode())).decode()
    page.evaluate(KERNEL, [MODULE, compressed, NAME, spec])


def test_a_chart_takes_the_place_of_its_picture_and_reports_what_is_selected(page: Page) -> None:
    start(page, picture() + picture().replace(NAME, "f" * 16))
    live = page.locator(".ab-live-chart")
    expect(live).to_have_count(1)
    expect(live).to_be_visible()
    expect(page.locator("img").first).to_be_hidden()
    expect(page.locator("img").last).to_be_visible()  # of a chart that this kernel does not have
    assert live.get_attribute("aria-label") == page.locator("img").first.get_attribute("alt")
    page.evaluate("window.touch('click', { _row: [3] })")
    page.wait_for_function("kernels[0].sent.some((message) => message.type === 'selection')")
    assert page.evaluate("kernels[0].sent.at(-1)") == {
        "type": "selection",
        "name": NAME,
        "selection": {"click": {"_row": [3]}},
    }


@pytest.mark.parametrize(
    ("vega", "spec"),
    [("this is no JavaScript", {}), ("throw new Error('blocked')", {}), (VEGA, {"description": "broken"})],
    ids=["a damaged script", "a script that fails", "a chart that fails"],
)
def test_whatever_fails_the_picture_stays(page: Page, vega: str, spec: dict[str, Any]) -> None:
    with page.expect_console_message(lambda message: "a chart stays a picture" in message.text):
        start(page, picture(), vega, **spec)
    expect(page.locator("img")).to_be_visible()
    expect(page.locator(".ab-live-chart")).to_have_count(0)
    page.evaluate("document.body.append(document.createElement('p'))")  # another change of the page
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator(".ab-live-chart")).to_have_count(0)


def test_a_kernel_that_is_gone_leaves_the_picture(page: Page) -> None:
    page.set_content(picture())
    page.evaluate("window.kernelIsGone = true")
    start_kernel(page)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator("img")).to_be_visible()
    page.evaluate("window.kernelIsGone = false")


def test_a_picture_out_of_the_page_takes_its_chart_along_and_brings_it_back(page: Page) -> None:
    start(page, picture())
    expect(page.locator(".ab-live-chart")).to_be_visible()
    page.evaluate("() => { window.kept = document.getElementById('place'); kept.remove(); }")
    page.wait_for_function("window.drawn === 0")
    page.evaluate("document.body.append(window.kept)")
    expect(page.locator(".ab-live-chart svg")).to_have_count(1)
    expect(page.locator("img")).to_be_hidden()
    assert page.evaluate("kernels[0].sent.filter((message) => message.type === 'charts').length") == 1


def test_a_kernel_that_ends_gives_the_picture_back(page: Page) -> None:
    start(page, picture())
    expect(page.locator(".ab-live-chart")).to_be_visible()
    page.evaluate("kernels[0].close()")
    expect(page.locator("img")).to_be_visible()
    expect(page.locator(".ab-live-chart")).to_have_count(0)
    assert page.evaluate("window.drawn") == 0


def test_two_kernels_with_an_equal_chart_draw_it_once_and_both_hear_of_a_selection(page: Page) -> None:
    start(page, picture())
    start_kernel(page)
    page.wait_for_function("kernels.length === 2 && document.querySelector('.ab-live-chart svg')")
    page.evaluate("document.getElementById('place').append(document.querySelector('img').cloneNode())")
    expect(page.locator(".ab-live-chart svg")).to_have_count(2)
    page.evaluate("window.touch('click', { _row: [1] })")
    page.wait_for_function("kernels.some((kernel) => kernel.sent.some((message) => message.type === 'selection'))")


def test_a_chart_is_as_wide_as_its_place(page: Page) -> None:
    start(page, picture(), width=560)
    svg = page.locator(".ab-live-chart svg")
    expect(svg).to_have_attribute("width", "600")
    page.evaluate("document.getElementById('place').style.width = '320px'")
    expect(svg).to_have_attribute("width", "320")
    page.evaluate("document.getElementById('place').style.width = ''")
    expect(svg).to_have_attribute("width", "600")

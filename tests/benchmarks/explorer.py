"""Measures the explorer in a real JupyterLab in headless Chromium.

    python tests/benchmarks/explorer.py [--turns 200000] [--moves 150]

A pointer brushes the chart of latency over time. Measured is the time from a move until
all views that follow from it are painted: of moves one by one, and of moves at 60 Hz as
a hand makes them, of which the newest takes the place of those that wait. Prints a
Markdown table with the goal, and the load of the machine; the exit code is 1 if the
goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.browser import running_browser
from support.lab import Lab, Page, write_notebook

GOAL_MS = 150
TESTS = Path(__file__).parents[1]
CELL = """
import sys, time
sys.path.insert(0, {tests!r})
import agentbook as ab
from chat.explorer.tables import make_turns
turns = make_turns({turns})
begin = time.perf_counter()
explorer = ab.Explorer(turns)
display(explorer)
made_s = time.perf_counter() - begin
"""
# Notes the number of each selection that leaves the page, and what arrives.
WIRE = r"""
window.wire = {sends: [], bytes: [], first: 0};
const Real = window.WebSocket;
const textOf = data => typeof data === 'string' ? data : new TextDecoder().decode(data);
window.WebSocket = class extends Real {
  constructor(...args) {
    super(...args);
    if (!String(args[0]).includes('/channels')) return;
    this.addEventListener('message', e => {
      const size = typeof e.data === 'string' ? e.data.length : e.data.byteLength;
      if (size > 4000 && textOf(e.data).includes('"kind":') ) window.wire.bytes.push(size);
    });
  }
  send(data) {
    const number = /"kind":\s*"select".*?"number":\s*(\d+)/.exec(textOf(data));
    if (number) window.wire.sends.push([performance.now(), Number(number[1])]);
    super.send(data);
  }
};
"""
# Brushes from the left: each move at `pause` ms after the last one, or, without it,
# after the last one's views were painted. Returns of each move the milliseconds until
# its views, or newer ones, were painted.
BRUSH = """([moves, pause]) => new Promise(done => {
  const root = document.querySelector('.jp-OutputArea .ab-explorer');
  const svg = root.querySelector('.ab-x-svg'), edge = svg.getBoundingClientRect();
  const times = [], paints = [], left = 80, width = edge.width - 120;
  const fire = (type, x, y) => svg.dispatchEvent(new PointerEvent(type,
    {pointerId: 1, bubbles: true, button: 0, buttons: 1, clientX: edge.left + x, clientY: edge.top + y}));
  svg.setPointerCapture = () => {};
  const at = n => left + width * (0.1 + 0.85 * Math.abs(((n * 7) % (2 * moves)) / moves - 1));
  const after = new MessageChannel();
  after.port1.onmessage = () => {
    paints.push([performance.now(), Number(root.dataset.answered)]);
    if (reflected(times[times.length - 1]) === null) return;
    if (pause === null) next();
    else if (times.length === moves) finish();
  };
  const watcher = new MutationObserver(() => requestAnimationFrame(() => after.port2.postMessage(0)));
  watcher.observe(root, {attributes: true, attributeFilter: ['data-answered']});
  const reflected = time => {
    const sent = window.wire.sends.find(([when]) => when >= time);
    const paint = sent && paints.find(([, number]) => number >= sent[1]);
    return paint ? paint[0] - time : null;
  };
  let n = 0;
  const move = () => { times.push(performance.now()); fire('pointermove', at(n), 60 + 60 * (n % 3)); n += 1; };
  const next = () => n < moves ? move() : finish();
  const finish = () => { watcher.disconnect(); after.port1.close(); fire('pointerup', at(n), 60); done(times.map(reflected)); };
  fire('pointerdown', left, 180);
  if (pause === null) move();
  else { const timer = setInterval(() => { if (n < moves) move(); else clearInterval(timer); }, pause); }
})"""
# The last selection, that of the released pointer, is answered too.
SETTLED = """() => {
  const last = window.wire.sends[window.wire.sends.length - 1];
  return Number(document.querySelector('.jp-OutputArea .ab-explorer').dataset.answered) >= last[1];
}"""
MARKS = """() => {
  const root = document.querySelector('.jp-OutputArea .ab-explorer');
  const drawn = [...root.querySelectorAll('path')].map(path => (path.getAttribute('d') || '').split('M').length - 1);
  return drawn.reduce((a, b) => a + b, 0) + root.querySelectorAll('td, button, text').length;
}"""


def measure(page: Page, moves: int, pause_ms: float | None) -> list[float]:
    page.page.evaluate("() => { window.wire.sends.length = 0; window.wire.bytes.length = 0; }")
    latencies: list[float | None] = page.page.evaluate(BRUSH, [moves, pause_ms])
    assert None not in latencies, "a move was never drawn"
    page.page.wait_for_function(SETTLED)
    return [latency for latency in latencies if latency is not None]


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def row(label: str, values: list[float]) -> bool:
    p95 = percentile(values, 0.95)
    met = p95 <= GOAL_MS
    figures = f"{statistics.median(values):.0f} / {p95:.0f} / {max(values):.0f} ms"
    print(f"| {label} | {figures} | {GOAL_MS} ms at p95 | {'met' if met else '**missed**'} |", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200_000)
    parser.add_argument("--moves", type=int, default=150)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        lab = Lab(Path(folder))
        try:
            return run(lab, browser, options.turns, options.moves)
        finally:
            lab.stop()


def run(lab: Lab, browser: Any, turns: int, moves: int) -> int:
    write_notebook(lab.root / "explorer.ipynb", [CELL.format(tests=str(TESTS), turns=turns), "print(made_s)"])
    page = Page(lab, browser)
    page.page.add_init_script(WIRE)
    page.open("explorer.ipynb")
    page.run_all()
    page.page.locator(".ab-explorer .ab-x-svg").scroll_into_view_if_needed()
    made_s = float(page.output_text(1))
    marks = page.page.evaluate(MARKS)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\n{turns:,} turns; {os.cpu_count()} cores, load {load}\n")
    print("| from a move to the views that follow from it | p50 / p95 / max | goal | |\n|---|---|---|---|")
    measure(page, 10, None)
    met = row("moves one by one", measure(page, moves, None))
    size = page.page.evaluate("() => window.wire.bytes.reduce((a, b) => a + b, 0) / window.wire.bytes.length")
    met = row("moves at 60 Hz", measure(page, moves, 1000 / 60)) and met
    print(f"\nMade and shown in {made_s:.1f} s; {marks:,} marks in the page; {size / 1000:.0f} kB per change")
    assert page.errors == []
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

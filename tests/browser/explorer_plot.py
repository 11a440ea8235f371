"""Finds dots in an explorer's plot of latency over time."""

from __future__ import annotations

from playwright.sync_api import Locator, Position

# Where the slowest selected answered turn is drawn. Turns outside the brush are drawn
# too, and may be slower. Dots are drawn from the quickest to the slowest, each as a
# stroke of length zero. Read once the plot and its position are stable for some frames.
_SLOWEST_DOT = """async plot => {
  const read = () => {
    const brush = plot.querySelector('.ab-x-brush');
    const width = brush ? Number(brush.getAttribute('width')) : 0;
    const [begin, end] = width ? [0, width].map(by => Number(brush.getAttribute('x')) + by) : [-Infinity, Infinity];
    const dots = plot.querySelector('.ab-x-dots:not(.ab-x-bad)').getAttribute('d').match(/M[^M]+/g)
      .map(dot => dot.slice(1).split('h')[0].split(' ').map(Number));
    const [x, y] = dots.filter(([x]) => x > begin + 0.5 && x < end - 0.5).pop();
    const { left, top } = plot.getBoundingClientRect();
    return { x, y, left, top };
  };
  let before = read();
  for (let same = 0; same < 10; ) {
    await new Promise(requestAnimationFrame);
    const now = read();
    same = JSON.stringify(now) === JSON.stringify(before) ? same + 1 : 0;
    before = now;
  }
  return { x: before.x, y: before.y };
}"""


def slowest_dot(plot: Locator) -> Position:
    """Where the slowest selected answered turn is drawn in the plot."""
    dot: Position = plot.evaluate(_SLOWEST_DOT)
    return dot

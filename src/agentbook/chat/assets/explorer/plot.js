/* Latency over time: cells, dots and lines that can be brushed and clicked. */
import {
  barPath,
  brushBox,
  brushed,
  cellPaths,
  clock,
  dotPath,
  dotsClass,
  duration,
  LEVELS,
  linePath,
  nearest,
  number,
  plane,
  stepped,
  turns,
} from "./marks.js";
import { drawn, element, set } from "../core/dom.js";
import { section } from "./lists.js";

const HEIGHT = { plot: 176, strip: 34, all: 246 };
const LEFT = 50;
const KEYS =
  "Latency over time. Left and right arrows select and move a period; with Shift they change its end. " +
  "Up and down arrows change the minimum latency. Enter opens the slowest selected turn, Escape clears.";

export function latencyView(state, act) {
  const path = (name) => drawn("path", { class: name });
  const cells = Array.from({ length: LEVELS }, (_, n) => path(`ab-x-cell ab-x-l${n + 1}`));
  const [bars, failedBars] = [path("ab-x-bar"), path("ab-x-bar ab-x-bad")];
  const [median, slow] = [path("ab-x-line"), path("ab-x-line ab-x-slow")];
  const [dots, failedDots] = [path("ab-x-dots"), path("ab-x-dots ab-x-bad")];
  const here = drawn("circle", { class: "ab-x-ring", r: 7 });
  const brush = drawn("rect", { class: "ab-x-brush", rx: 3 });
  const [grid, names] = [drawn("g", { class: "ab-x-grid" }), drawn("g", { class: "ab-x-ticks" })];
  const svg = drawn(
    "svg",
    { class: "ab-x-svg", "aria-hidden": "true", height: HEIGHT.all },
    grid,
    ...cells,
    bars,
    failedBars,
    slow,
    median,
    dots,
    failedDots,
    brush,
    here,
    names,
  );
  const tip = element("div", { class: "ab-x-tip", hidden: "" });
  const box = element("div", { class: "ab-x-plot", tabindex: 0, role: "application", "aria-label": KEYS }, svg, tip);
  const legend = element("div", { class: "ab-x-legend" });
  for (const [name, text] of [
    ["line", "median"],
    ["slow", "95th percentile"],
    ["one", "turn"],
    ["bad", "failed"],
  ]) {
    legend.append(element("span", { class: `ab-x-key ab-x-key-${name}` }, text));
  }
  let at = null;
  let drag = null;
  let shown = {}; // the drawn values and plane; a brush changes neither

  function layout() {
    const width = box.clientWidth;
    if (!width || !state.fixed.axes) return;
    const axes = state.fixed.axes;
    at = plane(axes, { left: LEFT, top: 8, width: Math.max(width - LEFT - 8, 60), height: HEIGHT.plot });
    set(svg, "width", width);
    const base = at.plot.top + at.plot.height + HEIGHT.strip + 6;
    grid.replaceChildren();
    names.replaceChildren();
    const text = (x, y, words, anchor) => {
      names.append(drawn("text", { x, y, "text-anchor": anchor }, words));
    };
    let above = Infinity;
    for (const [value, name] of axes.latency_ticks) {
      if (above - at.y(value) < 16) continue; // labels must not overlap
      above = at.y(value);
      grid.append(drawn("path", { d: `M${LEFT} ${at.y(value)}h${at.plot.width}` }));
      text(LEFT - 6, at.y(value) + 4, name, "end");
    }
    let free = 0;
    for (const [ms, name] of axes.time_ticks) {
      const x = at.x(ms);
      const half = name.length * 3.2;
      if (x - half < free || x + half > width) continue;
      free = x + half + 6;
      grid.append(drawn("path", { d: `M${x} ${base}v4` }));
      text(x, base + 16, name, "middle");
    }
    draw();
  }

  function draw() {
    if (!at) return;
    const view = state.current.latency;
    if (view !== shown.view || at !== shown.at) drawTurns(view);
    const open = state.conversation && view.dots.find((dot) => dot[0] === state.conversation.row);
    set(here, "visibility", open ? "visible" : "hidden");
    if (open) {
      set(here, "cx", at.x(open[1]));
      set(here, "cy", at.y(open[2]));
    }
    drawBrush();
  }

  function drawTurns(view) {
    shown = { view, at };
    cellPaths(view.cells, at).forEach((d, n) => set(cells[n], "d", d));
    const largest = Math.max(1, ...view.turns);
    const base = at.plot.top + at.plot.height + HEIGHT.strip + 6;
    set(bars, "d", barPath(view.turns, largest, HEIGHT.strip, base, at));
    set(failedBars, "d", barPath(view.failed, largest, HEIGHT.strip, base, at));
    set(median, "d", linePath(view.p50, at));
    set(slow, "d", linePath(view.p95, at));
    const kind = dotsClass(view.dots.length);
    set(dots, "class", kind);
    set(failedDots, "class", `${kind} ab-x-bad`);
    const those = (failed) => view.dots.filter((dot) => Boolean(state.fixed.failing[dot[3]]) === failed);
    set(dots, "d", dotPath(those(false), at));
    set(failedDots, "d", dotPath(those(true), at));
  }

  function drawBrush() {
    const part = at && brushBox(state.filters, at);
    set(brush, "visibility", part ? "visible" : "hidden");
    if (part) for (const [name, value] of Object.entries(part)) set(brush, name, value);
  }

  const point = (event) => {
    const edge = svg.getBoundingClientRect();
    return { x: event.clientX - edge.left, y: event.clientY - edge.top };
  };
  const along = ({ x, y }) => (x < LEFT ? "latency" : y > at.plot.top + at.plot.height + 2 ? "time" : "both");

  svg.addEventListener("pointerdown", (event) => {
    if (event.button || !at) return;
    const from = point(event);
    drag = { from, along: along(from), moved: false };
    svg.setPointerCapture(event.pointerId);
    hideTip();
  });
  svg.addEventListener("pointermove", (event) => {
    if (!at) return;
    const to = point(event);
    if (!drag) {
      showTip(to);
      return;
    }
    if (!drag.moved && Math.hypot(to.x - drag.from.x, to.y - drag.from.y) < 4) return;
    drag.moved = state.dragging = true;
    act.select(brushed(drag.from, to, drag.along, at));
  });
  const end = (event) => {
    if (!drag) return;
    const { moved, from } = drag;
    drag = null;
    state.dragging = false;
    if (moved || event.type === "pointercancel") {
      act.settled();
      return;
    }
    const dot = nearest(state.current.latency.dots, from.x, from.y, at, 12);
    if (dot) act.open(dot[0]);
    else act.select({ begin: null, end: null, low: null, high: null });
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("pointerleave", hideTip);

  function hideTip() {
    tip.hidden = true;
  }

  function showTip(to) {
    const dot = nearest(state.current.latency.dots, to.x, to.y, at, 10);
    const lines = dot ? aboutDot(dot) : aboutPeriod(to);
    set(svg, "class", `ab-x-svg ab-x-over-${dot ? "dot" : along(to)}`);
    if (!lines) {
      hideTip();
      return;
    }
    tip.replaceChildren(...lines.map((line, n) => element("div", n ? {} : { class: "ab-x-strong" }, line)));
    tip.hidden = false;
    const right = to.x > box.clientWidth / 2;
    tip.style.left = right ? "auto" : `${to.x + 14}px`;
    tip.style.right = right ? `${box.clientWidth - to.x + 14}px` : "auto";
    tip.style.top = `${Math.max(to.y - 20, 0)}px`;
  }

  function aboutDot([, ms, latency, outcome, group, text]) {
    const { tz } = state.fixed;
    return [
      `${group}: ${duration(latency)}`,
      `${clock(ms, tz)}, ${state.fixed.outcomes[outcome]}`,
      text,
      "Click to read it",
    ].filter(Boolean);
  }

  function aboutPeriod(to) {
    const { axes, tz } = state.fixed;
    const n = Math.floor((at.moment(to.x) - axes.begin) / axes.length);
    const view = state.current.latency;
    if (to.x < LEFT || n < 0 || n >= axes.periods || !view.turns[n]) return null;
    const failed = view.failed[n] ? `, ${number(view.failed[n])} failed` : "";
    const lines = [`${clock(axes.begin + n * axes.length, tz)}, ${axes.period}`, `${turns(view.turns[n])}${failed}`];
    return view.p50[n] === null
      ? lines
      : [...lines, `median ${duration(view.p50[n])}, 95th percentile ${duration(view.p95[n])}`];
  }

  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") act.select({ begin: null, end: null, low: null, high: null });
    else if (event.key === "Enter" && state.current.table.rows.length) act.openSlowest();
    else {
      const part = stepped(state.filters, event.key, event.shiftKey, state.fixed.axes);
      if (!part) return;
      act.select(part);
    }
    event.preventDefault();
  });

  const watch = new ResizeObserver(layout);
  watch.observe(box);
  const root = section("latency", "Latency over time", legend, box);
  return { root, draw, drawFilters: drawBrush, layout, end: () => watch.disconnect() };
}

/* Run by test_modules.py on the joined module. */
import assert from "node:assert/strict";
import test from "node:test";
import * as explorer from "./explorer.mjs";

const axes = { begin: 0, length: 1000, periods: 10, low: 0.1, high: 100, bands: 3 };
const at = explorer.plane(axes, { left: 50, top: 10, width: 100, height: 90 });
const none = { begin: null, end: null, low: null, high: null };

test("scales and their inverses agree", () => {
  for (const ms of [0, 2500, 10000]) assert.ok(Math.abs(at.moment(at.x(ms)) - ms) < 1e-6);
  for (const seconds of [0.1, 3, 100]) assert.ok(Math.abs(at.seconds(at.y(seconds)) / seconds - 1) < 1e-9);
  assert.equal(at.y(0), 100); // what is quicker than the axis is at its end
});

test("a brush selects what it covers, and an end at the edge is open", () => {
  assert.deepEqual(explorer.brushed({ x: 70, y: 0 }, { x: 120, y: 0 }, "time", at), { begin: 2000, end: 7000 });
  assert.deepEqual(explorer.brushed({ x: 120, y: 5 }, { x: 400, y: 200 }, "both", at), {
    begin: 7000,
    end: null,
    low: null,
    high: null,
  });
  const band = explorer.brushed({ x: 0, y: 40 }, { x: 0, y: 300 }, "latency", at);
  assert.equal(band.low, null);
  assert.ok(Math.abs(band.high - 10) < 1e-9);
});

test("the brush is drawn where it selects", () => {
  assert.equal(explorer.brushBox(none, at), null);
  assert.deepEqual(explorer.brushBox({ ...none, begin: 2000, end: 7000 }, at), { x: 70, y: 10, width: 50, height: 90 });
});

test("arrows move the selected span within the axis", () => {
  const first = explorer.stepped(none, "ArrowRight", false, axes);
  assert.deepEqual(first, { begin: 0, end: 1000 });
  assert.deepEqual(explorer.stepped({ ...none, ...first }, "ArrowLeft", false, axes), first);
  assert.deepEqual(explorer.stepped({ ...none, ...first }, "ArrowRight", true, axes), { begin: 0, end: 2000 });
  assert.deepEqual(explorer.stepped(none, "ArrowLeft", false, axes), { begin: 9000, end: 10000 });
  const higher = explorer.stepped(none, "ArrowUp", false, axes);
  assert.ok(Math.abs(higher.low - 1) < 1e-9);
  assert.deepEqual(explorer.stepped({ ...none, ...higher }, "ArrowDown", false, axes), { low: null });
  assert.equal(explorer.stepped(none, "a", false, axes), null);
});

test("hours: blocks, neighbours, and clicks", () => {
  assert.deepEqual(explorer.block(25, 2), [1, 2, 25, 26]);
  assert.equal(explorer.neighbour(23, "ArrowRight"), 23);
  assert.equal(explorer.neighbour(23, "ArrowDown"), 47);
  assert.equal(explorer.neighbour(5, "x"), null);
  assert.deepEqual(explorer.toggled([], 3, false), [3]);
  assert.deepEqual(explorer.toggled([3], 3, false), []);
  assert.deepEqual(explorer.toggled([3], 4, true), [3, 4]);
  assert.deepEqual(explorer.toggled([3, 4], 3, true), [4]);
});

test("the nearest dot is hit, within reach", () => {
  const dots = [
    [7, 2000, 1],
    [8, 2100, 1],
    [9, 9000, 50],
  ];
  assert.equal(explorer.nearest(dots, at.x(2090), at.y(1), at, 5)[0], 8);
  assert.equal(explorer.nearest(dots, at.x(5000), at.y(1), at, 5), null);
});

test("paths: one for each shade, gaps in lines", () => {
  const paths = explorer.cellPaths([0, 1, 4, 100], at);
  assert.equal(paths.length, explorer.LEVELS);
  assert.equal(paths[0], "M50.0 70.0h10.0v30.0h-10.0z");
  assert.equal(paths[5], "M60.0 40.0h10.0v30.0h-10.0z");
  assert.equal(explorer.linePath([1, null, 1, 10], at), "M55.0 70.0h0M75.0 70.0L85.0 40.0");
  assert.equal(explorer.dotPath([[1, 0, 1]], at), "M50.0 70.0h0");
  assert.equal(explorer.level(0, 10), 0);
});

test("few dots are large", () => {
  assert.equal(explorer.dotsClass(4), "ab-x-dots ab-x-few");
  assert.equal(explorer.dotsClass(51), "ab-x-dots");
});

test("words", () => {
  assert.deepEqual([0.04, 5.42, 75, 620, 7400, null].map(explorer.duration), [
    "40 ms",
    "5.4 s",
    "1 min 15 s",
    "10 min",
    "2 h 3 min",
    "–",
  ]);
  assert.equal(explorer.turns(1200), "1,200 turns");
});

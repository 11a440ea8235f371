/* Run by test_results_table.py on the joined module. */
import assert from "node:assert/strict";
import test from "node:test";
import * as results from "./results.mjs";

const reply = (part) => ({
  repeat: 1,
  status: "answered",
  text: "",
  passed: null,
  before: null,
  verdicts: [],
  seconds: null,
  thumb: null,
  ...part,
});
const row = (id, ...cells) => ({ id, input: `input ${id}`, cells: cells.map((part) => [part].flat().map(reply)) });
const look = (part) => ({ filter: "all", search: "", sort: "", descending: false, ...part });
const ids = (rows) => rows.map((each) => each.id);

test("rows are filtered by what failed, what differs and what turned", () => {
  const rows = [
    row(0, { passed: true }, { passed: true }),
    row(1, { passed: true }, { passed: false }),
    row(2, { status: "failed" }, { status: "asking" }),
    row(3, { passed: true, before: false }, { passed: true, thumb: true }),
    row(4, [{ passed: true }, { passed: false }], [{ passed: false }, { passed: true }]),
  ];
  const shown = (filter) => ids(results.arrange(rows, look({ filter })));
  assert.deepEqual(shown("all"), [0, 1, 2, 3, 4]);
  assert.deepEqual(shown("failures"), [1, 2, 4]);
  assert.deepEqual(shown("disagreements"), [1]); // the average over repeats counts
  assert.deepEqual(shown("changed"), [3]);
  assert.deepEqual(results.counts(rows), { all: 5, failures: 3, disagreements: 1, changed: 1 });
});

test("a check that scores differ in is no disagreement unless one fails", () => {
  assert.equal(results.disagrees(row(0, { verdicts: [[true, 0.9]] }, { verdicts: [[true, 0.6]] })), false);
  assert.equal(results.disagrees(row(0, { verdicts: [[true, 0.9]] }, { verdicts: [[false, 0.4]] })), true);
  assert.equal(results.disagrees(row(0, { thumb: true }, { thumb: false })), true);
  assert.equal(results.disagrees(row(0, { thumb: true }, {})), false);
});

test("rows are sorted by a check, and those without a verdict come last", () => {
  const rows = [
    row(0, { verdicts: [[true, 0.9]] }),
    row(1, { verdicts: [null] }),
    row(2, { verdicts: [[false, 0.1]] }),
    row(3, { verdicts: [[true, null]] }),
  ];
  assert.deepEqual(ids(results.arrange(rows, look({ sort: "check 0" }))), [2, 0, 3, 1]);
  assert.deepEqual(ids(results.arrange(rows, look({ sort: "check 0", descending: true }))), [3, 0, 2, 1]);
  assert.deepEqual(ids(results.arrange(rows, look({ descending: true }))), [3, 2, 1, 0]);
});

test("a search looks at inputs and replies", () => {
  const rows = [row(0, { text: "A Session is…" }), row(1, { text: "No." })];
  assert.deepEqual(ids(results.arrange(rows, look({ search: " session " }))), [0]);
  assert.deepEqual(ids(results.arrange(rows, look({ search: "INPUT 1" }))), [1]);
});

test("the hidden order is a permutation that stays, and differs between rows", () => {
  const orders = Array.from({ length: 40 }, (_, id) => results.shuffled(3, "seed", id));
  for (const order of orders) assert.deepEqual([...order].sort(), [0, 1, 2]);
  assert.deepEqual(orders[7], results.shuffled(3, "seed", 7));
  const firsts = [0, 1, 2].map((first) => orders.filter((order) => order[0] === first).length);
  assert.ok(
    firsts.every((count) => count > 5),
    String(firsts),
  );
  assert.deepEqual([0, 25, 26, 27].map(results.letter), ["A", "Z", "AA", "AB"]);
});

test("a variant's tally counts what failed, and what was judged", () => {
  const rows = [row(0, { passed: true }), row(1, { passed: false }), row(2, { status: "failed" }), row(3, {})];
  assert.deepEqual(results.tally(rows, 0), [1, 3]);
});

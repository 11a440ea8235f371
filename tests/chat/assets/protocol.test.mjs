/* The page's copy of a panel's state: what it takes, what it ignores, what it misses. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import {
  applyPatch,
  applySnapshot,
  emptyChanges,
  emptyState,
  piecesOf,
} from "../../../src/agentbook/chat/assets/core/protocol.js";
import { wholeSentences } from "../../../src/agentbook/chat/assets/panel/speech.js";

const SNAPSHOT = {
  kind: "snapshot",
  version: 3,
  fields: { name: "guide" },
  turns: [["t1", { html: { question: "<p>Hi</p>" }, data: { pending: true }, body: "<p>a</p>", cuts: [8], final: 0 }]],
};
const patch = (version, ...ops) => ({ version, ops });

function opened() {
  const state = emptyState();
  assert.ok(applySnapshot(state, structuredClone(SNAPSHOT)));
  return state;
}

/* A state as plain values, in the form of a snapshot. */
function plainly(state) {
  const turns = state.order.map((id) => {
    const { html, data, body, cuts, final } = state.turns.get(id);
    const values = { html: Object.fromEntries(html), data: Object.fromEntries(data) };
    return [id, cuts.length ? { ...values, body, cuts, final } : values];
  });
  return { fields: state.fields, turns };
}

test("patches are applied in their order", () => {
  const state = opened();
  const changes = emptyChanges();
  const next = patch(4, ["body", "t1", 4, 4, "bc</p><p>d</p>", 0, [10, 18], 1], ["field", "status", ["Ready.", false]]);
  assert.ok(applyPatch(state, next, changes));
  assert.deepEqual(piecesOf(state.turns.get("t1")), ["<p>abc</p>", "<p>d</p>"]);
  assert.deepEqual([...changes.turns.get("t1")], ["body"]);
  assert.deepEqual([...changes.fields], ["status"]);
  const grown = patch(5, ["body", "t1", 14, 0, "!"], ["html", "t1", "question", 3, 2, "Ho"]);
  assert.ok(applyPatch(state, grown, changes));
  assert.deepEqual(piecesOf(state.turns.get("t1")), ["<p>abc</p>", "<p>d!</p>"]);
  assert.equal(state.turns.get("t1").html.get("question"), "<p>Ho</p>");
});

test("a patch that does not fit asks for a snapshot", () => {
  const wrong = [
    ["html", "t9", "question", 0, 0, "x"],
    ["html", "t1", "question", 99, 0, "x"],
    ["html", "t1", "question", -1, 0, "x"],
    ["html", "t1", "question", 3, 7, "x"],
    ["html", "t1", "question", 0, null, "x"],
    ["html", "t1", "question", 0, 0, 7],
    ["body", "t9", 0, 0, "x"],
    ["body", "t1", 0, 9, "x"],
    ["body", "t1", 0, 8, "x", 0],
    ["body", "t1", 0, 8, "<p>x</p>", 0, [3], 0],
    ["body", "t1", 0, 8, "<p>x</p>", 5, [8], 0],
    ["body", "t1", 0, 8, "abc", 0, [2, 1, 3], 0],
    ["turns", 4, 0, ["t2"]],
    ["turns", 0, 9, []],
    ["turns", 0, 0, ["t1"]],
    ["turns", 0, 0, [null]],
    ["data", "t9", "retry", null],
    ["constructor"],
    ["__proto__", 1],
    "field",
    null,
  ];
  for (const op of wrong) {
    const state = opened();
    assert.equal(applyPatch(state, patch(4, op), emptyChanges()), false, JSON.stringify(op));
    assert.ok(applySnapshot(state, structuredClone(SNAPSHOT)));
    assert.deepEqual(plainly(state), { fields: SNAPSHOT.fields, turns: SNAPSHOT.turns });
  }
});

/* The same numbers in each run. */
function random(seed) {
  let value = seed;
  return (end) => {
    value = (value * 1103515245 + 12345) % 2147483648;
    return value % end;
  };
}

test("garbage is never an exception", () => {
  const next = random(7);
  const atoms = [null, true, -1, 0, 3, 4, 1e9, NaN, "", "t1", "turns", "html", "body", "field", "question", [], {}];
  const make = (depth) => {
    if (depth === 0 || next(3)) return atoms[next(atoms.length)];
    return next(2)
      ? Array.from({ length: next(5) }, () => make(depth - 1))
      : {
          version: make(0),
          ops: make(depth - 1),
          fields: make(0),
          turns: make(depth - 1),
          [atoms[next(4) + 8]]: make(0),
        };
  };
  const state = opened();
  for (let n = 0; n < 5000; n += 1) {
    const message = (next(4) ? make(4) : patch(4, make(3), make(3))) ?? {};
    applyPatch(state, message, emptyChanges());
    applySnapshot(state, next(9) ? message : structuredClone(SNAPSHOT));
    for (const id of state.order) assert.ok(state.turns.has(id));
    for (const turn of state.turns.values()) assert.equal(piecesOf(turn).join(""), turn.body);
  }
});

test("what the kernel sends leads to what the kernel has", { skip: !process.env.AGENTBOOK_PATCHES }, () => {
  const { messages, end } = JSON.parse(readFileSync(process.env.AGENTBOOK_PATCHES, "utf-8"));
  const state = emptyState();
  assert.ok(applySnapshot(state, messages[0]));
  for (const message of messages.slice(1))
    assert.ok(applyPatch(state, structuredClone(message), emptyChanges()), JSON.stringify(message));
  assert.deepEqual(plainly(state), { fields: end.fields, turns: end.turns });
});

test("sentences are whole", () => {
  const spoken = (text, from = 0) => text.slice(from, wholeSentences(text, from));
  assert.equal(spoken("One. Two"), "One.");
  assert.equal(spoken("Version 3.11 of it"), "");
  assert.equal(spoken("One. Two! Three", 4), " Two!");
  assert.equal(spoken("A heading\nand a li"), "A heading\n");
  assert.equal(spoken('He said "yes." Then'), 'He said "yes.');
});

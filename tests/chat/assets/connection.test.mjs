/* Modules that were loaded late, or missed a message: what they ask the kernel for. */
import assert from "node:assert/strict";
import test, { mock } from "node:test";
import { openConnection } from "../../../src/agentbook/chat/assets/core/connection.js";
import explorer from "../../../src/agentbook/chat/assets/explorer/explorer.js";
import results from "../../../src/agentbook/chat/assets/lab/results.js";

/* A widget's model: what it says, and what its kernel says. */
class Model {
  constructor(snapshot = null) {
    this.snapshot = snapshot;
    this.listeners = new Map();
    this.sent = [];
  }
  get() {
    return this.snapshot;
  }
  on(name, listener) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
  }
  off(name, listener) {
    this.listeners.set(
      name,
      this.listeners.get(name).filter((each) => each !== listener),
    );
  }
  send(message) {
    this.sent.push(message);
  }
  receive(message) {
    for (const listener of this.listeners.get("msg:custom") ?? []) listener(message);
  }
  get hellos() {
    return this.sent.filter((message) => message.do === "hello").map(({ count, version }) => [count, version]);
  }
}

/* A state that is a number: messages add to it. */
function counter(model) {
  const state = { version: 1, gone: "" };
  const connection = openConnection(model, state, {
    replace: (message) => !message.wrong,
    apply: (message) => !message.wrong,
    ended: (words) => (state.gone = words),
  });
  return { state, connection };
}

test("a page says which version it shows until it is answered", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const model = new Model();
  const { connection } = counter(model);
  for (let n = 0; n < 3; n++) mock.timers.tick(4000);
  assert.deepEqual(
    model.hellos,
    [1, 2, 3, 4].map((count) => [count, 1]),
  );
  model.receive({ kind: "welcome" });
  mock.timers.tick(60_000);
  assert.equal(model.hellos.length, 4);
  connection.close();
  mock.timers.reset();
});

test("a snapshot that was overtaken by a message is asked for again, once", () => {
  const model = new Model();
  const { state, connection } = counter(model);
  model.receive({ version: 4 });
  model.receive({ version: 4 });
  assert.equal(model.hellos.length, 2); // the first of all, and one for the gap
  model.receive({ kind: "snapshot", version: 3 });
  assert.deepEqual([state.version, model.hellos.length], [3, 3]);
  model.receive({ kind: "snapshot", version: 4 });
  model.receive({ version: 5 });
  assert.deepEqual([state.version, model.hellos.length], [5, 3]);
  connection.close();
});

test("a message that is known changes nothing, and one that does not fit asks for a snapshot", () => {
  const model = new Model();
  const { state, connection } = counter(model);
  for (const message of [{ version: 1 }, { version: 0 }, { version: "2" }, {}, null, "x", { kind: "snapshot" }])
    model.receive(message);
  assert.deepEqual([state.version, model.hellos.length], [1, 1]);
  model.receive({ version: 2, wrong: true });
  assert.deepEqual([state.version, model.hellos.at(-1)], [-1, [1, -1]]);
  model.receive({ kind: "snapshot", version: 2, wrong: true });
  assert.equal(state.version, -1);
  model.receive({ kind: "snapshot", version: 2 });
  assert.equal(state.version, 2);
  model.receive({ kind: "snapshot", version: 1 });
  assert.equal(state.version, 2, "an older one");
  connection.close();
});

test("a kernel that has ended is told once, and nothing is sent to it", () => {
  const model = new Model();
  const { state, connection } = counter(model);
  for (const listener of model.listeners.get("comm_live_update")) listener();
  assert.match(state.gone, /restarted.*cells above/); // a cell alone would not know the names it uses
  assert.equal(connection.send({}), false);
  assert.equal(model.sent.length, 1);
  connection.close();
  assert.deepEqual([...model.listeners.values()].flat(), []);
});

const current = (turns) => ({ filters: {}, changes: {}, summary: { turns }, table: { rows: [] } });
const EXPLORER = { kind: "snapshot", version: 2, fixed: { version: 1 }, current: current(9), conversation: null };
const ROWS = { kind: "snapshot", version: 2, head: { variants: [], checks: [], seed: "" }, order: [], rows: [] };

for (const [name, start, snapshot, message] of [
  ["explorer", explorer, EXPLORER, (version) => ({ kind: "views", version, number: null, current: current(version) })],
  ["table of results", results, ROWS, (version) => ({ kind: "rows", version, head: null, order: null, rows: [] })],
]) {
  test(`the ${name} asks for what came while its module was loading`, () => {
    const model = new Model(snapshot);
    const end = start().initialize({ model });
    assert.deepEqual(model.hellos, [[1, 2]]);
    model.receive({ ...snapshot, version: 4 });
    model.receive(message(5));
    assert.equal(model.hellos.length, 1);
    model.receive(message(7)); // one is missing
    assert.deepEqual(model.hellos.at(-1), [1, 5]);
    model.receive({ ...snapshot, version: 7 });
    model.receive(message(7));
    model.receive(message(8));
    model.receive(message(10));
    assert.deepEqual(model.hellos.at(-1), [1, 8]);
    assert.equal(model.hellos.length, 3);
    end();
  });
}

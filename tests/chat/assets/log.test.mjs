/* The log of a panel: which turns it shows, in which order, and where it stands. */
import assert from "node:assert/strict";
import test from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
for (const name of ["window", "document", "Event"]) globalThis[name] = window[name];
const { logView } = await import("../../../src/agentbook/chat/assets/panel/log.js");

const ALL = { all: true, order: true, turns: new Map() };
const ORDER = { all: false, order: true, turns: new Map() };

/* A log in the page, whose turns are texts. */
class Log {
  constructor(...ids) {
    this.state = { fields: { empty: "<p>Nothing yet</p>", height: "300px" }, order: [], turns: new Map() };
    this.made = [];
    this.view = logView(
      this.state,
      () => {},
      (id) => this.make(id),
    );
    document.body.replaceChildren(this.view.root);
    this.box = this.find(".ab-log");
    this.show(ids, ALL);
  }

  make(id) {
    this.made.push(id);
    const root = document.createElement("article");
    return { root, draw: (text) => (root.textContent = text) };
  }

  find(selector) {
    return this.view.root.querySelector(selector);
  }

  show(ids, changes = ORDER, text = (id) => id) {
    this.state.order = ids;
    this.state.turns = new Map(ids.map((id) => [id, text(id)]));
    this.view.draw(changes);
  }

  get texts() {
    return [...this.find(".ab-inner").children].map((each) => each.textContent);
  }
}

test("turns are placed, removed, and made once", () => {
  const log = new Log("a", "b");
  log.show(["b", "c", "a"]);
  assert.deepEqual(log.texts, ["b", "c", "a"]);
  log.show([]);
  assert.deepEqual(log.texts, ["Nothing yet"]);
  assert.deepEqual(log.made, ["a", "b", "c"]);
  log.show(["a"]);
  assert.deepEqual(log.texts, ["a"]);
  assert.deepEqual(log.made, ["a", "b", "c", "a"], "what was removed is kept nowhere");
});

test("a snapshot draws turns anew that are there already, and nothing else does", () => {
  const log = new Log("a", "b");
  const next = (id) => `${id}, later`;
  log.show(["a", "b"], { ...ORDER, turns: new Map([["b", {}]]) }, next);
  assert.deepEqual(log.texts, ["a", "b, later"]);
  log.state.fields.height = "200px";
  log.show(["a", "b"], ORDER, next);
  assert.equal(log.view.root.getAttribute("style"), "height: 300px");
  log.show(["a", "b"], ALL, next);
  assert.deepEqual(log.texts, ["a, later", "b, later"]);
  assert.equal(log.view.root.getAttribute("style"), "height: 200px");
});

test("only a long conversation is laid out near the view alone", () => {
  const ids = Array.from({ length: 101 }, (_, n) => `t${n}`);
  const log = new Log(...ids.slice(1));
  const isMany = () => log.find(".ab-inner").classList.contains("ab-many");
  assert.equal(isMany(), false);
  log.show(ids);
  assert.equal(isMany(), true);
  log.show(ids.slice(1));
  assert.equal(isMany(), false);
});

test("the button leads to the end, and gives the log the focus for its keys", () => {
  const log = new Log("a");
  const latest = log.find(".ab-latest");
  for (const [top, isFar] of [
    [-48, false],
    [-49, true],
  ]) {
    log.box.scrollTop = top;
    log.box.dispatchEvent(new Event("scroll"));
    assert.equal(latest.hidden, !isFar, `at ${top}`);
  }
  latest.click();
  assert.deepEqual([log.box.scrollTop, latest.hidden], [0, true]);
  assert.equal(document.activeElement, log.box);
});

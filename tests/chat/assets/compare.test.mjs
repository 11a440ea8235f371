/* The module of a comparison in a page without a browser. */
import assert from "node:assert/strict";
import test from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
for (const name of ["window", "document", "Event", "MutationObserver", "requestAnimationFrame"]) {
  globalThis[name] = name === "window" ? window : window[name];
}
const { default: start } = await import("../../../src/agentbook/chat/assets/compare/compare.js");

const choice = (side, more = {}) => ({
  round: "r1",
  choice: side,
  label: `Prefer ${side}`,
  title: "",
  enabled: true,
  pressed: false,
  ...more,
});
const reply = (side, body) => ({
  html: { head: `<div>agent ${side}</div>`, foot: "", attempts: "" },
  data: { pending: false, retry: null, choice: choice(side), label: `agent ${side}` },
  body,
  cuts: [body.length],
  final: 1,
});
const ROUND = {
  html: { question: '<div class="ab-me"><div class="ab-said">Hello</div></div>' },
  data: { columns: ["t2", "t1"], choices: [choice("tie"), choice("none")], verdict: "Which reply is better?" },
};
const SNAPSHOT = {
  kind: "snapshot",
  version: 1,
  fields: {
    style: "",
    height: "300px",
    empty: '<div class="ab-empty">No messages yet.</div>',
    name: "one · two",
    session: null,
    pictures: null,
    status: ["All answered.", false],
    composer: { busy: false, closed: false, placeholder: "Message all agents", stop: "Stop listening" },
  },
  turns: [
    ["r1", ROUND],
    ["t1", reply(0, "<p>left</p>")],
    ["t2", reply(1, "<p>right</p>")],
  ],
};

/* A comparison in a page: `receive` gives it a message, `sent` is what it says. */
function open(first = SNAPSHOT) {
  const sent = [];
  let receive = null;
  const model = {
    get: () => first,
    on: (name, listener) => {
      if (name === "msg:custom") receive = listener;
    },
    off: () => {},
    send: (message) => sent.push(message),
    widget_manager: {},
  };
  const module = start();
  const end = module.initialize({ model });
  const el = document.body.appendChild(document.createElement("div"));
  const close = module.render({ model, el });
  const find = (selector) => el.querySelector(selector);
  const texts = (selector) => [...el.querySelectorAll(selector)].map((each) => each.textContent);
  const endAll = () => {
    close();
    end();
    el.remove();
  };
  return { el, find, texts, sent, receive: (message) => receive(message), end: endAll };
}

test("replies stand in the order of their round, each once", () => {
  const page = open();
  assert.deepEqual(page.texts(".ab-columns > .ab-column .ab-agent-body"), ["right", "left"]);
  assert.equal(page.texts(".ab-column").length, 2);
  assert.equal(page.texts(".ab-inner > *").length, 1);
  assert.deepEqual(page.texts(".ab-verdict button"), ["Prefer tie", "Prefer none"]);
  assert.equal(page.find(".ab-said-verdict").textContent, "Which reply is better?");
  page.end();
});

test("a choice names its round and side, and shows what the kernel says of it", () => {
  const page = open();
  page.find(".ab-column button.ab-prefer").click();
  page.find(".ab-verdict button").click();
  const prefers = page.sent.filter((message) => message.do === "prefer");
  assert.deepEqual(prefers, [
    { do: "prefer", round: "r1", choice: 1 },
    { do: "prefer", round: "r1", choice: "tie" },
  ]);
  const pressed = choice(1, { label: "✓ two preferred", pressed: true });
  page.receive({ version: 2, ops: [["data", "t2", "choice", pressed]] });
  assert.equal(page.find(".ab-column.ab-chosen .ab-pressed").textContent, "✓ two preferred");
  page.receive({ version: 3, ops: [["data", "t2", "choice", choice(1, { enabled: false })]] });
  assert.equal(page.find(".ab-chosen"), null);
  assert.ok(page.find(".ab-column button.ab-prefer").disabled);
  page.end();
});

test("a retry replaces one column, and nothing else moves", () => {
  const page = open();
  const other = page.find(".ab-column:last-child");
  const ops = [
    ["turns", 2, 1, ["t3"]],
    ["html", "t3", "attempts", 0, 0, '<div class="ab-attempt">cut off</div>'],
    ["data", "t3", "pending", true],
    ["data", "t3", "choice", choice(1)],
    ["data", "r1", "columns", ["t3", "t1"]],
  ];
  page.receive({ version: 2, ops });
  assert.equal(page.find(".ab-column:first-child .ab-attempt").textContent, "cut off");
  assert.equal(page.find(".ab-column:last-child"), other);
  assert.equal(page.texts(".ab-column").length, 2);
  page.end();
});

test("replies that have no room side by side are tabs, one at a time", () => {
  const observed = new Map();
  globalThis.ResizeObserver = window.ResizeObserver = class {
    constructor(resized) {
      this.resized = resized;
    }
    observe(root) {
      observed.set(root, this.resized);
    }
  };
  const page = open();
  const round = page.find(".ab-round");
  const narrow = (width) => {
    Object.defineProperty(round, "clientWidth", { value: width, configurable: true });
    observed.get(round)();
  };
  const shown = () =>
    [...page.el.querySelectorAll(".ab-column:not([hidden])")].map(
      (each) => each.querySelector(".ab-agent-body").textContent,
    );
  narrow(700);
  assert.deepEqual([page.find(".ab-tabs").hidden, shown()], [true, ["right", "left"]]);
  narrow(699);
  const [first, second] = page.el.querySelectorAll("[role=tab]");
  assert.deepEqual([first.textContent, second.textContent], ["agent 1", "agent 0"]);
  assert.deepEqual(shown(), ["right"]);
  const press = (key) =>
    document.activeElement.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  first.focus();
  press("ArrowRight");
  assert.equal(document.activeElement, second);
  assert.deepEqual([first.tabIndex, second.tabIndex, shown()], [-1, 0, ["left"]]);
  const panel = document.getElementById(second.getAttribute("aria-controls"));
  assert.deepEqual([panel.getAttribute("role"), panel.getAttribute("aria-labelledby")], ["tabpanel", second.id]);
  assert.ok(panel.querySelector("button.ab-prefer"), "the choice is with the reply");
  press("ArrowRight");
  assert.deepEqual([document.activeElement, shown()], [first, ["right"]]);
  page.end();
  delete window.ResizeObserver;
  delete globalThis.ResizeObserver;
});

test("a message to all leaves its box, and returns if the kernel refuses it", () => {
  const page = open();
  const box = page.find("textarea");
  box.value = "Next";
  page.find(".ab-send").click();
  const [{ text, number }] = page.sent.filter((message) => message.do === "send");
  assert.equal(text, "Next");
  assert.equal(box.value, "");
  page.receive({ kind: "answer", number, accepted: false });
  assert.equal(box.value, "Next");
  page.end();
});

test("columns that are no replies are ignored", () => {
  for (const columns of [null, "t1", [7], ["r1"], ["t9", {}]]) {
    const page = open({ ...SNAPSHOT, turns: [["r1", { html: {}, data: { columns, choices: 3 } }]] });
    assert.deepEqual(page.texts(".ab-round"), [""]);
    page.end();
  }
});

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

test("columns that are no replies are ignored", () => {
  for (const columns of [null, "t1", [7], ["r1"], ["t9", {}]]) {
    const page = open({ ...SNAPSHOT, turns: [["r1", { html: {}, data: { columns, choices: 3 } }]] });
    assert.deepEqual(page.texts(".ab-round"), [""]);
    page.end();
  }
});

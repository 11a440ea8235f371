/* The module that asks questions about turns, in a page without a browser. */
import assert from "node:assert/strict";
import test from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
for (const name of ["document", "Event", "requestAnimationFrame"]) globalThis[name] = window[name];
globalThis.window = window;
const { default: start } = await import("../../../src/agentbook/chat/assets/explorer/label.js");

const STATE = {
  kind: "snapshot",
  version: 0,
  style: "",
  item: "m1",
  title: "helpdesk",
  html: '<div class="ab-x-turn ab-x-here">Where is it?</div>',
  questions: [
    ["solved", "bool", ["yes", "no"]],
    ["kind", "choice", ["wrong", "unclear"]],
    ["note", "text", []],
  ],
  values: ["yes", null, null],
  sentence: "ada has labelled 0 of 2 turns",
  notice: "",
  undo: false,
};

/* The questions in a page: `sent` is what it says, `press` presses a key. */
function open(t, first = STATE) {
  let [receive, version] = [null, 0];
  const sent = [];
  const model = {
    get: () => ({ ...first }),
    on: (name, listener) => {
      if (name === "msg:custom") receive = listener;
    },
    off: () => {},
    send: (message) => {
      if (message.kind) sent.push(message);
    },
    widget_manager: {},
  };
  const module = start();
  const end = module.initialize({ model });
  const el = document.body.appendChild(document.createElement("div"));
  const close = module.render({ model, el });
  t.after(() => {
    close();
    end();
    el.remove();
  });
  const find = (selector) => el.querySelector(selector);
  const press = (key, at = find(".ab-x-label")) =>
    at.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const show = (more) => receive({ ...first, kind: "state", ...more, version: (version += 1) });
  return { find, all: (selector) => [...el.querySelectorAll(selector)], press, show, sent };
}

test("a key answers as its button does, and takes the answer back", (t) => {
  const { all, press, sent } = open(t);
  assert.deepEqual(
    all(".ab-x-choice").map((each) => each.textContent),
    ["1yes", "2no", "3wrong", "4unclear"],
  );
  for (const key of ["2", "4", "1", "9", "x"]) press(key);
  all(".ab-x-choice")[2].click();
  assert.deepEqual(
    sent.map(({ kind, item, name, value }) => [kind, item, name, value]),
    [
      ["answer", "m1", "solved", "no"],
      ["answer", "m1", "kind", "unclear"],
      ["answer", "m1", "solved", null],
      ["answer", "m1", "kind", "wrong"],
    ],
  );
});

test("the conversation says which turn is asked about", (t) => {
  const { find, show } = open(t);
  const turn = (n) =>
    `<div class="ab-x-turn ab-x-here"><div class="ab-x-when">Turn ${n}</div>Where is it?</div><div class="ab-x-turn">Bye.</div>`;
  show({ item: "m3", html: turn(3) });
  assert.match(find(".ab-x-log").getAttribute("aria-label"), /Turn 3/);
  show({ item: "m7", html: turn(7) });
  assert.match(find(".ab-x-log").getAttribute("aria-label"), /Turn 7/);
});

test("keys go on, skip and take back what can be", (t) => {
  const { press, show, sent } = open(t);
  for (const key of ["Enter", "S", "u"]) press(key);
  show({ undo: true });
  press("u");
  assert.deepEqual(
    sent.map(({ kind }) => kind),
    ["next", "skip", "undo"],
  );
});

test("a text keeps its keys, and is sent before what comes next", (t) => {
  const { find, press, sent } = open(t);
  const area = find("textarea");
  area.focus();
  area.value = "1 s u";
  for (const key of ["1", "s", "u"]) press(key, area);
  assert.deepEqual(sent, []);
  area.addEventListener("blur", () => area.dispatchEvent(new window.Event("change"))); // as browsers do
  press("Enter", area);
  assert.deepEqual(
    sent.map(({ kind, value }) => [kind, value]),
    [
      ["answer", "1 s u"],
      ["next", undefined],
    ],
  );
});

test("what is being written stays until the turn changes", (t) => {
  const { find, all, show } = open(t);
  find("textarea").value = "half a sent";
  show({ values: ["no", null, null] });
  assert.equal(find("textarea").value, "half a sent");
  assert.deepEqual(
    all(".ab-x-choice").map((each) => each.getAttribute("aria-pressed")),
    ["false", "true", "false", "false"],
  );
  show({ item: "m2", values: [null, null, null] });
  assert.equal(find("textarea").value, "");
});

test("at the end there is nothing to answer, and a way back", (t) => {
  const { find, all, show } = open(t);
  show({ item: "", html: "", undo: true, notice: "The folder is full." });
  assert.ok(find(".ab-x-form").hidden);
  assert.deepEqual(
    all(".ab-icon").map((each) => [each.textContent, each.disabled]),
    [
      ["Undo", false],
      ["Skip", true],
      ["Next", true],
    ],
  );
  assert.equal(find("[role=alert]").textContent, "The folder is full.");
});

/* The panel's module in a page without a browser: what it shows, sends and keeps. */
import assert from "node:assert/strict";
import test, { mock } from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
for (const name of ["window", "document", "Event", "MutationObserver", "requestAnimationFrame"]) {
  globalThis[name] = name === "window" ? window : window[name];
}
const copied = [];
Object.defineProperty(globalThis, "navigator", {
  value: { clipboard: { writeText: async (text) => copied.push(text) } },
  configurable: true,
});
window.isSecureContext = true;
const { when } = await import("../../../src/agentbook/chat/assets/core/dom.js");
const { default: start } = await import("../../../src/agentbook/chat/assets/panel/panel.js");

const AT = "2020-10-03T08:15:00+00:00";
const EMPTY = '<div class="ab-empty">No messages yet.</div>';
const COPY = '<button type="button" class="ab-act ab-copy">Copy</button>';
const asked = (text) => `<div class="ab-me">${COPY}<div class="ab-said" dir="auto">${text}</div></div>`;
const FIELDS = {
  style: ".ap-1-static { display: none; }",
  height: "300px",
  empty: EMPTY,
  name: "guide",
  session: null,
  finds: true,
  exports: true,
  collects: false,
  fresh: false,
  pictures: false,
  notice: "",
  status: ["Ready.", false],
  composer: { busy: false, closed: false, placeholder: "Message guide", stop: "Stop listening" },
};
const snapshot = (version = 1, turns = [], fields = {}) => ({
  kind: "snapshot",
  version,
  fields: { ...FIELDS, ...fields },
  turns,
});
const turn = (question, body, pending = false) => ({
  html: { question: asked(question), head: "<div>guide</div>", foot: "" },
  data: { pending, actions: [] },
  body,
  cuts: body ? [body.length] : [],
  final: 0,
});

/* A panel in the page: its model, and what it says to the kernel. */
class Panel {
  constructor(first = snapshot(), manager = {}) {
    this.listeners = new Map();
    this.sent = [];
    this.model = {
      get: () => first,
      on: (name, listener) => this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]),
      off: (name, listener) =>
        this.listeners.set(
          name,
          this.listeners.get(name).filter((each) => each !== listener),
        ),
      send: (message) => this.sent.push(message),
      widget_manager: manager,
    };
    this.module = start();
    this.end = this.module.initialize({ model: this.model });
    this.ends = [];
    this.root = this.show();
  }

  show() {
    const el = document.body.appendChild(document.createElement("div"));
    this.ends.push(this.module.render({ model: this.model, el }));
    return el.querySelector(".ab-chat");
  }

  hear(name, message) {
    for (const listener of this.listeners.get(name) ?? []) listener(message);
  }

  receive(message) {
    this.hear("msg:custom", message);
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  get box() {
    return this.find("textarea");
  }

  said(what) {
    return this.sent.filter((message) => message.do === what);
  }

  press(key, options = {}, target = this.box) {
    const event = new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options });
    target.dispatchEvent(event);
    return event;
  }

  close() {
    for (const end of this.ends) end?.();
    this.end();
    document.body.replaceChildren();
  }
}

function using(work, ...options) {
  return async () => {
    const panel = new Panel(...options);
    try {
      await work(panel);
    } finally {
      panel.close();
    }
  };
}

test(
  "what does not change in the page stays the same element",
  using(
    (panel) => {
      const [first] = panel.root.querySelectorAll(".ab-agent-body > div");
      const ops = [["body", "t1", 12, 0, "<p>You</p>", 1, [22], 1]];
      panel.receive({ version: 2, ops });
      const pieces = panel.root.querySelectorAll(".ab-agent-body > div");
      assert.equal(pieces[0], first);
      assert.deepEqual(
        [...pieces].map((each) => each.innerHTML),
        ["<p>Hello</p>", "<p>You</p>"],
      );
    },
    snapshot(1, [["t1", turn("Hi", "<p>Hello</p>", true)]]),
  ),
);

test(
  "Enter sends and empties the box, and a text that the kernel refuses returns before what was typed",
  using((panel) => {
    panel.box.value = "one";
    assert.equal(panel.press("Enter", { shiftKey: true }).defaultPrevented, false);
    panel.press("Enter", { isComposing: true });
    panel.press("Enter", { keyCode: 229 });
    assert.equal(panel.said("send").length, 0);
    assert.equal(panel.press("Enter").defaultPrevented, true);
    assert.equal(panel.box.value, "");
    panel.box.value = "two";
    panel.press("Enter"); // in haste
    const [message, ...more] = panel.said("send");
    assert.deepEqual([message.text, more.length, panel.box.value], ["one", 0, "two"]);
    panel.receive({ kind: "answer", number: "another's", accepted: false });
    assert.equal(panel.box.value, "two");
    panel.receive({ kind: "answer", number: message.number, accepted: false });
    assert.equal(panel.box.value, "one\n\ntwo");
    panel.press("Enter");
    const again = panel.said("send")[1];
    panel.box.value = "three";
    panel.receive({ kind: "answer", number: again.number, accepted: true });
    assert.equal(panel.box.value, "three");
    panel.box.value = "";
    panel.press("Enter");
    assert.equal(panel.said("send").length, 2, "nothing to send");
    panel.box.value = "four";
    panel.press("Enter");
    panel.hear("comm_live_update");
    assert.equal(panel.box.value, "four", "the kernel is gone");
  }),
);

test("a kernel that does not answer is told until it is heard, and gets the message again", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const panel = new Panel(snapshot(1));
  t.after(() => panel.close());
  panel.receive({ kind: "welcome" });
  const status = () => panel.find(".ab-statusline").textContent;
  const usual = status();
  t.mock.timers.tick(60_000);
  assert.equal(panel.said("ping").length, 0, "nothing is expected");
  panel.press("Escape");
  panel.find("button.ab-find").click();
  t.mock.timers.tick(1500);
  assert.equal(panel.said("ping").length, 1);
  panel.receive({ kind: "welcome" });
  t.mock.timers.tick(60_000);
  assert.equal(status(), usual, "it answered");
  panel.box.value = "one";
  panel.press("Enter");
  t.mock.timers.tick(1500);
  t.mock.timers.tick(3000);
  assert.notEqual(status(), usual);
  t.mock.timers.tick(1500);
  assert.equal(panel.said("ping").length, 3, "it goes on asking");
  assert.equal(panel.said("send").length, 1);
  panel.receive({ kind: "welcome" });
  assert.equal(status(), usual);
  const [first, again] = panel.said("send");
  assert.deepEqual(again, first);
  panel.receive({ kind: "answer", number: first.number, accepted: true });
  assert.equal(panel.box.value, "");
});

test("while a reply is expected, silence is noticed though nobody does anything", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const panel = new Panel(snapshot(1));
  t.after(() => panel.close());
  const status = () => panel.find(".ab-statusline").textContent;
  panel.receive({ version: 2, ops: [["field", "status", ["guide is answering…", true]]] });
  for (const version of [3, 4, 5]) {
    t.mock.timers.tick(1000);
    panel.receive({ version, ops: [] });
  }
  assert.deepEqual([status(), panel.said("ping").length], ["guide is answering…", 0]);
  t.mock.timers.tick(1500);
  t.mock.timers.tick(3000);
  assert.notEqual(status(), "guide is answering…");
  panel.receive({ version: 6, ops: [["field", "status", ["Answered.", false]]] });
  t.mock.timers.tick(60_000);
  assert.equal(status(), "Answered.");
});

test(
  "Stop answers a press at once, and leaves the focus to the box when it goes",
  using(
    async (panel) => {
      const stop = panel.find("button.ab-stop");
      stop.focus();
      stop.click();
      assert.equal(stop.textContent, "Stopping…");
      assert.equal(document.activeElement, stop);
      panel.receive({ version: 2, ops: [["field", "composer", FIELDS.composer]] });
      assert.deepEqual([stop.hidden, stop.textContent], [true, "Stop"]);
      assert.equal(document.activeElement, stop, "the end of the reply is painted first");
      await new Promise((painted) => panel.box.addEventListener("focus", painted));
    },
    snapshot(1, [], { composer: { ...FIELDS.composer, busy: true } }),
  ),
);

test(
  "arrows recall what was sent, and never change what is being written",
  using(
    (panel) => {
      panel.press("ArrowUp");
      assert.equal(panel.box.value, "second");
      panel.press("ArrowUp");
      assert.equal(panel.box.value, "first");
      panel.press("ArrowUp");
      assert.equal(panel.box.value, "first");
      panel.press("ArrowDown");
      panel.press("ArrowDown");
      assert.equal(panel.box.value, "");
      panel.box.value = "mine";
      panel.box.dispatchEvent(new window.Event("input", { bubbles: true }));
      assert.equal(panel.press("ArrowUp").defaultPrevented, false);
      assert.equal(panel.box.value, "mine");
    },
    snapshot(1, [
      ["t1", turn("first", "<p>a</p>")],
      ["t2", turn("second", "<p>b</p>")],
      ["t3", { html: { whole: asked("another person's").replace("ab-me", "ab-me ab-other") }, data: {} }],
    ]),
  ),
);

test(
  "what was taken back goes before what a person wrote, and a late view has it",
  using((panel) => {
    const put = (version, number, text) => panel.receive({ version, ops: [["field", "box", { number, text }]] });
    put(2, 0, "");
    panel.box.value = "more";
    put(3, 1, "withdrawn");
    assert.equal(panel.box.value, "withdrawn\n\nmore");
    assert.equal(panel.show().querySelector("textarea").value, "withdrawn");
    put(4, 2, ""); // it was sent
    assert.equal(panel.box.value, "withdrawn\n\nmore");
  }),
);

const FILE = '<details class="ab-file" data-source="**a.csv**"><summary>a.csv 1 row</summary><td>1</td></details>';

/* What a person lets go of over the panel, or pastes. */
function give(panel, type, files, types = ["Files"], text = "x") {
  const event = new window.Event(type, { bubbles: true, cancelable: true });
  event[type === "paste" ? "clipboardData" : "dataTransfer"] = { types, files, getData: () => text };
  (type === "paste" ? panel.box : panel.find(".ab-log")).dispatchEvent(event);
  return event.defaultPrevented;
}

test(
  "text files are attached wherever they are dropped, and of others one sentence tells",
  using(async (panel) => {
    const note = () => panel.find(".ab-bottom [role=alert].ab-drawer-note").textContent;
    const told = () => new Promise((done) => setTimeout(done));
    assert.equal(give(panel, "dragover", []), true);
    assert.equal(give(panel, "drop", [new File(["id,n\nä,1"], "a.csv"), new File(["\0PNG"], "b.png")]), true);
    while (!note()) await told();
    const [message, ...more] = panel.said("attach");
    assert.deepEqual([message.name, message.text, message.size, more.length], ["a.csv", "id,n\nä,1", 9, 0]);
    assert.match(note(), /b\.png/);
    assert.equal(give(panel, "paste", [new File([Uint8Array.of(255, 254)], "c.png")]), true);
    while (!note().includes("c.png")) await told();
    assert.equal(give(panel, "paste", [new File(["x"], "d.txt")], ["text/plain", "Files"]), false, "as from a table");
    assert.equal(give(panel, "drop", [], ["text/plain"]), false);
    assert.equal(panel.said("attach").length, 1);
    assert.equal(give(panel, "paste", [], ["text/plain"], "a line\n".repeat(1000)), true, "a long text");
    assert.equal(panel.said("attach").at(-1).size, 7000);
    panel.hear("comm_live_update");
    assert.equal(give(panel, "drop", [new File(["x"], "e.txt")]), true, "the page would show the file");
  }),
);

/* Write into the box as a person does, with the caret at the end. */
function write(panel, text) {
  panel.box.focus();
  panel.box.value = text;
  panel.box.setSelectionRange(text.length, text.length);
  panel.box.dispatchEvent(new Event("input"));
}
const list = (panel) => panel.find(".ab-mentions:not([hidden]) [role=listbox]");
const options = (panel) => [...(list(panel)?.querySelectorAll("[role=option]") ?? [])];
const HOSTILE = "<img src=x onerror=alert(1)>";
const MENTIONED = [
  ["variable", "orders", "DataFrame, 1,200 × 2"],
  ["file", HOSTILE, "12 bytes"],
];

test(
  "what an @ lists is attached, and a message waits until it is",
  using((panel) => {
    write(panel, "mail me@or");
    assert.equal(panel.said("complete").length, 0);
    write(panel, "Sum up @o");
    write(panel, "Sum up @or");
    const [old, asked] = panel.said("complete");
    assert.equal(asked.word, "or");
    panel.receive({ kind: "entries", number: old.number, entries: [["variable", "old", ""]] });
    assert.equal(options(panel).length, 0, "the answer to an older question");
    panel.receive({ kind: "entries", number: asked.number, entries: MENTIONED, more: 7 });
    const [first, second] = options(panel);
    assert.equal(second.querySelector("bdi").textContent, HOSTILE);
    assert.equal(panel.root.querySelector("img"), null);
    assert.equal(panel.box.getAttribute("aria-controls"), list(panel).id);
    assert.equal(panel.box.getAttribute("aria-activedescendant"), first.id);
    assert.match(panel.find(".ab-mentions [role=status]").textContent, /7/);
    write(panel, "Sum up @Ord");
    assert.equal(options(panel).length, 1, "what no longer has the word goes before the kernel answers");
    write(panel, "Sum up @");
    panel.receive({ kind: "entries", number: panel.said("complete").at(-1).number, entries: MENTIONED });
    panel.press("ArrowUp");
    assert.equal(panel.box.getAttribute("aria-activedescendant"), second.id);
    assert.equal(options(panel)[1].getAttribute("aria-selected"), "true");
    panel.press("ArrowDown");
    panel.press("Enter");
    assert.equal(list(panel), null);
    assert.equal(panel.box.getAttribute("aria-activedescendant"), null);
    assert.equal(panel.box.value, "Sum up @orders ");
    const [{ kind, name, number }] = panel.said("mention");
    assert.deepEqual([kind, name], ["variable", "orders"]);
    panel.press("Enter");
    assert.equal(panel.said("send").length, 0, "it is not attached yet");
    panel.receive({ kind: "mentioned", number });
    assert.deepEqual(
      panel.said("send").map(({ text }) => text),
      ["Sum up @orders "],
    );
  }),
);

test(
  "a variable that vanished is told, and its message is kept",
  using((panel) => {
    write(panel, "@orders");
    panel.receive({ kind: "entries", number: panel.said("complete")[0].number, entries: MENTIONED });
    panel.press("Tab");
    panel.press("Enter");
    panel.receive({ kind: "mentioned", number: panel.said("mention")[0].number, error: "orders is gone" });
    assert.equal(panel.find(".ab-bottom [role=alert].ab-drawer-note").textContent, "orders is gone");
    assert.equal(panel.said("send").length, 0);
    assert.equal(panel.box.value, "@orders ");
    panel.press("Enter");
    assert.equal(panel.said("send").length, 1);
  }),
);

test(
  "Esc closes the list alone, and without a match Enter sends",
  using(
    (panel) => {
      write(panel, "@or");
      panel.receive({ kind: "entries", number: panel.said("complete")[0].number, entries: MENTIONED });
      panel.press("Escape");
      assert.deepEqual([list(panel), panel.said("stop").length], [null, 0]);
      write(panel, "@ord");
      assert.equal(panel.said("complete").length, 1, "it stays closed");
      panel.press("Escape");
      assert.equal(panel.said("stop").length, 1);
      write(panel, "all @x");
      panel.receive({ kind: "entries", number: panel.said("complete")[1].number, entries: [], more: 0 });
      assert.equal(options(panel).length, 0);
      panel.press("Enter");
      assert.equal(panel.said("mention").length, 0);
    },
    snapshot(1, [], { composer: { busy: true, closed: false, placeholder: "", stop: "Stop" } }),
  ),
);

/* The functions of JupyterLab's extension, and what was done with them. */
function extended(work) {
  const done = [];
  const notebook = {
    holds: () => true,
    insertBelow: (el, text) => done.push(text),
    cellAbove: () => "x = 1\nx",
    watch: (root, tell) => (notebook.tell = tell),
    files: async () => [
      { name: "notes.md", path: "sub/notes.md", size: 7 },
      { name: "image.png", path: "sub/image.png" },
    ],
    read: async (path) => (path.endsWith(".md") ? "# Notes" : Promise.reject(new Error("not UTF-8"))),
  };
  return async (panel) => {
    window._JUPYTERLAB = { agentbook: { notebook } };
    panel.receive({ version: 2, ops: [["field", "name", "echo"]] });
    panel.tell = notebook.tell;
    try {
      await work(panel, done);
    } finally {
      delete window._JUPYTERLAB;
    }
  };
}

test(
  "a busy kernel leaves the files that the page reads, and the cell above needs only the page",
  using(
    extended(async (panel) => {
      mock.timers.enable({ apis: ["setTimeout"] });
      write(panel, "@");
      mock.timers.tick(1000);
      mock.timers.reset();
      await new Promise((done) => setImmediate(done));
      assert.deepEqual(
        options(panel).map((each) => each.querySelector("bdi").textContent),
        ["notes.md", "image.png"],
      );
      assert.match(panel.find(".ab-mentions [role=status]").textContent, /busy/);
      const asked = panel.said("complete")[0].number;
      panel.receive({ kind: "entries", number: asked, entries: MENTIONED });
      assert.equal(options(panel).length, 3, "the cell above and what the kernel has");
      mock.timers.enable({ apis: ["setTimeout"] });
      write(panel, "@n");
      mock.timers.tick(1000);
      panel.receive({ kind: "entries", number: panel.said("complete")[1].number, entries: MENTIONED });
      mock.timers.reset();
      await new Promise((done) => setImmediate(done));
      assert.equal(options(panel)[0].querySelector("bdi").textContent, "orders", "the kernel's answer stays");
      mock.timers.enable({ apis: ["setTimeout"] });
      write(panel, "@no");
      mock.timers.tick(1000);
      mock.timers.reset();
      await new Promise((done) => setImmediate(done));
      options(panel)[0].click();
      await new Promise((done) => setImmediate(done));
      const [{ name, text, size }] = panel.said("attach");
      assert.deepEqual([name, text, size], ["notes.md", "# Notes", 7]);
      write(panel, "@ab");
      panel.receive({ kind: "entries", number: panel.said("complete").at(-1).number, entries: [] });
      options(panel)[0].click();
      assert.equal(panel.said("attach").at(-1).text, "x = 1\nx");
      assert.equal(panel.box.value, "the cell above ");
    }),
  ),
);

const INSERT = '<button type="button" class="ab-act ab-insert">Insert below</button>';

const cellsOf = (row) => row.map((cell) => `<td>${cell}</td>`).join("");
const tableOf = (...rows) =>
  `<div class="ab-table"><table>${rows.map((row) => `<tr>${cellsOf(row)}</tr>`).join("")}</table></div>` +
  `<div class="ab-acts">${INSERT.replace("ab-insert", "ab-insert ab-tabular")}</div>`;
const FIRST = tableOf(["a"], ["1"]);
const RAGGED = tableOf(
  ["", "n", "n", "day", "share", "zip", "f"],
  ['x"\\', "1,200", "−1.5", "2026-10-03", "12.5%", "01234", "=SUM(A1)"],
  ["<b>y</b>", "", "2", "2026-02-30", "7 %"],
);

test(
  "a table becomes code that builds it, with the types that all of its values have",
  using(
    extended((panel, done) => {
      const buttons = panel.root.querySelectorAll(".ab-tabular");
      buttons[1].closest("[data-turn]").querySelector("td").textContent = "typeset";
      buttons[1].click();
      assert.deepEqual(done[0].split("\n").slice(2), [
        "table = pd.DataFrame({",
        '    "Unnamed: 0": ["x\\"\\\\", "y"],',
        '    "n": pd.array([1200, None], dtype="Int64"),',
        '    "n.1": [-1.5, 2],',
        '    "day": ["2026-10-03", "2026-02-30"],',
        '    "share": pd.Series([12.5, 7], dtype=float) / 100,',
        '    "zip": ["01234", None],',
        '    "f": ["=SUM(A1)", None],',
        "})",
        "table",
      ]);
      buttons[0].click();
      assert.match(done[1], /"a": \[1\],/, "what the agent wrote, whatever the page made of it");
    }),
    snapshot(1, [["t1", turn("Hi", FIRST + RAGGED)]]),
  ),
);

test(
  "a message with a file is edited, copied and recalled as it was sent",
  using(
    async (panel) => {
      panel.find(".ab-me .ab-copy").click();
      panel.press("ArrowUp");
      assert.deepEqual([copied.at(-1), panel.box.value], ["See:\n**a.csv**", "See:\n**a.csv**"]);
    },
    snapshot(1, [["t1", turn(`See:\n${FILE}`, "")]]),
  ),
);

test(
  "Edit puts what was attached below the box again, and the words into it",
  using(
    (panel) => {
      panel.find(".ab-me .ab-copy").className = "ab-act ab-edit";
      panel.find(".ab-edit").click();
      assert.equal(panel.box.value, "See:");
      assert.deepEqual(panel.said("attach"), [{ do: "attach", source: "**a.csv**" }]);
    },
    snapshot(1, [["t1", turn(`See:\n${FILE}`, "")]]),
  ),
);

test("a draft survives a reload, and what the kernel put into the box before it does not come back", () => {
  const stored = new Map();
  const write = (text) => {
    panel.box.value = text;
    panel.box.dispatchEvent(new window.Event("input"));
  };
  globalThis.sessionStorage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, text) => stored.set(key, text),
  };
  let panel = new Panel(snapshot(1, [], { id: "ap-1", box: { number: 1, text: "withdrawn" } }));
  assert.equal(panel.box.value, "withdrawn");
  write("my own words");
  panel.close();
  panel = new Panel(snapshot(1, [], { id: "ap-1", box: { number: 1, text: "withdrawn" } }));
  assert.equal(panel.box.value, "my own words");
  panel.press("Enter");
  panel.receive({ kind: "answer", number: panel.said("send")[0].number, accepted: true });
  panel.close();
  panel = new Panel(snapshot(1, [], { id: "ap-1", box: { number: 2, text: "" } }));
  assert.equal(panel.box.value, "");
  write("another's");
  panel.close();
  panel = new Panel(snapshot(1, [], { id: "ap-2" }));
  assert.equal(panel.box.value, "");
  panel.close();
  const place = "cell-1 echo";
  const chip = `<div class="ab-attached">${FILE}</div>`;
  panel = new Panel(snapshot(1, [], { id: "ap-3", place, files: chip, box: { number: 4, text: "" } }));
  write("asked by the next run");
  panel.close();
  panel = new Panel(snapshot(1, [], { id: "ap-4", place, box: { number: 0, text: "" } }));
  assert.deepEqual(
    [panel.box.value, panel.said("attach")],
    ["asked by the next run", [{ do: "attach", source: "**a.csv**" }]],
  );
  panel.receive({ version: 2, ops: [["field", "files", chip]] });
  panel.close();
  panel = new Panel(snapshot(1, [], { id: "ap-4", place, files: chip, box: { number: 1, text: "taken back" } }));
  assert.equal(panel.box.value, "taken back\n\nasked by the next run");
  assert.deepEqual(panel.said("attach"), [], "it is attached already");
  panel.close();
  delete globalThis.sessionStorage;
});

test(
  "the seconds in the status are seen, and not read aloud again and again",
  using((panel) => {
    const said = panel.find(".ab-status [role=status]");
    const changes = new window.MutationObserver(() => {});
    changes.observe(said, { childList: true, characterData: true, subtree: true });
    const states = [
      ["guide is working… No response for 58 s.", "guide is working… No response."],
      ["guide is working… No response for 1 min 2 s.", "guide is working… No response."],
      ["Waiting for the turn to end (9.5 s). Sent.", "Waiting for the turn to end. Sent."],
      ["Asking again: question 1 of 3…", "Asking again: question 1 of 3…"],
    ];
    states.forEach(([seen, heard], n) => {
      panel.receive({ version: 2 + n, ops: [["field", "status", [seen, true]]] });
      assert.deepEqual([panel.find(".ab-statusline").textContent, said.textContent], [seen, heard]);
    });
    assert.equal(changes.takeRecords().length, 3);
  }),
);

test("a kernel that was shut down is told by its own signal", () => {
  const listeners = new Set();
  const disposed = { connect: (each) => listeners.add(each), disconnect: (each) => listeners.delete(each) };
  const panel = new Panel(snapshot(), { kernel: { disposed } });
  for (const each of listeners) each();
  assert.match(panel.find("[role=alert]").textContent, /was shut down/);
  panel.close();
  assert.equal(listeners.size, 0);
});

test(
  "garbage in fields does not break the view",
  using((panel) => {
    const values = [null, 7, "x", [], {}, [[]], [1, 2, 3], true];
    let version = 1;
    for (const name of Object.keys(FIELDS)) {
      for (const value of values) {
        version += 1;
        panel.receive({ version, ops: [["field", name, value]] });
      }
    }
    for (const message of [null, 1, "patch", [], {}, { kind: "patch" }, { kind: "answer" }]) panel.receive(message);
    panel.receive(snapshot(version + 1));
    assert.equal(panel.find(".ab-name").textContent, "guide");
  }),
);

/* A page lays itself out before it can say where a box stands: once for each panel, for each patch. */
test(
  "a reply that grows asks where its box stands only while the reader is far from the end",
  using(
    (panel) => {
      const log = panel.find(".ab-log");
      let [reads, top] = [0, 0];
      Object.defineProperty(log, "scrollTop", {
        get: () => ((reads += 1), top),
        set(value) {
          top = value;
        },
      });
      const grow = (version, length) =>
        panel.receive({
          version,
          ops: [
            ["body", "t1", length, 0, "!"],
            ["field", "status", ["Going on", true]],
          ],
        });
      grow(2, 1);
      assert.equal(reads, 0);
      const scroll = (to) => {
        top = to;
        log.dispatchEvent(new Event("scroll"));
      };
      scroll(-200);
      assert.equal(panel.find(".ab-latest").hidden, false);
      top = 0; // as where the box left the page for a while, which no event tells
      grow(3, 2);
      assert.equal(panel.find(".ab-latest").hidden, true);
    },
    snapshot(1, [["t1", turn("Hi", "a", true)]]),
  ),
);

test(
  "what was opened and what has the focus survive a change beside it",
  using(
    (panel) => {
      const steps = panel.find("details");
      steps.open = true;
      panel.find("summary").focus();
      const head = "<details><summary>2 steps</summary>more</details>";
      panel.receive({ version: 2, ops: [["html", "t1", "head", 0, 0, head]] });
      assert.notEqual(panel.find("details"), steps);
      assert.equal(panel.find("details").open, true);
      assert.equal(document.activeElement, panel.find("summary"));
    },
    snapshot(1, [
      ["t1", { ...turn("Hi", "<p>a</p>", true), html: { head: "<details><summary>1 step</summary>one</details>" } }],
    ]),
  ),
);

test(
  "a screen reader hears the end of a reply, and nothing of an old one",
  using(
    (panel) => {
      const spoken = () => [...panel.root.querySelectorAll(".ab-spoken p")].map((each) => each.textContent);
      panel.receive({ version: 2, ops: [["body", "t2", 6, 4, "new. An end</p>", 0, [21], 0]] });
      assert.deepEqual(spoken(), []);
      panel.receive({ version: 3, ops: [["data", "t2", "pending", false]] });
      assert.deepEqual(spoken(), ["Thinew. An end"]);
    },
    snapshot(1, [
      ["t1", turn("Hi", "<p>old</p>")],
      ["t2", turn("Go on", "<p>Thi</p>", true)],
    ]),
  ),
);

test("of what is read aloud no marks are heard, no code line by line, and nothing is left", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const panel = new Panel(snapshot(1, [["t1", turn("Hi", "", true)]]));
  const spoken = () => [...panel.root.querySelectorAll(".ab-spoken p")].map((each) => each.textContent);
  const write = (version, ...pieces) => {
    const cuts = pieces.map((_, n) => pieces.slice(0, n + 1).join("").length);
    const before = panel.find(".ab-agent-body").innerHTML.length ? panel.length : 0;
    panel.receive({ version, ops: [["body", "t1", 0, before, pieces.join(""), 0, cuts, 0]] });
    panel.length = pieces.join("").length;
    t.mock.timers.tick(1000);
  };
  write(2, "<p>*Counted: all of snake_case. So</p>");
  assert.deepEqual(spoken(), ["Counted: all of snake_case."]);
  const code = (lines) => `<div class="ab-code">${COPY}<pre><code>${"x\n".repeat(lines)}</code></pre></div>`;
  write(3, "<p><em>Counted: all of snake_case. So it is.</em></p>", code(2));
  assert.deepEqual(spoken(), ["So it is."]);
  write(4, "<p><em>Counted: all of snake_case. So it is.</em></p>", code(40), "<p>An end</p>");
  panel.receive({ version: 5, ops: [["data", "t1", "pending", false]] });
  assert.deepEqual(spoken(), ["An end"]);
  t.mock.timers.tick(10_000);
  assert.deepEqual(spoken(), []);
  panel.close();
});

test("the kernel knows whether the page shows the panel", () => {
  const panel = new Panel();
  const last = () => panel.said("shown").at(-1);
  assert.deepEqual([last().open, last().page], [true, panel.said("hello")[0].page]);
  panel.show();
  panel.ends.pop()();
  assert.equal(last().open, true, "in another place");
  panel.ends.pop()();
  assert.equal(last().open, false);
  panel.show();
  assert.equal(last().open, true);
  window.dispatchEvent(new window.Event("pagehide"));
  assert.equal(last().open, false);
  panel.close();
});

test("two landmarks of a page have different names", async () => {
  const panel = new Panel(snapshot(1, [], { session: [["What is a turn?"], "Session s1", AT] }));
  const other = panel.show();
  const names = () => [panel.root, other].map((each) => each.getAttribute("aria-label"));
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await painted();
  assert.equal(new Set(names()).size, 2);
  for (const name of names()) assert.ok(name.startsWith("Chat with guide: What is a turn?"));
  panel.receive({ version: 2, ops: [["field", "session", null]] });
  await painted();
  assert.equal(new Set(names()).size, 2);
  assert.deepEqual([panel.find(".ab-session").hidden, panel.root.querySelectorAll("bdi.ab-name").length], [true, 1]);
  panel.close();
});

const ENTRIES = [
  ["s2", "What is a turn?", AT, true],
  ["s1", "<img src=x>", AT, false, "echo · by <img>"],
];

test("a time is told in the reader's words", () => {
  const clock = (at) => at.toTimeString().slice(0, 5);
  const [now, yesterday] = [new Date(), new Date()];
  yesterday.setDate(now.getDate() - 1);
  assert.equal(when(now.toISOString()), `today ${clock(now)}`);
  assert.equal(when(yesterday.toISOString()), `yesterday ${clock(yesterday)}`);
  assert.match(when(AT), /^[234] Oct 2020,? \d\d:15$/);
  for (const none of ["", null, undefined, "soon", {}]) assert.equal(when(none), "");
});

test(
  "Enter right after typing opens what is found, not what was listed before",
  using((panel) => {
    panel.find("button.ab-find").click();
    panel.receive({ kind: "sessions", number: panel.said("find")[0].number, entries: ENTRIES });
    const search = panel.find(".ab-drawer input");
    search.value = "img";
    search.dispatchEvent(new window.Event("input"));
    panel.press("Enter", {}, search);
    assert.deepEqual(panel.said("session"), []);
    const { search: words, number } = panel.said("find").at(-1);
    assert.equal(words, "img");
    panel.receive({ kind: "sessions", number, entries: [ENTRIES[1]] });
    assert.equal(panel.said("session").at(-1).session, "s1");
  }),
);

test(
  "sessions stand below the day of their last message, and those of others behind a switch, after the reader's own",
  using((panel) => {
    panel.find("button.ab-find").click();
    const entry = (id, at, ...rest) => [id, id, at, false, "", "", false, [], ...rest];
    const now = new Date().toISOString();
    const answer = (others, ...entries) =>
      panel.receive({ kind: "sessions", number: panel.said("find").at(-1).number, entries, others });
    const lists = () =>
      [...panel.root.querySelectorAll(".ab-drawer ul")].map((each) => [
        each.getAttribute("aria-label"),
        [...each.querySelectorAll(".ab-entry-title")].map((title) => title.textContent),
      ]);
    answer(undefined);
    assert.equal(panel.find(".ab-others").hidden, true, "a comparison has only its own");
    panel.find("button.ab-find").click();
    panel.find("button.ab-find").click();
    answer(false, entry("a", now), entry("b", now), entry("c", AT));
    assert.deepEqual(lists(), [
      ["Today", ["a", "b"]],
      [when(AT).slice(0, -6), ["c"]],
    ]);
    panel.find(".ab-others input").click();
    assert.equal(panel.said("find").at(-1).others, true);
    answer(true, entry("a", now, false), entry("d", now, true));
    assert.deepEqual(lists(), [
      ["Today", ["a"]],
      ["Today · others", ["d"]],
    ]);
  }),
);

test(
  "a list without sessions says why",
  using((panel) => {
    const answer = () => {
      panel.receive({ kind: "sessions", number: panel.said("find").at(-1).number, entries: [] });
      return panel.find(".ab-drawer-note").textContent;
    };
    panel.find("button.ab-find").click();
    assert.equal(answer(), "There are no sessions yet.");
    const search = panel.find(".ab-drawer input");
    panel.find("button.ab-find").click();
    panel.find("button.ab-find").click();
    search.value = "turn";
    assert.equal(answer(), "No title or text read here has these words.");
  }),
);

test(
  "what opens the drawer closes it, and so does Escape, before it stops anything",
  using(
    (panel) => {
      const [find, files] = [panel.find("button.ab-find"), panel.find("button.ab-more")];
      find.click();
      find.click();
      assert.equal(panel.find(".ab-drawer").hidden, true);
      files.click();
      assert.equal(panel.press("Escape", {}, panel.find(".ab-drawer button[data-suffix]")).defaultPrevented, true);
      assert.equal(panel.find(".ab-drawer").hidden, true);
      assert.equal(document.activeElement, files);
      assert.equal(files.getAttribute("aria-expanded"), "false");
      assert.equal(panel.said("stop").length, 0);
      panel.press("Escape", {}, files);
      assert.equal(panel.said("stop").length, 1);
      find.click();
      panel.hear("comm_live_update");
      assert.equal(panel.find(".ab-drawer").hidden, true);
    },
    snapshot(1, [], { composer: { ...FIELDS.composer, busy: true } }),
  ),
);

test(
  "the conversation is saved as a file, or the reason is told",
  using((panel) => {
    const saved = [];
    window.URL.createObjectURL = globalThis.URL.createObjectURL = (blob) => `blob:${blob.type},${blob.size}`;
    window.HTMLAnchorElement.prototype.click = function () {
      saved.push([this.download, this.href]);
    };
    mock.timers.enable({ apis: ["setTimeout"] }); // a file is let go after a minute
    panel.find("button.ab-more").click();
    const press = (suffix) => panel.find(`[data-suffix="${suffix}"]`).click();
    const note = () => panel.find(".ab-drawer-note").textContent;
    press(".md");
    press(".json"); // in haste: only the last one counts
    const [first, last] = panel.said("export");
    assert.deepEqual([first.suffix, last.suffix, note()], [".md", ".json", "Writing…"]);
    panel.receive({ kind: "file", number: first.number, name: "a.md", type: "text/markdown", text: "x" });
    assert.deepEqual(saved, []);
    panel.receive({ kind: "file", number: last.number, name: "a.json", type: "application/json", text: "{}" });
    assert.deepEqual(saved, [["a.json", "blob:application/json,2"]]);
    assert.equal(panel.find(".ab-drawer").hidden, true);
    panel.find("button.ab-more").click();
    press(".html");
    panel.receive({ kind: "file", number: panel.said("export")[2].number, error: "no room" });
    assert.equal(note(), "Not exported: no room");
    assert.equal(saved.length, 1);
    mock.timers.reset();
  }),
);

const acts = `<div class="ab-me"><span class="ab-acts">${COPY}</span><p class="ab-said">Hi</p></div>`;

test(
  "a turn is added to the test set after a look",
  using(
    (panel) => {
      const buttons = [...panel.root.querySelectorAll(".ab-collecting")];
      assert.equal(buttons.length, 2);
      buttons[1].click();
      const [look] = panel.said("collect");
      assert.deepEqual([look.turn, look.confirm], ["t2", false]);
      const input = { text: "I am […]", masked: "an e-mail address", added: false, inputs: 1 };
      panel.receive({ kind: "collected", number: look.number, collected: input });
      assert.match(panel.find(".ab-drawer").textContent, /I am \[…\].*Masked: an e-mail address\./);
      assert.equal(document.activeElement.textContent, "Add");
      document.activeElement.click();
      const add = panel.said("collect")[1];
      assert.deepEqual([add.turn, add.confirm], ["t2", true]);
      panel.receive({ kind: "collected", number: add.number, collected: { ...input, added: true } });
      assert.match(panel.find(".ab-drawer").textContent, /the test set has 1 input\./);
      assert.equal(document.activeElement.textContent, "Close");
      const closes = [...panel.find(".ab-drawer").querySelectorAll("button:not([hidden])")].map((b) => b.textContent);
      assert.deepEqual(closes, ["Close"], "one button closes the drawer");
      document.activeElement.click();
      assert.equal(panel.find(".ab-drawer").hidden, true);
    },
    snapshot(
      1,
      [
        ["t1", { html: { whole: acts } }],
        ["t2", { ...turn("Hi", "<p>a</p>"), html: { question: acts } }],
      ],
      { collects: true },
    ),
  ),
);

/*
What an explorer shows, as the kernel sends it. Numbered messages ask for it, one at a
time. While one is under way, a newer selection replaces the one that is waiting, so a
brush never runs ahead of its views.
*/
import { openConnection } from "../core/connection.js";

const PATIENCE_MS = 4000;
const VIEWS = ["heat", "latency", "outcomes", "groups"];

/* The values and the messages to the kernel, shared by all views of one model. */
export function connectExplorer(model) {
  const snapshot = model.get("_snapshot");
  if (!snapshot) return null;
  const state = { notice: "", dragging: false };
  const views = new Set();
  const queue = new Map();
  let [waiting, sent, timer, answered] = [null, 0, 0, 0];
  const redraw = (kind) => views.forEach((draw) => draw(kind, answered));

  /* Newer choices are kept; the kernel is about to learn of them. */
  function followFilters() {
    if (!queue.has("select") && !state.dragging) state.filters = { ...state.current.filters };
  }
  function replace({ kind: _, ...parts }) {
    Object.assign(state, parts, { opening: null });
    followFilters();
  }
  replace(snapshot);

  function say(text) {
    if (state.notice === text) return;
    state.notice = text;
    redraw("notice");
  }

  function sendNext() {
    if (waiting !== null || !queue.size) return;
    const [kind, message] = queue.entries().next().value;
    queue.delete(kind);
    waiting = sent += 1;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!connection.gone()) say("Waiting for the kernel…");
    }, PATIENCE_MS);
    connection.send({ ...message, number: waiting, version: state.fixed.version, changes: state.current.changes });
  }

  function finish(number) {
    if (waiting === null || number !== waiting) return;
    answered = waiting;
    waiting = null;
    clearTimeout(timer);
    say("");
    queueMicrotask(sendNext); // with what this message brings
  }

  function apply(message) {
    if (message.fixed) state.fixed = message.fixed;
    if (message.current) {
      // The kernel leaves out what a page already shows. Another page, which asked for
      // this, may have shown more than this one.
      const { changes } = message.current;
      const lacks = VIEWS.some((view) => !(view in message.current) && changes[view] !== state.current.changes[view]);
      state.current = { ...state.current, ...message.current };
      if (lacks) {
        state.current.changes = {};
        if (!queue.has("select")) queue.set("select", { kind: "select", filters: { ...message.current.filters } });
      }
      state.empty = message.empty ?? state.empty;
      followFilters();
    }
    if (message.table) state.current.table = message.table;
    if ("conversation" in message) {
      // The same conversation may arrive again after the answer to a question about it.
      if (message.conversation?.row !== state.conversation?.row) state.collected = null;
      [state.conversation, state.opening] = [message.conversation, null];
    }
    if ("collected" in message) state.collected = message.collected;
    redraw(message.fixed ? "fixed" : message.kind);
  }
  const connection = openConnection(model, state, {
    replace(message) {
      replace(message);
      finish(waiting); // its answer may be among the missed messages
      redraw("fixed");
    },
    apply,
    answered: (message) => finish(message.number),
    ended: say,
  });

  const ask = (message) => {
    queue.set(message.kind, message);
    sendNext();
  };
  const act = {
    select(part) {
      Object.assign(state.filters, part);
      redraw("filters");
      ask({ kind: "select", filters: { ...state.filters } });
    },
    settled: () => ask({ kind: "select", filters: { ...state.filters } }),
    table: (page) => ask({ kind: "table", ...page }),
    open(row, byKey = false) {
      Object.assign(state, { opening: row, focusConversation: byKey });
      redraw("conversation");
      ask({ kind: "open", row });
    },
    openSlowest() {
      const rows = [...state.current.table.rows].sort((a, b) => (b.latency ?? -1) - (a.latency ?? -1));
      act.open(rows[0].row, true);
    },
    collect: (confirm) => ask({ kind: "collect", row: state.conversation.row, confirm }),
    closeConversation() {
      Object.assign(state, { conversation: null, opening: null });
      redraw("conversation");
      ask({ kind: "close" });
    },
  };
  const end = () => {
    clearTimeout(timer);
    connection.close();
  };
  return { state, views, act, end };
}

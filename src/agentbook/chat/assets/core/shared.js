/* The state and the messages to the kernel, shared by all views of one model. */
import { openConnection } from "./connection.js";
import { mathQueue } from "./math.js";
import { APPLIED, applyPatch, applySnapshot, emptyChanges, emptyState, MISSED } from "./protocol.js";

/* Connect a model whose state is described in `chat/widgets/page_state.py`. */
export function connectState(model) {
  const state = emptyState();
  const views = new Set();
  const all = () => ({ ...emptyChanges(), all: true });
  const redraw = (changes) => {
    for (const view of views) view.draw(changes);
  };

  function receive(message) {
    const kind = message?.kind;
    if (kind === "snapshot") {
      if (applySnapshot(state, message) !== APPLIED) return null;
      redraw(all());
    } else if (Array.isArray(message?.ops)) {
      const changes = emptyChanges();
      const outcome = applyPatch(state, message, changes);
      if (outcome === MISSED) return false;
      if (outcome === APPLIED) redraw(changes);
    } else if (message) {
      for (const view of views) view.answered(message);
    }
    return true;
  }

  applySnapshot(state, model.get("_snapshot"));
  const { act, gone, close } = openConnection(model, {
    version: () => state.version,
    receive,
    ended: () => redraw(all()),
  });
  return { state, views, send: act, gone, typeset: mathQueue(model), end: close };
}

let made = 0; // requests to the kernel so far

/* A function that sends the kernel a message to be answered, and returns its number; null without a kernel. */
export function asker(send) {
  const id = `${Math.random().toString(36).slice(2)}-`;
  return (message) => {
    made += 1;
    const number = id + made;
    return send({ ...message, number }) ? number : null;
  };
}

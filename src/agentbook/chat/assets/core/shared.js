/* The state and the messages to the kernel, shared by all views of one model. */
import { openConnection } from "./connection.js";
import { mathQueue } from "./math.js";
import { applyPatch, applySnapshot, emptyChanges, emptyState } from "./protocol.js";

/* Connect a model whose state is described in `chat/widgets/page_view.py`. */
export function connectState(model) {
  const state = emptyState();
  const views = new Set();
  const all = () => ({ ...emptyChanges(), all: true });
  const redraw = (changes) => {
    for (const view of views) view.draw(changes);
  };

  function replace(message) {
    if (!applySnapshot(state, message)) return false;
    redraw(all());
    return true;
  }
  function apply(message) {
    const changes = emptyChanges();
    if (!applyPatch(state, message, changes)) return false;
    redraw(changes);
    return true;
  }
  const answered = (message) => views.forEach((view) => view.answered(message));

  const snapshot = model.get("_snapshot");
  if (applySnapshot(state, snapshot)) state.version = snapshot.version;
  const ended = () => redraw(all());
  function silent(isSilent) {
    state.silent = isSilent;
    redraw({ ...emptyChanges(), fields: new Set(["status"]) });
  }
  const expects = () => Boolean(state.fields.status?.[1]);
  const handlers = { replace, apply, answered, ended, silent, expects };
  const { send, act, page, gone, close } = openConnection(model, state, handlers);

  /* Tell the kernel whether the page shows the widget, so that what nobody sees can rest. */
  const tell = ({ type } = {}) => send({ do: "shown", page, open: type !== "pagehide" && views.size > 0 });
  const enter = (view) => tell({ entered: views.add(view) });
  const leave = (view) => tell({ left: views.delete(view) });
  for (const name of ["pagehide", "pageshow"]) window.addEventListener(name, tell);
  function end() {
    for (const name of ["pagehide", "pageshow"]) window.removeEventListener(name, tell);
    close();
  }
  return { state, enter, leave, send: act, gone, typeset: mathQueue(model), end };
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

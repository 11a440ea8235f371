/*
The state of a panel in a page, kept equal to the kernel's by a snapshot and numbered
patches. `chat/widgets/panel_view.py` documents the messages. Nothing here touches the page.

Every message is checked: one that does not fit changes nothing, or leaves the state to
be replaced by a snapshot.
*/

export function emptyState() {
  return { version: -1, fields: {}, order: [], turns: new Map() };
}

export function emptyChanges() {
  return { all: false, fields: new Set(), order: false, turns: new Map() };
}

const isText = (value) => typeof value === "string";
const isCount = (value) => Number.isInteger(value) && value >= 0;
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value) => Array.isArray(value) && value.every(isText);

const emptyTurn = () => ({ html: new Map(), data: new Map(), body: "", cuts: [], final: 0 });

function isAscending(cuts, end) {
  return cuts.every((cut, n) => isCount(cut) && (n === 0 || cut >= cuts[n - 1])) && (cuts.at(-1) ?? 0) === end;
}

/* Replace the state with a snapshot; returns whether it is valid. */
export function applySnapshot(state, message) {
  if (!isRecord(message) || !isRecord(message.fields) || !Array.isArray(message.turns)) return false;
  const turns = new Map();
  for (const entry of message.turns) {
    if (!Array.isArray(entry) || !isText(entry[0]) || !isRecord(entry[1])) return false;
    const { html = {}, data = {}, body = "", cuts = [], final = 0 } = entry[1];
    if (!isRecord(html) || !isTexts(Object.values(html)) || !isRecord(data)) return false;
    if (!isText(body) || !Array.isArray(cuts) || !isAscending(cuts, body.length) || !isCount(final)) return false;
    turns.set(entry[0], {
      html: new Map(Object.entries(html)),
      data: new Map(Object.entries(data)),
      body,
      cuts,
      final,
    });
  }
  Object.assign(state, { fields: { ...message.fields }, order: [...turns.keys()], turns });
  return true;
}

/* A text in which some code units are replaced; null if the patch does not fit. */
function spliced(before, start, removed, text) {
  if (!isText(before) || !isCount(start) || !isCount(removed) || !isText(text)) return null;
  return start + removed > before.length ? null : before.slice(0, start) + text + before.slice(start + removed);
}

const CHANGE = {
  field(state, changes, name, value) {
    if (!isText(name)) return false;
    state.fields[name] = value;
    changes.fields.add(name);
    return true;
  },
  turns(state, changes, start, removed, added) {
    if (!isCount(start) || !isCount(removed) || !isTexts(added) || start + removed > state.order.length) return false;
    const ended = state.order.splice(start, removed, ...added);
    const order = new Set(state.order);
    if (order.size !== state.order.length) return false;
    for (const turn of ended) if (!order.has(turn)) state.turns.delete(turn);
    for (const turn of added) if (!state.turns.has(turn)) state.turns.set(turn, emptyTurn());
    changes.order = true;
    return true;
  },
  html(state, changes, id, part, start, removed, text) {
    const turn = state.turns.get(id);
    const html = spliced(turn?.html.get(part) ?? "", start, removed, text);
    if (!turn || !isText(part) || html === null) return false;
    turn.html.set(part, html);
    changed(changes, id).add(part);
    return true;
  },
  data(state, changes, id, name, value) {
    const turn = state.turns.get(id);
    if (!turn || !isText(name)) return false;
    turn.data.set(name, value);
    changed(changes, id).add(name);
    return true;
  },
  body(state, changes, id, start, removed, text, ...where) {
    const turn = state.turns.get(id);
    const body = spliced(turn?.body, start, removed, text);
    if (body === null) return false;
    const [first, cuts, final] = where.length ? where : [Math.max(turn.cuts.length - 1, 0), [body.length], turn.final];
    if (!isCount(first) || first > turn.cuts.length || !Array.isArray(cuts) || !isCount(final)) return false;
    const all = [...turn.cuts.slice(0, first), ...cuts];
    if (!isAscending(all, body.length)) return false;
    Object.assign(turn, { body, cuts: all, final });
    changed(changes, id).add("body");
    return true;
  },
};

function changed(changes, id) {
  if (!changes.turns.has(id)) changes.turns.set(id, new Set());
  return changes.turns.get(id);
}

/* Apply a patch, and note in `changes` what it changed; false if it does not fit. */
export function applyPatch(state, message, changes) {
  return (
    Array.isArray(message.ops) &&
    message.ops.every((op) => {
      const change = Array.isArray(op) && Object.hasOwn(CHANGE, op[0]) ? CHANGE[op[0]] : null;
      return Boolean(change?.(state, changes, ...op.slice(1)));
    })
  );
}

/* The pieces of a turn's reply. */
export function piecesOf(turn) {
  return turn.cuts.map((cut, n) => turn.body.slice(n ? turn.cuts[n - 1] : 0, cut));
}

/* The rows of the results in a page, and the messages to and from the kernel. */
import { openConnection } from "../core/connection.js";

/* The rows and the messages to the kernel, shared by all views of one model. */
export function connect(model) {
  const snapshot = model.get("_snapshot");
  if (!snapshot) return null;
  const state = { notice: "" };
  const views = new Set();
  const requests = new Map(); // the rows to render, by what they are compared with
  const redraw = (kind, ids) => views.forEach((draw) => draw(kind, ids));

  function say(text) {
    state.notice = text;
    redraw("notice");
  }
  /* Store rows; return the ids of those that differ from the present ones, such as in a rating. */
  function store(rows) {
    const changed = rows.filter((row) => JSON.stringify(row) !== JSON.stringify(state.rows.get(row.id)));
    for (const row of changed) {
      state.rows.set(row.id, row);
      for (const key of [...state.bodies.keys()]) if (key.endsWith(`/${row.id}`)) state.bodies.delete(key);
      for (const key of [...state.details.keys()]) if (key.startsWith(`${row.id}/`)) state.details.delete(key);
    }
    return changed.map((row) => row.id);
  }
  function replace(whole) {
    const { version, head, order } = whole;
    Object.assign(state, { version, head, order, rows: new Map(), bodies: new Map(), details: new Map() });
    store(whole.rows);
  }
  replace(snapshot);

  function apply({ head, order, rows }) {
    Object.assign(state, { head: head ?? state.head, order: order ?? state.order });
    redraw(head ? "all" : order ? "order" : "rows", store(rows));
  }
  function answered(message) {
    if (message.kind === "bodies") {
      for (const [id, cells] of message.rows) state.bodies.set(`${message.against ?? ""}/${id}`, cells);
      const ids = message.rows.map(([id]) => id);
      redraw("bodies", ids);
    } else if (message.kind === "details") {
      state.details.set(message.key, message);
      redraw("rows", [message.row]);
    }
  }
  const { send, close } = openConnection(model, state, {
    replace(message) {
      replace(message);
      redraw("all");
    },
    apply,
    answered,
    ended: say,
  });

  const act = {
    /* Ask for the HTML of a row; all requests made in one frame are sent together. */
    render(id, against) {
      if (!requests.size)
        requestAnimationFrame(() => {
          for (const [key, ids] of requests) send({ kind: "bodies", against: key, rows: [...ids] });
          requests.clear();
        });
      requests.set(against, (requests.get(against) ?? new Set()).add(id));
    },
    details(row, variant, repeat) {
      state.details.set(`${row}/${variant}/${repeat}`, null); // under way
      send({ kind: "details", row, variant, repeat });
    },
    vote: (row, variant, repeat, vote) => send({ kind: "vote", row, variant, repeat, ...vote }),
    say,
  };
  return { state, views, act, end: close };
}

/*
The table of results in a page: a row per input, a column per variant. The kernel sends
rows, and sends them again when they change; this module filters, sorts and draws them.
Only rows near the view are filled, and the kernel renders replies only for these.
*/
import { element, reconcile, set, write } from "../core/dom.js";
import { widgetModule } from "../core/connection.js";
import { passesWithModifier, shieldKeys } from "../core/keys.js";
import { arrange, letter, shuffled, tally } from "./rows.js";
import { connect } from "./connection.js";
import { replyView } from "./reply.js";
import { toolbar } from "./toolbar.js";

const MARGIN = "600px 0px";
const STEP = 40; // rows in the page at first, and added with each further step
const BUDGET_MS = 8; // time in each frame to fill rows; the page responds between two frames

/* One view of a model: fills `el`, and returns a function that ends it. */
function show({ state, views, act }, el) {
  const look = { filter: "all", search: "", sort: "", descending: false, against: null, blind: false };
  const open = new Set(); // replies that are shown in full
  const notes = new Map(); // text boxes of notes, kept while rows are redrawn
  const elements = new Map(); // the rows' elements, by id
  let current = null; // the cell that Tab moves to
  let pending = 0;
  let shown = []; // the rows in order; the first `limit` are in the page
  let limit = STEP;
  const queue = new Set(); // the rows to fill, by id
  let filling = 0;

  const tools = toolbar(state, look, (part) => {
    Object.assign(look, part);
    if (look.blind) look.against = null; // it would reveal whose reply it is
    if ("blind" in part) clear();
    else if ("against" in part) refill();
    limit = STEP;
    scroller.scrollTop = 0;
    arrangeRows();
  });
  const head = element("div", { role: "row", class: "ab-r-row ab-r-head" });
  const body = element("div", { role: "rowgroup", class: "ab-r-body-rows" });
  const grid = element(
    "div",
    { role: "grid", "aria-label": "Replies by input and variant", class: "ab-r-grid" },
    element("div", { role: "rowgroup" }, head),
    body,
  );
  const rest = element("div", { class: "ab-foot ab-r-rest", hidden: "" });
  const scroller = element("div", { class: "ab-r-scroll" }, grid, rest);
  const none = element("p", { class: "ab-foot", hidden: "" }, "No rows match.");
  const notice = element("div", { class: "ab-failed", role: "alert", hidden: "" });
  const keys = element("div", { class: "ab-foot ab-r-keys" });
  write(keys, "In the table: arrow keys move, + and − label a reply, n adds a note, Enter shows the complete reply.");
  const parts = [tools.root, notice, scroller, none, keys];
  const root = element("div", { class: "ab-results", role: "region", "aria-label": "Replies" }, ...parts);
  el.append(root);
  const near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        target.near = isIntersecting;
        if (!isIntersecting) queue.delete(target.row);
        else if (target === rest) keepInView(() => extend(limit + STEP));
        else fillSoon(target.row);
      }
    },
    { root: scroller, rootMargin: MARGIN },
  );

  const orderIn = (row) =>
    look.blind ? shuffled(state.head.variants.length, state.head.seed, row.id) : state.head.variants.map((_, n) => n);
  const keyOf = (id, variant, repeat) => `${id}/${variant}/${repeat}`;

  function makeNoteBox(key, id, variant, reply) {
    const words = { "aria-label": "Note on this reply", placeholder: "A note on this reply" };
    const box = element("textarea", { class: "ab-r-notebox", rows: 2, tabindex: -1, ...words });
    box.value = reply.note;
    box.addEventListener("change", () => vote(id, variant, reply.repeat, { note: box.value }));
    notes.set(key, box);
    return box;
  }
  function noteBox(key, id, variant, reply) {
    const box = notes.get(key) ?? (reply.note ? makeNoteBox(key, id, variant, reply) : null);
    if (box && document.activeElement !== box) box.value = reply.note;
    return box;
  }
  function vote(id, variant, repeat, part) {
    const reply = state.rows.get(id).cells[variant].find((each) => each.repeat === repeat);
    Object.assign(reply, part);
    act.vote(id, variant, repeat, { thumb: reply.thumb, note: reply.note });
    // When a click leaves a note, the redraw must not replace the element being clicked.
    if (!("thumb" in part)) return;
    drawRow(id);
    tools.draw(shown.length);
  }
  const does = (id, variant, reply) => ({
    vote: (part) => vote(id, variant, reply.repeat, part),
    note() {
      const key = keyOf(id, variant, reply.repeat);
      const box = notes.get(key);
      if (box && !box.value) notes.delete(key);
      else if (!box) makeNoteBox(key, id, variant, reply);
      drawRow(id);
      if (notes.has(key)) notes.get(key).focus();
    },
    open() {
      const key = keyOf(id, variant, reply.repeat);
      if (!open.delete(key)) open.add(key);
      drawRow(id);
    },
  });
  /*
  Fill a row within a few frames. A row that already shows something waits for its
  replies: the kernel is asked for them, and the old content stays until they arrive.
  */
  function fillSoon(id) {
    const made = elements.get(id);
    if (!made || made.complete === against()) return;
    if (made.childElementCount > 1 && !bodiesOf(id)) {
      act.render(id, look.against);
      return;
    }
    queue.add(id);
    if (!filling) filling = requestAnimationFrame(fillQueue);
  }
  function fillQueue() {
    filling = 0;
    const until = performance.now() + BUDGET_MS;
    keepInView(() => {
      for (const id of queue) {
        queue.delete(id);
        if (elements.has(id)) fill(id);
        if (performance.now() > until) break;
      }
    });
    if (queue.size) filling = requestAnimationFrame(fillQueue);
  }
  const against = () => String(look.against ?? "");
  const bodiesOf = (id) => state.bodies.get(`${against()}/${id}`);
  /* Fill the cells of a row. If an element in it has the focus, it is focused again. */
  function fill(id) {
    const made = elements.get(id);
    const row = state.rows.get(id);
    const focused = made.contains(document.activeElement) ? document.activeElement : null;
    const column = [...made.children].indexOf(focused?.closest(".ab-r-cell"));
    const action = focused?.dataset.act;
    const repeat = focused?.closest("[data-repeat]")?.dataset.repeat;
    const currentColumn = [...made.children].indexOf(current);
    const bodies = bodiesOf(id);
    if (!bodies) act.render(id, look.against);
    const input = element(
      "div",
      { role: "rowheader", class: "ab-r-cell ab-r-input", tabindex: -1, dir: "auto" },
      element("div", { class: "ab-r-text" }, row.input),
    );
    if (row.origin) input.append(element("div", { class: "ab-foot" }, row.origin));
    const cells = orderIn(row).map((variant, n) => {
      const name = look.blind ? letter(n) : state.head.variants[variant].name;
      const label = `${look.blind ? "Reply" : "Reply of"} ${name}`;
      const cell = element("div", { role: "gridcell", class: "ab-r-cell", tabindex: -1, "aria-label": label });
      (row.cells[variant] ?? []).forEach((reply, position) => {
        const key = keyOf(id, variant, reply.repeat);
        if (open.has(key) && !state.details.has(key)) act.details(id, variant, reply.repeat);
        const body = bodies?.[variant] ? bodies[variant][position] : null;
        const difference = look.against !== null && look.against !== variant;
        const details = state.details.get(key);
        const how = { name, blind: look.blind, body, difference, open: open.has(key), details };
        const note = noteBox(key, id, variant, reply);
        cell.append(replyView(reply, state.head.checks, how, does(id, variant, reply), note));
      });
      return cell;
    });
    made.replaceChildren(input, ...cells);
    made.filled = true;
    made.complete = bodies ? against() : null; // otherwise it is filled again when they arrive
    if (currentColumn >= 0) makeCurrent(made.children[currentColumn]);
    if (focused) refocus(made.children[column], focused, action, repeat);
  }
  function refocus(cell, focused, action, repeat) {
    const within = repeat && cell ? cell.querySelector(`[data-repeat="${repeat}"]`) : cell;
    const again = focused.isConnected ? focused : ((action && within?.querySelector(`[data-act="${action}"]`)) ?? cell);
    again?.focus({ preventScroll: true });
  }
  function drawRow(id) {
    const made = elements.get(id);
    if (made && made.filled) fill(id);
  }
  /* Create all rows again, because they have different cells. */
  function clear() {
    near.disconnect();
    elements.clear();
    queue.clear();
    current = null;
    drawHead();
  }
  /* Fill the rows near the view again, because the content of their cells changes. */
  function refill() {
    for (const [id, made] of elements) {
      near.unobserve(made); // it is reported again only if it is observed again
      near.observe(made);
      queue.delete(id);
    }
  }

  function drawHead() {
    const rows = state.order.map((id) => state.rows.get(id));
    const titles = state.head.variants.map(({ name, version }, n) => {
      if (look.blind) return element("div", { role: "columnheader", class: "ab-r-cell" }, `Reply ${letter(n)}`);
      const [passed, judged] = tally(rows, n);
      return element(
        "div",
        { role: "columnheader", class: "ab-r-cell" },
        element("span", { class: "ab-r-name" }, name),
        version ? element("span", { class: "ab-lab-version" }, ` ${version}`) : "",
        judged ? element("span", { class: "ab-r-tally" }, ` ${passed} of ${judged} passed`) : "",
      );
    });
    head.replaceChildren(element("div", { role: "columnheader", class: "ab-r-cell" }, "Input"), ...titles);
    grid.style.setProperty("--ab-columns", String(state.head.variants.length));
  }
  function rowElement(id) {
    if (!elements.has(id)) {
      const made = element("div", { role: "row", class: "ab-r-row", "data-row": id });
      made.row = id;
      made.filled = false;
      // A row must not be empty, because it may be read aloud before it is filled.
      made.append(
        element(
          "div",
          { role: "rowheader", class: "ab-r-cell ab-r-input", tabindex: -1, dir: "auto" },
          state.rows.get(id).input,
        ),
      );
      elements.set(id, made);
      near.observe(made);
    }
    return elements.get(id);
  }
  function arrangeRows() {
    shown = arrange(
      state.order.map((id) => state.rows.get(id)),
      look,
    );
    none.hidden = shown.length > 0 || !state.order.length;
    root.hidden = !state.order.length;
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    tools.draw(shown.length);
    extend(limit);
    if (!current || !current.isConnected) makeCurrent(body.querySelector(".ab-r-cell"));
  }
  function extend(count) {
    limit = count;
    reconcile(body, shown.slice(0, limit), (row) => rowElement(row.id));
    rest.hidden = shown.length <= limit;
    write(rest, `${shown.length - limit} more`);
    // It may not have left the view, so it is reported again only if observed again.
    near.unobserve(rest);
    near.observe(rest);
  }
  /* Draw something, while the cell with the focus keeps its place in the view. */
  function keepInView(work) {
    const cell = body.contains(document.activeElement) ? document.activeElement.closest(".ab-r-cell") : null;
    const before = cell ? cell.getBoundingClientRect().top : 0;
    work();
    if (current && cell && current.isConnected) scroller.scrollTop += current.getBoundingClientRect().top - before;
  }
  function prune() {
    const ids = new Set(state.order);
    for (const [id, made] of [...elements]) {
      if (ids.has(id)) continue;
      near.unobserve(made);
      elements.delete(id);
    }
  }

  /* Tab moves to one cell and the elements in it; arrows move to the other cells. */
  function makeCurrent(cell) {
    const controls = (of) => of.querySelectorAll("button, textarea");
    const reach = (of, index) => of && [of, ...controls(of)].forEach((each) => set(each, "tabindex", index));
    reach(current, -1);
    reach((current = cell), 0);
  }
  function move(cell, key) {
    const row = cell.parentElement;
    const column = [...row.children].indexOf(cell);
    const steps = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      PageUp: [-5, 0],
      PageDown: [5, 0],
      Home: [-Infinity, 0],
      End: [Infinity, 0],
    };
    const [down, across] = steps[key];
    if (key === "End" || rowsBelow(row) < 6) extend(key === "End" ? shown.length : limit + STEP);
    const rows = [...body.children];
    const next = rows[Math.min(Math.max(rows.indexOf(row) + down, 0), rows.length - 1)];
    if (!next.filled) fill(next.row);
    const target = next.children[Math.min(Math.max(column + across, 0), next.children.length - 1)];
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  const rowsBelow = (row) => body.childElementCount - [...body.children].indexOf(row) - 1;
  const PRESSES = { "+": "up", "=": "up", "-": "down", "−": "down", n: "note", Enter: "open" };
  body.addEventListener("focusin", (event) => makeCurrent(event.target.closest(".ab-r-cell")));
  body.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".ab-r-cell");
    if (event.key === "Escape") {
      event.target.blur(); // stores a note, after which its row may be redrawn
      current.focus();
    } else if (event.target !== cell || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (/^(Arrow(Left|Right|Up|Down)|Page(Up|Down)|Home|End)$/.test(event.key)) move(cell, event.key);
    else if (PRESSES[event.key]) {
      cell.querySelector(`[data-act="${PRESSES[event.key]}"]`)?.click();
    } else return;
    event.preventDefault();
  });
  const endKeys = shieldKeys(root, passesWithModifier);

  function draw(kind, ids) {
    if (kind === "notice") {
      write(notice, state.notice);
      notice.hidden = !state.notice;
      return;
    }
    if (kind === "bodies") {
      ids.filter((id) => elements.has(id) && elements.get(id).near).forEach(fillSoon);
      return;
    }
    if (kind === "all") {
      tools.build();
      clear();
    }
    if (kind === "order") prune();
    if (kind === "rows" || kind === "order") ids.forEach(drawRow);
    // During a run, rows arrive many times a second: each frame draws the newest ones.
    if (!pending)
      pending = requestAnimationFrame(() => {
        pending = 0;
        drawHead();
        arrangeRows();
      });
  }
  views.add(draw);
  tools.build();
  drawHead();
  arrangeRows();
  return () => {
    views.delete(draw);
    endKeys();
    near.disconnect();
    cancelAnimationFrame(pending);
    cancelAnimationFrame(filling);
  };
}

export default widgetModule(connect, show);

/*
The conversation. Without any script, the box starts at its end (column-reverse), stays
there as it grows, and does not move while a reader has scrolled up.
*/
import { afterPaint, button, element, htmlHolder, reconcile, set, when, write } from "../core/dom.js";
import { listenToMessages, messageIn } from "./messages.js";

const LONG = 100; // turns; from this number on, a page lays out only those near the view
const FAR = 48; // pixels from the end at which a reader no longer follows it

/*
`make` creates the view of a turn, with `root` and `draw`. It receives the turn's id, and
a function that returns the view of another turn. `rows` picks the turns that are placed
below each other; their views place those of the others. `act` is for `listenToMessages`.
*/
export function logView(state, act, make, rows = (order) => order) {
  const inner = element("div", { class: "ab-inner" });
  const log = element(
    "div",
    { class: "ab-log", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: 0 },
    inner,
  );
  const latest = button({ class: "ab-button ab-latest", hidden: "" }, "Jump to the end");
  const end = element("span", { tabindex: -1 });
  const root = element("div", { class: "ab-logframe" }, log, end, latest);
  log.addEventListener("keydown", walk);
  const empty = htmlHolder();
  let before = null; // the last row when a message was sent from here, until its own is there
  if (window.ResizeObserver) {
    new ResizeObserver(() => {
      log.style.setProperty("--ab-view", `${log.clientHeight}px`);
      log.style.setProperty("--ab-bar", `${log.offsetWidth - log.clientWidth}px`);
      if (latest.hidden) log.scrollTop = 0; // who was at the end stays there as the status line comes and goes
    }).observe(log);
  }
  const views = new Map();

  const isFar = () => Math.abs(log.scrollTop) > FAR;
  const drawLatest = () => {
    latest.hidden = !isFar();
  };
  function toEnd() {
    log.scrollTop = 0;
    drawLatest();
  }
  function sent() {
    before = rows(state.order).at(-1) ?? "";
    toEnd();
  }

  log.addEventListener("scroll", drawLatest, { passive: true });
  latest.addEventListener("click", () => {
    toEnd();
    log.focus({ preventScroll: true });
  });
  listenToMessages(log, act, (id) => state.turns.get(id).html.get("whole") ?? state.turns.get(id).body);

  /*
  However long the log, it is two stops of Tab: itself, and one of its controls, from which the arrows lead to the others.
  A text that scrolls keeps its arrows.
  */
  let stop = null; // the control that had the focus last
  function walk(event) {
    const { key, target, shiftKey } = event;
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    const isControl = target.matches("button, summary, a");
    const scrolls = !isControl && target.scrollHeight > target.clientHeight + 1;
    const step = !scrolls && { ArrowUp: -1, ArrowDown: 1, ...(isControl && { ArrowLeft: -1, ArrowRight: 1 }) }[key];
    if (key === "Tab" && target !== log) {
      if (!shiftKey) return end.focus({ preventScroll: true }); // and from there, the page goes on
      log.focus({ preventScroll: true });
    } else if (key === "Tab" && !shiftKey) {
      if (!stop?.isConnected || !stop.checkVisibility()) stop = next(null, -1);
      if (!stop) return;
      stop.focus();
    } else if (step && target !== log) next(target, step)?.focus();
    else return;
    event.preventDefault();
  }
  const next = (from, step) => {
    const all = [...inner.querySelectorAll("button, summary, a[href], [tabindex='0']")];
    const usable = (each) => !each.disabled && each.tabIndex >= 0 && each.checkVisibility();
    if (step < 0) return all.slice(0, from ? all.indexOf(from) : undefined).findLast(usable);
    return all.slice(all.indexOf(from) + 1).find(usable);
  };
  inner.addEventListener("focusin", ({ target }) => (stop = target));

  const viewOf = (id) => views.get(id) ?? drawTurn(id);
  function drawTurn(id) {
    if (!views.has(id)) views.set(id, make(id, viewOf));
    const view = views.get(id);
    view.draw(state.turns.get(id));
    return view;
  }

  function arrange() {
    for (const id of views.keys()) if (!state.turns.has(id)) views.delete(id);
    const shown = rows(state.order);
    reconcile(inner, shown, (id) => viewOf(id).root);
    if (!shown.length) inner.append(empty.root);
    // What was asked here fills the view, so that its question is at the top, and the reply grows below it.
    if (before !== null && shown.length && shown.at(-1) !== before) {
      set(viewOf(shown.at(-1)).root, "data-asked", "");
      before = null;
    }
    inner.classList.toggle("ab-many", shown.length > LONG);
  }

  function draw(changes) {
    empty.draw(state.fields.empty);
    for (const each of empty.root.querySelectorAll("time")) write(each, when(each.dateTime));
    const ids = changes.all ? state.order : changes.turns.keys();
    for (const id of ids) if (state.turns.has(id)) drawTurn(id);
    if (changes.all || changes.order) arrange();
    if (changes.all) set(root, "style", `height: ${state.fields.height}`);
    // Asking for the scroll position lays out the page, once for each panel that changes.
    // No change moves the box away from its end, and scrolling is handled above.
    if (!latest.hidden) drawLatest();
  }

  const focus = () => log.focus({ preventScroll: true });

  /* Bring a turn to the top of the box, mark it, and give it the focus; `words` are in it. */
  function show(id, words) {
    const made = views.get(id)?.root;
    for (const each of inner.children) set(each, "aria-current", each === made);
    if (!made) return;
    for (const [name, value] of Object.entries({ tabindex: -1, role: "group", "aria-label": `Found: ${words}` })) {
      set(made, name, value);
    }
    made.focus({ preventScroll: true });
    const place = () => {
      log.scrollTop += made.getBoundingClientRect().top - log.getBoundingClientRect().top - 8;
    };
    place();
    afterPaint(place); // turns near the view are laid out only now
  }

  const sentMessages = () => [...inner.querySelectorAll(".ab-me:not(.ab-other) .ab-said")].map(messageIn);
  return { root, draw, sent, focus, show, sentMessages };
}

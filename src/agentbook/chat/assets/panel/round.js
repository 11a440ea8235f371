/* A question with several replies side by side; where they have no room, one at a time. */
import { button, element, htmlHolder, reconcile, set, write } from "../core/dom.js";

const WIDE = 700; // pixels, from which on replies stand side by side
const COLUMN = 230; // that each of them needs

const asArray = (value) => (Array.isArray(value) ? value : []);

/* A button that prefers the choice in its values, if they have a label. */
function choiceButton(prefer) {
  let values = {};
  const root = button({ class: "ab-button ab-prefer", onclick: () => prefer(values.round, values.choice) });
  function draw(nextValues) {
    values = nextValues ?? {};
    root.hidden = !values.label;
    write(root, String(values.label ?? ""));
    set(root, "title", values.title);
    set(root, "disabled", values.enabled ? null : "");
    root.classList.toggle("ab-pressed", Boolean(values.pressed));
  }
  return { root, draw };
}

/* One reply, as `reply` shows it, after what is said above it, such as text from before it was retried. */
function columnView(reply, prefer) {
  const attempts = htmlHolder();
  const choice = choiceButton(prefer);
  const root = element("div", { class: "ab-column" }, attempts.root, reply.root, choice.root);
  const tab = button({ class: "ab-tab", role: "tab" });
  function draw(turn) {
    attempts.draw(turn.html.get("attempts"));
    reply.draw(turn);
    choice.draw(turn.data.get("choice"));
    const isChosen = Boolean(turn.data.get("choice")?.pressed);
    root.classList.toggle("ab-chosen", isChosen);
    write(tab, `${isChosen ? "✓ " : ""}${turn.data.get("label") ?? ""}`);
  }
  return { root, tab, draw };
}

/* A message, the replies side by side, and the choices that apply to no single reply. */
function roundView(viewOf, isThere, prefer) {
  const question = htmlHolder();
  const tabs = element("div", { class: "ab-tabs", role: "tablist", "aria-label": "Replies", hidden: "" });
  const columns = element("div", { class: "ab-columns" });
  const choices = [];
  const verdict = element("div", { class: "ab-said-verdict" });
  const foot = element("div", { class: "ab-verdict" }, verdict);
  const root = element("div", { class: "ab-round" }, question.root, tabs, columns, foot);
  const name = `ab-${Math.random().toString(36).slice(2)}`;
  let [shown, current] = [[], 0]; // the columns, and which of them has the room

  function fit() {
    const width = root.clientWidth;
    tabs.hidden = !width || shown.length < 2 || width >= Math.max(WIDE, COLUMN * shown.length);
    current = Math.min(current, Math.max(shown.length - 1, 0));
    shown.forEach(({ root: column, tab }, n) => {
      const own = `${name}-${n}`;
      column.hidden = !tabs.hidden && n !== current;
      set(tab, "id", own);
      set(tab, "aria-controls", `${own}-reply`);
      set(tab, "aria-selected", String(n === current));
      set(tab, "tabindex", n === current ? 0 : -1);
      set(column, "id", `${own}-reply`);
      set(column, "role", tabs.hidden ? null : "tabpanel");
      set(column, "aria-labelledby", tabs.hidden ? null : own);
    });
  }
  if (window.ResizeObserver) new ResizeObserver(fit).observe(root);

  function select(n) {
    current = (n + shown.length) % shown.length;
    fit();
    shown[current].tab.focus({ preventScroll: true });
  }
  tabs.addEventListener("click", ({ target }) => {
    const n = shown.findIndex(({ tab }) => tab === target);
    if (n >= 0) select(n);
  });
  tabs.addEventListener("keydown", (event) => {
    const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(to);
  });

  function draw(turn) {
    question.draw(turn.html.get("question"));
    shown = asArray(turn.data.get("columns")).filter(isThere).map(viewOf);
    reconcile(columns, shown, (view) => view.root);
    reconcile(tabs, shown, (view) => view.tab);
    asArray(turn.data.get("choices")).forEach((values, n) => {
      if (n === choices.length) {
        choices.push(choiceButton(prefer));
        verdict.before(choices[n].root);
      }
      choices[n].draw(values);
    });
    write(verdict, String(turn.data.get("verdict") ?? ""));
    foot.hidden = !choices.length && !verdict.textContent;
    fit();
  }
  return { root, draw };
}

/* How the log shows turns of which some are rounds, and some are replies in them; `replyView` makes the view of a reply. */
export function roundsOf(state, replyView, prefer = () => {}) {
  const has = (id, name) => Boolean(state.turns.get(id)?.data.has(name));
  const isReply = (id) => has(id, "choice");
  function make(id, viewOf) {
    if (has(id, "columns")) return roundView(viewOf, isReply, prefer);
    return isReply(id) ? columnView(replyView(id), prefer) : replyView(id);
  }
  return { make, rows: (order) => order.filter((id) => !isReply(id)) };
}

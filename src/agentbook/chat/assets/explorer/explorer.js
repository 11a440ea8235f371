/* The explorer in a page: the kernel counts, and this module draws. */
import { duration, NOTHING, number } from "./marks.js";
import { button, copyFor, element, set, write } from "../core/dom.js";
import { collectView } from "../core/collect.js";
import { widgetModule } from "../core/connection.js";
import { passesWithModifier, shieldKeys } from "../core/keys.js";
import { conversationLog } from "./conversation.js";
import { drawerView } from "../panel/drawer.js";
import { headBar, icon } from "../core/head.js";
import { latencyView } from "./plot.js";
import { barsView, heatView, tableView } from "./lists.js";
import { connectExplorer } from "./state.js";

const OWN = {
  time: { begin: null, end: null },
  latency: { low: null, high: null },
  hours: { hours: [] },
  outcomes: { outcomes: [] },
  groups: { groups: [] },
  text: { text: "" },
};

/* The line at the top: how many turns are selected, by what, and how they went. */
function headView(state, act) {
  const figures = element("div", { class: "ab-x-figures" });
  const chips = element("div", { class: "ab-x-chips" });
  const spoken = element("div", { class: "ab-x-hidden", role: "status" });
  const notice = element("div", { class: "ab-x-notice", role: "alert", hidden: "" });
  const incomplete = element("div", { class: "ab-x-hint" });
  const root = element("div", { class: "ab-x-head" }, figures, chips, incomplete, spoken, notice);

  const figure = (value, label, bad = "") =>
    element("span", { class: `ab-x-figure${bad}` }, element("b", {}, value), ` ${label}`);
  function draw() {
    const { turns, all, sessions, failed, p50, p95 } = state.current.summary;
    figures.replaceChildren(
      figure(number(turns), turns === all ? "turns" : `of ${number(all)} turns`),
      figure(number(sessions), "sessions"),
      figure(duration(p50), "median"),
      figure(duration(p95), "95th percentile"),
      figure(number(failed), "failed", failed > 0 ? " ab-x-bad" : ""),
    );
    const made = state.current.chips.map(([dimension, words]) =>
      button(
        { class: "ab-x-chip", title: "Remove this condition", onclick: () => act.select(OWN[dimension]) },
        `${words} ×`,
      ),
    );
    if (made.length > 1)
      made.push(button({ class: "ab-x-chip ab-x-all", onclick: () => act.select(NOTHING) }, "Clear all"));
    const how = "Drag over the chart, or click an hour or a bar, to filter the other views. Click a turn to read it.";
    if (!made.length) made.push(element("span", { class: "ab-x-hint" }, how));
    chips.replaceChildren(...made);
    write(incomplete, state.fixed.incomplete);
    if (!state.dragging) write(spoken, `${state.current.sentence}.`);
  }
  function drawNotice() {
    write(notice, state.notice);
    notice.hidden = !state.notice;
  }
  return { root, draw, drawNotice };
}

/* The conversation next to the views. Its HTML is sanitized in the kernel. */
function conversationView(state, act) {
  const log = conversationLog();
  const body = log.root;
  const add = icon("collecting", "Add to test set", { onclick: () => act.collect(false) });
  const close = icon("close", "Close the conversation", {
    title: "Close (Esc)",
    onclick: () => act.closeConversation(),
  });
  const bar = headBar(add, close);
  const drawer = drawerView(() => body.focus({ preventScroll: true }));
  const input = collectView(
    () => act.collect(true),
    () => drawer.shut(true),
  );
  let collected = null; // what the drawer showed last
  const root = element("aside", { class: "ab-chat ab-module ab-x-pane", hidden: "" }, bar.root, body, drawer.root);
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (!drawer.shut(true)) act.closeConversation();
    event.preventDefault();
  });
  function drawCollected() {
    if (collected === state.collected) return;
    collected = state.collected;
    input.draw(collected);
    if (!collected) drawer.shut(false);
    else if (!drawer.shows(input.root)) drawer.open("Add to test set", input.root, add);
    if (collected && !input.focus()) drawer.focus();
  }
  function draw() {
    const { conversation, opening } = state;
    root.hidden = conversation === null && opening === null;
    set(body, "aria-busy", opening === null ? null : "true");
    if (root.hidden) {
      log.clear();
      return;
    }
    // The previous conversation may still be shown.
    add.disabled = conversation === null || opening !== null;
    if (add.disabled) {
      bar.draw("Reading the session…", []);
      return;
    }
    add.hidden = !state.collects;
    drawCollected();
    const { title, session } = conversation;
    bar.draw(title || "Conversation", [`session …${session.slice(-8)}`], `Session ${session}`);
    const arrive = () => {
      root.scrollIntoView({ block: "nearest" });
      if (state.focusConversation) body.focus({ preventScroll: true });
      state.focusConversation = false; // later changes leave the focus where it is
    };
    // Opening it again with a key moves the focus there too.
    log.draw(session, conversation.html, arrive, state.focusConversation);
  }
  return { root, draw };
}

function codeView(state) {
  const text = element("code");
  const copies = button({ class: "ab-x-step", onclick: () => copyFor(copies, state.current.code) }, "Copy");
  const root = element(
    "details",
    { class: "ab-x-code" },
    element("summary", {}, "Code of this selection"),
    element("pre", { tabindex: 0 }, text),
    copies,
  );
  return { root, draw: () => write(text, state.current.code) };
}

function outcomeBars(state) {
  return {
    dimension: "outcomes",
    heads: ["Outcome", "", "turns"],
    title: () => "Outcomes and failures",
    names: () => ({ names: state.fixed.outcomes, failing: (n) => state.fixed.failing[n], hidden: 0 }),
    values() {
      // Answered turns have no bar, because it would dwarf the bars of the failures.
      const counts = state.current.outcomes;
      const compared = (n) => state.fixed.outcomes[n] !== "answered";
      const largest = Math.max(1, ...counts.filter((_, n) => compared(n)));
      return counts.map((count, n) => ({ count, share: compared(n) ? count / largest : 0, note: "" }));
    },
  };
}

function groupBars(state) {
  return {
    dimension: "groups",
    heads: [state.fixed.by || "Group", "median, p95", "turns"],
    title: () => (state.fixed.by ? `By ${state.fixed.by}` : "Groups"),
    names: () => ({ names: state.fixed.groups, failing: () => false, hidden: state.fixed.more_groups }),
    values() {
      const { turns, p50, p95 } = state.current.groups;
      const largest = Math.max(1, ...turns);
      return turns.map((count, n) => ({
        count,
        share: count / largest,
        note: p50[n] === null ? "" : `${duration(p50[n])}, ${duration(p95[n])}`,
      }));
    },
  };
}

/* One view of a model: fills `el`, and returns a function that ends it. */
function show({ state, views, act }, el) {
  const style = element("style");
  write(style, state.style);
  const root = element("div", {
    class: "ab-static ab-explorer",
    role: "region",
    "aria-label": "Explorer of turns",
    dir: "ltr",
  });
  el.append(style, root);
  const endKeys = shieldKeys(root, passesWithModifier);
  const head = headView(state, act);
  const parts = [
    latencyView(state, act),
    heatView(state, act),
    barsView(state, act, outcomeBars(state)),
    barsView(state, act, groupBars(state)),
    tableView(state, act),
  ];
  const table = parts[4];
  const pane = conversationView(state, act);
  const code = codeView(state);

  const body = element(
    "div",
    { class: "ab-x-body" },
    element("div", { class: "ab-x-views" }, ...parts.map((part) => part.root)),
    pane.root,
  );

  /* Newer data are drawn in place, so the focus and the scroll position are kept. */
  function build() {
    if (state.empty) {
      root.replaceChildren(element("p", { class: "ab-x-empty" }, state.empty));
      return;
    }
    if (!body.isConnected) root.replaceChildren(head.root, body, code.root);
    for (const part of parts) (part.build ?? part.layout)?.();
    drawViews();
    head.drawNotice();
    pane.draw();
  }
  function drawViews() {
    for (const part of parts) part.draw();
    head.draw();
    code.draw();
  }
  function draw(kind, answered) {
    if (kind === "fixed") build();
    else if (kind === "views") drawViews();
    else if (kind === "table") table.draw();
    else if (kind === "filters") for (const part of parts) part.drawFilters();
    else if (kind === "notice") head.drawNotice();
    else {
      pane.draw();
      parts[0].draw();
      table.drawConversation();
    }
    set(root, "data-answered", answered);
  }
  views.add(draw);
  build();
  return () => {
    views.delete(draw);
    endKeys();
    for (const part of parts) part.end();
  };
}

export default widgetModule(connectExplorer, show);

/* Questions about a turn below its conversation. `chat/explorer/label.py` reads the answers. */
import { button, element, set, write } from "../core/dom.js";
import { bannerView, statusView } from "../panel/status.js";
import { openConnection, widgetModule } from "../core/connection.js";
import { headBar, icon } from "../core/head.js";
import { isComposing, passesWithModifier, shieldKeys } from "../core/keys.js";
import { conversationLog } from "./conversation.js";

/* The values and the messages to the kernel, shared by all views of one model. */
function connectLabels(model) {
  const state = model.get("_snapshot");
  if (!state) return null;
  const views = new Set();
  const take = (message) => {
    Object.assign(state, message);
    views.forEach((draw) => draw());
  };
  const connection = openConnection(model, state, { replace: take, apply: take, ended: (notice) => take({ notice }) });
  const send = (kind, more) => connection.act({ kind, item: state.item, ...more });
  return { state, views, send, end: connection.close };
}

/* A question with a button for each choice, the first of which has the key `first`. */
function choiceView([name, , choices], first, answer) {
  const buttons = choices.map((choice, n) => {
    const key = first + n <= 9 ? first + n : null;
    const made = button(
      { class: "ab-button ab-new ab-x-choice", "aria-keyshortcuts": key, onclick: () => press(n) },
      element("bdi", {}, choice),
    );
    if (key) made.prepend(element("kbd", { "aria-hidden": "true" }, String(key)));
    return made;
  });
  let chosen = null;
  const press = (n) => answer(choices[n] === chosen ? null : choices[n]);
  const root = element(
    "div",
    { class: "ab-x-ask", role: "group", "aria-label": name },
    element("bdi", {}, name),
    ...buttons,
  );
  function draw(value) {
    chosen = value;
    buttons.forEach((made, n) => set(made, "aria-pressed", String(choices[n] === value)));
  }
  return { root, end: root, draw, press, keys: choices.length };
}

/* A question whose answer is a text. */
function textView([name], answer) {
  const box = element("textarea", { rows: 1, dir: "auto", "aria-label": name, onchange: () => answer(box.value) });
  const end = element("div", { class: "ab-composer" }, element("div", { class: "ab-input" }, box));
  const root = element("div", { class: "ab-x-ask" }, element("bdi", { "aria-hidden": "true" }, name), end);
  let shown = {};
  function draw(value, item) {
    if (shown.item !== item || shown.value !== value) box.value = value ?? "";
    shown = { item, value };
  }
  return { root, end, draw, keys: 0 };
}

/* Failure modes that are choices: one can get another name, also that of another mode, or fall into two. */
function modesView(send) {
  const which = element("select", { "aria-label": "Failure mode" });
  const to = element("input", { placeholder: "New name, or another's", dir: "auto", "aria-label": "New name" });
  const rename = () => to.value.trim() && send("rename", { name: which.value, to: to.value });
  const act = (label, title, onclick) => button({ class: "ab-button ab-new", title, onclick }, label);
  const root = element(
    "details",
    { class: "ab-x-modes" },
    element("summary", {}, "Rename, merge or split"),
    element(
      "div",
      { class: "ab-x-ask" },
      which,
      to,
      act("Rename", "A name that another mode has makes them one", rename),
      act("Split", "In two groups, by the words of the notes", () => send("split", { name: which.value })),
    ),
  );
  to.addEventListener("keydown", (event) => event.key === "Enter" && !isComposing(event) && rename());
  let shown = "";
  function draw(choices) {
    root.hidden = !choices;
    if (!choices || shown === (shown = choices.join("\n"))) return;
    const { value } = which;
    which.replaceChildren(...choices.map((choice) => element("option", { value: choice }, choice)));
    which.value = choices.includes(value) ? value : choices.includes(to.value.trim()) ? to.value.trim() : choices[0];
    to.value = "";
  }
  return { root, draw };
}

/* One view of a model: fills `el`, and returns a function that ends it. */
function show({ state, views, send }, el) {
  let [asked, shown] = [[], ""];
  function ask() {
    let first = 1;
    asked = state.questions.map((question) => {
      const answer = (value) => send("answer", { name: question[0], value });
      const view = question[1] === "text" ? textView(question, answer) : choiceView(question, first, answer);
      const range = [first, (first += view.keys)];
      return { ...view, range };
    });
    form.replaceChildren(...asked.map((view) => view.root));
    asked.at(-1).end.append(acts.Enter);
    const digits = first > 1 ? `1 to ${Math.min(first - 1, 9)} answer, ` : "";
    write(hint, `Keys, after a click here: ${digits}Enter goes on, S skips, U takes back.`);
  }
  const [banner, status, log] = [bannerView(), statusView(), conversationLog()];
  const act = (kind, label, key, does) => {
    const title = `${label} (${key}): ${does}`;
    return icon(kind, label, { "aria-keyshortcuts": key, title, onclick: () => send(kind) });
  };
  const acts = {
    Enter: act("next", "Next", "Enter", "go on to the next one"),
    s: act("skip", "Skip", "S", "leave this one for later"),
    u: act("undo", "Undo", "U", "take the last step back"),
  };
  const bar = headBar(acts.u, acts.s);
  const next = element("p", {}, "The labeller's labels are your answers; ab.read_labels reads those of everybody.");
  const none = element("div", { class: "ab-empty" }, element("strong", {}, "Nothing is left to label."), next);
  const form = element("div", { class: "ab-x-form" });
  const [modes, hint] = [modesView(send), element("div", { class: "ab-hint" })];
  const bottom = element("div", { class: "ab-bottom" }, banner.root, form, modes.root, hint);
  const root = element(
    "div",
    { class: "ab-chat ab-module ab-x-label", role: "region", "aria-label": "Labels", dir: "ltr", tabindex: -1 },
    ...[bar.root, none, log.root, status.root, bottom],
  );
  const style = element("style");
  write(style, state.style);
  el.append(style, root);
  const endKeys = shieldKeys(root, passesWithModifier);
  root.addEventListener("keydown", (event) => {
    if (passesWithModifier(event) || isComposing(event) || modes.root.contains(event.target)) return;
    const typing = event.target.tagName === "TEXTAREA";
    const number = Number(event.key);
    const view = asked.find(({ range }) => number >= range[0] && number < range[1]);
    const chosen = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (event.key === "Enter" && (event.shiftKey || event.target.closest("button, summary, a"))) return;
    if (typing && event.key === "Escape") root.focus();
    else if (typing && event.key !== "Enter") return;
    else if (view) view.press(number - view.range[0]);
    else if (chosen) {
      if (typing) root.focus(); // so that the text is sent first
      if (!chosen.disabled) chosen.click();
    } else return;
    event.preventDefault();
  });
  function draw() {
    bar.draw(state.title || "Labels", [state.sentence]);
    const focused = [form, log.root].some((each) => each.contains(document.activeElement));
    if (!state.item && focused) root.focus(); // U still takes back
    none.hidden = Boolean(state.item);
    log.root.hidden = form.hidden = hint.hidden = !state.item;
    log.draw(state.item, state.html);
    if (shown !== (shown = JSON.stringify(state.questions))) ask();
    modes.draw(state.item && state.modes);
    asked.forEach((view, n) => view.draw(state.values[n], state.item));
    acts.Enter.disabled = acts.s.disabled = !state.item;
    acts.u.disabled = !state.undo;
    status.draw([state.sentence, false], true);
    banner.draw(state.notice);
    bottom.hidden = !state.item && !state.notice;
  }
  views.add(draw);
  draw();
  return () => {
    views.delete(draw);
    endKeys();
  };
}

export default widgetModule(connectLabels, show);

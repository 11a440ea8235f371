/* Questions about a turn below its conversation. `chat/explorer/label.py` reads the answers. */
import { button, element, set, write } from "../core/dom.js";
import { openConnection, widgetModule } from "../core/connection.js";
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
      { class: "ab-x-step ab-x-choice", "aria-keyshortcuts": key, onclick: () => press(n) },
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
  return { root, draw, press, keys: choices.length };
}

/* A question whose answer is a text. */
function textView([name], answer) {
  const area = element("textarea", { rows: 2, dir: "auto", onchange: () => answer(area.value) });
  const root = element("label", { class: "ab-x-ask" }, element("bdi", {}, name), area);
  let shown = {};
  function draw(value, item) {
    if (shown.item !== item || shown.value !== value) area.value = value ?? "";
    shown = { item, value };
  }
  return { root, draw, keys: 0 };
}

/* One view of a model: fills `el`, and returns a function that ends it. */
function show({ state, views, send }, el) {
  let first = 1;
  const asked = state.questions.map((question) => {
    const answer = (value) => send("answer", { name: question[0], value });
    const view = question[1] === "text" ? textView(question, answer) : choiceView(question, first, answer);
    const range = [first, (first += view.keys)];
    return { ...view, range };
  });
  const title = element("bdi", { class: "ab-x-who" });
  const sentence = element("span", { class: "ab-x-hint", role: "status" });
  const notice = element("div", { class: "ab-x-notice", role: "alert" });
  const log = conversationLog();
  const act = (kind, label, key) =>
    button(
      { class: "ab-x-step", "aria-keyshortcuts": key, title: `${label} (${key})`, onclick: () => send(kind) },
      label,
    );
  const acts = { Enter: act("next", "Next", "Enter"), s: act("skip", "Skip", "S"), u: act("undo", "Undo", "U") };
  const form = element("div", { class: "ab-x-form" }, ...asked.map((view) => view.root));
  const foot = element("div", { class: "ab-x-pages" }, ...Object.values(acts), sentence);
  const root = element(
    "div",
    { class: "ab-static ab-explorer ab-x-label", role: "region", "aria-label": "Labels", tabindex: -1 },
    element("div", { class: "ab-x-panehead" }, title),
    log.root,
    form,
    notice,
    foot,
  );
  const style = element("style");
  write(style, state.style);
  el.append(style, root);
  const endKeys = shieldKeys(root, passesWithModifier);
  root.addEventListener("keydown", (event) => {
    if (passesWithModifier(event) || isComposing(event)) return;
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
    write(title, state.item ? state.title || "Conversation" : "Nothing is left to label.");
    log.root.hidden = form.hidden = !state.item;
    log.draw(state.item, state.html);
    asked.forEach((view, n) => view.draw(state.values[n], state.item));
    acts.Enter.disabled = acts.s.disabled = !state.item;
    acts.u.disabled = !state.undo;
    write(sentence, state.sentence);
    write(notice, state.notice);
    notice.hidden = !state.notice;
  }
  views.add(draw);
  draw();
  return () => {
    views.delete(draw);
    endKeys();
  };
}

export default widgetModule(connectLabels, show);

/*
Agents side by side in a page: rounds of one message and several replies, made of the
parts of a panel. `chat/compare/page.py` documents the messages.
*/
import { element, set, setHtml, write } from "./dom.js";
import { bannerView, statusView } from "./status.js";
import { composerView } from "./composer.js";
import { keepKeys } from "./keys.js";
import { logView } from "./log.js";
import { emptyChanges } from "./protocol.js";
import { asker, connectState } from "./shared.js";
import { turnView } from "./turn.js";
import { widgetModule } from "./connection.js";

const asArray = (value) => (Array.isArray(value) ? value : []);

/* A holder of HTML from the kernel, and what shows it there. */
function htmlHolder() {
  const root = element("div");
  let shown = "";
  function draw(html = "") {
    if (html === shown) return;
    shown = html;
    setHtml(root, html);
  }
  return { root, draw };
}

/* A button that prefers what its values say. */
function choiceButton(prefer) {
  let values = {};
  const root = element("button", {
    type: "button",
    class: "ab-button ab-prefer",
    onclick: () => prefer(values.round, values.choice),
  });
  function draw(nextValues) {
    values = nextValues ?? {};
    write(root, String(values.label ?? ""));
    set(root, "title", values.title);
    set(root, "disabled", values.enabled ? null : "");
    root.classList.toggle("ab-pressed", Boolean(values.pressed));
  }
  return { root, draw };
}

/* The reply of one agent, after what it wrote before it was tried again. */
function columnView(id, act, typeset) {
  const reply = turnView(id, act, typeset);
  const attempts = htmlHolder();
  const choice = choiceButton(act.prefer);
  const root = element("div", { class: "ab-column" }, attempts.root, reply.root, choice.root);
  function draw(turn) {
    attempts.draw(turn.html.get("attempts"));
    reply.draw(turn);
    choice.draw(turn.data.get("choice"));
    root.classList.toggle("ab-chosen", Boolean(turn.data.get("choice")?.pressed));
  }
  return { root, draw };
}

/* A message, the replies side by side, and the choices that concern no single one. */
function roundView(act, viewOf, isThere) {
  const question = htmlHolder();
  const columns = element("div", { class: "ab-columns" });
  const choices = [];
  const verdict = element("div", { class: "ab-said-verdict" });
  const foot = element("div", { class: "ab-verdict" }, verdict);
  const root = element("div", { class: "ab-round" }, question.root, columns, foot);
  function draw(turn) {
    question.draw(turn.html.get("question"));
    const replies = asArray(turn.data.get("columns"))
      .filter(isThere)
      .map((id) => viewOf(id).root);
    if (replies.length !== columns.children.length || replies.some((each, n) => each !== columns.children[n]))
      columns.replaceChildren(...replies);
    asArray(turn.data.get("choices")).forEach((values, n) => {
      if (n === choices.length) {
        choices.push(choiceButton(act.prefer));
        verdict.before(choices[n].root);
      }
      choices[n].draw(values);
    });
    write(verdict, String(turn.data.get("verdict") ?? ""));
  }
  return { root, draw };
}

function headLine(act) {
  const name = element("span", { class: "ab-name" });
  const preferred = element("span", { class: "ab-session", dir: "auto" });
  const pictures = element("button", {
    type: "button",
    class: "ab-button ab-pictures",
    hidden: "",
    onclick: () => act.pictures(),
  });
  const title = element("div", { class: "ab-headline" }, element("div", { class: "ab-title" }, name, preferred));
  const root = element("div", { class: "ab-head" }, title, pictures);
  function draw(fields, gone) {
    write(name, String(fields.name ?? ""));
    write(preferred, fields.preferred ? `preferred: ${fields.preferred}` : "");
    pictures.hidden = !fields.pictures || gone;
    write(pictures, String(fields.pictures?.[0] ?? ""));
    set(pictures, "title", fields.pictures?.[1] ?? null);
  }
  return { root, draw };
}

function show({ state, views, send, gone, typeset }, el) {
  const ask = asker(send);
  const act = {
    send(text) {
      log.toEnd();
      return ask({ do: "send", text });
    },
    stop: () => send({ do: "stop" }),
    pictures: () => send({ do: "pictures" }),
    edit: (text) => composer.fill(text),
    retry(turn) {
      send({ do: "retry", turn });
      composer.focus();
    },
    prefer: (round, choice) => send({ do: "prefer", round, choice }),
  };
  const isRound = (id) => state.turns.get(id)?.data.has("columns");
  const isReply = (id) => state.turns.has(id) && !isRound(id);
  const make = (id, viewOf) => (isRound(id) ? roundView(act, viewOf, isReply) : columnView(id, act, typeset));
  const head = headLine(act);
  const log = logView(state, act.edit, make, (order) => order.filter(isRound));
  const composer = composerView(act, log.sentMessages, ["Send to all", "Send the message to every agent (Enter)"]);
  const banner = bannerView();
  const status = statusView();
  const bottom = element("div", { class: "ab-bottom" }, banner.root, status.root, composer.root);
  const style = element("style");
  const root = element(
    "div",
    { class: "ab-chat ab-module ab-compare", role: "region", "aria-label": "Comparison of agents" },
    head.root,
    log.root,
    bottom,
  );
  const endKeys = keepKeys(root, () => composer.stop());

  function draw(changes) {
    const { fields } = state;
    log.draw(changes);
    if (!changes.all && !changes.fields.size) return;
    if (changes.all) write(style, String(fields.style ?? ""));
    head.draw(fields, Boolean(gone()));
    banner.draw(gone());
    root.classList.toggle("ab-gone", Boolean(gone()));
    status.draw(fields.status, gone());
    composer.draw(fields.composer, Boolean(gone()));
  }

  function answered({ kind, number, accepted }) {
    if (kind === "answer") composer.answered(number, accepted === true);
  }
  const view = { draw, answered };
  el.append(style, root);
  views.add(view);
  draw({ ...emptyChanges(), all: true });
  return () => {
    views.delete(view);
    endKeys();
  };
}

export default widgetModule(connectState, show);

/*
Agents side by side in a page: rounds of one message and several replies, built from the
parts of a panel. `chat/compare/view.py` documents the messages.
*/
import { chatFrame, nameRegion } from "../panel/chat.js";
import { widgetModule } from "../core/connection.js";
import { button, element, htmlHolder, reconcile, set, write } from "../core/dom.js";
import { picturesButton } from "../panel/status.js";
import { connectState } from "../core/shared.js";
import { turnView } from "../panel/turn.js";

const asArray = (value) => (Array.isArray(value) ? value : []);

/* A button that prefers the choice in its values. */
function choiceButton(prefer) {
  let values = {};
  const root = button({ class: "ab-button ab-prefer", onclick: () => prefer(values.round, values.choice) });
  function draw(nextValues) {
    values = nextValues ?? {};
    write(root, String(values.label ?? ""));
    set(root, "title", values.title);
    set(root, "disabled", values.enabled ? null : "");
    root.classList.toggle("ab-pressed", Boolean(values.pressed));
  }
  return { root, draw };
}

/* The reply of one agent, after any text from before it was retried. */
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

/* A message, the replies side by side, and the choices that apply to no single reply. */
function roundView(act, viewOf, isThere) {
  const question = htmlHolder();
  const columns = element("div", { class: "ab-columns" });
  const choices = [];
  const verdict = element("div", { class: "ab-said-verdict" });
  const foot = element("div", { class: "ab-verdict" }, verdict);
  const root = element("div", { class: "ab-round" }, question.root, columns, foot);
  function draw(turn) {
    question.draw(turn.html.get("question"));
    const replies = asArray(turn.data.get("columns")).filter(isThere);
    reconcile(columns, replies, (id) => viewOf(id).root);
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
  const pictures = picturesButton(act);
  const title = element("div", { class: "ab-headline" }, element("div", { class: "ab-title" }, name, preferred));
  const root = element("div", { class: "ab-head" }, title, pictures.root);
  function draw(fields, gone) {
    write(name, String(fields.name ?? ""));
    write(preferred, fields.preferred ? `preferred: ${fields.preferred}` : "");
    pictures.draw(fields.pictures, gone);
  }
  return { root, draw };
}

function show(page, el) {
  const { state, send, typeset } = page;
  const isRound = (id) => state.turns.get(id)?.data.has("columns");
  const isReply = (id) => state.turns.has(id) && !isRound(id);
  const chat = chatFrame(
    page,
    (id, viewOf) => (isRound(id) ? roundView(act, viewOf, isReply) : columnView(id, act, typeset)),
    (order) => order.filter(isRound),
    ["Send to all", "Send the message to every agent (Enter)"],
  );
  const act = { ...chat.act, prefer: (round, choice) => send({ do: "prefer", round, choice }) };
  const head = headLine(act);
  const root = element(
    "div",
    { class: "ab-chat ab-module ab-compare", role: "region" },
    head.root,
    chat.log.root,
    chat.bottom(),
  );
  nameRegion(root, "Comparison of agents");
  return chat.mount(el, root, head.draw);
}

export default widgetModule(connectState, show);

/*
The buttons of messages: Copy, Insert below, As DataFrame, Edit and Ask again. They are plain HTML, so an outer element
handles their clicks.
*/
import { copyFor, element, says, setHtml, when, write } from "../core/dom.js";
import { frameCode } from "./frame.js";
import { notebook } from "../core/notebook.js";

/* What is attached, as it was sent. */
export const sourcesIn = (root) => [...root.querySelectorAll(".ab-file")].map((file) => file.dataset.source);

/* A message as it was sent, with what is attached. */
export function messageIn(said) {
  const copied = said.cloneNode(true);
  for (const file of copied.querySelectorAll(".ab-file")) file.replaceWith(file.dataset.source);
  return copied.textContent;
}

/* The text that a button copies. */
function sourceOf(button) {
  const code = button.closest(".ab-code");
  if (code) return code.querySelector("pre").textContent;
  const question = button.closest(".ab-me");
  return question ? messageIn(question.querySelector(".ab-said")) : (button.getAttribute("data-text") ?? "");
}

/* Put a message back into the box, and what was attached to it below. */
function edit(question, act) {
  const said = question.querySelector(".ab-said").cloneNode(true);
  sourcesIn(said).forEach(act.attachAgain);
  for (const file of said.querySelectorAll(".ab-file")) file.remove();
  act.edit(said.textContent.trim());
}

/* Make a cell of a block of code, without the line break that ends the block, or of a table. */
function insert(button, htmlOf, act) {
  const isTable = button.matches(".ab-tabular");
  const source = isTable ? tableCode(button, htmlOf) : sourceOf(button).replace(/\n$/, "");
  const kind = /\bab-as-(\w+)/.exec(button.className)?.[1];
  const isThere = notebook()?.insertBelow(button, source, kind);
  says(button, isThere ? "Inserted" : "Not inserted", isTable ? "As DataFrame" : "Insert below");
  act.tell(isThere ? "" : "Not inserted: this notebook cannot be changed here. Copy the text instead.");
}

/* The code of a table, from its HTML as it was before formulas in it were typeset. */
function tableCode(button, htmlOf) {
  const turn = button.closest("[data-turn]");
  const place = [...turn.querySelectorAll(".ab-tabular")].indexOf(button);
  const source = element("div");
  setHtml(source, htmlOf(turn.getAttribute("data-turn")));
  let [name, n] = ["table", 1];
  while (notebook()?.has?.(button, name)) name = `table_${(n += 1)}`;
  const acts = source.querySelectorAll(".ab-tabular")[place].parentElement;
  return frameCode(acts.previousElementSibling.querySelector("table"), name);
}

function explain(event) {
  const time = event.target.closest?.(".ab-me")?.querySelector("time");
  if (time) write(time, when(time.dateTime)); // the reader's time, once it is seen: of thousands, it takes a while
  const button = event.target.closest?.(".ab-act");
  if (!button || button.title) return;
  const kind = button.closest(".ab-code") ? "code" : "message";
  if (button.matches(".ab-copy")) button.title = `Copy this ${kind}`;
  else if (button.matches(".ab-tabular")) button.title = "Insert a cell below that builds this table; nothing is run";
  else if (button.matches(".ab-insert")) button.title = "Insert as a new cell below this one; nothing is run";
  else if (button.matches(".ab-load"))
    button.title = "Fetch pictures from the addresses in replies; an address can reveal the conversation to its server";
  else if (button.matches(".ab-again")) button.title = "Get another reply beside this one, in a new session";
  else button.title = "Edit and send as a new message; the platform cannot change a sent message";
}

/* Let the buttons in `root` copy; `act` edits texts and opens sessions; `htmlOf` returns the HTML of a turn's reply. */
export function listenToMessages(root, act, htmlOf) {
  root.addEventListener("pointerover", explain);
  root.addEventListener("focusin", explain);
  root.addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (!button) return;
    if (button.matches(".ab-copy")) copyFor(button, sourceOf(button));
    else if (button.matches(".ab-insert")) insert(button, htmlOf, act);
    else if (button.matches(".ab-again")) act.again(button.closest("[data-turn]").getAttribute("data-turn"));
    else if (button.matches(".ab-load")) act.pictures();
    else if (button.matches(".ab-edit")) edit(button.closest(".ab-me"), act);
    else if (button.matches(".ab-continue")) act.open(button.getAttribute("data-session"), true);
    else if (button.matches(".ab-start")) act.begin(button.getAttribute("data-text"));
  });
}

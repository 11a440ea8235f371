/* The buttons of messages: Copy, Insert below, Edit and Ask again. They are plain HTML, so an outer element handles their clicks. */
import { copyFor, says } from "../core/dom.js";
import { notebook } from "../core/notebook.js";

/* A message as it was sent, without the headings of what is attached. */
export function messageIn(said) {
  const copied = said.cloneNode(true);
  for (const summary of copied.querySelectorAll("summary")) summary.remove();
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
  for (const file of said.querySelectorAll("details.ab-file")) {
    file.querySelector("summary").remove();
    act.attachAgain(file.textContent);
    file.remove();
  }
  act.edit(said.textContent.trim());
}

/* Make a cell of a block of code, without the line break that ends the block. */
function insert(button) {
  const worked = notebook()?.insertBelow(button, sourceOf(button).replace(/\n$/, ""));
  says(button, worked ? "Inserted" : "Not inserted", "Insert below");
}

function explain(event) {
  const button = event.target.closest?.(".ab-act");
  if (!button || button.title) return;
  const kind = button.closest(".ab-code") ? "code" : "message";
  if (button.matches(".ab-copy")) button.title = `Copy this ${kind}`;
  else if (button.matches(".ab-insert")) button.title = "Insert as a new cell below this one; nothing is run";
  else if (button.matches(".ab-again")) button.title = "Get another reply beside this one, in a new session";
  else button.title = "Edit and send as a new message; the platform cannot change a sent message";
}

/* Let the buttons in `root` copy; `act` edits texts and opens sessions. */
export function listenToMessages(root, act) {
  root.addEventListener("pointerover", explain);
  root.addEventListener("focusin", explain);
  root.addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (!button) return;
    if (button.matches(".ab-copy")) copyFor(button, sourceOf(button));
    else if (button.matches(".ab-insert")) insert(button);
    else if (button.matches(".ab-again")) act.again(button.closest("[data-turn]").getAttribute("data-turn"));
    else if (button.matches(".ab-edit")) edit(button.closest(".ab-me"), act);
    else if (button.matches(".ab-continue")) act.open(button.getAttribute("data-session"), true);
    else if (button.matches(".ab-start")) act.edit(button.getAttribute("data-text") ?? button.textContent);
  });
}

/* Does something with a turn after showing what that means, such as adding it to a test set. */
import { button, counted, element, write } from "./dom.js";

/*
`add` adds the turn that is shown, `cancel` does not.
*/
export function collectView(add, cancel) {
  const text = element("blockquote", { class: "ab-collect-text", dir: "auto" });
  const note = element("div", { class: "ab-collect-note", role: "status" });
  const confirm = button({ class: "ab-button ab-new", onclick: add }, "Add");
  const dismiss = button({ class: "ab-button ab-new", onclick: cancel }, "Cancel");
  const root = element("div", { class: "ab-collect", hidden: "" }, text, note, confirm, dismiss);

  /* Show what the kernel says would be added, or was added; null shows nothing. */
  function draw(collected) {
    root.hidden = !collected;
    if (!collected) return;
    const asks = !collected.error && !collected.added;
    text.hidden = !collected.text;
    write(text, String(collected.text ?? ""));
    const masked = collected.masked ? ` Masked: ${collected.masked}.` : "";
    if (collected.error || collected.note) write(note, String(collected.error || collected.note));
    else if (collected.added) write(note, `Added: the test set has ${counted(collected.inputs, "input")}.`);
    else write(note, `This question becomes a test input, which names this session as its origin.${masked}`);
    write(confirm, String(collected.confirm ?? "Add"));
    confirm.hidden = dismiss.hidden = !asks;
  }

  /* Returns whether there is a button that can take the focus. */
  function focus() {
    if (!confirm.hidden) confirm.focus({ preventScroll: true });
    return !confirm.hidden;
  }
  return { root, draw, focus };
}

/* The button that fetches pictures, or stops doing so; its label says which. */
import { button, set, write } from "../core/dom.js";

export function picturesButton(act) {
  const root = button({ class: "ab-button ab-pictures", hidden: "", onclick: () => act.pictures() });
  function draw(label, gone) {
    root.hidden = !label || gone;
    write(root, String(label?.[0] ?? ""));
    set(root, "title", label?.[1] ?? null);
  }
  return { root, draw };
}

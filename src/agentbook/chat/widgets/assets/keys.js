/*
Keys that mean something in a panel must not reach the notebook, where "a" adds a cell
and Shift+Enter runs one. A person may save the notebook from anywhere.
*/

import { set } from "./dom.js";

/*
Keep all keys in `root` from the notebook but those that pass; returns what ends it.
JupyterLab hears a key on its way up, so it is enough to stop it there. Notebook 7 hears
it on its way down, and asks the element that has the focus.
*/
export function shieldKeys(root, passes) {
  const mark = (event) => {
    if (root.contains(event.target)) set(event.target, "data-lm-suppress-shortcuts", passes(event) ? null : "");
  };
  window.addEventListener("keydown", mark, true);
  root.addEventListener("keydown", (event) => {
    if (!passes(event)) event.stopPropagation();
  });
  return () => window.removeEventListener("keydown", mark, true);
}

const saves = (event) => (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";

/* For views in which only letters and plain keys mean something. */
export const passesWithModifier = (event) => (event.ctrlKey || event.metaKey || event.altKey) && event.key !== "Enter";

/* `stop` returns whether there was anything to stop. Returns what ends it. */
export function keepKeys(root, stop) {
  // On their way down, because the boxes of ipywidgets let no key up.
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || event.isComposing || !stop()) return;
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
  return shieldKeys(root, saves);
}

/* Whether a key is part of an input method, where Enter and the arrows choose a word. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

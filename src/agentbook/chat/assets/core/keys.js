/*
Keys that have a meaning in a panel must not reach the notebook, where "a" adds a cell
and Shift+Enter runs one. Saving the notebook must still work from anywhere.
*/

import { set } from "./dom.js";

/*
Keep all keys in `root` from the notebook except those that pass; returns a function that
ends this. JupyterLab listens to keys as they bubble up, so it is enough to stop them
there. Notebook 7 listens as they go down, and asks the element that has the focus.
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

/* For views in which only keys without modifiers have a meaning. */
export const passesWithModifier = (event) => (event.ctrlKey || event.metaKey || event.altKey) && event.key !== "Enter";

/* `stop` returns whether there was anything to stop. Returns a function that ends this. */
export function keepKeys(root, stop) {
  // On their way down, because the boxes of ipywidgets do not let keys bubble up.
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

/* Let the arrows up and down move the focus among some elements; returns whether they did. */
export function walkFocus(event, stops) {
  const [step, at] = [{ ArrowDown: 1, ArrowUp: -1 }[event.key], stops.indexOf(event.target)];
  if (!step || at < 0) return false;
  stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
  event.preventDefault();
  return true;
}

/* Whether a key is part of an input method, where Enter and the arrows choose a word. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

/*
Does what plain widgets cannot do. It gives the surrounding form (`.ab-lab`) its keys and
its roles for screen readers, and returns the focus to a button that was disabled while
it worked. Ctrl+Enter in a text runs it. It draws nothing.
*/
import { set } from "../core/dom.js";
import { isComposing, keepKeys } from "../core/keys.js";

/* Describe the parts that exist so far. */
function name(root) {
  for (const line of root.querySelectorAll(".ab-lab-status .widget-html-content")) {
    set(line, "role", "status");
    set(line, "aria-live", "polite");
  }
  for (const bar of root.querySelectorAll(".ab-lab-bar .progress")) set(bar, "aria-hidden", "true");
  for (const button of root.querySelectorAll(".ab-fold"))
    set(button, "aria-expanded", String(button.classList.contains("ab-unfolded")));
}

const isUsable = (button) => !button.disabled && button.offsetParent !== null;

/* Serve a form; returns a function that ends it. */
function serve(root) {
  const find = (selector) => root.querySelector(selector);
  set(root, "role", "region");
  set(root, "aria-label", "Prompt lab");
  const endKeys = keepKeys(root, () => {
    const stop = find("button.ab-stop");
    if (!stop || !isUsable(stop)) return false;
    stop.click();
    return true;
  });

  let pressed = null; // a button that will get the focus back
  const press = (event) => {
    const button = event.target.closest?.("button.ab-main, button.ab-other, button.ab-stop");
    if (button) pressed = button.matches(".ab-stop") ? find("button.ab-run") : button;
    if (event.target.closest?.("button.ab-to-results")) showResults();
  };
  root.addEventListener("click", press);
  /* Ctrl+Enter saves what is typed and runs: in a prompt its variant, elsewhere the rest. */
  const runFromText = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || isComposing(event)) return;
    const box = event.target.closest?.(".ab-lab-edit, .ab-lab-run");
    const button = box && find(box.matches(".ab-lab-edit") ? "button.ab-now" : "button.ab-run");
    if (!button) return;
    event.preventDefault();
    event.stopPropagation();
    event.target.dispatchEvent(new Event("change", { bubbles: true })); // the box sends its text, ahead of the click
    if (isUsable(button)) button.click();
  };
  // On its way down, as in `keepKeys`.
  root.addEventListener("keydown", runFromText, true);

  function showResults() {
    const results = find(".ab-lab-results");
    set(results, "tabindex", "-1");
    results.focus({ preventScroll: true });
    results.scrollIntoView({ block: "start" });
  }

  function returnFocus() {
    const active = document.activeElement;
    if (!pressed || active === pressed || !isUsable(pressed)) return;
    if (active === document.body) pressed.focus({ preventScroll: true });
    pressed = null;
  }
  const changes = new MutationObserver(() => {
    name(root);
    returnFocus();
  });
  name(root);
  changes.observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ["disabled", "class"] });
  return () => {
    changes.disconnect();
    endKeys();
    root.removeEventListener("click", press);
    root.removeEventListener("keydown", runFromText, true);
  };
}

export default {
  render({ el }) {
    let end = null;
    // A view is drawn before it is put into the page.
    const attached = new MutationObserver(() => look());
    function look() {
      const root = el.closest(".ab-lab");
      if (!root || end) return;
      attached.disconnect();
      end = serve(root);
    }
    attached.observe(document.body, { childList: true, subtree: true });
    look();
    return () => {
      attached.disconnect();
      end?.();
    };
  },
};

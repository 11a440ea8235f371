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
  set(root, "dir", "ltr"); // its words are English
  const endKeys = keepKeys(root, () => {
    const opener = over?.previousElementSibling?.matches(".ab-fold") && over.previousElementSibling;
    const button = opener || over?.querySelector("button.ab-other") || find("button.ab-stop"); // or Cancel, or Stop
    if (!button || !isUsable(button)) return false;
    button.click();
    return true;
  });

  const BUTTONS = "button:is(.ab-main, .ab-other, .ab-small, .ab-fold, .ab-stop)";
  let over = null; // what floats over the form, and has the focus while it does
  const pressed = { form: null, over: null }; // the buttons that will get the focus back
  const press = (event) => {
    const button = event.target.closest?.(BUTTONS);
    if (button)
      pressed[over?.contains(button) ? "over" : "form"] = button.matches(".ab-stop") ? find("button.ab-run") : button;
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

  function followOverlay() {
    const shown = [...root.querySelectorAll(".ab-drawer:not(.ab-hidden, .ab-hidden *)")].at(-1) ?? null;
    if (shown === over) return;
    [over, pressed.over] = [shown, null];
    over?.querySelector("input, button")?.focus({ preventScroll: true });
  }
  function returnFocus() {
    const [active, where] = [document.activeElement, over ? "over" : "form"];
    const button = pressed[where];
    if (!button || active === button || !isUsable(button)) return;
    if (!active.offsetParent) button.focus({ preventScroll: true }); // it is the page, or about to lose the focus
    pressed[where] = null;
  }
  const changes = new MutationObserver(() => {
    name(root);
    followOverlay();
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

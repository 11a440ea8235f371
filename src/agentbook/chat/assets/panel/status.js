/* The status in one line, and the banner for a kernel that is gone. */
import { element, write } from "../core/dom.js";

const GONE = ["Not connected to a kernel.", false];

export function statusView() {
  const line = element("div", { class: "ab-statusline" });
  const root = element("div", { class: "ab-status", role: "status", "aria-live": "polite" }, line);
  let shown = "";

  /* `status` is a sentence and whether something is in progress. */
  function draw(status, gone) {
    const [text, busy] = gone ? GONE : Array.isArray(status) ? status : ["", false];
    const key = JSON.stringify([text, busy]);
    if (key === shown) return;
    shown = key;
    const dot = busy ? [element("span", { class: "ab-dot" })] : [];
    line.replaceChildren(...dot, element("span", {}, String(text)));
  }
  return { root, draw };
}

export function bannerView() {
  const root = element("div", { class: "ab-banner", role: "alert", hidden: "" });

  /* `gone` says what happened to the kernel; empty while it is there. */
  function draw(gone) {
    write(root, gone);
    root.hidden = !gone;
  }
  return { root, draw };
}

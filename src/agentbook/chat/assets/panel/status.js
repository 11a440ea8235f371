/* The status in one line, and the banner for a kernel that is gone. */
import { element, write } from "../core/dom.js";

const GONE = ["Not connected to a kernel.", false];
const SILENT = ["The kernel does not respond: it is busy, or the connection is lost. What you send will wait.", false];

const DURATION = / (?:for |\()?(?:\d+ min )?\d+(?:\.\d+)? s\b\)?/g;

/* Seen while something happens or went wrong. The seconds in it change all the time, so what is read aloud leaves them out. */
export function statusView() {
  const line = element("div", { class: "ab-statusline", "aria-hidden": "true" });
  const spoken = element("div", { class: "ab-unseen", role: "status" });
  const root = element("div", { class: "ab-status" }, line, spoken);
  let shown = "";

  /* `status` is a sentence and whether something is in progress; `calm`, that nobody has to see it. */
  function draw(status, calm, gone, silent) {
    const [text, busy] = gone ? GONE : silent ? SILENT : Array.isArray(status) ? status : ["", false];
    line.hidden = !text || Boolean(gone || (calm && !silent)); // the banner says that the kernel is gone
    const key = JSON.stringify([text, busy]);
    if (key === shown) return;
    shown = key;
    const dot = busy ? [element("span", { class: "ab-dot" })] : [];
    line.replaceChildren(...dot, element("span", {}, String(text)));
    write(spoken, String(text).replace(DURATION, ""));
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

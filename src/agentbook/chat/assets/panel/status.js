/* The status in one line, the banner for a kernel that is gone, and the switch of pictures. */
import { button, element, set, write } from "../core/dom.js";

const GONE = ["Not connected to a kernel.", false];
const SILENT = ["The kernel does not respond: it is busy, or the connection is lost. What you send will wait.", false];

const DURATION = /( (?:for |\()?(?:\d+ min )?\d+(?:\.\d+)? s\b\)?)/;

/* The seconds in a status change all the time, so they are not read aloud. */
export function statusView() {
  const line = element("div", { class: "ab-statusline" });
  const root = element("div", { class: "ab-status", role: "status", "aria-live": "polite" }, line);
  let shown = "";

  /* `status` is a sentence and whether something is in progress. */
  function draw(status, gone, silent) {
    const [text, busy] = gone ? GONE : silent ? SILENT : Array.isArray(status) ? status : ["", false];
    const parts = String(text).split(DURATION); // every second one is a duration
    const key = JSON.stringify([parts.filter((_, n) => n % 2 === 0), busy]);
    if (key === shown) {
      line.querySelectorAll("[aria-hidden]").forEach((made, n) => write(made, parts[2 * n + 1]));
      return;
    }
    shown = key;
    const dot = busy ? [element("span", { class: "ab-dot" })] : [];
    const made = parts.map((part, n) => (n % 2 ? element("span", { "aria-hidden": "true" }, part) : part));
    line.replaceChildren(...dot, element("span", {}, ...made));
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

export function picturesButton(act) {
  const root = button({ class: "ab-button ab-pictures", hidden: "", onclick: () => act.pictures() });
  function draw(label, gone) {
    root.hidden = !label || gone;
    write(root, String(label?.[0] ?? ""));
    set(root, "title", label?.[1] ?? null);
  }
  return { root, draw };
}

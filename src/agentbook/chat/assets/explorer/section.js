import { element, write } from "../core/dom.js";

/* A part of the explorer with its heading. */
export function section(name, title, ...children) {
  const heading = element("h4", { class: "ab-x-title" });
  write(heading, title);
  return element("section", { class: `ab-x-section ab-x-${name}`, "aria-label": title }, heading, ...children);
}

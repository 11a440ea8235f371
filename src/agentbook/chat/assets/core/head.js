/* The line at the top of a view: what it is about, and icons for what can be done with it. */
import { button, element, set, write } from "./dom.js";

/* `draw` takes a name, facts that stand behind it, and their tooltip. */
export function headBar(...icons) {
  const name = element("bdi", { class: "ab-name" });
  const facts = element("span", { class: "ab-session" });
  const title = element("div", { class: "ab-headline" }, element("div", { class: "ab-title" }, name, facts));
  const root = element("div", { class: "ab-head" }, title, ...icons);

  function draw(title, words, tooltip = null) {
    write(name, title);
    if (facts.textContent !== words.join("")) facts.replaceChildren(...words.map((each) => element("bdi", {}, each)));
    set(facts, "title", tooltip);
    facts.hidden = !words.length;
  }
  return { root, draw };
}

/* A button of one's own name that looks as the icon of its class `kind`. */
export const icon = (kind, label, attributes = {}) =>
  button({ class: `ab-button ab-icon ab-${kind}`, title: label, ...attributes }, label);

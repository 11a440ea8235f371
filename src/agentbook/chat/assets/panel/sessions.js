/* The sessions to choose from, by their first words, who takes part and time, with a search that shows where words are. */
import { button, element, when, write } from "../core/dom.js";

const TYPING_MS = 300; // delay after a key before the kernel is asked

const isEntry = (entry) => Array.isArray(entry) && typeof entry[0] === "string";

/* `find` asks the kernel and returns the number of the request; `choose` opens a session, at a turn if that is given. */
export function sessionsView(find, choose) {
  const search = element("input", {
    type: "search",
    dir: "auto",
    placeholder: "Find by words",
    "aria-label": "Find a session",
  });
  const list = element("ul");
  const note = element("div", { class: "ab-drawer-note", role: "status" });
  const root = element("div", {}, search, list, note);
  let [number, timer] = [null, 0];

  function ask() {
    clearTimeout(timer);
    number = find(search.value);
    write(note, number === null ? "The kernel is not running." : list.childElementCount ? "" : "Reading the sessions…");
  }

  /* A turn that has the words: the line with the first of them. */
  function found(id, [turn, at, before, word, after]) {
    const line = [String(before), element("mark", {}, String(word)), String(after)];
    return button(
      { class: "ab-entry ab-hit", onclick: () => choose(id, turn, `${before}${word}${after}`) },
      element("span", { class: "ab-entry-title", dir: "auto" }, ...line),
      element("span", { class: "ab-entry-time" }, when(at)),
    );
  }

  function item([id, title, at, isCurrent, who, hits]) {
    const entry = button(
      { class: "ab-entry", "aria-current": isCurrent === true ? "true" : null, onclick: () => choose(id) },
      element("span", { class: "ab-entry-title", dir: "auto" }, String(title ?? "")),
      element("bdi", { class: "ab-entry-who", hidden: who ? null : "" }, String(who ?? "")),
      element("span", { class: "ab-entry-time" }, when(at)),
    );
    return element("li", {}, entry, ...(Array.isArray(hits) ? hits : []).filter(isEntry).map((hit) => found(id, hit)));
  }

  function answered(message) {
    if (message.number !== number) return;
    number = null;
    const entries = Array.isArray(message.entries) ? message.entries.filter(isEntry) : [];
    list.replaceChildren(...entries.map(item));
    const some = entries.length === 1 ? "1 session" : `${entries.length} sessions`;
    const count = message.more === true ? `The latest ${some}; search for older ones.` : some;
    const none = search.value.trim() ? "No title or text read here has these words." : "There are no sessions yet.";
    write(note, message.error ? String(message.error) : entries.length ? count : none);
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING_MS);
  });
  root.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) {
      if (event.key !== "Enter" || event.target !== search) return;
      event.preventDefault(); // the box gets the focus, and would get the new line
      const first = list.querySelector("li");
      (first?.querySelector(".ab-hit") ?? first?.querySelector("button"))?.click();
      return;
    }
    const stops = [search, ...list.querySelectorAll("button")];
    const at = stops.indexOf(event.target);
    if (at < 0) return;
    stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
    event.preventDefault();
  });

  /* Start over, with all sessions, and the focus in the search box. */
  function begin() {
    search.value = "";
    list.replaceChildren();
    ask();
    search.focus({ preventScroll: true });
  }

  return { root, begin, answered, end: () => clearTimeout(timer) };
}

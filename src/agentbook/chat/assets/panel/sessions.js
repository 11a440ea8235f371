/*
The sessions to choose from, by the day of their last message: their names or first words and who takes part, with a
search that shows where words are.
*/
import { button, counted, dayAndClock, element, when, write } from "../core/dom.js";
import { isComposing, walkFocus } from "../core/keys.js";

const TYPING_MS = 300; // delay after a key before the kernel is asked

const isEntry = (entry) => Array.isArray(entry) && typeof entry[0] === "string";

/*
`find` and `rename` ask the kernel and return the number of the request; a name of null forgets the session here.
`choose` opens a session, at a turn if that is given.
*/
export function sessionsView(find, choose, rename) {
  const search = element("input", {
    type: "search",
    dir: "auto",
    placeholder: "Find by words",
    "aria-label": "Find a session",
  });
  const others = element("input", { type: "checkbox", onchange: () => ask() });
  const choice = element("label", { class: "ab-others", hidden: "" }, others, "Sessions of others, too");
  const list = element("div");
  const note = element("div", { class: "ab-drawer-note", role: "status" });
  const root = element("div", {}, search, choice, list, note);
  let [number, timer] = [null, 0];
  let waits = false; // Enter was pressed before the kernel answered
  let editing = null; // the session whose name is edited, its line, and what is shown instead

  function ask() {
    clearTimeout(timer);
    [number, timer] = [find(search.value, others.checked), 0];
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

  /* Show a box for the name of a session in place of its line. */
  function edit(line, id, title, name, isKept) {
    cancel();
    const forgets = " Forget drops the name and the copy in the saved notebook. The session stays on the platform.";
    const words = `The name is kept on this computer.${isKept ? forgets : ""}`;
    const naming = { type: "text", dir: "auto", maxlength: 120, placeholder: title, title: words };
    const box = element("input", { ...naming, "aria-label": `Name of ${title}` });
    function change(to) {
      number = rename(id, to, search.value, others.checked);
      if (number === null) write(note, "The kernel is not running.");
    }
    const act = (label, onclick, hidden = null) => button({ class: "ab-button ab-new", onclick, hidden }, label);
    const save = act("Save", () => change(box.value));
    const forget = act("Forget", () => change(null), isKept ? null : "");
    const row = element("div", { class: "ab-drawer-row" }, box, save, forget, act("Cancel", cancel));
    const form = element("div", {}, row, element("div", { class: "ab-drawer-note" }, words));
    box.value = name;
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !isComposing(event)) save.click();
    });
    editing = { id, line, form };
    line.replaceWith(form);
    form.scrollIntoView?.({ block: "nearest" });
    box.focus({ preventScroll: true });
    box.select();
  }

  /* Leave a name as it is; returns whether one was edited. */
  function cancel() {
    if (!editing?.form.isConnected) return false;
    editing.form.replaceWith(editing.line);
    editing.line.lastChild.focus();
    editing = null;
    return true;
  }

  function item([id, title, at, isCurrent, who, name, isKept, hits]) {
    const shown = String(name || title || "");
    const entry = button(
      { class: "ab-entry", "aria-current": isCurrent === true ? "true" : null, onclick: () => choose(id) },
      element("span", { class: "ab-entry-title", dir: "auto" }, shown),
      element("bdi", { class: "ab-entry-who", hidden: who ? null : "" }, String(who ?? "")),
      element("span", { class: "ab-entry-time", title: when(at) }, dayAndClock(at)[1] ?? ""),
    );
    const does = isKept ? "Rename or forget" : "Rename";
    const naming = button({ class: "ab-act", title: does, "aria-label": `${does}: ${shown}` }, "Rename");
    const line = element("div", { class: "ab-entry-line" }, entry, naming);
    naming.addEventListener("click", () => edit(line, id, String(title ?? ""), String(name ?? ""), isKept));
    return element("li", {}, line, ...(Array.isArray(hits) ? hits : []).filter(isEntry).map((hit) => found(id, hit)));
  }

  /* One list for each day, and those of others after the reader's own. */
  function grouped(entries) {
    const groups = [];
    for (const entry of entries) {
      const day = dayAndClock(entry[2])[0] ?? "unknown day";
      const name = `${day[0].toUpperCase()}${day.slice(1)}${entry[8] === true ? " · others" : ""}`;
      if (groups.at(-1)?.name !== name) groups.push({ name, items: element("ul", { "aria-label": name }) });
      groups.at(-1).items.append(item(entry));
    }
    return groups.flatMap(({ name, items }) => [
      element("div", { class: "ab-day", "aria-hidden": "true" }, name),
      items,
    ]);
  }

  function answered(message) {
    if (message.number !== number) return;
    const opens = waits && root.isConnected;
    [number, waits] = [null, false];
    if (message.error) {
      write(note, String(message.error));
      return;
    }
    const entries = Array.isArray(message.entries) ? message.entries.filter(isEntry) : [];
    const [isWithin, changed] = [list.matches(":focus-within"), editing?.id];
    editing = null;
    choice.hidden = typeof message.others !== "boolean";
    list.replaceChildren(...grouped(entries));
    const row = list.querySelectorAll("li")[entries.findIndex(([id]) => id === changed)];
    if (isWithin) (row?.querySelector("button") ?? search).focus();
    const some = counted(entries.length, "session");
    const count = message.more === true ? `The latest ${some}; search for older ones.` : some;
    const none = search.value.trim() ? "No title or text read here has these words." : "There are no sessions yet.";
    write(note, entries.length ? count : none);
    if (opens) openFirst();
  }

  function openFirst() {
    const first = list.querySelector("li");
    (first?.querySelector(".ab-hit") ?? first?.querySelector("button"))?.click();
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    waits = false;
    timer = setTimeout(ask, TYPING_MS);
  });
  root.addEventListener("keydown", (event) => {
    walkFocus(event, [search, ...list.querySelectorAll(".ab-entry")]);
    if (event.key !== "Enter" || event.target !== search) return;
    event.preventDefault(); // the box gets the focus, and would get the new line
    if (timer) ask();
    waits = number !== null; // the list is that of other words
    if (!waits) openFirst();
  });

  /* Start over, with all sessions, and the focus in the search box. */
  function begin() {
    search.value = "";
    editing = null;
    list.replaceChildren();
    ask();
    search.focus({ preventScroll: true });
  }

  return { root, begin, answered, cancel, end: () => clearTimeout(timer) };
}

/* The menu of the head: the conversation as a file that the browser saves, and what is seldom needed. */
import { button, element, write } from "../core/dom.js";
import { walkFocus } from "../core/keys.js";

const FORMS = [
  [".md", "Export as Markdown", "The messages as Markdown"],
  [".html", "Export as a web page", "One page without scripts, to read and to print"],
  [".json", "Export as JSON", "With all events, to be read again by "],
  [".ipynb", "Export as a notebook", "A notebook with a cell for each message"],
];
const URL_LIFETIME_MS = 60_000; // until a saved file's text is released

/*
`ask` asks the kernel for a file and returns the number of the request; `shut` closes the menu, and `hide` hides
pictures. `reader` is the class that reads a file back, and `suffixes` are those of the forms to choose from.
*/
export function menuView(ask, shut, hide, reader = "ab.Conversation", suffixes = FORMS.map(([suffix]) => suffix)) {
  const note = element("div", { class: "ab-drawer-note", role: "status" });
  let number = null;
  const item = (attributes, text) => button({ class: "ab-entry", ...attributes }, text);
  const forms = FORMS.filter(([suffix]) => suffixes.includes(suffix)).map(([suffix, name, words]) => {
    const title = words.endsWith(" ") ? `${words}${reader}.from_json` : words;
    return item({ title, "data-suffix": suffix, onclick: () => press(suffix) }, name);
  });
  const pictures = item({ title: "Show pictures as links again", onclick: () => shut() && hide() }, "Hide pictures");
  const items = [...forms, pictures];
  const root = element("div", { class: "ab-menu" }, ...items, note);
  const shown = () => items.filter((each) => !each.hidden);
  root.addEventListener("keydown", (event) => walkFocus(event, shown()));

  function press(suffix) {
    number = ask(suffix);
    write(note, number === null ? "The kernel is not running." : "Writing…");
  }

  function answered(message) {
    if (message.number !== number) return;
    number = null;
    const { name, type, text } = message;
    if (typeof text !== "string") {
      write(note, `Not exported: ${message.error ?? "there is nothing to write."}`);
      return;
    }
    save(String(name), String(type), text);
    shut();
  }

  function draw(fields) {
    for (const each of forms) each.hidden = !fields.exports;
    pictures.hidden = !fields.pictures;
  }

  function begin() {
    write(note, "");
    shown()[0].focus({ preventScroll: true });
  }

  return { root, begin, answered, draw };
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: url, download: name, hidden: "" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), URL_LIFETIME_MS);
}

/* A conversation as a file that the browser saves. */
import { button, element, write } from "../core/dom.js";

const FORMS = [
  [".md", "Markdown", "The messages as Markdown"],
  [".html", "Web page", "One page without scripts, to read and to print"],
  [".json", "JSON", "With all events, to be read again by "],
  [".ipynb", "Notebook", "A notebook with a cell for each message"],
];
const URL_LIFETIME_MS = 60_000; // until a saved file's text is released

/*
`ask` asks the kernel for a file and returns the number of the request. `reader` is the class that reads a file
back, and `suffixes` are those of the forms to choose from.
*/
export function filesView(ask, reader = "ab.Conversation", suffixes = FORMS.map(([suffix]) => suffix)) {
  const note = element("div", { class: "ab-drawer-note", role: "status" });
  let number = null;
  const buttons = FORMS.filter(([suffix]) => suffixes.includes(suffix)).map(([suffix, name, words]) => {
    const title = words.endsWith(" ") ? `${words}${reader}.from_json` : words;
    return button({ class: "ab-button ab-new", title, "data-suffix": suffix, onclick: () => press(suffix) }, name);
  });
  const root = element("div", {}, element("div", { class: "ab-drawer-row" }, ...buttons), note);

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
    write(note, `The browser saves ${name}.`);
  }

  function begin() {
    write(note, "");
    buttons[0].focus({ preventScroll: true });
  }

  return { root, begin, answered };
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: url, download: name, hidden: "" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), URL_LIFETIME_MS);
}

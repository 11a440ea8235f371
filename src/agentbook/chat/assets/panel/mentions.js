/*
The list that `@` opens above the box: what can be attached. The focus stays in the box,
which controls the list.
*/
import { counted, element, set, write } from "../core/dom.js";
import { notebook } from "../core/notebook.js";

const WORD = /(?:^|[\s(])@([\p{L}\p{N}_.\-[\]/]{0,200})$/u;
const BUSY_MS = 1000; // without an answer, after which the kernel is busy
// Cells of the notebook, and the functions of the extension that read them.
const CELLS = { "the cell above": "cellAbove", "the cell below": "cellBelow", "the last error": "lastError" };
const ASKING = "Looking…";
const BUSY = "The kernel is busy";
const MAX_FILES = 50;

const bytes = (size) => (Number.isInteger(size) ? `${size.toLocaleString("en")} bytes` : "");

/*
`act` asks the kernel, and attaches. `tell` shows why something is not attached, and
`send` sends a message that waited for what was being attached.
*/
export function mentionsView(box, act, tell, send) {
  const id = `ab-${Math.random().toString(36).slice(2)}`;
  const list = element("ul", { role: "listbox", "aria-label": "What can be attached", tabindex: 0 });
  const note = element("div", { class: "ab-drawer-note", role: "status" });
  const root = element("div", { class: "ab-mentions", hidden: "" }, list, note);
  let [word, entries, active] = ["", [], 0]; // an entry: kind, name, description; of a file that the page reads, path and size
  let [asked, timer] = [null, 0]; // the number of the last question
  let shut = -1; // where the word begins whose list was closed
  let chosen = null; // the number of what was chosen last
  let [isPending, waits] = [false, false]; // whether the kernel has not attached it yet, and a message waits for that
  set(box, "aria-autocomplete", "list");
  set(box, "aria-haspopup", "listbox");

  const cellText = (name) => notebook()?.[CELLS[name]]?.(box) ?? "";
  const caret = () => (box.selectionStart === box.selectionEnd ? box.selectionStart : 0);
  const begin = () => caret() - word.length - 1;

  function close() {
    clearTimeout(timer);
    [asked, entries, root.hidden] = [null, [], true];
    set(box, "aria-controls", null);
    set(box, "aria-activedescendant", null);
  }

  /* Follow what is written: ask for what has the word behind an `@` in its name. */
  function look() {
    const match = WORD.exec(box.value.slice(0, caret()));
    word = match?.[1] ?? "";
    if (!match) shut = -1;
    if (!match || begin() === shut) return close();
    clearTimeout(timer);
    asked = act.complete(word);
    timer = setTimeout(busy, BUSY_MS, asked);
    const meant = entries.filter(([, name]) => String(name).toLowerCase().includes(word.toLowerCase()));
    draw(meant, root.hidden ? ASKING : note.textContent);
    return undefined;
  }

  /* Without the kernel, only files can be chosen, if the page can read them. */
  async function busy(number) {
    const folder = word.slice(0, word.lastIndexOf("/") + 1);
    const files = await notebook()
      ?.files(box, folder.slice(0, -1))
      .catch(() => undefined);
    if (asked !== number) return;
    const named = (files ?? []).filter(({ name }) => `${folder}${name}`.toLowerCase().includes(word.toLowerCase()));
    draw(
      named
        .slice(0, MAX_FILES)
        .map(({ name, size, path, type }) =>
          type === "directory"
            ? ["folder", `${folder}${name}/`, "folder"]
            : ["path", `${folder}${name}`, bytes(size), path, size],
        ),
      files ? `${BUSY}: only files can be attached until it answers.` : `${BUSY}: the list comes when it answers.`,
    );
  }

  function answered({ number, entries: found, more, error }) {
    if (number !== asked) return;
    clearTimeout(timer);
    asked = null; // the page's own files come too late
    const next = Array.isArray(found) ? found.filter(Array.isArray) : [];
    const meant = Object.keys(CELLS).filter((name) =>
      name.split(" ").some((each) => each.startsWith(word.toLowerCase())),
    );
    const cells = meant.map((name) => ["cell", name, cellText(name)]).filter(([, , text]) => text);
    next.unshift(...cells.map(([kind, name, text]) => [kind, name, counted(text.split("\n").length, "line")]));
    const count = `${counted(next.length, "thing")} to attach`;
    const others = more > 0 ? `, and ${Number(more).toLocaleString("en")} more: keep typing` : "";
    draw(next, error ?? (next.length ? `${count}${others}. Enter attaches, Esc closes.` : "Nothing has this name."));
  }

  function draw(next, words) {
    write(note, String(words));
    if (!root.hidden && JSON.stringify(next) === JSON.stringify(entries)) return; // a press may be under way
    [entries, active] = [next, 0];
    const options = entries.map(([, name, description], n) =>
      element(
        "li",
        { role: "option", id: `${id}-${n}`, onclick: () => choose(n) },
        element("span", { class: "ab-mention" }, element("bdi", {}, String(name))),
        element("span", { class: "ab-entry-time" }, String(description)),
      ),
    );
    list.replaceChildren(...options);
    set(list, "id", id);
    [list.hidden, root.hidden] = [!entries.length, false];
    set(box, "aria-controls", entries.length ? id : null);
    mark();
  }

  function mark() {
    [...list.children].forEach((each, n) => set(each, "aria-selected", String(n === active)));
    set(box, "aria-activedescendant", entries.length ? `${id}-${active}` : null);
    list.children[active]?.scrollIntoView?.({ block: "nearest" });
  }

  /* Attach an entry. Its name stays in the text, to say what is meant; of a folder, the list then shows what is in it. */
  function choose(n) {
    const [kind, name, , path, size] = entries[n];
    const text = `${kind === "cell" ? "" : "@"}${name}${kind === "folder" ? "" : " "}`;
    box.setSelectionRange(begin(), caret());
    if (!document.execCommand?.("insertText", false, text)) {
      box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
      box.dispatchEvent(new Event("input"));
    }
    if (kind === "folder") return;
    close();
    tell("");
    if (kind === "cell") act.attach(name, cellText(name), 0);
    else if (kind !== "path") [chosen, isPending] = [act.mention(kind, name), true];
    else {
      const refused = () => tell(`${name} is not attached: only text files can be sent.`);
      notebook()
        .read(path)
        .then((content) => act.attach(name, content, size || content.length), refused);
    }
  }

  function mentioned({ number, error }) {
    if (number !== chosen) return;
    const sends = waits && !error;
    [isPending, waits] = [false, false];
    if (error) tell(String(error));
    if (sends) send();
  }

  /* Whether a key is for the list, and does something there. */
  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!entries.length || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (!step && event.key !== "Enter" && event.key !== "Tab") return false;
    event.preventDefault();
    if (step) active = (active + step + entries.length) % entries.length;
    if (step) mark();
    else choose(active);
    return true;
  }

  for (const name of ["input", "click"]) box.addEventListener(name, (event) => event.isComposing || look());
  box.addEventListener("blur", close);
  root.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the box

  return {
    root,
    key,
    answers: { entries: answered, mentioned },
    shut() {
      if (root.hidden) return false;
      shut = begin();
      close();
      return true;
    },
    waits: () => isPending && (waits = true),
    forget: () => ([isPending, waits] = [false, false]), // the answer may have been lost
  };
}

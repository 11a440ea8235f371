/* The box in which a message is written, what is attached to it, Send and Stop. */
import { afterPaint, button, element, htmlHolder, set, write } from "../core/dom.js";
import { isComposing } from "../core/keys.js";
import { mentionsView } from "./mentions.js";
import { sourcesIn } from "./messages.js";

const [CHARACTER, ICONS] = [6.6, 90]; // pixels that a character of the placeholder takes, and what stands beside it
const PASTED = 4000; // characters of a pasted text that becomes an attachment
const MAX_BYTES = 80_004; // of a file; the kernel attaches its first 20,000 characters

/* `act` sends, stops, attaches and detaches; `sentMessages` returns the sent messages, oldest first. `words`: label and tooltip of Send. */
export function composerView(act, sentMessages, words = ["Send", "Send the message (Enter)"]) {
  const box = element("textarea", { rows: 1, "aria-label": "Message", autocomplete: "off", dir: "auto" });
  const stop = button({ class: "ab-button ab-icon ab-stop", hidden: "", onclick: () => pressStop() }, "Stop");
  const send = button({ class: "ab-button ab-icon ab-send", title: words[1], onclick: () => submit() }, words[0]);
  const adds = {
    class: "ab-button ab-icon ab-add",
    title: "Attach a table, a file or a cell (@)",
    onclick: () => add(),
  };
  const plus = button(adds, "Attach");
  const files = htmlHolder({ class: "ab-chips" });
  const note = element("div", { class: "ab-drawer-note", role: "alert", hidden: "" });
  const error = button({ class: "ab-button ab-new ab-offer", hidden: "", onclick: attachError }, "Attach this error");
  const mentions = mentionsView(box, act, tell, submit);
  const input = element("div", { class: "ab-input" }, box, mentions.root);
  const bar = element("div", { class: "ab-composer" }, input, plus, stop, send);
  const root = element("div", {}, files.root, error, note, bar);
  let [page, fields] = [{}, {}]; // all of the kernel's fields, and those of the composer
  let seen = -1; // the number of the last text from the kernel; -1 in a view that has not been drawn
  let attached = ""; // the HTML of what is attached
  let gone = false;
  let silent = false; // whether the kernel does not answer
  let waiting = null; // the message that the kernel has not answered yet, and its number
  let stoppedFrom = null; // where the focus was when Stop was pressed, until the reply has stopped
  let failed; // the text of a cell that came from the panel and failed, while that is offered
  let recalled = null; // the position of the earlier message in the box

  const canSend = () => !fields.busy && !fields.closed && !gone && waiting === null;

  function drawPlaceholder() {
    const text = gone ? "Nothing can be sent" : String(fields.placeholder ?? "");
    const keys = bar.clientWidth && bar.clientWidth < text.length * CHARACTER + ICONS ? text.lastIndexOf(". @ ") : -1;
    set(box, "placeholder", keys < 0 ? text : text.slice(0, keys));
  }
  const resized = window.ResizeObserver ? new ResizeObserver(drawPlaceholder) : null;
  resized?.observe(bar);

  const focused = () => root.getRootNode().activeElement ?? document.body;
  function focus() {
    if (!box.disabled) box.focus({ preventScroll: true });
  }

  /* Replace the text, so that a person can undo it where the page allows that. */
  function replace(text) {
    const inserts = focused() === box && (box.select(), document.execCommand?.("insertText", false, text));
    if (!inserts) box.value = text;
    edited();
  }

  /* Write the sign that opens the list of what can be attached. */
  function add() {
    focus();
    const sign = /\S$/.test(box.value.slice(0, box.selectionStart)) ? " @" : "@";
    if (document.execCommand?.("insertText", false, sign)) return;
    box.setRangeText(sign, box.selectionStart, box.selectionEnd, "end");
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function fill(text) {
    if (box.disabled) return;
    focus();
    replace(text);
    box.setSelectionRange(text.length, text.length);
  }

  /*
  A page keeps what is in the box and attached, also when it is loaded again or the cell runs again, if it has a storage
  with room.
  */
  function store(work) {
    try {
      return work(sessionStorage, `agentbook-${page.place ?? page.id}`);
    } catch {
      return null;
    }
  }
  const after = (text) => (box.value.trim() && text ? `${text}\n\n${box.value}` : text || box.value);
  function keep() {
    const kept = [after(waiting?.text), seen, page.id, sourcesIn(files.root)];
    store((storage, key) => storage.setItem(key, JSON.stringify(kept)));
  }
  /* Put into a new view what was kept; what was attached to the panel of an earlier run is attached to this one. */
  function restore() {
    const [text, number, id, sources] = store((storage, key) => JSON.parse(storage.getItem(key))) ?? [box.value, 0];
    const isEarlier = id !== undefined && id !== page.id;
    [box.value, seen] = [text, isEarlier ? 0 : number];
    if (isEarlier) sources.forEach(act.attachAgain);
  }
  function edited() {
    recalled = null;
    keep();
  }

  function tell(text) {
    write(note, text);
    note.hidden = !text;
  }

  /* Offer to attach a cell that failed; undefined takes the offer back. */
  function offer(text) {
    failed = text;
    error.hidden = !text || Boolean(fields.closed) || gone;
    set(error, "title", text ? "Attach the cell that was inserted from here and its error to your message" : null);
  }
  function attachError() {
    act.attach("the last error", failed, 0);
    offer();
    focus();
  }

  /* Attach text files, and say so of any other. */
  async function takeFiles(list) {
    tell("");
    for (const file of list) {
      try {
        const bytes = await file.slice(0, MAX_BYTES).arrayBuffer();
        const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
        if (text.includes("\0")) throw new TypeError();
        act.attach(file.name, text, file.size);
      } catch {
        tell(`${file.name} is not attached: only text files can be sent.`);
      }
    }
  }

  /* Take what is pasted or dropped, unless it is text for the box. */
  function take(event) {
    const data = event.clipboardData ?? event.dataTransfer;
    const pasted = event.type === "paste" && data?.types.includes("text/plain") ? data.getData("text/plain") : null;
    if (pasted === null ? !data?.types.includes("Files") : pasted.length < PASTED) return;
    event.preventDefault();
    event.stopPropagation();
    if (pasted !== null) act.attach("pasted text", pasted.slice(0, MAX_BYTES), pasted.length);
    else if (event.type !== "dragover" && !box.disabled) takeFiles([...data.files]);
  }

  /* Send the text in the box, or another one, for which that stays. */
  function submit(text = box.value) {
    if (canSend() && (text.trim() || page.files) && !mentions.waits()) {
      const number = act.send(text);
      if (number !== null) {
        waiting = { number, text };
        if (text === box.value) box.value = "";
        edited();
      }
      tell("");
      offer();
      draw(page, gone);
    }
    focus();
  }

  function pressStop() {
    act.stop();
    write(stop, "Stopping…");
    stoppedFrom = focused();
  }

  /* The button is about to disappear with the focus, which moves once the page shows the end of the reply. */
  function moveFocus() {
    const before = stoppedFrom;
    stoppedFrom = null;
    afterPaint(() => {
      if ([before, document.body].includes(focused())) focus();
    });
  }

  /* The kernel has accepted a message, or refused it; then it returns to the box. */
  function answered(number, accepted, why = "") {
    if (!waiting || waiting.number !== number) return;
    const { text } = waiting;
    waiting = null;
    if (accepted) keep();
    else giveBack(text);
    tell(why);
    draw(page, gone);
  }

  /* Put a text into the box; what a person wrote meanwhile follows it. */
  function giveBack(text) {
    if (text) replace(after(text));
  }

  /* The kernel puts here what was taken back. */
  function put({ number, text } = {}) {
    if (!Number.isInteger(number) || number <= seen || typeof text !== "string") return;
    seen = number;
    giveBack(text);
  }

  function recall(step) {
    const messages = sentMessages();
    const from = recalled ?? messages.length;
    const to = from + step;
    if (to < 0 || to > messages.length || !messages.length) return false;
    fill(messages[to] ?? "");
    recalled = to === messages.length ? null : to;
    return true;
  }

  box.addEventListener("input", edited);
  box.addEventListener("paste", take);
  files.root.addEventListener("click", ({ target }) => {
    if (!target.matches("[data-file]")) return;
    act.detach(target.getAttribute("data-file"));
    focus();
  });
  box.addEventListener("keydown", (event) => {
    if (isComposing(event) || mentions.key(event)) return;
    const plain = !(event.shiftKey || event.ctrlKey || event.metaKey || event.altKey);
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && plain && (box.value === "" || recalled !== null)) {
      if (recall(-1)) event.preventDefault();
    } else if (event.key === "ArrowDown" && plain && recalled !== null) {
      if (recall(1)) event.preventDefault();
    }
  });

  /* Draw what the kernel says; what a person writes belongs to the page. */
  function draw(nextPage, isGone, isSilent = silent) {
    page = nextPage;
    fields = page.composer ?? {};
    if (seen < 0) restore();
    put(page.box ?? {});
    if (attached !== String(page.files ?? "")) {
      attached = files.draw(page.files);
      keep();
    }
    if (isGone && waiting) answered(waiting.number, false);
    if (isGone || (silent && !isSilent)) mentions.forget();
    if (silent && !isSilent && waiting) act.send(waiting.text, waiting.number); // it may have been lost
    [gone, silent] = [isGone, isSilent];
    const closed = Boolean(fields.closed) || gone;
    stop.hidden = !fields.busy || gone;
    if (stop.hidden) write(stop, "Stop");
    if (stop.hidden && stoppedFrom !== null) moveFocus();
    set(stop, "title", fields.stop ?? null);
    set(send, "disabled", canSend() ? null : "");
    for (const each of [box, plus]) set(each, "disabled", closed ? "" : null);
    offer(failed);
    drawPlaceholder();
  }

  const { answers } = mentions;
  const shut = () => mentions.shut() || (stop.hidden ? false : (pressStop(), true));
  return { root, box, draw, focus, fill, submit, take, tell, offer, answered, answers, stop: shut };
}

/* The box in which a message is written, with Send and Stop. */
import { afterPaint, button, element, set, write } from "../core/dom.js";
import { isComposing } from "../core/keys.js";

const NARROW = 420; // pixels; below this, the keys in the placeholder would take more lines than a message

/* `act` sends and stops; `sentMessages` returns the sent messages, oldest first. `words`: label and tooltip of Send. */
export function composerView(act, sentMessages, words = ["Send", "Send the message (Enter)"]) {
  const box = element("textarea", { rows: 1, "aria-label": "Message", autocomplete: "off" });
  const stop = button({ class: "ab-button ab-stop", hidden: "", onclick: () => pressStop() }, "Stop");
  const send = button({ class: "ab-button ab-send", title: words[1], onclick: () => submit() }, words[0]);
  const root = element("div", { class: "ab-composer" }, element("div", { class: "ab-input" }, box), stop, send);
  let fields = {};
  let gone = false;
  let waiting = null; // the number of the message that the kernel has not answered yet
  let stoppedFrom = null; // where the focus was when Stop was pressed, until the reply has stopped
  let recalled = null; // the position of the earlier message in the box

  const canSend = () => !fields.busy && !fields.closed && !gone && waiting === null;

  function drawPlaceholder() {
    const text = gone ? "The kernel is not running: nothing can be sent" : String(fields.placeholder ?? "");
    const keys = root.clientWidth && root.clientWidth < NARROW ? text.lastIndexOf(". Enter ") : -1;
    set(box, "placeholder", keys < 0 ? text : text.slice(0, keys));
  }
  const resized = window.ResizeObserver ? new ResizeObserver(drawPlaceholder) : null;
  resized?.observe(root);

  const focused = () => root.getRootNode().activeElement ?? document.body;
  function focus() {
    if (!box.disabled) box.focus({ preventScroll: true });
  }

  function fill(text) {
    if (box.disabled) return;
    box.value = text;
    recalled = null;
    focus();
    box.setSelectionRange(text.length, text.length);
  }

  function submit() {
    if (canSend() && box.value.trim()) {
      const number = act.send(box.value);
      if (number !== null) waiting = { number, text: box.value };
      draw(fields, gone);
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

  /* The kernel has accepted a message, or refused it; then it stays in the box. */
  function answered(number, accepted) {
    if (waiting === null || waiting.number !== number) return;
    if (accepted && box.value === waiting.text) box.value = "";
    waiting = null;
    recalled = null;
    draw(fields, gone);
  }

  /* Text that code puts into the box: all of it, or a paragraph after a person's text. */
  function put(fromCode) {
    const { number, text, added } = fromCode ?? {};
    if (!Number.isInteger(number) || number <= put.number || typeof text !== "string") return;
    const first = put.number < 0; // in a new view
    put.number = number;
    if (!text || (first && box.value === text)) return;
    const mine = box.value.trim() ? box.value.trimEnd() : "";
    if (first || !added) box.value = mine ? `${text}\n\n${mine}` : text;
    else box.value = mine ? `${mine}\n\n${added}` : added;
    recalled = null;
  }
  put.number = -1;

  function recall(step) {
    const messages = sentMessages();
    const from = recalled ?? messages.length;
    const to = from + step;
    if (to < 0 || to > messages.length || !messages.length) return false;
    fill(messages[to] ?? "");
    recalled = to === messages.length ? null : to;
    return true;
  }

  box.addEventListener("input", () => {
    recalled = null;
  });
  box.addEventListener("keydown", (event) => {
    if (isComposing(event)) return;
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

  function draw(nextFields, isGone) {
    fields = nextFields ?? {};
    if (isGone && !gone) waiting = null;
    gone = isGone;
    const closed = Boolean(fields.closed) || gone;
    stop.hidden = !fields.busy || gone;
    if (stop.hidden) write(stop, "Stop");
    if (stop.hidden && stoppedFrom !== null) moveFocus();
    set(stop, "title", fields.stop ?? null);
    set(send, "disabled", canSend() ? null : "");
    set(box, "disabled", closed ? "" : null);
    drawPlaceholder();
  }

  return { root, box, draw, focus, fill, put, answered, stop: () => (stop.hidden ? false : (pressStop(), true)) };
}

/*
What a screen reader reads of a reply: whole sentences, not tokens. If the reply itself
were a live region, it would be read again from its beginning with every few words.
*/
import { element } from "../core/dom.js";

const PAUSE_MS = 1000;
const SPOKEN_MS = 5000; // after the end of a reply, when nothing of it is left to be read twice
const MARKS = /[*`]+|~~|(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu; // of emphasis that is not closed yet
const END = /[.!?…:;。！？](?=["')\]]*\s)|\n(?=\S)/gu;

/* How much of a growing text consists of whole sentences, from `from` on. */
export function wholeSentences(text, from) {
  let end = from;
  END.lastIndex = from;
  for (let match = END.exec(text); match; match = END.exec(text)) end = match.index + match[0].length;
  return end;
}

export function speaker() {
  const root = element("div", { class: "ab-unseen ab-spoken", "aria-live": "polite", "aria-relevant": "additions" });
  const spoken = new Map(); // reply -> how many of its characters
  let timer = 0;

  function say(text) {
    const words = text.replace(/\s+/g, " ").trim();
    if (!words) return;
    root.replaceChildren(element("p", {}, words));
  }

  /* A reply has grown. `read` returns its text, `complete` or what will not change of it. */
  function grown(id, read, complete) {
    if (complete) {
      if (!spoken.has(id)) return; // it was there before anyone listened
      clearTimeout(timer);
      say(read(true).replace(MARKS, "").slice(spoken.get(id)));
      spoken.delete(id);
      timer = setTimeout(() => root.replaceChildren(), SPOKEN_MS);
      return;
    }
    if (!spoken.has(id)) {
      spoken.set(id, 0);
      timer = clearTimeout(timer);
    }
    timer ||= setTimeout(() => {
      timer = 0;
      const from = spoken.get(id);
      if (from === undefined) return;
      const text = read(false).replace(MARKS, "");
      const end = wholeSentences(text, Math.min(from, text.length));
      say(text.slice(from, end));
      spoken.set(id, end);
    }, PAUSE_MS);
  }

  return { root, grown, end: () => clearTimeout(timer) };
}

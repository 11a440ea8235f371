/* What a panel and a comparison have in common: the log, the composer and the status. */
import { afterPaint, element, set, write } from "../core/dom.js";
import { bannerView, statusView } from "./status.js";
import { composerView } from "./composer.js";
import { keepKeys } from "../core/keys.js";
import { logView } from "./log.js";
import { notebook } from "../core/notebook.js";
import { emptyChanges } from "../core/protocol.js";
import { asker } from "../core/shared.js";

/* Name a landmark; one of several with the same name gets a number. */
export function nameRegion(root, name) {
  if (root.dataset.name === name) return;
  root.dataset.name = name;
  set(root, "aria-label", name);
  afterPaint(() => {
    const others = [...document.querySelectorAll(".ab-chat")].filter((each) => each !== root);
    const taken = others.map((each) => each.getAttribute("aria-label"));
    for (let n = 2; taken.includes(root.getAttribute("aria-label")); n += 1) set(root, "aria-label", `${name} (${n})`);
  });
}

/* `page` comes from `connectState`; `make` and `rows` are as for `logView`, `words` as for `composerView`. */
export function chatFrame(page, make, rows, words) {
  const { state, enter, leave, send, gone } = page;
  const ask = asker(send);
  const act = {
    send(text, again) {
      if (again) return send({ do: "send", text, number: again });
      const number = ask({ do: "send", text });
      log.toEnd();
      return number;
    },
    stop: () => send({ do: "stop" }),
    pictures: () => send({ do: "pictures" }),
    edit: (text) => composer.fill(text),
    attach: (name, text, size) => send({ do: "attach", name, text, size }),
    complete: (word) => ask({ do: "complete", word }),
    mention: (kind, name) => ask({ do: "mention", kind, name }),
    attachAgain: (source) => send({ do: "attach", source }),
    detach: (file) => send({ do: "detach", file }),
    turn(what, turn) {
      send({ do: what, turn });
      composer.focus();
    },
    open(session, keep) {
      send({ do: "session", session, keep });
      composer.focus();
    },
  };
  const log = logView(state, act, make, rows);
  const composer = composerView(act, log.sentMessages, words);
  const banner = bannerView();
  const status = statusView();

  /* The elements below the log, with the elements of `notices` in between. */
  const bottom = (...notices) =>
    element("div", { class: "ab-bottom" }, banner.root, ...notices, status.root, composer.root);

  /*
  Put the chat into `el`; returns a function that ends it. `drawFields` draws the rest of
  `root`, `answers` handle the kernel's answers by their kind, and `shut` returns whether
  Esc had something to close.
  */
  function mount(el, root, drawFields, answers = {}, shut = () => false) {
    const style = element("style");
    const endKeys = keepKeys(root, () => shut() || composer.stop());
    for (const name of ["dragover", "drop"]) root.addEventListener(name, composer.take);

    function draw(changes) {
      const { fields } = state;
      const isGone = Boolean(gone());
      log.draw(changes);
      if (!changes.all && !changes.fields.size) return;
      if (changes.all) write(style, String(fields.style ?? ""));
      banner.draw(gone());
      root.classList.toggle("ab-gone", isGone);
      if (!root.matches(".ab-inserts") && notebook()?.holds(el)) root.classList.add("ab-inserts");
      status.draw(fields.status, gone(), state.silent);
      composer.draw(fields, isGone, state.silent);
      drawFields(fields, isGone);
    }

    const taken = {
      answer: ({ number, accepted }) => composer.answered(number, accepted === true),
      ...composer.answers,
      ...answers,
    };
    const answered = (message) => (Object.hasOwn(taken, message.kind) ? taken[message.kind](message) : undefined);
    const view = { draw, answered };
    el.append(style, root);
    enter(view);
    draw({ ...emptyChanges(), all: true });
    return () => {
      leave(view);
      endKeys();
    };
  }
  return { act, ask, log, composer, bottom, mount };
}

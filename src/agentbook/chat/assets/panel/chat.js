/* What a panel and a comparison have in common: the head, the log, the composer and the status. */
import { afterPaint, element, set, write } from "../core/dom.js";
import { bannerView, statusView } from "./status.js";
import { composerView } from "./composer.js";
import { drawerView } from "./drawer.js";
import { menuView } from "./files.js";
import { headView } from "./head.js";
import { keepKeys } from "../core/keys.js";
import { logView } from "./log.js";
import { notebook } from "../core/notebook.js";
import { emptyChanges } from "../core/protocol.js";
import { sessionsView } from "./sessions.js";
import { asker } from "../core/shared.js";

const REFUSED = "Not sent: another message is being answered, maybe one from another page. Yours is in the box again.";

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

/*
`page` comes from `connectState`; `make` and `rows` are as for `logView`, `words` as for
`composerView`, and `exports` are the arguments of `menuView` after the first three.
*/
export function chatFrame(page, { make, rows }, words, exports = []) {
  const { state, enter, leave, send, gone } = page;
  const ask = asker(send);
  const act = {
    send(text, again) {
      if (again) return send({ do: "send", text, number: again });
      const number = ask({ do: "send", text });
      log.sent();
      return number;
    },
    stop: () => send({ do: "stop" }),
    pictures() {
      send({ do: "pictures" });
      log.focus(); // the button that was pressed goes
    },
    tell: (text) => composer.tell(text),
    edit: (text) => composer.fill(text),
    begin: (text) => composer.submit(text),
    attach: (name, text, size) => send({ do: "attach", name, text, size }),
    complete: (word) => ask({ do: "complete", word }),
    mention: (kind, name) => ask({ do: "mention", kind, name }),
    attachAgain: (source) => send({ do: "attach", source }),
    detach: (file) => send({ do: "detach", file }),
    turn(what, turn) {
      send({ do: what, turn });
      if (!["good", "bad"].includes(what)) composer.focus();
    },
    open(session, keep) {
      send({ do: "session", session, keep });
      composer.focus();
    },
    fresh() {
      send({ do: "new" });
      composer.focus();
    },
    openMenu: (by) => drawer.toggle("More", menu, by),
    openSessions: (by) => drawer.toggle("Sessions", sessions, by),
  };
  const drawer = drawerView(() => composer.focus());
  const shut = () => drawer.shut(true);
  const menu = menuView((suffix) => ask({ do: "export", suffix }), shut, act.pictures, ...exports);
  let opening = null; // the words of the turn at which a session is opened, and the number of the request
  const sessions = sessionsView(
    (search, others) => ask({ do: "find", search, others }),
    (session, turn, words) => {
      drawer.shut(false);
      if (!turn) return act.open(session, false);
      log.focus();
      return (opening = { words, number: ask({ do: "session", session, turn }) });
    },
    (session, name, search, others) => ask({ do: "rename", session, name, search, others }),
  );
  const head = headView(state, act);
  const log = logView(state, act, make, rows);
  const composer = composerView(act, log.sentMessages, words);
  const banner = bannerView();
  const status = statusView();

  /* All of it, with the elements of `notices` below the log. */
  function frame(...notices) {
    const bottom = element("div", { class: "ab-bottom" }, banner.root, ...notices, composer.root);
    log.root.prepend(drawer.root); // over the log, where nothing moves
    log.root.append(status.root); // it takes its room from the log
    const attributes = { class: "ab-chat ab-module", role: "region", dir: "ltr" }; // its words are English
    return element("div", attributes, head.root, log.root, bottom);
  }

  /*
  Put the chat into `el`; returns a function that ends it. `drawFields` draws the rest of
  `root`, which `frame` made, and `answers` handle the kernel's answers by their kind.
  */
  function mount(el, root, drawFields, answers = {}) {
    const style = element("style");
    const endKeys = keepKeys(root, () => sessions.cancel() || drawer.shut(true) || composer.stop());
    root.addEventListener("pointerdown", ({ target }) => drawer.leave(target));
    for (const name of ["dragover", "drop"]) root.addEventListener(name, composer.take);

    function draw(changes) {
      const { fields } = state;
      const isGone = Boolean(gone());
      log.draw(changes);
      if (!changes.all && !changes.fields.size) return;
      if (changes.all) write(style, String(fields.style ?? ""));
      banner.draw(gone());
      root.classList.toggle("ab-gone", isGone);
      if (!root.matches(".ab-inserts") && notebook()?.holds(el)) {
        root.classList.add("ab-inserts");
        notebook().watch?.(root, composer.offer);
      }
      status.draw(fields.status, fields.calm, gone(), state.silent);
      composer.draw(fields, isGone, state.silent);
      head.draw(isGone);
      menu.draw(fields);
      if (isGone) drawer.shut(false);
      root.classList.toggle("ab-asks", Boolean(fields.again) && !isGone);
      drawFields(fields, isGone);
    }

    const taken = {
      answer: ({ number, accepted }) => composer.answered(number, accepted === true, accepted === true ? "" : REFUSED),
      ...composer.answers,
      sessions: sessions.answered,
      opened: ({ number, turn }) => number === opening?.number && log.show(turn, opening.words),
      file: menu.answered,
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
      sessions.end();
    };
  }
  return { act, ask, drawer, frame, mount };
}

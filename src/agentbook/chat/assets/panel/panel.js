/*
A chat panel in a page. The kernel renders, sanitizes and numbers its patches
(`chat/widgets/panel_view.py` documents them). This module keeps the page in step with them,
and does what only a page can do: keys, scrolling, copying, and screen-reader output.
*/
import { chatFrame, nameRegion } from "./chat.js";
import { collectView } from "../core/collect.js";
import { widgetModule } from "../core/connection.js";
import { button, element, htmlHolder } from "../core/dom.js";
import { drawerView } from "./drawer.js";
import { filesView } from "./files.js";
import { headView, sessionWords } from "./head.js";
import { playbackView } from "./playback.js";
import { sessionsView } from "./sessions.js";
import { connectState } from "../core/shared.js";
import { speaker } from "./speech.js";
import { turnView } from "./turn.js";

/* One view of a model: fills `el`, and returns a function that ends it. */
function show(page, el) {
  const { state, send, typeset } = page;
  const speech = speaker();
  function spokenTurn(id) {
    const view = turnView(id, act, typeset, () => Boolean(state.fields.collects));
    function draw(turn) {
      view.draw(turn);
      if (!turn.html.has("whole")) speech.grown(id, view.read, !turn.data.get("pending"));
    }
    return { root: view.root, draw };
  }
  const chat = chatFrame(page, spokenTurn);
  const { ask, composer } = chat;
  const act = {
    ...chat.act,
    reconnect: () => send({ do: "reconnect" }),
    fresh() {
      send({ do: "new" });
      composer.focus();
    },
    openFiles: (by) => drawer.toggle("Export this conversation", files, by),
    openSessions: (by) => drawer.toggle("Sessions", sessions, by),
    collect(turn) {
      collecting = { turn, number: ask({ do: "collect", turn, confirm: false }) };
    },
  };
  let opening = null; // the words of the turn at which a session is opened, and the number of the request
  let collecting = null; // the turn whose test input is shown, and the number of the request
  const drawer = drawerView(() => composer.focus());
  const files = filesView((suffix) => ask({ do: "export", suffix }));
  const sessions = sessionsView(
    (search) => ask({ do: "find", search }),
    (session, turn, words) => {
      drawer.shut(false);
      if (!turn) return act.open(session, false);
      chat.log.focus();
      return (opening = { words, number: ask({ do: "session", session, turn }) });
    },
  );
  const input = collectView(
    "ab-button ab-new",
    () => {
      if (collecting) collecting.number = ask({ do: "collect", turn: collecting.turn, confirm: true });
    },
    () => drawer.shut(true),
    false, // the drawer has a button that closes it
  );
  const head = headView(state, act);
  const failure = htmlHolder({ class: "ab-grow" });
  const reconnect = button(
    { class: "ab-button ab-retry", title: "Read the session again and continue", onclick: () => act.reconnect() },
    "Reconnect",
  );
  const notice = element("div", { class: "ab-notice", hidden: "" }, failure.root, reconnect);
  const playback = playbackView(send);
  const root = element(
    "div",
    { class: "ab-chat ab-module", role: "region" },
    head.root,
    drawer.root,
    chat.log.root,
    chat.bottom(notice, playback.root),
    speech.root,
  );

  function drawFields(fields, gone) {
    head.draw(gone);
    notice.hidden = !failure.draw(fields.notice) || gone;
    playback.draw(fields.playback, gone);
    if (gone) drawer.shut(false);
    nameRegion(
      root,
      [fields.name ? `Chat with ${fields.name}` : "Chat", ...sessionWords(fields).slice(0, 1)].join(": "),
    );
  }

  function drawCollected({ number, collected, error }) {
    if (collecting?.number !== number) return;
    input.draw(error ? { error } : collected);
    if (!drawer.shows(input.root)) drawer.open("Add to test set", input.root);
    if (!input.focus()) drawer.focus();
  }

  const opened = ({ number, turn }) => number === opening?.number && chat.log.show(turn, opening.words);
  const answers = { opened, sessions: sessions.answered, file: files.answered, collected: drawCollected };
  const end = chat.mount(el, root, drawFields, answers, () => drawer.shut(true));
  return () => {
    end();
    sessions.end();
    speech.end();
  };
}

export default widgetModule(connectState, show);

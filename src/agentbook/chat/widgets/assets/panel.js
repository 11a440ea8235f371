/*
A chat panel in a page. The kernel renders, sanitizes and numbers its patches
(`chat/widgets/panel.py` documents them); this keeps the page equal to them, and does
what only a page can do: keys, scrolling, copying, and what a screen reader hears.
*/
import { element, set, setHtml, write } from "./dom.js";
import { bannerView, statusView } from "./status.js";
import { collectView } from "./collect.js";
import { composerView } from "./composer.js";
import { drawerView } from "./drawer.js";
import { filesView } from "./files.js";
import { headView } from "./head.js";
import { keepKeys } from "./keys.js";
import { logView } from "./log.js";
import { emptyChanges } from "./protocol.js";
import { sessionsView } from "./sessions.js";
import { asker, connectState } from "./shared.js";
import { speaker } from "./speech.js";
import { turnView } from "./turn.js";
import { widgetModule } from "./connection.js";

/* One view of a model: fills `el`, and returns what ends it. */
function show({ state, views, send, gone, typeset }, el) {
  const ask = asker(send);
  const act = {
    send(text) {
      log.toEnd();
      return ask({ do: "send", text });
    },
    stop: () => send({ do: "stop" }),
    reconnect: () => send({ do: "reconnect" }),
    pictures: () => send({ do: "pictures" }),
    edit: (text) => composer.fill(text),
    fresh() {
      send({ do: "new" });
      composer.focus();
    },
    retry(turn) {
      send({ do: "retry", turn });
      composer.focus();
    },
    openFiles(by) {
      if (drawer.shows(files.root)) return drawer.shut(true);
      drawer.open("Export this conversation", files.root, by);
      return files.begin();
    },
    openSessions(by) {
      if (drawer.shows(sessions.root)) return drawer.shut(true);
      drawer.open("Sessions", sessions.root, by);
      return sessions.begin();
    },
    collect(turn) {
      collecting = { turn, number: ask({ do: "collect", turn, confirm: false }) };
    },
  };
  let collecting = null; // the turn whose test input is shown, and the number of the question
  const drawer = drawerView(() => composer.focus());
  const files = filesView((suffix) => ask({ do: "export", suffix }));
  const sessions = sessionsView(
    (search) => ask({ do: "find", search }),
    (session) => {
      send({ do: "session", session });
      drawer.shut(false);
      composer.focus();
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
  const speech = speaker();
  const head = headView(state, act);
  function spokenTurn(id) {
    const view = turnView(id, act, typeset, () => Boolean(state.fields.collects));
    function draw(turn) {
      view.draw(turn);
      if (!turn.html.has("whole")) speech.grown(id, view.read, !turn.data.get("pending"));
    }
    return { root: view.root, draw };
  }
  const log = logView(state, act.edit, spokenTurn);
  const composer = composerView(act, log.sentMessages);
  const banner = bannerView();
  const status = statusView();
  const failure = element("div", { class: "ab-grow" });
  const reconnect = element(
    "button",
    {
      type: "button",
      class: "ab-button ab-retry",
      title: "Read the session again and continue",
      onclick: () => act.reconnect(),
    },
    "Reconnect",
  );
  const notice = element("div", { class: "ab-notice", hidden: "" }, failure, reconnect);
  const bottom = element("div", { class: "ab-bottom" }, banner.root, notice, status.root, composer.root);
  const style = element("style");
  const root = element(
    "div",
    { class: "ab-chat ab-module", role: "region", "aria-label": "Chat" },
    head.root,
    drawer.root,
    log.root,
    bottom,
    speech.root,
  );
  const endKeys = keepKeys(root, () => drawer.shut(true) || composer.stop());
  let noticeHtml = "";

  function drawNotice(html) {
    notice.hidden = !html || Boolean(gone());
    if (html === noticeHtml) return;
    noticeHtml = html;
    setHtml(failure, html);
  }

  function draw(changes) {
    const { fields } = state;
    log.draw(changes);
    if (!changes.all && !changes.fields.size) return;
    if (changes.all) write(style, String(fields.style ?? ""));
    head.draw(Boolean(gone()));
    drawNotice(String(fields.notice ?? ""));
    banner.draw(gone());
    root.classList.toggle("ab-gone", Boolean(gone()));
    if (gone()) drawer.shut(false);
    status.draw(fields.status, gone());
    composer.draw(fields.composer, Boolean(gone()));
    composer.put(fields.box);
    set(root, "aria-label", fields.name ? `Chat with ${fields.name}` : "Chat");
  }

  function drawCollected({ number, collected, error }) {
    if (collecting?.number !== number) return;
    input.draw(error ? { error } : collected);
    if (!drawer.shows(input.root)) drawer.open("Add to test set", input.root);
    if (!input.focus()) drawer.focus();
  }

  const answers = {
    answer: ({ number, accepted }) => composer.answered(number, accepted === true),
    sessions: sessions.answered,
    file: files.answered,
    collected: drawCollected,
  };
  const answered = (message) => (Object.hasOwn(answers, message.kind) ? answers[message.kind](message) : undefined);
  const view = { draw, answered };
  el.append(style, root);
  views.add(view);
  draw({ ...emptyChanges(), all: true });
  return () => {
    views.delete(view);
    endKeys();
    sessions.end();
    speech.end();
  };
}

export default widgetModule(connectState, show);

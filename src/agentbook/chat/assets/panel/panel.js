/*
A chat panel in a page. The kernel renders, sanitizes and numbers its patches
(`chat/widgets/panel_view.py` documents them). This module keeps the page in step with them,
and does what only a page can do: keys, scrolling, copying, and screen-reader output.
*/
import { chatFrame, nameRegion } from "./chat.js";
import { collectView } from "../core/collect.js";
import { widgetModule } from "../core/connection.js";
import { button, element, htmlHolder } from "../core/dom.js";
import { sessionWords } from "./head.js";
import { playbackView } from "./playback.js";
import { roundsOf } from "./round.js";
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
  const chat = chatFrame(page, roundsOf(state, spokenTurn));
  const { act, ask, drawer } = chat;
  const look = (what, turn, confirm) => {
    looked = { what, turn, number: ask({ do: what, turn, confirm }) };
  };
  let looked = null; // the turn that is shown before something is done with it, and the number of the request
  act.collect = (turn) => look("collect", turn, false);
  act.again = (turn) => look("again", turn, false);
  const input = collectView(
    () => looked && look(looked.what, looked.turn, true),
    () => drawer.shut(true),
  );
  const failure = htmlHolder({ class: "ab-grow" });
  const reconnect = button(
    {
      class: "ab-button ab-retry",
      title: "Read the session again and continue",
      onclick: () => send({ do: "reconnect" }),
    },
    "Reconnect",
  );
  const notice = element("div", { class: "ab-notice", hidden: "" }, failure.root, reconnect);
  const playback = playbackView(send);
  const root = chat.frame(notice, playback.root);
  root.append(speech.root);

  function drawFields(fields, gone) {
    notice.hidden = !failure.draw(fields.notice) || gone;
    playback.draw(fields.playback, gone);
    nameRegion(
      root,
      [fields.name ? `Chat with ${fields.name}` : "Chat", ...sessionWords(fields).slice(0, 1)].join(": "),
    );
  }

  function drawLook({ number, collected, error }) {
    if (looked?.number !== number) return;
    const shown = error ? { error } : collected;
    if (!shown) {
      if (drawer.shows(input.root)) drawer.shut(true);
      return;
    }
    input.draw(shown);
    const [name, by] = looked.what === "again" ? ["Ask again", "again"] : ["Add to test set", "collecting"];
    const pressed = root.querySelector(`[data-turn="${looked.turn}"] .ab-${by}`);
    if (!drawer.shows(input.root)) drawer.open(name, input.root, pressed);
    if (!input.focus()) drawer.focus();
  }

  const end = chat.mount(el, root, drawFields, { collected: drawLook });
  return () => {
    end();
    speech.end();
  };
}

export default widgetModule(connectState, show);

/* Agents side by side in a page. `chat/compare/view.py` documents the messages. */
import { chatFrame, nameRegion } from "../panel/chat.js";
import { widgetModule } from "../core/connection.js";
import { roundsOf } from "../panel/round.js";
import { connectState } from "../core/shared.js";
import { turnView } from "../panel/turn.js";

function show(page, el) {
  const { state, send, typeset } = page;
  const prefer = (round, choice) => send({ do: "prefer", round, choice });
  const chat = chatFrame(
    page,
    roundsOf(state, (id) => turnView(id, chat.act, typeset), prefer),
    ["Send to all", "Send the message to every agent (Enter)"],
    ["ab.Compare", [".html", ".json"]],
  );
  const root = chat.frame();
  root.classList.add("ab-compare");
  nameRegion(root, "Comparison of agents");
  return chat.mount(el, root, () => {});
}

export default widgetModule(connectState, show);

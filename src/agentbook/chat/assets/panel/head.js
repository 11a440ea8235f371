/* The line above the conversation: whom it is with, and what can be done with it. */
import { button, when } from "../core/dom.js";
import { drawerButton } from "./drawer.js";
import { headBar } from "../core/head.js";
import { picturesButton } from "./status.js";

/* The first words of the session, who takes part, what it used, and its time. */
export const sessionWords = ({ session }) =>
  Array.isArray(session?.[0]) ? [...session[0].map(String), when(session[2])].filter(Boolean) : [];

export function headView(state, act) {
  const pictures = picturesButton(act);
  const files = drawerButton("ab-export", "Export", "Save the conversation as a file", () => act.openFiles(files));
  const sessions = drawerButton("ab-find", "Sessions", "Return to an earlier session", () =>
    act.openSessions(sessions),
  );
  const fresh = button(
    {
      class: "ab-button ab-new ab-icon ab-fresh",
      hidden: "",
      title: "Start over; you can return to this session",
      onclick: () => act.fresh(),
    },
    "New session",
  );
  const bar = headBar(pictures.root, files, sessions, fresh);

  function draw(gone) {
    const { fields } = state;
    bar.draw(String(fields.name ?? ""), sessionWords(fields), fields.session?.[1] ?? null);
    pictures.draw(fields.pictures, gone);
    files.hidden = !fields.exports || gone;
    sessions.hidden = !fields.finds || gone;
    fresh.hidden = !fields.fresh || gone;
  }

  return { root: bar.root, draw };
}

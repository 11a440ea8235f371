/* The line above the conversation: whom it is with, and what can be done with it. */
import { button, set, when } from "../core/dom.js";
import { drawerButton } from "./drawer.js";
import { headBar } from "../core/head.js";

/* The first words of the session, who takes part, what it used, and its time. */
export const sessionWords = ({ session }) =>
  Array.isArray(session?.[0]) ? [...session[0].map(String), when(session[2])].filter(Boolean) : [];

export function headView(state, act) {
  const more = drawerButton("ab-more", "More", "Export the conversation, and more", () => act.openMenu(more));
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
  const bar = headBar(fresh, sessions, more);

  function draw(gone) {
    const { fields } = state;
    bar.draw(String(fields.name ?? ""), sessionWords(fields), fields.session?.[1] ?? null);
    more.hidden = gone; // else it keeps its place, so that the icons beside it do not move
    set(more, "disabled", fields.exports || fields.pictures ? null : "");
    sessions.hidden = !fields.finds || gone;
    fresh.hidden = !fields.fresh || gone;
  }

  return { root: bar.root, draw };
}

/* The line above the conversation: whom it is with, and what can be done with it. */
import { button, element, set, when, write } from "../core/dom.js";
import { drawerButton } from "./drawer.js";
import { picturesButton } from "./status.js";

/* The first words of the session, who takes part, what it used, and its time. */
export const sessionWords = ({ session }) =>
  Array.isArray(session?.[0]) ? [...session[0].map(String), when(session[2])].filter(Boolean) : [];

export function headView(state, act) {
  const name = element("bdi", { class: "ab-name" });
  const label = element("span", { class: "ab-session" });
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
  const title = element("div", { class: "ab-headline" }, element("div", { class: "ab-title" }, name, label));
  const root = element("div", { class: "ab-head" }, title, pictures.root, files, sessions, fresh);

  function draw(gone) {
    const { fields } = state;
    write(name, String(fields.name ?? ""));
    const words = sessionWords(fields);
    if (label.textContent !== words.join("")) label.replaceChildren(...words.map((each) => element("bdi", {}, each)));
    set(label, "title", fields.session?.[1] ?? null);
    label.hidden = !fields.session;
    pictures.draw(fields.pictures, gone);
    files.hidden = !fields.exports || gone;
    sessions.hidden = !fields.finds || gone;
    fresh.hidden = !fields.fresh || gone;
  }

  return { root, draw };
}

/* What floats over a panel's log and shows one thing at a time, until it is closed. */
import { button, element, set, write } from "../core/dom.js";

/* `back` takes the focus if no button opened the drawer. */
export function drawerView(back) {
  const title = element("span");
  const look = { class: "ab-button ab-icon ab-close", title: "Close (Esc)" };
  const close = button({ ...look, onclick: () => shut(true) }, "Close");
  const body = element("div");
  const root = element(
    "div",
    { class: "ab-drawer", role: "group", hidden: "" },
    element("div", { class: "ab-drawer-title" }, title, close),
    body,
  );
  let [opener, content] = [null, null];

  function mark(expanded) {
    opener?.setAttribute("aria-expanded", String(expanded));
  }

  /* Show an element under a name; `by` is the button that opened it, if any. */
  function open(name, made, by = null) {
    mark(false);
    [opener, content] = [by, made];
    write(title, name);
    root.setAttribute("aria-label", name);
    body.replaceChildren(made);
    root.hidden = false;
    place(by?.closest(".ab-log") ? by : null);
    mark(true);
  }

  /* Stand at a button in the log, where the panel has more room: above or below it. */
  function place(at) {
    set(root, "style", null);
    if (!at) return;
    const places = [at, root.parentElement, root.closest(".ab-chat")];
    const [box, frame, room] = places.map((each) => each.getBoundingClientRect());
    const [above, below] = [box.top - room.top, room.bottom - box.bottom];
    const under = `top: ${box.bottom - frame.top + 4}px`;
    const where = above > below ? `top: auto; bottom: ${frame.bottom - box.top + 4}px` : under;
    set(root, "style", `${where}; left: 8px; right: auto; max-height: ${Math.max(above, below) - 10}px`);
  }

  /* Close the drawer; returns whether it was open. */
  function shut(refocus) {
    if (root.hidden) return false;
    root.hidden = true;
    content = null;
    mark(false);
    body.replaceChildren();
    if (refocus && opener?.isConnected && !opener.hidden) opener.focus({ preventScroll: true });
    else if (refocus) back();
    return true;
  }

  /* A press anywhere else in the panel closes it. */
  function leave(pressed) {
    if (!root.contains(pressed) && !opener?.contains(pressed)) shut(false);
  }

  /* Show a view that begins anew, unless it is the one that is shown. */
  function toggle(name, view, by) {
    if (content === view.root) return shut(true);
    open(name, view.root, by);
    return view.begin();
  }

  const focus = () => close.focus({ preventScroll: true });
  return { root, open, toggle, shut, leave, focus, shows: (made) => content === made };
}

/* A button in the head that opens the drawer. */
export function drawerButton(name, text, tooltip, onclick) {
  return button(
    { class: `ab-button ab-new ab-icon ${name}`, title: tooltip, "aria-expanded": "false", hidden: "", onclick },
    text,
  );
}

import { element, set, setHtml } from "../core/dom.js";

/* A conversation, scrolled to the turn that it was opened at. Its HTML is sanitized in the
   kernel. `draw` shows one unless it is there, and then calls `arrived`; `again` calls it
   in any case. */
export function conversationLog() {
  const root = element("div", { class: "ab-x-log", tabindex: 0, role: "region", "aria-label": "Conversation" });
  let shown = {};
  function draw(session, html, arrived = () => {}, again = false) {
    const isShown = shown.session === session && shown.html === html;
    if (isShown && !again) return;
    if (!isShown) setHtml(root, html);
    shown = { session, html };
    const when = root.querySelector(".ab-x-here .ab-x-when");
    set(root, "aria-label", when ? `Conversation. ${when.textContent}` : "Conversation");
    requestAnimationFrame(() => {
      const here = root.querySelector(".ab-x-here");
      root.scrollTop = here ? here.offsetTop - 8 : 0;
      arrived();
    });
  }
  function clear() {
    shown = {};
    root.replaceChildren();
  }
  return { root, draw, clear };
}

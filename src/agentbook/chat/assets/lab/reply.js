/* One reply in the table of results: its checks, its text, thumbs, a note, details. */
import { button, element, set, setHtml, write } from "../core/dom.js";
import { turned } from "./rows.js";

const WORDS = { true: ["ab-yes", "passed"], false: ["ab-no", "not passed"], null: ["ab-maybe", "undecided"] };
const TURNED = { fixed: "fixed since it was asked before", broken: "broken since it was asked before" };

const seconds = (value) => (value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);

function chips(reply, checks) {
  const made = checks.flatMap((name, n) => {
    const verdict = reply.verdicts[n];
    if (!verdict) return [];
    const [kind, word] = WORDS[verdict[0]];
    const spoken = element("span", { class: "ab-unseen" }, ` ${word}`);
    const figure = verdict[1] === null ? "" : ` ${Number(verdict[1].toPrecision(2))}`;
    return [element("span", { class: `ab-check ${kind}`, title: verdict[2] || null }, `${name}${figure}`, spoken)];
  });
  if (reply.finish) made.unshift(element("span", { class: "ab-finish" }, reply.finish));
  const change = turned(reply);
  if (change) made.unshift(element("span", { class: `ab-r-turned ab-r-${change}`, title: TURNED[change] }, change));
  return made;
}

function failure(reply) {
  const word = reply.status === "failed" ? "Failed." : "Stopped.";
  return element("div", { class: "ab-failed" }, element("strong", {}, word), ` ${reply.reason}`);
}

function detailList(details) {
  if (!details) return element("div", { class: "ab-foot" }, "Reading…");
  const items = details.items.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
  const earlier = details.earlier.map(([title, text]) =>
    element("div", { class: "ab-r-earlier" }, element("div", { class: "ab-who" }, title), element("div", {}, text)),
  );
  return element("div", { class: "ab-r-details" }, element("dl", {}, ...items), ...earlier);
}

/*
A reply as an element. `look` says how to show it: `name` is what the variant is called
here, `blind` hides anything that would identify it, `body` is its sanitized HTML (or
null while there is only plain text), and `open` shows all of it, with `details`. `act`
has the actions of its buttons. `noteBox` is the text box of its note, or null.
*/
export function replyView(reply, checks, look, act, noteBox) {
  const root = element("div", { class: "ab-r-reply", "data-repeat": reply.repeat });
  const times = reply.repeat > 1 ? `no. ${reply.repeat}` : "";
  root.append(element("div", { class: "ab-r-who" }, [look.name, times].filter(Boolean).join(" · ")));
  if (reply.status === "asking") {
    root.append(element("div", { class: "ab-foot" }, "asking…"));
    return root;
  }
  const made = look.blind ? [] : chips(reply, checks);
  if (made.length) root.append(element("div", { class: "ab-checks" }, ...made));
  if (reply.status !== "answered") root.append(failure(reply));
  else root.append(bodyOf(reply, look));
  function action(name, icon, title, pressed, onclick) {
    const attributes = { class: `ab-act ab-${icon}`, "data-act": name, "aria-pressed": pressed };
    return button({ ...attributes, tabindex: -1, title, onclick }, title);
  }
  const foot = element("div", { class: "ab-actions ab-r-foot" });
  if (!look.blind && reply.seconds !== null) foot.append(element("span", {}, seconds(reply.seconds)));
  foot.append(element("span", { class: "ab-r-gap" }));
  if (reply.status === "answered") {
    const thumb = (name, icon, label, is) =>
      action(name, icon, label, reply.thumb === is, () => act.vote({ thumb: reply.thumb === is ? null : is }));
    foot.append(
      thumb("up", "good", "Good reply (+)", true),
      thumb("down", "bad", "Bad reply (−)", false),
      action("note", "noting", "Add a note (n)", noteBox !== null, () => act.note()),
    );
  }
  if (!look.blind) {
    const label = "Show the complete reply with its details (Enter)";
    const details = action("open", "unfold", label, null, () => act.open());
    set(details, "aria-expanded", String(look.open));
    foot.append(details);
  }
  root.append(foot);
  if (noteBox) root.append(noteBox);
  if (look.open && !look.blind) root.append(detailList(look.details));
  return root;
}

function bodyOf(reply, look) {
  const body = element("div", { class: look.difference ? "ab-r-body" : "ab-r-body ab-md", dir: "auto" });
  set(body, "data-open", look.open ? "" : null);
  if (look.body !== null) setHtml(body, look.body);
  else write(body, reply.text);
  return body;
}

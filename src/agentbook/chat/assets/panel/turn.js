/* One turn of a conversation: a question and its reply, in parts that change independently. */
import { button, counted, element, set, setHtml } from "../core/dom.js";
import { piecesOf } from "../core/protocol.js";

const NOT_TYPESET = "mathjax_ignore tex2jax_ignore";

const collectButton = (onclick) =>
  button({ class: "ab-act ab-collecting", title: "Add this turn to the test set", onclick }, "Add to test set");

/*
`act` does what the kernel offers for a turn, and collects it; `collects` says whether it can be added to a test set.
`typeset` typesets the formulas of an element.
*/
export function turnView(id, act, typeset, collects = () => false) {
  const root = element("div", { class: "ab-turn", "data-turn": id });
  const body = element("div", { class: "ab-agent-body" });
  let holders, actions, answer; // a turn of a long history has none of these
  const shown = new Map();
  const pieces = []; // { made, html, typeset }

  function put(part, holder, html) {
    if (shown.get(part) === html) return false;
    shown.set(part, html);
    setHtml(holder, html);
    if (collects()) holder.querySelector(".ab-me .ab-acts")?.append(collectButton(() => act.collect(id)));
    return true;
  }

  function open() {
    holders = { question: element("div"), head: element("div"), foot: element("div") };
    actions = element("div", { class: "ab-actions" });
    answer = element(
      "div",
      { class: "ab-agent" },
      holders.head,
      body,
      element("div", { class: "ab-row" }, holders.foot, actions),
    );
    root.replaceChildren(holders.question, answer);
  }

  function drawBody(turn) {
    const htmls = piecesOf(turn);
    const final = turn.data.get("pending") ? turn.final : htmls.length;
    while (pieces.length > htmls.length) pieces.pop().made.remove();
    htmls.forEach((html, n) => {
      if (n === pieces.length) {
        pieces.push({ made: element("div"), html: null, typeset: false });
        body.append(pieces[n].made);
      }
      const piece = pieces[n];
      set(piece.made, "class", `ab-md ${n < htmls.length - 1 ? "ab-piece " : ""}${NOT_TYPESET}`);
      if (piece.html !== html) {
        piece.html = html;
        piece.typeset = false;
        setHtml(piece.made, html);
      }
      // A piece that still changes would flicker if it were typeset again and again.
      if (n < final && !piece.typeset) {
        piece.typeset = true;
        typeset(piece.made);
      }
    });
  }

  function draw(turn) {
    if (turn.html.has("whole")) {
      set(root, "class", `ab-turn ${NOT_TYPESET}`);
      if (put("whole", root, turn.html.get("whole"))) typeset(root);
      return;
    }
    if (!answer) open();
    for (const [part, holder] of Object.entries(holders)) put(part, holder, turn.html.get(part) ?? "");
    drawBody(turn);
    set(root, "class", turn.data.get("pending") ? "ab-turn ab-open" : "ab-turn");
    const offers = turn.data.get("actions") ?? [];
    if (shown.get("actions") === JSON.stringify(offers)) return;
    shown.set("actions", JSON.stringify(offers));
    const made = ([what, label, title, pressed]) => {
      const look =
        pressed === undefined
          ? { class: "ab-button ab-retry" }
          : { class: `ab-act ab-${what}`, "aria-pressed": `${pressed}` };
      return button({ ...look, title, onclick: () => act.turn(what, id) }, String(label));
    };
    const focused = [...actions.children].indexOf(document.activeElement);
    actions.replaceChildren(...offers.map(made));
    actions.children[focused]?.focus({ preventScroll: true });
  }

  /* The text of the reply as it is read aloud; of code, how long it is, once that is known. */
  function read(complete) {
    const lines = (block) => counted(block.querySelector("pre").textContent.trimEnd().split("\n").length, "line");
    const blocks = [...body.children].flatMap((piece) => [...piece.children]);
    const texts = blocks.map((each) => (each.matches(".ab-code") ? `Code, ${lines(each)}.` : each.textContent));
    if (!complete && blocks.at(-1)?.matches(".ab-code")) texts[texts.length - 1] = "";
    return texts.join("\n");
  }
  return { root, draw, read };
}

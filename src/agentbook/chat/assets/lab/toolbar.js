/* The choices above the table of results. */
import { button, counted, element, set, write } from "../core/dom.js";
import { counts, FILTERS } from "./rows.js";

/* The choices above the table: which rows, in which order, and what to show of them. */
export function toolbar(state, look, change) {
  const filters = Object.entries(FILTERS).map(([name, label]) => {
    const count = element("span", { class: "ab-r-count" });
    const pressed = button(
      { class: "ab-r-filter", "data-filter": name, onclick: () => change({ filter: name }) },
      `${label} `,
      count,
    );
    return { name, pressed, count };
  });
  const choice = (label, onchange) =>
    element("select", { "aria-label": label, onchange: ({ target }) => onchange(target.value) });
  const search = element("input", {
    type: "search",
    placeholder: "Find in inputs and replies",
    "aria-label": "Find in inputs and replies",
    oninput: () => change({ search: search.value }),
  });
  const sort = choice("Sort by", (value) => change({ sort: value, descending: value === "seconds" }));
  const direction = button({
    class: "ab-r-button",
    "aria-label": "Reverse the order",
    title: "Reverse the order",
    onclick: () => change({ descending: !look.descending }),
  });
  const against = choice("Show", (value) => change({ against: value === "" ? null : Number(value) }));
  const differs = "The order of the variants differs from row to row";
  const blind = element("input", {
    type: "checkbox",
    title: differs,
    onchange: () => change({ blind: blind.checked }),
  });
  const labelled = (...parts) => element("label", { class: "ab-r-choice" }, ...parts);
  const spoken = element("span", { class: "ab-r-shown", role: "status" });
  const root = element(
    "div",
    { class: "ab-r-tools" },
    element(
      "div",
      { class: "ab-r-filters", role: "group", "aria-label": "Rows" },
      ...filters.map((each) => each.pressed),
    ),
    search,
    labelled("Sort ", sort, direction),
    labelled("Show ", against),
    labelled(blind, "Blind"),
    spoken,
  );

  const option = (value, text) => element("option", { value }, text);
  function build() {
    const { variants, checks } = state.head;
    sort.replaceChildren(
      option("", "input"),
      option("passed", "all checks"),
      ...checks.map((name, n) => option(`check ${n}`, name)),
      option("seconds", "latency"),
      option("thumbs", "labels"),
    );
    against.replaceChildren(
      option("", "replies"),
      ...variants.map(({ name }, n) => option(String(n), `differences from ${name}`)),
    );
    if (look.against !== null && look.against >= variants.length) look.against = null;
    if (look.sort.startsWith("check ") && Number(look.sort.slice(6)) >= checks.length) look.sort = "";
  }
  function draw(shown) {
    const number = counts(state.order.map((id) => state.rows.get(id)));
    for (const { name, pressed, count } of filters) {
      write(count, String(number[name]));
      set(pressed, "aria-pressed", String(look.filter === name));
      pressed.hidden = name === "changed" && !number.changed && look.filter !== "changed";
    }
    sort.value = look.sort;
    against.value = look.against === null ? "" : String(look.against);
    against.disabled = look.blind;
    write(direction, look.descending ? "↓" : "↑");
    const inputs = counted(state.order.length, "input");
    write(spoken, shown === state.order.length ? inputs : `${shown} of ${inputs}`);
  }
  return { root, build, draw };
}

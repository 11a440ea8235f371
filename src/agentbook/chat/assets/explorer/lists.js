/* The heat map, the bars of outcomes and groups, and the table of turns. */
import { block, DAYS, duration, level, neighbour, number, oClock, toggled, turns } from "./marks.js";
import { button, element, set, write } from "../core/dom.js";
import { isComposing } from "../core/keys.js";

/* A part of the explorer with its heading. */
export function section(name, title, ...children) {
  const heading = element("h4", { class: "ab-x-title" }, title);
  return element("section", { class: `ab-x-section ab-x-${name}`, "aria-label": title }, heading, ...children);
}

export function heatView(state, act) {
  const cells = [];
  const rows = DAYS.map((day, n) => {
    const pick = button(
      { class: "ab-x-day", title: `Select ${day}`, onclick: () => act.select({ hours: block(24 * n, 24 * n + 23) }) },
      day.slice(0, 3),
    );
    const row = element("tr", {}, element("th", { scope: "row" }, pick));
    for (let hour = 0; hour < 24; hour += 1) {
      const cell = element("td", { role: "gridcell", tabindex: cells.length ? -1 : 0, "data-slot": cells.length });
      cells.push(cell);
      row.append(cell);
    }
    return row;
  });
  const head = element("tr", {}, element("td", { class: "ab-x-corner" }));
  for (let hour = 0; hour < 24; hour += 6) head.append(element("th", { scope: "colgroup", colspan: 6 }, oClock(hour)));
  const label = "Turns by hour of the week. Arrow keys select an hour, with Shift a block; Escape clears.";
  const table = element(
    "table",
    { class: "ab-x-heatmap", role: "grid", "aria-label": label, "aria-multiselectable": "true" },
    element("tbody", {}, ...rows),
    element("tfoot", {}, head),
  );
  let anchor = null;
  let focused = 0;

  const slotOf = (event) => {
    const cell = event.target.closest ? event.target.closest("[data-slot]") : null;
    return cell ? Number(cell.dataset.slot) : null;
  };
  const focus = (slot) => {
    set(cells[focused], "tabindex", -1);
    focused = slot;
    set(cells[slot], "tabindex", 0);
    cells[slot].focus({ preventScroll: true });
  };
  table.addEventListener("pointerdown", (event) => {
    const slot = slotOf(event);
    if (slot === null || event.button) return;
    event.preventDefault();
    focus(slot);
    anchor = slot;
    act.select({ hours: toggled(state.filters.hours, slot, event.ctrlKey || event.metaKey) });
  });
  table.addEventListener("pointerover", (event) => {
    const slot = slotOf(event);
    if (slot === null || anchor === null || !(event.buttons & 1)) return;
    if (slot !== anchor) state.dragging = true;
    if (state.dragging) act.select({ hours: block(anchor, slot) });
  });
  const end = () => {
    if (state.dragging && anchor !== null) {
      state.dragging = false;
      act.settled();
    }
  };
  window.addEventListener("pointerup", end);
  table.addEventListener("keydown", (event) => {
    const slot = slotOf(event);
    if (event.key === "Escape") act.select({ hours: [] });
    else if (slot === null) return;
    else if (event.key === " " || event.key === "Enter")
      act.select({ hours: toggled(state.filters.hours, slot, true) });
    else {
      const next = neighbour(slot, event.key);
      if (next === null) return;
      if (!event.shiftKey || anchor === null) anchor = event.shiftKey ? slot : next;
      focus(next);
      act.select({ hours: block(anchor, next) });
    }
    event.preventDefault();
  });

  function draw() {
    const counts = state.current.heat;
    const largest = Math.max(1, ...counts);
    cells.forEach((cell, slot) => set(cell, "data-level", level(counts[slot], largest)));
    // The words describe single hours, so they are set after a drag, not at each step.
    if (!state.dragging) {
      cells.forEach((cell, slot) => {
        const words = `${DAYS[Math.floor(slot / 24)]} ${oClock(slot % 24)}, ${turns(counts[slot])}`;
        set(cell, "aria-label", words);
        set(cell, "title", words);
      });
    }
    drawFilters();
  }

  function drawFilters() {
    const chosen = new Set(state.filters.hours);
    set(table, "data-chosen", chosen.size ? "" : null);
    cells.forEach((cell, slot) => set(cell, "aria-selected", chosen.has(slot)));
  }

  return {
    root: section("heat", "Hour of the week", table),
    draw,
    drawFilters,
    end: () => window.removeEventListener("pointerup", end),
  };
}

/*
Bars that can be pressed. `spec` has the title, the dimension of the filters, the names,
and `values`, which returns each bar's count, its share of the width and a note.
*/
export function barsView(state, act, spec) {
  const list = element("ul", { class: "ab-x-list" });
  const more = element("div", { class: "ab-x-more" });
  const head = element(
    "div",
    { class: "ab-x-listhead", "aria-hidden": "true" },
    ...spec.heads.map((text) => element("span", {}, text)),
  );
  let bars = [];

  function build() {
    const { names, failing, hidden } = spec.names();
    const before = bars.map((bar) => bar.text).join("\n");
    write(more, hidden ? `and ${number(hidden)} more, in the table` : "");
    if (bars.length && before === names.join("\n")) {
      draw();
      return;
    }
    bars = names.map((text, n) => {
      const [fill, count, note] = ["fill", "count", "note"].map((part) => element("span", { class: `ab-x-${part}` }));
      const name = element("span", { class: "ab-x-name", title: text }, text);
      const pick = button(
        {
          class: `ab-x-pick${failing(n) ? " ab-x-bad" : ""}`,
          "aria-pressed": "false",
          onclick: (event) => {
            const add = event.ctrlKey || event.metaKey || event.shiftKey;
            act.select({ [spec.dimension]: toggled(state.filters[spec.dimension], n, add) });
          },
        },
        fill,
        name,
        note,
        count,
      );
      return { pick, fill, count, note, text };
    });
    list.replaceChildren(...bars.map((bar) => element("li", {}, bar.pick)));
    draw();
  }

  function draw() {
    spec.values().forEach(({ count, share, note }, n) => {
      bars[n].fill.style.width = `${(100 * share).toFixed(1)}%`;
      write(bars[n].count, number(count));
      write(bars[n].note, note);
      set(bars[n].pick, "data-none", count ? null : "");
    });
    drawFilters();
  }

  function drawFilters() {
    const chosen = state.filters[spec.dimension];
    set(list, "data-chosen", chosen.length ? "" : null);
    bars.forEach((bar, n) => set(bar.pick, "aria-pressed", chosen.includes(n)));
  }

  list.addEventListener("keydown", (event) => {
    const index = bars.findIndex((bar) => bar.pick === document.activeElement);
    if (event.key === "Escape") act.select({ [spec.dimension]: [] });
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = bars[index + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) next.pick.focus();
    } else return;
    event.preventDefault();
  });
  const root = section(spec.dimension, spec.title(), head, list, more);
  return { root, build, draw, drawFilters, end() {} };
}

const SEARCH_AFTER_MS = 300; // once nothing more is typed

/* A field that selects the turns with these words in question or reply. */
function searchField(state, act) {
  let timer = 0;
  const field = element("input", {
    class: "ab-x-search",
    type: "search",
    placeholder: "Search questions and replies",
    "aria-label": "Search questions and replies",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
  });
  const search = (after) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      if (field.value.trim() !== state.filters.text) act.select({ text: field.value.trim() });
    }, after);
  };
  field.addEventListener("input", () => search(SEARCH_AFTER_MS));
  field.addEventListener("keydown", (event) => {
    if (isComposing(event)) return;
    if (event.key === "Enter") search(0);
    else if (event.key === "Escape") {
      field.value = "";
      search(0);
    } else return;
    event.preventDefault();
  });
  function draw() {
    field.hidden = !state.fixed.texts;
    // What is being typed is newer than what the kernel knows.
    if (!timer && field.value.trim() !== state.filters.text) field.value = state.filters.text;
  }
  return { root: field, draw, end: () => clearTimeout(timer) };
}

export function tableView(state, act) {
  const sorts = ["asked", "latency"].map((sort) =>
    button({
      class: "ab-x-sort",
      onclick: () => {
        const { table } = state.current;
        act.table({ sort, descending: table.sort === sort ? !table.descending : true, offset: 0 });
      },
    }),
  );
  const heads = ["asked", "group", "outcome", "latency", "text"].map((name) =>
    element("th", { scope: "col", class: `ab-x-c-${name}` }),
  );
  heads[0].append(sorts[0]);
  heads[3].append(sorts[1]);
  const body = element("tbody");
  const rows = [];
  const where = element("span", { class: "ab-x-where" });
  const step = (text, by) =>
    button(
      { class: "ab-x-step", onclick: () => act.table({ ...pick(), offset: state.current.table.offset + by }) },
      text,
    );
  const [back, on] = [step("Previous", -50), step("Next", 50)];
  const pick = () => ({ sort: state.current.table.sort, descending: state.current.table.descending });
  const grid = element("table", { class: "ab-x-turns" }, element("thead", {}, element("tr", {}, ...heads)), body);

  function row(n) {
    if (rows[n]) return rows[n];
    const open = button({ class: "ab-x-open", title: "Read the conversation" });
    const cells = heads.map((head) => element("td", { class: head.className }));
    cells[0].append(open);
    const made = element("tr", { onclick: (event) => act.open(rows[n].data.row, event.detail === 0) }, ...cells);
    rows[n] = { made, open, cells, data: null };
    body.append(made);
    return rows[n];
  }

  body.addEventListener("keydown", (event) => {
    const index = rows.findIndex((each) => each.open === document.activeElement);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const next = rows[index + (event.key === "ArrowDown" ? 1 : -1)];
    if (next && !next.made.hidden) next.open.focus();
    event.preventDefault();
  });

  function draw() {
    const { table } = state.current;
    const { fixed } = state;
    write(heads[1], fixed.by || "Group");
    write(heads[2], "Outcome");
    write(heads[4], fixed.texts ? (state.filters.text ? "Found in" : "Question") : "");
    ["asked", "latency"].forEach((sort, n) => {
      const arrow = table.sort === sort ? (table.descending ? " ↓" : " ↑") : "";
      write(sorts[n], `${n ? "Latency" : "Asked"}${arrow}`);
      const order = table.descending ? "descending" : "ascending";
      set(heads[n ? 3 : 0], "aria-sort", arrow ? order : "none");
    });
    table.rows.forEach((data, n) => {
      const { made, open, cells } = row(n);
      rows[n].data = data;
      made.hidden = false;
      write(open, data.asked || "unknown");
      write(cells[1], data.group);
      write(cells[2], fixed.outcomes[data.outcome]);
      write(cells[3], duration(data.latency));
      write(cells[4], data.text);
      set(made, "data-bad", fixed.failing[data.outcome] ? "" : null);
    });
    for (let n = table.rows.length; n < rows.length; n += 1) rows[n].made.hidden = true;
    const last = table.offset + table.rows.length;
    write(
      where,
      table.total
        ? `${number(table.offset + 1)} to ${number(last)} of ${number(table.total)}`
        : "No turns match: remove one of the conditions.",
    );
    back.disabled = table.offset === 0;
    on.disabled = last >= table.total;
    search.draw();
    drawConversation();
  }

  function drawConversation() {
    const open = state.opening ?? state.conversation?.row ?? null;
    for (const each of rows) set(each.made, "aria-current", each.data && each.data.row === open ? "true" : null);
  }

  const search = searchField(state, act);
  const root = section(
    "table",
    "Turns",
    search.root,
    element("div", { class: "ab-x-scroll", tabindex: 0, role: "region", "aria-label": "Table of turns" }, grid),
    element("div", { class: "ab-x-pages" }, where, back, on),
  );
  return { root, draw, drawFilters: search.draw, drawConversation, end: search.end };
}

/*
Which rows of the results are shown, in which order, and under which names. It needs no
document, so it can be tested in Node.js. A row has a cell per variant, and a cell has a
reply per repeat. A reply's `passed` is true, false, or null if that is not known.
*/

export const FILTERS = { all: "All", failures: "Failures", disagreements: "Disagreements", changed: "Changed" };

const mean = (values) => {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
};
const number = (passed) => (passed === null ? null : Number(passed));

/* A reply's score in a check; a check without scores passes with 1. */
export function score(reply, check) {
  const verdict = reply.verdicts[check];
  if (!verdict) return null;
  return verdict[1] ?? number(verdict[0]);
}

export const fails = (reply) =>
  reply.status === "failed" || reply.status === "stopped" || reply.passed === false || reply.thumb === false;

/* Whether the variants differ: in a check, in all checks, or in people's ratings. */
export function disagrees(row) {
  const ratings = [(reply) => number(reply.passed), (reply) => number(reply.thumb)];
  const checks = row.cells.flat().reduce((count, reply) => Math.max(count, reply.verdicts.length), 0);
  for (let check = 0; check < checks; check += 1)
    ratings.push((reply) => number(reply.verdicts[check] ? reply.verdicts[check][0] : null));
  return ratings.some((rate) => {
    const means = row.cells.map((cell) => mean(cell.map(rate))).filter((value) => value !== null);
    return means.length > 1 && Math.max(...means) - Math.min(...means) > 1e-9;
  });
}

/* Whether a reply passes now but did not before its variant was edited, or vice versa. */
export const turned = (reply) =>
  reply.before === null || reply.passed === null || reply.before === reply.passed
    ? ""
    : reply.passed
      ? "fixed"
      : "broken";

const PASSES = {
  all: () => true,
  failures: (row) => row.cells.flat().some(fails),
  disagreements: disagrees,
  changed: (row) => row.cells.flat().some((reply) => turned(reply) !== ""),
};

/* How many rows each filter shows. */
export function counts(rows) {
  return Object.fromEntries(Object.entries(PASSES).map(([name, passes]) => [name, rows.filter(passes).length]));
}

/* The value by which a row is sorted; null comes last in either direction. */
function value(row, sort) {
  const replies = row.cells.flat();
  if (sort === "passed") return mean(replies.map((reply) => (fails(reply) ? 0 : number(reply.passed))));
  if (sort === "thumbs") return mean(replies.map((reply) => number(reply.thumb)));
  if (sort === "seconds") return Math.max(-1, ...replies.map((reply) => reply.seconds ?? -1));
  if (sort.startsWith("check ")) return mean(replies.map((reply) => score(reply, Number(sort.slice(6)))));
  return null;
}

const includes = (row, words) =>
  [row.input, ...row.cells.flat().map((reply) => reply.text)].join("\n").toLowerCase().includes(words);

/* The rows that match a filter and a search, sorted; rows of equal rank keep their order. */
export function arrange(rows, { filter, search, sort, descending }) {
  const words = search.trim().toLowerCase();
  const shown = rows.filter((row) => PASSES[filter](row) && (!words || includes(row, words)));
  if (!sort) return descending ? shown.reverse() : shown;
  const sign = descending ? -1 : 1;
  const ranked = shown.map((row) => [value(row, sort), row]);
  ranked.sort(([a], [b]) => (a === null || b === null ? Number(a === null) - Number(b === null) : sign * (a - b)));
  return ranked.map(([, row]) => row);
}

/*
The order of the variants in a row when their names are hidden: different in each row,
but the same whenever the row is drawn.
*/
export function shuffled(count, seed, row) {
  let state = 2166136261;
  for (const character of `${seed}:${row}`) state = Math.imul(state ^ character.codePointAt(0), 16777619);
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const order = Array.from({ length: count }, (_, n) => n);
  for (let n = count - 1; n > 0; n -= 1) {
    const other = Math.floor(random() * (n + 1));
    [order[n], order[other]] = [order[other], order[n]];
  }
  return order;
}

export const letter = (n) =>
  n < 26 ? String.fromCharCode(65 + n) : `${letter(Math.floor(n / 26) - 1)}${String.fromCharCode(65 + (n % 26))}`;

/* How many of a variant's judged replies passed. */
export function tally(rows, variant) {
  const judged = rows
    .flatMap((row) => row.cells[variant] ?? [])
    .filter((reply) => fails(reply) || reply.passed !== null);
  return [judged.filter((reply) => !fails(reply)).length, judged.length];
}

/* A table of a reply as Python that builds it as a DataFrame. */

const LINE = 100; // characters of a line

const NUMBER = String.raw`[-+−]?(?:(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+)`;
const DAY = String.raw`\d{4}-\d\d-\d\d`;
const TIME = String.raw`${DAY}[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?`;
const MISSING = /^(?:[-–—]|n\/?a|nan|null|none)?$/i;

const number = (text) => text.replaceAll(",", "").replace("−", "-").replace(/^\+/, "").replace(/%$/, "");
const quoted = (text) => JSON.stringify(text); // Python reads it, too
const isDay = (text) => {
  const day = text.slice(0, 10);
  return !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
};

/* What all values of a column may be: how they look, each in Python, the column, and the column if some are missing. */
const TYPES = [
  [/^(?:true|false)$/i, (text) => (/^t/i.test(text) ? "True" : "False"), (list) => list, nullable("boolean")],
  [/^[-+−]?(?:0|[1-9]\d{0,17}|[1-9]\d{0,2}(?:,\d{3}){1,5})$/, number, (list) => list, nullable("Int64")],
  [new RegExp(`^${NUMBER}$`, "i"), number, (list) => list],
  [
    new RegExp(`^${NUMBER}\\s?%$`, "i"),
    (text) => number(text).trim(),
    (list) => `pd.Series(${list}, dtype=float) / 100`,
  ],
  [new RegExp(`^${DAY}$`), quoted, (list) => `pd.to_datetime(${list})`, undefined, isDay],
  [new RegExp(`^${TIME}$`), quoted, (list) => `pd.to_datetime(${list}, format="ISO8601")`, undefined, isDay],
  [
    new RegExp(`^${TIME}(?:Z|[-+]\\d\\d:?\\d\\d)$`),
    quoted,
    (list) => `pd.to_datetime(${list}, format="ISO8601", utc=True)`,
    undefined,
    isDay,
  ],
];
function nullable(dtype) {
  return (list) => `pd.array(${list}, dtype="${dtype}")`;
}

/* A list on one line, or on several. */
function listed(items) {
  if (items.join(", ").length < LINE) return `[${items.join(", ")}]`;
  const lines = [""];
  for (const item of items) {
    if (lines.at(-1).length + item.length > LINE) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${item},`;
  }
  return `[\n${lines.map((line) => `        ${line}\n`).join("")}    ]`;
}

function column(texts) {
  const known = texts.filter((text) => !MISSING.test(text));
  const type =
    known.length && TYPES.find(([looks, , , , is = () => true]) => known.every((each) => looks.test(each) && is(each)));
  if (!type) return listed(texts.map((text) => (text ? quoted(text) : "None")));
  const [, value, made, madeWithGaps = made] = type;
  const values = texts.map((text) => (MISSING.test(text) ? "None" : value(text)));
  return (known.length < texts.length ? madeWithGaps : made)(listed(values));
}

/* The code that builds a table and calls it `name`. */
export function frameCode(table, name) {
  const texts = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const [head, ...rows] = [...table.rows].map(texts);
  const taken = new Set();
  const columns = head.map((title, n) => {
    const base = title || `Unnamed: ${n}`;
    let [key, times] = [base, 0];
    while (taken.has(key)) key = `${base}.${(times += 1)}`; // as `read_csv` names them
    taken.add(key);
    return `    ${quoted(key)}: ${column(rows.map((row) => row[n] ?? ""))},\n`;
  });
  return `import pandas as pd\n\n${name} = pd.DataFrame({\n${columns.join("")}})\n${name}`;
}

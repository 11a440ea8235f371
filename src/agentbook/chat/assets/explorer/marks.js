/*
The arithmetic of the explorer's views: scales, paths, hit tests, selections, words. It
needs no document, so it can be tested in Node.js.
*/

export const LEVELS = 6;
const FEW_DOTS = 50; // up to this many turns are drawn large, as in svg.py
export const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
export const NOTHING = Object.freeze({
  begin: null,
  end: null,
  low: null,
  high: null,
  hours: [],
  outcomes: [],
  groups: [],
  text: "",
});

/* How dark to draw a count, 0 to LEVELS; a square root keeps small counts visible. */
export function level(count, largest) {
  return count > 0 ? Math.max(1, Math.ceil(LEVELS * Math.sqrt(count / largest))) : 0;
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/*
The plane of latency over time, in pixels. `plot` is {left, top, width, height}; below
it is the strip of counts, `strip` high, and then the time axis.
*/
export function plane(axes, plot) {
  const end = axes.begin + axes.length * axes.periods;
  const ratio = Math.log(axes.high / axes.low);
  const x = (ms) => plot.left + (plot.width * (ms - axes.begin)) / (end - axes.begin);
  const y = (seconds) => plot.top + plot.height * (1 - Math.log(Math.max(seconds, axes.low) / axes.low) / ratio);
  return {
    axes,
    plot,
    x,
    y,
    end,
    moment: (px) => axes.begin + ((px - plot.left) / plot.width) * (end - axes.begin),
    seconds: (py) => axes.low * Math.exp(ratio * (1 - (py - plot.top) / plot.height)),
  };
}

const px = (value) => value.toFixed(1);

/* Paths of the cells, one for each level from 1, with all cells of that shade. */
export function cellPaths(cells, at) {
  const paths = Array(LEVELS).fill("");
  const width = at.plot.width / at.axes.periods;
  const height = at.plot.height / at.axes.bands;
  let largest = 1;
  for (let n = 1; n < cells.length; n += 2) largest = Math.max(largest, cells[n]);
  for (let n = 0; n < cells.length; n += 2) {
    const x = at.plot.left + width * Math.floor(cells[n] / at.axes.bands);
    const y = at.plot.top + at.plot.height - height * ((cells[n] % at.axes.bands) + 1);
    paths[level(cells[n + 1], largest) - 1] += `M${px(x)} ${px(y)}h${px(width)}v${px(height)}h${px(-width)}z`;
  }
  return paths;
}

/* Dots as strokes of length zero: with round caps they are circles, in one element. */
export function dotPath(dots, at) {
  return dots.map((dot) => `M${px(at.x(dot[1]))} ${px(at.y(dot[2]))}h0`).join("");
}

/* The class of dots; few of them are drawn larger. */
export function dotsClass(count) {
  return count <= FEW_DOTS ? "ab-x-dots ab-x-few" : "ab-x-dots";
}

/* A line over the periods, with a gap where a period has no value. */
export function linePath(values, at) {
  let path = "";
  let run = 0;
  for (let n = 0; n <= values.length; n += 1) {
    const value = n < values.length ? values[n] : null;
    if (value === null) {
      if (run === 1) path += "h0";
      run = 0;
    } else {
      const x = at.x(at.axes.begin + at.axes.length * (n + 0.5));
      path += `${run ? "L" : "M"}${px(x)} ${px(at.y(value))}`;
      run += 1;
    }
  }
  return path;
}

/* Bars of counts per period, on the baseline `base`. */
export function barPath(counts, largest, height, base, at) {
  const width = at.plot.width / at.axes.periods;
  return counts
    .map((count, n) => {
      if (!count) return "";
      const tall = Math.max((height * count) / largest, 1);
      return `M${px(at.plot.left + width * n)} ${px(base)}v${px(-tall)}h${px(Math.max(width - 1, 0.8))}v${px(tall)}z`;
    })
    .join("");
}

/* The dot nearest to a point, at most `reach` pixels away; null if there is none. */
export function nearest(dots, x, y, at, reach) {
  let best = null;
  let distance = reach * reach;
  for (const dot of dots) {
    const [dx, dy] = [at.x(dot[1]) - x, at.y(dot[2]) - y];
    if (dx * dx + dy * dy <= distance) [best, distance] = [dot, dx * dx + dy * dy];
  }
  return best;
}

/*
The part of the plane between two points. An end at the edge of the plot is open, so a
brush over its full height selects every latency. `along` says what the drag selects:
"time", "latency" or "both".
*/
export function brushed(from, to, along, at) {
  const { left, top, width, height } = at.plot;
  const part = {};
  if (along !== "latency") {
    const [first, last] = [from.x, to.x].map((x) => clamp(x, left, left + width)).sort((a, b) => a - b);
    part.begin = first <= left + 1 ? null : Math.round(at.moment(first));
    part.end = last >= left + width - 1 ? null : Math.round(at.moment(last));
  }
  if (along !== "time") {
    const [upper, lower] = [from.y, to.y].map((y) => clamp(y, top, top + height)).sort((a, b) => a - b);
    part.low = lower >= top + height - 1 ? null : at.seconds(lower);
    part.high = upper <= top + 1 ? null : at.seconds(upper);
  }
  return part;
}

/* The brush of filters in pixels; null if neither time nor latency is selected. */
export function brushBox(filters, at) {
  const { left, top, width, height } = at.plot;
  if ([filters.begin, filters.end, filters.low, filters.high].every((end) => end === null)) return null;
  const x0 = filters.begin === null ? left : clamp(at.x(filters.begin), left, left + width);
  const x1 = filters.end === null ? left + width : clamp(at.x(filters.end), left, left + width);
  const y0 = filters.high === null ? top : clamp(at.y(filters.high), top, top + height);
  const y1 = filters.low === null ? top + height : clamp(at.y(filters.low), top, top + height);
  return { x: x0, y: y0, width: Math.max(x1 - x0, 1), height: Math.max(y1 - y0, 1) };
}

/*
What a key does to the selection in time and latency; null if the key has no effect.
Left and right move the span by a period; with Shift they move its end. Up and down move
the minimum latency by a band.
*/
export function stepped(filters, key, shift, axes) {
  const end = axes.begin + axes.length * axes.periods;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const step = key === "ArrowRight" ? axes.length : -axes.length;
    if (filters.begin === null && filters.end === null) {
      return step > 0 ? { begin: axes.begin, end: axes.begin + axes.length } : { begin: end - axes.length, end };
    }
    const [first, last] = [filters.begin ?? axes.begin, filters.end ?? end];
    if (shift) return { begin: first, end: clamp(last + step, first + axes.length, end) };
    const move = clamp(step, axes.begin - first, end - last);
    return { begin: first + move, end: last + move };
  }
  if (key === "ArrowUp" || key === "ArrowDown") {
    const band = Math.pow(axes.high / axes.low, 1 / axes.bands);
    const low = (filters.low ?? axes.low) * (key === "ArrowUp" ? band : 1 / band);
    return { low: low <= axes.low * 1.001 ? null : Math.min(low, axes.high / band) };
  }
  return null;
}

/* All hours of the week in the rectangle between two of them. */
export function block(from, to) {
  const [day0, day1] = [Math.floor(from / 24), Math.floor(to / 24)].sort((a, b) => a - b);
  const [hour0, hour1] = [from % 24, to % 24].sort((a, b) => a - b);
  const hours = [];
  for (let day = day0; day <= day1; day += 1)
    for (let hour = hour0; hour <= hour1; hour += 1) hours.push(day * 24 + hour);
  return hours;
}

/* The hour of the week that an arrow leads to. */
export function neighbour(slot, key) {
  const [day, hour] = [Math.floor(slot / 24), slot % 24];
  if (key === "ArrowLeft") return day * 24 + Math.max(hour - 1, 0);
  if (key === "ArrowRight") return day * 24 + Math.min(hour + 1, 23);
  if (key === "ArrowUp") return Math.max(day - 1, 0) * 24 + hour;
  if (key === "ArrowDown") return Math.min(day + 1, 6) * 24 + hour;
  return null;
}

export const oClock = (hour) => `${String(hour).padStart(2, "0")}:00`;

/* The chosen values after a click: only this one or, with `add`, one more or one fewer. */
export function toggled(chosen, value, add) {
  if (add) return chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value];
  return chosen.length === 1 && chosen[0] === value ? [] : [value];
}

/* A latency in words. */
export function duration(seconds) {
  if (seconds === null) return "–";
  if (seconds > 0 && seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const total = Math.round(seconds);
  if (total < 60) return `${total} s`;
  if (total < 600) return `${Math.floor(total / 60)} min ${total % 60} s`;
  if (total < 3600) return `${Math.round(total / 60)} min`;
  return `${Math.floor(total / 3600)} h ${Math.round((total % 3600) / 60)} min`;
}

const inEnglish = new Intl.NumberFormat("en");

export const number = (value) => inEnglish.format(value);

export const turns = (count) => `${number(count)} ${count === 1 ? "turn" : "turns"}`;

/* A time in a time zone, such as "21 Sep, 14:03". */
export function clock(ms, tz) {
  const parts = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false, timeZone: tz };
  return new Intl.DateTimeFormat("en-GB", parts).format(ms);
}

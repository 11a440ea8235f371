/* Elements of a page. Text becomes text nodes, so nothing in it is markup. */

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else set(made, name, value);
  }
  made.append(...children);
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export const button = (attributes, ...children) => element("button", { type: "button", ...attributes }, ...children);

export function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/* Set an attribute only if it changes, because setting it recomputes styles. */
export function set(made, name, value) {
  if (value === null || value === false || value === undefined) {
    if (made.hasAttribute(name)) made.removeAttribute(name);
  } else if (made.getAttribute(name) !== String(value)) made.setAttribute(name, value);
}

export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function write(made, text) {
  if (made.textContent !== text) made.textContent = text;
}

/*
Show `items` as the children of `parent`, in order; `draw` returns the element of an item.
Elements that stay are not moved, so they keep their focus and their place in the view.
*/
export function reconcile(parent, items, draw) {
  let next = parent.firstChild;
  for (const item of items) {
    const made = draw(item);
    if (made === next) next = next.nextSibling;
    else parent.insertBefore(made, next);
  }
  while (next) {
    const ended = next;
    next = next.nextSibling;
    ended.remove();
  }
}

/* The only place where text becomes markup. It was sanitized in the kernel. Elements that
   a person has opened stay open, and the focus is kept. */
export function setHtml(holder, html) {
  const opened = [...holder.querySelectorAll("details")].map((each) => each.open);
  const focusable = "a[href], button, summary, [tabindex]";
  const focused = holder.contains(document.activeElement)
    ? [...holder.querySelectorAll(focusable)].indexOf(document.activeElement)
    : -1;
  // eslint-disable-next-line no-restricted-properties -- here
  holder.innerHTML = html;
  if (opened.includes(true)) {
    holder.querySelectorAll("details").forEach((each, n) => {
      if (opened[n]) each.open = true;
    });
  }
  if (focused >= 0) holder.querySelectorAll(focusable)[focused]?.focus({ preventScroll: true });
}

/* An element for HTML from the kernel, and the function that shows it there. */
export function htmlHolder(attributes) {
  const root = element("div", attributes);
  let shown = "";
  function draw(html) {
    if (shown !== String(html ?? "")) setHtml(root, (shown = String(html ?? "")));
    return shown;
  }
  return { root, draw };
}

/* A time as day and clock, where the reader is: "today" or "yesterday" or "3 Oct", and "14:05"; empty if it is none. */
export function dayAndClock(iso) {
  const [at, now] = [new Date(iso), new Date()];
  if (!iso || Number.isNaN(at.getTime())) return [];
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 864e5);
  const year = at.getFullYear() === now.getFullYear() ? undefined : "numeric";
  const day = ["today", "yesterday"][days] ?? at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
  return [day, at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })];
}
export const when = (iso) => dayAndClock(iso).join(" ");

/* Do something once the current state has been painted. */
export function afterPaint(work) {
  requestAnimationFrame(() => setTimeout(work));
}

const SAYS_MS = 1500;

/* Let a button say for a moment what it did. */
export function says(pressed, words, label) {
  write(pressed, words);
  set(pressed, "data-says", "");
  setTimeout(() => {
    write(pressed, label);
    set(pressed, "data-says", null);
  }, SAYS_MS);
}

/* Copy a text for the button that was pressed, which says whether that worked. */
export function copyFor(pressed, text) {
  const done = (worked) => says(pressed, worked ? "Copied" : "Not copied", "Copy");
  const byHand = () => {
    // Only pages from this machine or over https have access to the clipboard.
    const focused = document.activeElement;
    const area = element("textarea", { "aria-hidden": "true", style: "position: fixed; top: 0; opacity: 0" });
    area.value = text;
    document.body.append(area);
    area.select();
    let worked = false;
    try {
      worked = document.execCommand("copy");
    } catch {
      worked = false;
    }
    area.remove();
    focused?.focus?.({ preventScroll: true });
    done(worked);
  };
  if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(() => done(true), byHand);
  else byHand();
}

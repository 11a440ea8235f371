// Draws interactive charts in place of their pictures in the page. There is one such
// module per kernel, and it has no view.
//
// A picture stays in the page, hidden, and its chart is drawn after it. If anything
// fails, or once the kernel is gone, the picture is shown. When a picture leaves the page
// (a cell out of view, a cleared output), its chart is removed too, because Vega's
// listeners on the window would keep it alive. If the picture returns, so does the chart.

const PICTURES = "img.ab-chart";
const NAME = /(?:^|\s)ab-chart-([0-9a-f]{16})(?:\s|$)/;
const PAUSE_MS = 100;
const OPTIONS = { actions: false, renderer: "svg", tooltip: { id: "ab-chart-tooltip", disableDefaultStyle: true } };
const SELECTED = "agentbook-chart-selected"; // a window event, shared by equal charts of two kernels

function initialize({ model }) {
  const drawings = new Map(); // image -> Drawing
  const specs = new WeakMap(); // image -> its chart's specification
  const requested = new WeakSet();
  const failed = new WeakSet();
  const names = new Set(); // the charts that this kernel has
  let vega = null;
  let nextLook = 0;

  const send = (message, onFailure = () => {}) => {
    try {
      model.send(message);
    } catch (error) {
      onFailure(error); // the kernel is gone
    }
  };

  const loadVega = () => {
    const shared = (globalThis.agentbookVega ??= {});
    const version = model.get("version");
    if (shared[version]) return Promise.resolve(shared[version]);
    vega ??= new Promise((resolve, reject) => {
      model.on("msg:custom", (message, buffers) => {
        if (message.type === "vega") importVega(buffers[0]).then((embed) => resolve((shared[version] = embed)), reject);
      });
      send({ type: "vega" }, reject);
    });
    return vega;
  };

  const look = () => {
    nextLook = 0;
    for (const [image, drawing] of drawings) {
      if (!image.isConnected || !drawing.holder.isConnected) {
        drawings.delete(image);
        drawing.remove();
      }
    }
    const unknown = new Set();
    for (const image of document.querySelectorAll(PICTURES)) {
      if (image.abDrawing || failed.has(image)) continue;
      const name = NAME.exec(image.className)?.[1];
      if (specs.has(image)) draw(image, name);
      else if (name && !requested.has(image)) {
        requested.add(image);
        unknown.add(name);
      }
    }
    if (unknown.size) send({ type: "charts", names: [...unknown] });
  };
  const lookSoon = () => {
    nextLook ||= requestAnimationFrame(look);
  };

  const draw = (image, name) => {
    const drawing = new Drawing(image, specs.get(image), (selection) => {
      window.dispatchEvent(new CustomEvent(SELECTED, { detail: { name, selection } }));
    });
    drawings.set(image, drawing);
    loadVega()
      .then((embed) => drawing.draw(embed))
      .catch((error) => {
        failed.add(image);
        drawings.delete(image);
        drawing.remove();
        console.warn("agentbook: a chart stays a picture.", error);
      });
  };

  const receive = (message) => {
    if (message.type !== "chart") return;
    names.add(message.name);
    for (const image of document.querySelectorAll(`${PICTURES}-${message.name}`)) {
      specs.set(image, message.spec);
    }
    lookSoon();
  };
  const report = ({ detail: { name, selection } }) => {
    if (names.has(name)) send({ type: "selection", name, selection });
  };

  model.on("msg:custom", receive);
  window.addEventListener(SELECTED, report);
  const observer = new MutationObserver(lookSoon);
  observer.observe(document.body, { childList: true, subtree: true });
  lookSoon();
  return () => {
    observer.disconnect();
    window.removeEventListener(SELECTED, report);
    cancelAnimationFrame(nextLook);
    for (const drawing of drawings.values()) drawing.remove();
    drawings.clear();
  };
}

async function importVega(compressed) {
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

class Drawing {
  constructor(image, spec, onSelect) {
    this.image = image;
    this.spec = spec;
    this.onSelect = onSelect;
    this.result = null;
    this.width = 0; // the width for which it is drawn
    image.abDrawing = this;
    this.holder = document.createElement("div");
    this.holder.className = "ab-live-chart";
    this.holder.setAttribute("role", "figure");
    this.holder.setAttribute("aria-label", image.alt);
    this.holder.hidden = true;
    image.after(this.holder);
  }

  async draw(embed) {
    this.embed = embed;
    await this.redraw();
    this.observer = new ResizeObserver(() => {
      clearTimeout(this.resizing);
      this.resizing = setTimeout(() => {
        const available = this.available();
        if (available && Math.min(available, this.natural()) !== this.width) this.redraw().catch(() => this.remove());
      }, PAUSE_MS);
    });
    this.observer.observe(this.holder.parentElement);
  }

  natural() {
    return this.image.naturalWidth || Infinity;
  }

  /** The width that the page has for the chart; 0 while it is out of view. */
  available() {
    const parent = this.holder.parentElement;
    if (!parent?.clientWidth) return 0;
    const style = getComputedStyle(parent);
    return parent.clientWidth - Math.ceil(parseFloat(style.paddingLeft) + parseFloat(style.paddingRight));
  }

  async redraw() {
    const available = this.available() || Infinity;
    this.width = Math.min(available, this.natural());
    const stacks = available < 0.7 * this.natural();
    const parts = stacks ? stacked(this.spec) : this.spec;
    const spec = available < this.natural() ? compacted(parts, available, this.natural()) : parts;
    let lost = parts === this.spec && available < this.natural() ? this.natural() - available : 0;
    // Labels do not shrink with the plot, so the remaining excess width is measured.
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const result = await this.embed(this.holder, narrowed(spec, lost), OPTIONS);
      this.result?.finalize();
      this.result = result;
      const excess = Number(this.holder.querySelector("svg.marks")?.getAttribute("width")) - available;
      if (!(excess > 0)) break;
      lost += excess;
    }
    if (!this.image.isConnected) return this.remove();
    for (const { name, select } of this.spec.params ?? []) {
      if (select) this.result.view.addSignalListener(name, () => this.reportSoon());
    }
    this.image.style.display = "none";
    this.holder.hidden = false;
  }

  reportSoon() {
    clearTimeout(this.reporting);
    this.reporting = setTimeout(() => {
      const selection = {};
      for (const { name, select } of this.spec.params) {
        if (select) selection[name] = JSON.parse(JSON.stringify(this.result.view.signal(name) ?? {}));
      }
      this.onSelect(selection);
    }, PAUSE_MS);
  }

  remove() {
    clearTimeout(this.reporting);
    clearTimeout(this.resizing);
    this.observer?.disconnect();
    this.result?.finalize();
    this.result = null;
    this.holder.remove();
    this.image.style.display = "";
    this.image.abDrawing = null;
  }
}

/** The specification with its charts below each other instead of side by side. */
function stacked(spec) {
  const parts = spec.hconcat ?? spec.vconcat;
  if (!parts || !JSON.stringify(spec).includes('"hconcat"')) return spec;
  const { hconcat, ...rest } = spec;
  return { ...rest, vconcat: parts.map(stacked) };
}

const AXIS = 76; // maximum points for the labels of an axis, next to a combination's titles

/** The specification with fewer columns in its legends, and titles on one line each. */
function compacted(spec, available, natural) {
  const columns = (count) => Math.max(1, Math.floor((count * available) / natural));
  const copy = JSON.parse(JSON.stringify(spec), (key, value) =>
    key === "legend" && value?.columns ? { ...value, columns: columns(value.columns) } : value,
  );
  const limit = copy.hconcat || copy.vconcat ? available - AXIS : available;
  copy.config = { ...copy.config, title: { ...copy.config?.title, limit } };
  return copy;
}

/** The specification, made narrower by `lost` points. */
function narrowed(spec, lost) {
  const copy = { ...spec };
  if (typeof spec.width === "number") copy.width = Math.max(80, spec.width - lost);
  for (const key of ["hconcat", "vconcat"]) {
    const share = key === "hconcat" ? lost / spec.hconcat?.length : lost;
    if (spec[key]) copy[key] = spec[key].map((part) => narrowed(part, share));
  }
  return structuredClone(copy);
}

export default { initialize };

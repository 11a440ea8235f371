/*
What a chat panel cannot do by itself, because a widget has no access to the notebook
around it: an extension for JupyterLab 4 and Notebook 7. They load this file as a module
of webpack's federation, which is an object with `init` and `get`. It uses nothing but
the application, so it needs no shared modules, and no build.

`chat/assets/core/notebook.js` finds its functions on that object. Each takes an element
of the panel. None of them runs a cell.
*/
(() => {
  /* The notebook that shows an element, and the number of the cell; undefined outside a notebook. */
  function placeOf(app, el) {
    for (const panel of app.shell.widgets("main")) {
      const notebook = panel.content;
      const cells = notebook?.model?.sharedModel?.insertCell ? notebook.widgets : [];
      const index = cells.findIndex((cell) => cell.node.contains(el));
      if (index >= 0) return { panel, notebook, index };
    }
    return undefined;
  }

  const joined = (text) => (Array.isArray(text) ? text.join("") : String(text ?? ""));
  const outputText = ({ text, data, traceback }) =>
    // eslint-disable-next-line no-control-regex -- colours of a terminal
    joined(text ?? data?.["text/plain"] ?? (traceback ?? []).join("\n")).replace(/\u001b\[[\d;]*m/g, "");

  /* A long text without its middle: a traceback ends in what happened. */
  function ends(text, most) {
    const out = text.length - most;
    return out <= 0
      ? text
      : `${text.slice(0, most / 4)}\n… ${out.toLocaleString("en")} characters left out …\n${text.slice(-most * 0.75)}`;
  }

  /* The source of a cell and what it printed; undefined without any. Of one that failed, there is room for its error. */
  function textOf(cell) {
    const { source, outputs = [] } = cell?.model.toJSON() ?? {};
    const error = outputs.find(isError);
    const printed = outputs
      .filter((each) => each !== error)
      .map(outputText)
      .filter(Boolean)
      .join("\n");
    const parts = error
      ? [ends(joined(source), 5000), "\n# Output:", ends(printed, 2000).trimEnd(), ends(outputText(error), 12000)]
      : [joined(source), printed && "\n# Output:", printed.trimEnd()];
    return parts.filter(Boolean).join("\n") || undefined;
  }

  const isError = ({ output_type }) => output_type === "error";
  const hasFailed = ({ model: { outputs } }) => {
    for (let n = 0; n < (outputs?.length ?? 0); n += 1) if (outputs.get(n).type === "error") return true;
    return false;
  };

  /* Of some cells, the one that failed last. A new kernel counts from 1, so what failed before it comes after that. */
  const past = new WeakSet(); // outputs of an earlier kernel
  function lastFailed(cells) {
    const age = ({ model }) => (past.has(model.outputs) ? 0 : 1e9) + (model.executionCount ?? 0);
    return cells.filter(hasFailed).sort((one, other) => age(other) - age(one))[0];
  }
  function restarted({ notebook }) {
    for (const { model } of notebook.widgets.filter(hasFailed)) past.add(model.outputs);
  }

  /* The ids of the cells that were inserted below a cell, in the page's storage, so that a reload keeps their order. */
  function insertedBelow({ notebook, index }, added) {
    const key = `agentbook-inserted-${notebook.widgets[index].model.id}`;
    try {
      const ids = JSON.parse(sessionStorage.getItem(key)) ?? [];
      if (added) sessionStorage.setItem(key, JSON.stringify([...ids, added]));
      return ids;
    } catch {
      return []; // the storage is full, or there is none
    }
  }

  function activate(app) {
    const watches = new WeakMap(); // by panel
    function near(el, step) {
      const { notebook, index } = placeOf(app, el) ?? {};
      return textOf(notebook?.widgets[index + step]);
    }
    function follow({ model }, el) {
      const root = el.closest(".ab-chat");
      model.outputs?.changed.connect(() => {
        const place = placeOf(app, root);
        if (!place) return;
        const ids = insertedBelow(place);
        watches.get(root)?.(textOf(lastFailed(place.notebook.widgets.filter((each) => ids.includes(each.model.id)))));
      });
    }

    container.notebook = {
      holds: (el) => Boolean(placeOf(app, el)),

      /*
      A new cell with this text, below the panel's and those that were inserted there before; selected, not run. `kind`
      is that of `cell_kind`. Markdown is not rendered, which would fetch its pictures. Returns whether there is one.
      */
      insertBelow(el, source, kind) {
        const place = placeOf(app, el);
        if (!place || place.notebook.model.readOnly) return false;
        const { notebook, index } = place;
        const ids = insertedBelow(place);
        const at = Math.max(index, ...notebook.widgets.map(({ model }, n) => (ids.includes(model.id) ? n : 0))) + 1;
        const isMarkdown = kind === "markdown";
        notebook.model.sharedModel.insertCell(at, {
          cell_type: isMarkdown ? "markdown" : "code",
          metadata: isMarkdown ? {} : { trusted: true }, // as JupyterLab's own
          source: isMarkdown ? "" : ["bash", "sh"].includes(kind) ? `%%${kind}\n${source}` : source,
        });
        const made = notebook.widgets[at];
        if (isMarkdown) {
          made.rendered = false; // a new cell renders what it holds
          made.model.sharedModel.setSource(source);
        }
        insertedBelow(place, made.model.id);
        follow(made, el);
        notebook.activeCellIndex = at;
        notebook.scrollToItem(at, "auto").catch(() => {});
        return true;
      },

      /* Whether the notebook's code has this word. */
      has: (el, word) =>
        placeOf(app, el)?.notebook.widgets.some(({ model }) =>
          new RegExp(`\\b${word}\\b`).test(model.sharedModel.getSource()),
        ),

      /* From now on, call `tell` with the text of the inserted cell that failed last, or undefined, when that changes. */
      watch(el, tell) {
        const place = placeOf(app, el);
        if (!place) return;
        watches.set(el, tell);
        const ids = insertedBelow(place);
        for (const cell of place.notebook.widgets) if (ids.includes(cell.model.id)) follow(cell, el);
        place.panel.sessionContext.statusChanged.connect((_, status) => /restarting$/.test(status) && restarted(place));
      },

      /* Cells as text, as `textOf` makes it; undefined if there is none. */
      cellAbove: (el) => near(el, -1),
      cellBelow: (el) => near(el, 1),
      lastError: (el) => textOf(lastFailed(placeOf(app, el)?.notebook.widgets ?? [])),

      /* What is in a folder beside the notebook, as the server lists it. */
      async files(el, folder = "") {
        const path = [folderOf(placeOf(app, el)), folder].filter(Boolean).join("/");
        return (await app.serviceManager.contents.get(path)).content;
      },

      /* The text of one of them; fails if it is no text. */
      async read(path) {
        const options = { type: "file", format: "text", content: true };
        return (await app.serviceManager.contents.get(path, options)).content;
      },
    };
  }

  const folderOf = (place) => (place?.panel.context.path ?? "").split("/").slice(0, -1).join("/");

  const plugin = { id: "agentbook:notebook", autoStart: true, activate };
  const container = { init: () => {}, get: async () => () => ({ __esModule: true, default: plugin }) };
  (window._JUPYTERLAB ??= {}).agentbook = container;
})();

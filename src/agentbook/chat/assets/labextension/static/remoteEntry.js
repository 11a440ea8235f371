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
  const textOf = ({ text, data, traceback }) =>
    // eslint-disable-next-line no-control-regex -- colours of a terminal
    joined(text ?? data?.["text/plain"] ?? (traceback ?? []).join("\n")).replace(/\u001b\[[\d;]*m/g, "");

  function activate(app) {
    container.notebook = {
      holds: (el) => Boolean(placeOf(app, el)),

      /* A new code cell below the panel's, with this text and nothing else; returns whether there is one. */
      insertBelow(el, source) {
        const place = placeOf(app, el);
        place?.notebook.model.sharedModel.insertCell(place.index + 1, { cell_type: "code", source });
        return Boolean(place);
      },

      /* The source of the cell above, and what it printed; undefined if there is none. */
      cellAbove(el) {
        const { notebook, index } = placeOf(app, el) ?? {};
        const cell = index > 0 ? notebook.widgets[index - 1].model.toJSON() : null;
        if (!cell) return undefined;
        const output = (cell.outputs ?? []).map(textOf).filter(Boolean).join("\n").trimEnd();
        return output ? `${joined(cell.source)}\n\n# Output:\n${output}` : joined(cell.source);
      },

      /* The files beside the notebook, as the server lists them. */
      async files(el) {
        const folder = await app.serviceManager.contents.get(folderOf(placeOf(app, el)));
        return folder.content.filter(({ type }) => type === "file" || type === "notebook");
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

/* The notebook around a panel, where `labextension` is installed; else undefined. */
export const notebook = () => window._JUPYTERLAB?.agentbook?.notebook;

// The module of altair.JupyterChart, with Vega, is in a model that all charts of a kernel share.
export default {
  async render({ model, el }) {
    const vega = await model.widget_manager.get_model(model.get("vega").slice("IPY_MODEL_".length));
    vega.unpacked ??= unpack(vega.get("script"));
    return (await vega.unpacked).default.render({ model, el });
  },
};

async function unpack(script) {
  const text = new Blob([script]).stream().pipeThrough(new DecompressionStream("gzip"));
  const headers = { "Content-Type": "text/javascript" };
  const url = URL.createObjectURL(await new Response(text, { headers }).blob());
  return import(url).finally(() => URL.revokeObjectURL(url));
}

/*
Formulas, typeset by the page's own MathJax. Where the page keeps it is not documented
anywhere. If it is not found, formulas are shown as their source.
*/

const FORMULA = ".mathjax_process";

function typesetterOf(model) {
  try {
    const latex = model.widget_manager._rendermime.latexTypesetter;
    if (latex) return (each) => latex.typeset(each);
  } catch {
    // a page without JupyterLab
  }
  if (window.MathJax?.typesetPromise) return (each) => window.MathJax.typesetPromise([each]);
  if (window.MathJax?.Hub) return (each) => window.MathJax.Hub.Queue(["Typeset", window.MathJax.Hub, each]);
  return null;
}

/* Typesets elements one by one, the latest first, when there is nothing else to do. */
export function mathQueue(model) {
  const waiting = [];
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 1));
  let running = false;

  function next() {
    const each = waiting.pop();
    const typeset = each && typesetterOf(model);
    if (!typeset) {
      running = false;
      return;
    }
    Promise.resolve(each.isConnected ? typeset(each) : null)
      .catch((error) => console.warn("agentbook: a formula stays as its source.", error))
      .then(() => idle(next, { timeout: 200 }));
  }

  return (each) => {
    if (!each.querySelector(FORMULA)) return;
    waiting.push(each);
    if (running) return;
    running = true;
    idle(next, { timeout: 200 });
  };
}

"""Scripts that `support.lab` evaluates in a page of JupyterLab."""

from __future__ import annotations

# The toolbar shows "idle" before the session exists, and Run All would then ask for a
# kernel. So this checks the session itself.
KERNEL_READY = """() => {
  const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  const session = widget && widget.sessionContext;
  const kernel = session && session.isReady && session.session && session.session.kernel;
  return !!kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle' && widget.context.isReady;
}"""

# Records the text of the last reply, and the status line, whenever one of them has
# changed and stayed the same for a frame. One update of the panel is several messages;
# a person does not see the states between them.
RECORD = """panel => {
  window.states = [];
  const read = () => {
    const replies = panel.querySelectorAll('.ab-agent-body');
    const text = replies.length ? replies[replies.length - 1].textContent : '';
    const status = (panel.querySelector('.ab-statusline') || {textContent: ''}).textContent;
    return {text, status, replies: replies.length};
  };
  const same = (a, b) => a && a.text === b.text && a.status === b.status;
  let before = read();
  window.states.push(before);
  const record = () => {
    const now = read();
    if (same(before, now) && !same(window.states[window.states.length - 1], now)) window.states.push(now);
    before = now;
    if (panel.isConnected) requestAnimationFrame(record);
  };
  requestAnimationFrame(record);
}"""
RECORDED = """() => new Promise(done => {
  let frames = 4;
  const wait = () => frames-- ? requestAnimationFrame(wait) : done(window.states);
  wait();
})"""

# The text of a complete reply, or why it failed. The panel is scrolled into view first,
# because JupyterLab draws only what is near the view.
ANSWERED = """([panel, number]) => {
  panel.scrollIntoView({block: 'nearest'});
  const failed = panel.querySelector('.ab-failed');
  if (failed && failed.checkVisibility()) return failed.innerText;
  const reply = panel.querySelectorAll('.ab-agent')[number - 1];
  const foot = reply && reply.querySelector('.ab-foot');
  const complete = foot && /reply after/i.test(foot.textContent)
    && panel.querySelector('.ab-statusline').textContent.startsWith('Answered');
  return complete && reply.querySelector('.ab-agent-body').innerText.trim();
}"""

STATIC = """words => {
  const transcripts = document.querySelectorAll('.jp-OutputArea .ab-static');
  if (transcripts.length !== 1) return false;
  transcripts[0].scrollIntoView({block: 'start'});
  const text = transcripts[0].checkVisibility({contentVisibilityAuto: true}) ? transcripts[0].innerText : '';
  return words.every(word => text.includes(word)) && text;
}"""


SHUT_DOWN = "() => window.jupyterapp && window.jupyterapp.serviceManager.sessions.shutdownAll().then(() => true)"
LOADED = "() => !!window.jupyterapp && !!document.getElementById('main')"
# After a reload, JupyterLab restores its notebooks, and later opens the one in the
# page's address once more, over whatever was opened in between.
REOPENED = """(() => {
  let app;
  Object.defineProperty(window, 'jupyterapp', {
    get: () => app,
    set: started => {
      app = started;
      app.commands.commandExecuted.connect(async (_, { id, result }) => {
        if (id !== 'filebrowser:open-path') return;
        await result;
        window.reopened = true;
      });
    },
  });
})()"""
# The kernels first, because messages from widgets change the notebook, and JupyterLab
# would ask whether to save it.
CLOSE = """async () => {
  const app = window.jupyterapp;
  await app.serviceManager.sessions.shutdownAll();
  for (let round = 0; round < 200; round++) {
    const open = [...app.shell.widgets('main')].filter(widget => widget.context);
    if (!open.length) return;
    for (const widget of open) {
      widget.context.model.dirty = false;
      widget.close();
    }
    await new Promise(done => setTimeout(done, 50));
    document.querySelectorAll('.jp-Dialog button.jp-mod-warn').forEach(discard => discard.click());
  }
}"""
# Otherwise the page would ask whether to leave it.
FORGET_CHANGES = "() => { window.jupyterapp.shell.currentWidget.context.model.dirty = false; }"
# JupyterLab hides the cells far from the view, and a page cannot scroll to hidden
# elements.
SHOW_CELL = """async number => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const codes = notebook.widgets.flatMap((cell, index) => cell.model.type === 'code' ? [index] : []);
  await notebook.scrollToItem(codes[number], 'center');
}"""
# The file browser is open when JupyterLab starts; tests close it to have more room.
EXPAND = "() => { const { shell } = window.jupyterapp; if (shell.leftCollapsed) shell.expandLeft(); }"

# The violations that axe-core rates as serious or critical, with their elements.
VIOLATIONS = """root => {
  return axe.run(root, {resultTypes: ['violations']}).then(results => results.violations
    .filter(rule => ['serious', 'critical'].includes(rule.impact))
    .map(rule => rule.id + ': ' + rule.nodes.map(node => node.html.slice(0, 300) + ' ' + node.failureSummary).join('\\n')));
}"""

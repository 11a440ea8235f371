"""The scripts of `tests/benchmarks/chat.py` that run in the page.

They record the messages on the wire, and the time at which each change is painted.
"""

from __future__ import annotations

# Records each frame that arrives on a kernel's socket, with its kind. For each panel it
# records the greatest token number shown, the status line, the number of questions and
# that of replies shown as Markdown, at the time at which a change is painted.
PROBE = """
(() => {
  const wire = window.wire = {bytes: 0, frames: [], total: 0};
  const Real = window.WebSocket;
  const kind = data => { try {
    const view = new DataView(data), text = new TextDecoder();
    const at = n => Number(view.getBigUint64(8 * (n + 1), true));
    return JSON.parse(text.decode(data.slice(at(1), at(2)))).msg_type;
  } catch (e) { return '?'; } };
  window.WebSocket = class extends Real {
    constructor(...args) {
      super(...args);
      if (!String(args[0]).includes('/channels')) return;
      this.addEventListener('message', e => {
        const size = typeof e.data === 'string' ? e.data.length : e.data.byteLength;
        wire.bytes += size; wire.total += 1;
        wire.frames.push([Date.now(), typeof e.data === 'string' ? '?' : kind(e.data), size]);
      });
    }
  };
  window.paints = {};
  let due = false;
  const last = text => { const all = text.match(/w\\d+/g); return all ? Math.max(...all.slice(-30).map(w => +w.slice(1))) : -1; };
  const look = () => {
    return [...document.querySelectorAll('.jp-OutputArea .ab-chat')].map(panel => {
      const bodies = panel.querySelectorAll('.ab-agent-body'), body = bodies[bodies.length - 1];
      const line = panel.querySelector('.ab-statusline');
      const tail = body ? body.textContent : '';
      const sources = panel.querySelectorAll('.ab-source').length;
      return [last(tail), line ? line.textContent : '', panel.querySelectorAll('.ab-me').length, sources];
    });
  };
  const painted = () => {
    due = false;
    const now = Date.now();
    look().forEach(([token, status, asked, sources], k) => {
      const all = window.paints[k] = window.paints[k] || [], before = all[all.length - 1];
      const paint = [now, token, status, asked, sources];
      if (!before || paint.some((value, n) => n && value !== before[n])) all.push(paint);
    });
  };
  // After the frame: requestAnimationFrame runs before it is painted, a message posted there arrives after, ahead of any timer.
  const after = new MessageChannel();
  after.port1.onmessage = painted;
  const soon = () => { if (!due) { due = true; requestAnimationFrame(() => after.port2.postMessage(0)); } };
  new MutationObserver(soon).observe(document, {subtree: true, childList: true, characterData: true});
})();
"""

# The page itself clicks, so that the driver's latency is not counted. Returns the time
# of the click, in ms.
CLICK = """name => { const buttons = [...document.querySelectorAll('.jp-OutputArea .ab-chat button.' + name)]
  .filter(b => !b.disabled && b.offsetParent); const at = Date.now(); buttons[0].click(); return at; }"""

# Sends a message as a person does; returns the time of Enter, in ms.
ENTER = """text => { const box = document.querySelector('.jp-OutputArea .ab-chat textarea'), at = Date.now();
  box.value = text;
  box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
  return at; }"""

SHOWS_STOP = """() => {
  const button = document.querySelector('.jp-OutputArea .ab-chat button.ab-stop');
  return !!(button && button.offsetParent);
}"""

# The numbers of the answers in the panel, in the order in which they are shown.
ANSWERS = r"""() => {
  const text = document.querySelector('.jp-OutputArea .ab-chat').textContent;
  return (text.match(/Answer \d+\./g) || []).map(answer => +answer.match(/\d+/)[0]);
}"""

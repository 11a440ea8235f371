# ruff: noqa: E501 - a rule is read as a line
"""How the lab looks, beyond the panel's style, and what its parts are to a screen reader."""

from __future__ import annotations

import re

CSS = """
.ab-chat.ab-lab { container-type: inline-size; }
.ab-chat .ab-lab-part { overflow: visible; padding: 12px 14px 14px; border-top: 1px solid var(--ab-line); }
.ab-chat .ab-lab-top { overflow: visible; gap: 20px; align-items: flex-start; flex-wrap: wrap; border-top: 0; }
.ab-chat .ab-lab-side { overflow: visible; flex: 1 1 330px !important; min-width: 0; gap: 8px; }
.ab-lab-title { font-weight: 600; margin: 0 0 2px; }
.ab-chat .ab-lab-row { overflow: visible; gap: 10px; flex-wrap: wrap; align-items: flex-end; }
.ab-chat .ab-lab-run { overflow: visible; gap: 12px; }
.ab-chat .ab-ticks { overflow: visible; gap: 6px; padding: 0 0 6px; }
.ab-chat .ab-lab-row > .ab-tick { padding-bottom: 9px; }
.ab-chat .ab-lab-side > .ab-field { flex: 0 0 auto !important; }
.ab-chat .ab-field { display: flex; flex-direction: column; align-items: stretch; width: auto; height: auto; overflow: visible; }
.ab-chat .ab-field.widget-inline-hbox { flex: 0 0 auto; min-width: 0; }
.ab-chat .ab-field.ab-grow { flex: 1 1 140px !important; }
.ab-chat .ab-field > label, .ab-chat .ab-field > .widget-label {
  width: auto; max-width: none; text-align: left; font-size: 12px; font-weight: 600; color: var(--ab-quiet); line-height: 1.5;
  height: auto; padding: 0 0 2px; margin: 0; overflow: visible; white-space: nowrap;
}
.ab-chat .ab-field input, .ab-chat .ab-field textarea, .ab-chat .ab-field select {
  border: 1px solid color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg)); border-radius: 8px; background-color: var(--ab-bg);
  color: var(--ab-fg); font: inherit; line-height: 1.45; padding: 6px 10px; box-sizing: border-box; width: 100%; min-width: 0;
  flex: 0 0 auto; height: 36px; margin: 0;
}
.ab-chat .ab-field textarea { height: auto; resize: vertical; font-family: var(--ab-mono); font-size: 13px; overflow: auto; }
.ab-chat .ab-field select { appearance: auto; background-image: none; text-overflow: ellipsis; }
.ab-chat .ab-field input:focus, .ab-chat .ab-field textarea:focus, .ab-chat .ab-field select:focus {
  border-color: var(--ab-brand); outline: 2px solid var(--ab-brand); outline-offset: -1px;
}
.ab-chat .ab-field ::placeholder { color: var(--ab-quiet); opacity: 1; }
.ab-chat .ab-number { width: 92px; }
.ab-chat .ab-tick { width: auto; height: auto; overflow: visible; max-width: 100%; }
.ab-chat .ab-tick label, .ab-chat .ab-tick .widget-label-basic {
  display: flex; gap: 8px; align-items: baseline; height: auto; line-height: 1.5; width: auto; max-width: 100%; color: var(--ab-fg);
  font-size: 13px; white-space: normal; overflow-wrap: anywhere; padding: 0;
}
.ab-chat .ab-tick input { margin: 0; flex: 0 0 auto; align-self: flex-start; position: relative; top: 3px; width: 15px; height: 15px; }
.ab-chat .ab-tick input:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: 2px; }
.ab-chat button.jupyter-button.ab-main { background: var(--jp-brand-color0, #0d47a1); color: #fff; }
.ab-chat button.jupyter-button.ab-other { background: var(--ab-bg); color: var(--ab-fg); border-color: color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg)); margin: 0; }
.ab-chat button.jupyter-button.ab-main:disabled, .ab-chat button.jupyter-button.ab-other:disabled {
  background: var(--ab-soft); color: var(--ab-quiet); border-color: var(--ab-line); opacity: 1;
}
.ab-chat .ab-lab-bar { height: 10px; width: auto; margin: 0; }
.ab-chat .ab-lab-bar .progress { height: 8px; border-radius: 4px; background: var(--ab-soft); }
.ab-chat .ab-lab-bar .progress-bar { background: var(--ab-brand); border-radius: 4px; }
.ab-scroll { overflow: auto; max-height: 230px; border: 1px solid var(--ab-line); border-radius: 8px; }
.ab-scroll:focus-visible, .ab-difference:focus-visible, .ab-cell .ab-md:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: -2px; }
.ab-lab-table.ab-lab-table.ab-lab-table { border-collapse: collapse; width: 100%; font-size: 13px; border: 0; margin: 0; table-layout: auto; }
.ab-lab-table.ab-lab-table.ab-lab-table :is(th, td) {
  text-align: left; padding: 4px 10px; border: 0; border-bottom: 1px solid var(--ab-line); vertical-align: top; max-width: none;
  white-space: normal; overflow-wrap: anywhere; font-weight: 400; background: none; color: var(--ab-fg);
}
.ab-lab-table.ab-lab-table.ab-lab-table thead :is(th) { font-weight: 600; color: var(--ab-quiet); font-size: 12px; overflow-wrap: normal; }
.ab-lab-table.ab-lab-table.ab-lab-table tbody tr { background: none; }
.ab-lab-table.ab-lab-table.ab-lab-table tr:last-child :is(th, td) { border-bottom: 0; }
.ab-lab-table.ab-lab-table.ab-lab-table .ab-figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ab-lab-now { font-weight: 600; }
.ab-lab-version { color: var(--ab-quiet); font-size: 12px; white-space: nowrap; }
.ab-diff {
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--ab-mono); font-size: 13px; line-height: 1.6; padding: 8px 10px;
  border: 1px solid var(--ab-line); border-radius: 8px;
}
.ab-difference { max-height: 240px; overflow: auto; }
.ab-del { text-decoration: line-through; background: color-mix(in srgb, var(--ab-bad) 20%, transparent); border-radius: 3px; }
.ab-ins { text-decoration: underline; background: color-mix(in srgb, var(--ab-good) 24%, transparent); border-radius: 3px; }
.ab-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.ab-asked { font-weight: 600; overflow-wrap: anywhere; white-space: pre-wrap; margin: 0 0 6px; unicode-bidi: isolate; }
.ab-cells { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 250px), 1fr)); gap: 10px; }
.ab-chat .ab-result, .ab-result { overflow: visible; padding: 10px 0 4px; }
.ab-cell { background: var(--ab-soft); border-radius: 10px; padding: 8px 12px; min-width: 0; box-sizing: border-box; }
.ab-cell .ab-md {
  max-height: 340px; overflow: auto; background-color: var(--ab-soft); background-repeat: no-repeat;
  background-image: linear-gradient(var(--ab-soft), var(--ab-soft)), linear-gradient(var(--ab-soft), var(--ab-soft)),
    linear-gradient(color-mix(in srgb, var(--ab-fg) 30%, transparent), transparent),
    linear-gradient(transparent, color-mix(in srgb, var(--ab-fg) 30%, transparent));
  background-position: top, bottom, top, bottom; background-size: 100% 10px, 100% 10px, 100% 7px, 100% 7px;
  background-attachment: local, local, scroll, scroll;
}
.ab-static .ab-cell .ab-md { max-height: none; background-image: none; }
.ab-checks { display: flex; flex-wrap: wrap; gap: 5px; margin: 6px 0 0; }
.ab-check { font-size: 12px; padding: 0 8px; border-radius: 9px; border: 1px solid var(--ab-line); background: var(--ab-bg); overflow-wrap: anywhere; }
.ab-check::before { content: "✓ "; color: var(--ab-good); font-weight: 700; }
.ab-check.ab-no::before { content: "✗ "; color: var(--ab-bad); }
.ab-check.ab-maybe::before { content: "? "; color: var(--ab-quiet); }
.ab-picture { margin: 12px 0 0; overflow-x: auto; }
.ab-picture img { max-width: 100%; height: auto; display: block; }
.ab-lab-status .ab-statusline { font-size: 13px; color: var(--ab-fg); }
.ab-lab-status .ab-statusline > span { overflow-wrap: anywhere; }
.ab-prompt { white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--ab-mono); font-size: 13px; margin: 0 0 8px; }
.ab-lab .ab-static-prompts { margin: 0; }
"""
# As the panel's, once in each view: which part is what to a screen reader, and what cannot be asked of the widgets.
HOOK = """
(function (s) {
  var root = s.closest('.ab-lab');
  if (!root || root.abLab) return;
  root.abLab = true;
  function mark() {
    var status = root.querySelectorAll('.ab-lab-status .widget-html-content');
    root.setAttribute('role', 'region'); root.setAttribute('aria-label', 'Prompt lab');
    root.querySelectorAll('.ab-lab-bar').forEach(function (bar) {
      var inner = bar.querySelector('.progress');
      if (inner && !inner.hasAttribute('aria-hidden')) inner.setAttribute('aria-hidden', 'true');
    });
    status.forEach(function (line) { line.setAttribute('role', 'status'); line.setAttribute('aria-live', 'polite'); });
    return status.length > 2;
  }
  if (!mark()) {
    var seen = new MutationObserver(function () { if (mark()) seen.disconnect(); });
    seen.observe(root, {childList: true, subtree: true});
  }
  var pressed = null;
  function usable(button) { return button && !button.disabled && button.offsetParent; }
  root.addEventListener('click', function (e) {
    var button = e.target.closest && e.target.closest('button.ab-main, button.ab-other, button.ab-stop');
    if (button) pressed = button.matches('.ab-stop') ? root.querySelector('.ab-lab-run button.ab-main') : button;
  });
  new MutationObserver(function () {
    if (pressed && document.activeElement !== document.body) { if (usable(pressed)) pressed = null; }
    else if (usable(pressed)) { pressed.focus({preventScroll: true}); pressed = null; }
  }).observe(root, {subtree: true, attributes: true, attributeFilter: ['disabled', 'class']});
})(this)
"""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


STYLE = f'<style onload="{_one_line(HOOK)}">{_one_line(CSS)}</style>'
QUIET_STYLE = f"<style>{_one_line(CSS)}</style>"

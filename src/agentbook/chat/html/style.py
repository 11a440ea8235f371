"""How the panel looks, by JupyterLab's own colours so that it follows the light and the dark theme.

`CSS` serves the live panel and the static transcript; every variable has a fallback for pages without JupyterLab.
"""

from __future__ import annotations

import re

from ..widgets.hook import HOOK

CSS = """
.ab-chat, .ab-static {
  --ab-bg: var(--jp-layout-color1, #fff);
  --ab-fg: var(--jp-content-font-color1, #212121);
  --ab-line: var(--jp-border-color2, #e0e0e0);
  --ab-brand: var(--jp-brand-color1, #1976d2);
  --ab-link: var(--jp-content-link-color, #0d47a1);
  --ab-bad: var(--jp-error-color1, #d32f2f);
  --ab-good: var(--jp-success-color1, #388e3c);
  --ab-quiet: color-mix(in srgb, var(--ab-fg) 78%, var(--ab-bg));
  --ab-soft: color-mix(in srgb, var(--ab-fg) 6%, var(--ab-bg));
  --ab-code: color-mix(in srgb, var(--ab-fg) 5%, var(--ab-bg));
  --ab-mine: color-mix(in srgb, var(--ab-brand) 18%, var(--ab-bg));
  --ab-mono: var(--jp-code-font-family, menlo, consolas, "DejaVu Sans Mono", monospace);
  color: var(--ab-fg);
  font-family: var(--jp-content-font-family, system-ui, -apple-system, "Segoe UI", helvetica, arial, sans-serif);
  font-size: var(--jp-content-font-size1, 14px);
  line-height: 1.55;
}
.ab-chat { border: 1px solid var(--ab-line); border-radius: 10px; background: var(--ab-bg); overflow: hidden; }
.ab-chat .jupyter-widgets { margin: 0; }
.ab-chat .widget-html, .ab-chat .widget-html-content, .ab-chat .widget-htmlmath, .ab-chat .widget-htmlmath-content {
  line-height: inherit; font-size: inherit; height: auto; min-height: 0; overflow: visible; white-space: normal;
}
.ab-chat .widget-html-content, .ab-chat .widget-htmlmath-content { width: 100%; min-width: 0; align-self: stretch; }

.ab-chat .ab-head {
  flex: 0 0 auto; flex-wrap: wrap; align-items: center; gap: 8px; min-height: 44px; box-sizing: border-box; padding: 6px 14px;
  border-bottom: 1px solid var(--ab-line); background: var(--ab-soft); overflow: visible;
}
.ab-chat .ab-head.widget-html > .widget-html-content { align-self: center; }
.ab-chat .ab-headline { flex: 1 1 auto !important; min-width: 0; }
.ab-chat .ab-sessions { height: 30px; }
.ab-chat .ab-sessions select {
  border: 1px solid color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg)); border-radius: 8px; background-color: var(--ab-bg);
  color: var(--ab-fg); font: 12px var(--ab-mono); height: 30px; padding: 0 4px 0 8px; appearance: auto; background-image: none;
}
.ab-chat .ab-sessions select:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: 1px; }
.ab-title { display: flex; gap: 10px; align-items: baseline; flex-wrap: wrap; }
.ab-name { font-weight: 600; overflow-wrap: anywhere; }
.ab-name, .ab-who { max-height: 3.2em; overflow: hidden; } /* whatever somebody is called */
.ab-session { color: var(--ab-quiet); font-size: 12px; font-family: var(--ab-mono); }

.ab-chat .ab-log { scrollbar-gutter: stable; overscroll-behavior: contain; }
.ab-chat .ab-log:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: -2px; }
.ab-chat .ab-inner { padding: 14px 14px 6px; overflow: visible; }
.ab-chat .ab-turn, .ab-chat .ab-block { overflow: visible; flex: 0 0 auto; }
.ab-static { padding: 6px 2px; }

.ab-said, .ab-chat .ab-agent { border-radius: 12px; padding: 9px 14px; box-sizing: border-box; max-width: min(100%, 62em); }
.ab-me { display: flex; flex-direction: column; align-items: flex-end; margin: 0 0 10px; }
.ab-me .ab-said {
  background: var(--ab-mine); max-width: 85%; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  border-bottom-right-radius: 4px;
}
.ab-agent {
  background: var(--ab-soft); border-bottom-left-radius: 4px; margin: 0 0 16px;
}
.ab-chat .ab-agent { overflow: visible; margin: 0 0 16px; }
.ab-agent .ab-agent-body, .ab-agent .widget-vbox { overflow: visible; }
.ab-who { color: var(--ab-quiet); font-size: 12px; font-weight: 600; margin: 0 0 3px; overflow-wrap: anywhere; }
.ab-me .ab-who { margin-right: 4px; }

.ab-md { overflow-wrap: anywhere; unicode-bidi: isolate; }
.ab-md > :first-child { margin-top: 0; }
.ab-md > :last-child { margin-bottom: 0; }
.ab-piece { padding-bottom: .7em; }
.ab-md p, .ab-md ul, .ab-md ol, .ab-md blockquote, .ab-md .ab-code, .ab-md .ab-table { margin: 0 0 .7em; }
.ab-md ul, .ab-md ol { padding-left: 1.6em; }
.ab-md li { margin: .15em 0; line-height: inherit; }
.ab-md li > p { margin: .2em 0; }
.ab-md .ab-task { list-style: none; margin-left: -1.2em; }
.ab-md h1, .ab-md h2, .ab-md h3, .ab-md h4, .ab-md h5, .ab-md h6 {
  font-weight: 600; line-height: 1.3; margin: 1em 0 .45em; color: inherit;
}
.ab-md h1 { font-size: 1.3em; } .ab-md h2 { font-size: 1.18em; } .ab-md h3 { font-size: 1.07em; }
.ab-md h4, .ab-md h5, .ab-md h6 { font-size: 1em; }
.ab-md a { color: var(--ab-link); text-decoration: underline; }
.ab-md blockquote { margin-left: 0; padding: .1em 0 .1em .9em; border-left: 3px solid var(--ab-line); color: var(--ab-quiet); }
.ab-md blockquote > :last-child, .ab-md li > :last-child { margin-bottom: 0; }
.ab-md hr { border: 0; border-top: 1px solid var(--ab-line); margin: 1em 0; }
.ab-md code {
  font-family: var(--ab-mono); font-size: .92em; padding: .1em .3em; border-radius: 4px; color: inherit;
  background: color-mix(in srgb, var(--ab-fg) 9%, transparent);
}
.ab-md .ab-code { border: 1px solid var(--ab-line); border-radius: 8px; background: var(--ab-bg); overflow: hidden; }
.ab-md .ab-code { position: relative; }
.ab-md .ab-code > .ab-act { position: absolute; top: 2px; right: 4px; z-index: 1; }
.ab-md .ab-lang {
  font-size: 11px; color: var(--ab-quiet); padding: 3px 10px; border-bottom: 1px solid var(--ab-line);
  background: var(--ab-code); font-family: var(--ab-mono);
}
.ab-md pre {
  margin: 0; padding: 9px 12px; overflow-x: auto; background: none; white-space: pre; border: 0; color: inherit;
  line-height: 1.45;
}
.ab-md pre code { background: none; padding: 0; font-size: 13px; line-height: inherit; white-space: pre; overflow-wrap: normal; }
.ab-md .ab-table { overflow-x: auto; }
.ab-md table { border-collapse: collapse; margin: 0; font-size: .95em; border: 0; table-layout: auto; }
.ab-md th, .ab-md td {
  border: 1px solid var(--ab-line); padding: 4px 10px; text-align: left; vertical-align: top; max-width: none;
  white-space: normal; overflow-wrap: normal;
}
.ab-md thead, .ab-md thead tr { border: 0; vertical-align: top; }
.ab-md th { font-weight: 600; background: color-mix(in srgb, var(--ab-fg) 7%, transparent); }
.ab-md tbody tr { background: var(--ab-bg); }
.ab-md .ab-right { text-align: right; font-variant-numeric: tabular-nums; } .ab-md .ab-center { text-align: center; }
.ab-md .ab-left { text-align: left; }
.ab-md .ab-math { overflow: clip; max-width: 100%; contain: paint; font-family: var(--ab-mono); font-size: .92em; }
.ab-md .ab-display, .ab-md .ab-long { overflow-x: auto; overflow-y: hidden; }
.ab-md pre:focus-visible, .ab-md .ab-math:focus-visible, .ab-md .ab-table:focus-visible {
  outline: 2px solid var(--ab-brand); outline-offset: -2px;
}
.ab-md .ab-math:has(mjx-container) { font-family: inherit; font-size: inherit; }
.ab-md span.ab-math { display: inline-block; vertical-align: middle; }
.ab-md .ab-display { display: block; margin: 0 0 .7em; padding: 2px 0; text-align: center; }
.ab-md .ab-display mjx-container { margin: .2em 0; }
.ab-md .ab-img { max-width: 100%; height: auto; border-radius: 6px; }
.ab-md .ab-plain { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 .7em; }

.ab-steps { font-size: 12px; color: var(--ab-quiet); margin: 2px 0 7px; }
.ab-past { margin-bottom: 14px; }
.ab-past > summary { cursor: pointer; font-size: 12px; color: var(--ab-quiet); width: fit-content; margin-bottom: 6px; }
.ab-chips { display: flex; flex-wrap: wrap; gap: 5px; }
.ab-steps summary { cursor: pointer; width: fit-content; border-radius: 4px; }
.ab-steps summary:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: 2px; }
.ab-steps[open] summary { margin-bottom: 5px; }
.ab-chip {
  display: inline-flex; align-items: center; gap: 6px; padding: 1px 9px; border-radius: 10px; max-width: 100%;
  border: 1px solid var(--ab-line); background: var(--ab-bg); font-family: var(--ab-mono); overflow-wrap: anywhere;
}
.ab-chip::before { content: "✓"; color: var(--ab-good); font-weight: 700; }
.ab-chip.ab-running::before, .ab-dot {
  content: ""; width: 8px; height: 8px; border-radius: 50%; background: var(--ab-brand); flex: 0 0 auto;
  animation: ab-pulse 1.1s ease-in-out infinite;
}
.ab-other { margin-top: 5px; }
.ab-foot {
  display: flex; flex-wrap: wrap; align-items: center; gap: 10px; font-size: 12px; color: var(--ab-quiet); margin-top: 6px;
  font-variant-numeric: tabular-nums;
}
.ab-failed {
  border-left: 3px solid var(--ab-bad); padding: 2px 0 2px 10px; margin: 4px 0; overflow-wrap: anywhere; white-space: pre-wrap;
}
.ab-failed strong { color: color-mix(in srgb, var(--ab-bad) 80%, var(--ab-fg)); }
.ab-id { font-family: var(--ab-mono); font-size: 12px; color: var(--ab-quiet); }
.ab-typing { display: flex; gap: 5px; padding: 6px 0; }
.ab-typing .ab-dot { background: var(--ab-quiet); }
.ab-typing .ab-dot:nth-child(2) { animation-delay: .18s; } .ab-typing .ab-dot:nth-child(3) { animation-delay: .36s; }
@keyframes ab-pulse { 0%, 100% { opacity: .25; } 50% { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { .ab-chip.ab-running::before, .ab-dot { animation: none; opacity: .7; } }
.ab-empty { color: var(--ab-quiet); text-align: center; padding: 34px 10px; }

.ab-chat .ab-bottom {
  flex: 0 0 auto; overflow: visible; border-top: 1px solid var(--ab-line); padding: 7px 14px 12px; background: var(--ab-bg);
}
.ab-chat .ab-notice { overflow: visible; align-items: center; gap: 12px; padding: 2px 0 6px; }
.ab-chat .ab-notice > .widget-html { flex: 1 1 auto !important; min-width: 0; }
.ab-chat .ab-status { min-height: 22px; margin-bottom: 4px; }
.ab-statusline { display: flex; gap: 8px; align-items: center; color: var(--ab-quiet); font-size: 12px; min-height: 20px; }
.ab-chat .ab-composer { overflow: visible; align-items: flex-end; gap: 8px; }
.ab-chat .ab-input { position: relative; height: auto; width: auto; }
.ab-chat .ab-input label, .ab-chat .ab-sessions label {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; padding: 0;
}
.ab-chat .ab-input textarea {
  border: 1px solid color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg)); border-radius: 8px; background: var(--ab-bg);
  color: var(--ab-fg); font: inherit; line-height: 1.4; padding: 8px 11px; resize: vertical; min-height: 40px; max-height: 240px;
  box-sizing: border-box; field-sizing: content;
}
.ab-chat .ab-input textarea:focus { border-color: var(--ab-brand); outline: 2px solid var(--ab-brand); outline-offset: -1px; }
.ab-chat .ab-input textarea::placeholder { color: var(--ab-quiet); opacity: 1; }
.ab-chat .ab-input textarea:disabled { background: var(--ab-soft); opacity: 1; }
.ab-chat button.jupyter-button {
  height: 38px; line-height: 1; border-radius: 8px; font-size: 13px; font-weight: 600; padding: 0 16px; width: auto;
  flex: 0 0 auto; box-shadow: none; border: 1px solid transparent;
}
.ab-chat button.ab-send { background: var(--jp-brand-color0, #0d47a1); color: #fff; }
.ab-chat button.ab-send:disabled { background: var(--ab-soft); color: var(--ab-quiet); border-color: var(--ab-line); opacity: 1; }
.ab-chat button.ab-stop, .ab-chat button.ab-retry, .ab-chat button.ab-new, .ab-chat button.ab-pictures {
  background: var(--ab-bg); color: var(--ab-fg); border-color: color-mix(in srgb, var(--ab-fg) 55%, var(--ab-bg));
}
.ab-chat button.ab-retry { height: 30px; margin: 6px 0 4px; align-self: flex-start; }
.ab-chat button.ab-new, .ab-chat button.ab-pictures { height: 30px; font-size: 12px; padding: 0 12px; }
.ab-act { display: none; }
.ab-hooked .ab-act {
  display: inline-block; font: 600 12px var(--jp-content-font-family, system-ui, sans-serif); line-height: 18px;
  color: var(--ab-quiet);
  background: var(--ab-bg); border: 1px solid var(--ab-line); border-radius: 6px; padding: 0 7px; margin: 0; cursor: pointer;
  user-select: none;
}
.ab-chat .ab-foot .ab-act { background: none; border-color: transparent; }
.ab-hooked .ab-act:hover, .ab-chat .ab-foot .ab-act:hover { color: var(--ab-fg); border-color: var(--ab-quiet); }
.ab-act:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: 1px; }
@media (hover: hover) {
  .ab-me .ab-act, .ab-code .ab-act { opacity: 0; }
  .ab-me:hover .ab-act, .ab-me:focus-within .ab-act, .ab-code:hover .ab-act, .ab-code:focus-within .ab-act { opacity: 1; }
}
.ab-acts { display: inline-flex; gap: 5px; margin-right: 8px; }
.ab-chat button.jupyter-button:not(:disabled):hover { filter: brightness(.94); }
.ab-chat button.jupyter-button:focus-visible { outline: 2px solid var(--ab-brand); outline-offset: 2px; }
.ab-chat .ab-hidden { display: none; }

.hl-k, .hl-kc, .hl-kd, .hl-kn, .hl-kp, .hl-kr, .hl-ow { color: var(--jp-mirror-editor-keyword-color, green); font-weight: 600; }
.hl-kt, .hl-nc, .hl-nt { color: var(--jp-mirror-editor-tag-color, #170); }
.hl-nf, .hl-fm, .hl-nd, .hl-na { color: var(--jp-mirror-editor-property-color, #05a); }
.hl-nb, .hl-bp { color: var(--jp-mirror-editor-builtin-color, green); }
.hl-s, .hl-s1, .hl-s2, .hl-sa, .hl-sb, .hl-sc, .hl-sd, .hl-se, .hl-sh, .hl-si, .hl-sr, .hl-ss {
  color: var(--jp-mirror-editor-string-color, #ba2121);
}
.hl-m, .hl-mi, .hl-mf, .hl-mh, .hl-mo, .hl-mb, .hl-il { color: var(--jp-mirror-editor-number-color, #080); }
.hl-c, .hl-c1, .hl-cm, .hl-ch, .hl-cp, .hl-cs { color: var(--ab-quiet); font-style: italic; }
.hl-o { color: var(--jp-mirror-editor-operator-color, #7800c2); }
.hl-gd { color: var(--ab-bad); } .hl-gi { color: var(--ab-good); } .hl-gh, .hl-gu { font-weight: 600; }
"""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _looks() -> str:
    # Threefold, the rules for rendered text outrank JupyterLab's for everything in an HTML output, which name two classes.
    return _one_line(CSS).replace(".ab-md", ".ab-md" * 3)


def live_style(uid: str) -> str:
    """The style element of a live panel: the looks, the hook, and the rule that hides the panel's static twin."""
    twin = f".{uid}-static"
    hide = (
        f"{twin} {{ display: none; }} .jp-OutputArea-child:has(> .jp-OutputArea-output > {twin}) {{ display: none; }}"
    )
    return f'<style onload="{_one_line(HOOK)}">{_looks()} {hide}</style>'


def static_style(uid: str) -> str:
    """The style element of a static transcript; it also hides the line that stands where a live panel was."""
    gone = (
        f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static) .jupyter-widgets-error, "
        f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static) > .jp-OutputArea-output:not(:has(.ab-chat))"
    )
    return f"<style>{_looks()} {gone} {{ display: none; }}</style>"

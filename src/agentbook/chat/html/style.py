"""The style elements of live panels and static transcripts, and their files.

``messages.css`` is for both, ``panel.css`` for what surrounds the messages of a live
panel. They use JupyterLab's own colours, so they follow the light and the dark theme;
every variable has a fallback for pages without JupyterLab.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ..assets import read_style

NOT_LIVE = (
    "This is a copy: the page does not run the live view. The command agentbook doctor says what is missing. "
    "Calls such as panel.ask(…) work."
)
_CLASSES = re.compile(r'class="([^"]*)"')
_CLASS = re.compile(r"\.([A-Za-z][\w-]*)")
_NEGATED = re.compile(r":not\([^()]*\)")
# A rule, or an at-rule with the rules in it.
_RULE = re.compile(r"[^{}]+\{(?:[^{}]|\{[^{}]*\})*\}")


def panel_css() -> str:
    """The rules of messages, live or static, and of the steps in them."""
    # Repeated three times, the class takes precedence over JupyterLab's rules for HTML
    # outputs, which name two classes.
    return read_style("core/messages.css", "core/steps.css").replace(".ab-md", ".ab-md" * 3)


def live_css() -> str:
    """The rules of a live panel, and of the controls of a replay."""
    own = read_style("panel/panel.css", "panel/icons.css", "panel/drawer.css", "core/collect.css", "panel/playback.css")
    return f"{panel_css()} {own}"


def live_style(uid: str) -> str:
    """The style element of a form of plain widgets; it hides its static element."""
    return f"<style>{live_css()} {hide_static(uid)}</style>"


def live_class(uid: str) -> str:
    """The class of a live widget, by which `hide_static` finds it."""
    return f"{uid}-live"


def hide_static(uid: str) -> str:
    """The rules that hide the static element beside its live widget.

    A copy of the notebook, which JupyterLab may show in the same page, has the static
    element and not the widget.
    """
    static, here = f".{uid}-static", f".jp-OutputArea:has(.{live_class(uid)})"
    output = f"{here} > .jp-OutputArea-child:has(> .jp-OutputArea-output > {static})"
    return f"{static}:not(.jp-OutputArea *), {here} {static}, {output} {{ display: none; }}"


def static_style(uid: str, html: str) -> str:
    """The style element of a static transcript: the rules that its HTML uses.

    Each update of the transcript sends them, and each notebook stores them. They also
    hide the output that held a live panel.
    """
    before = f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static)"
    gone = f"{before} .jupyter-widgets-error, {before} > .jp-OutputArea-output:not(:has(.ab-chat, .ab-explorer))"
    # A page that shows the box around a widget, but does not run its module.
    stuck = f".jp-OutputArea-child:has(.ab-frame) + .jp-OutputArea-child .{uid}-static::before"
    classes = frozenset(name for names in set(_CLASSES.findall(html)) for name in names.split())
    return (
        f"<style>{_used_rules(classes)} {gone} {{ display: none; }}"
        f'{stuck} {{ content: "{NOT_LIVE}"; display: block; font-weight: 600; margin-bottom: 8px; }}</style>'
    )


@lru_cache(maxsize=64)
def _used_rules(classes: frozenset[str]) -> str:
    """The rules of static transcripts without those of other classes."""
    return "".join(rule for rule, uses in _static_rules() if any(names <= classes for names in uses))


@cache
def _static_rules() -> list[tuple[str, list[frozenset[str]]]]:
    """Each rule, with the classes that each of its selectors names."""
    rules = [rule.strip() for rule in _RULE.findall(f"{panel_css()} {read_style('core/static.css')}")]
    return [
        (
            rule,
            [frozenset(_CLASS.findall(selector)) for selector in _NEGATED.sub("", rule.partition("{")[0]).split(",")],
        )
        for rule in rules
    ]

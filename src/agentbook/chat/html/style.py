"""The style elements of live panels and static transcripts, and their files.

``panel.css`` serves both. It uses JupyterLab's own colours, so it follows the light and
the dark theme; every variable has a fallback for pages without JupyterLab.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


def _panel_css() -> str:
    # Repeated three times, the class outranks JupyterLab's rules for HTML outputs,
    # which name two classes.
    return read_asset("panel.css").replace(".ab-md", ".ab-md" * 3)


def live_style(uid: str) -> str:
    """The style element of a live panel.

    It carries the panel's script and hides the panel's static transcript.
    """
    static = f".{uid}-static"
    hide = f"{static} {{ display: none; }} .jp-OutputArea-child:has(> .jp-OutputArea-output > {static}) {{ display: none; }}"
    return f'<style onload="{read_asset("panel.js")}">{_panel_css()} {hide}</style>'


def static_style(uid: str) -> str:
    """The style element of a static transcript.

    It also hides the output in which a live panel was.
    """
    gone = (
        f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static) .jupyter-widgets-error, "
        f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static) > .jp-OutputArea-output:not(:has(.ab-chat))"
    )
    return f"<style>{_panel_css()} {gone} {{ display: none; }}</style>"


@cache
def read_asset(name: str) -> str:
    """A file of ``chat/widgets/assets`` on one line; a script without its comments."""
    text = files("agentbook").joinpath("chat", "widgets", "assets", name).read_text("utf-8")
    if name.endswith(".js"):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return " ".join(text.split())

"""The widget of an explorer: an ES module, and the messages that it exchanges.

The module draws, and asks questions in numbered messages; everything it draws was
counted in the kernel. `widgets.page_view` documents what the messages of all modules
have in common.
"""

from __future__ import annotations

from pathlib import Path

from ..html.style import panel_css, read_asset
from ..widgets.esm import read_module
from ..widgets.page_view import PageView

_ASSETS = Path(__file__).parent / "assets"


class ExplorerView(PageView):
    """Shows an explorer in a page."""

    _esm = read_module(_ASSETS / "explorer.js")
    _css = f"{panel_css()}\n{read_asset('collect.css')}\n{(_ASSETS / 'explorer.css').read_text('utf-8')}"

"""The widget of an explorer: an ES module, and the messages that it exchanges.

The module draws, and asks questions in numbered messages; everything it draws was
counted in the kernel. `widgets.page_view` documents what the messages of all modules
have in common.
"""

from __future__ import annotations

from ..assets import read_module, read_style
from ..html.style import panel_css
from ..widgets.page_view import PageView


class ExplorerView(PageView):
    """Shows an explorer in a page."""

    _esm = read_module("explorer/explorer.js")
    _css = f"{panel_css()} {read_style('core/collect.css', 'explorer/explorer.css')}"

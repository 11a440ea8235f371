"""The widget of the results: an ES module, and the messages that it exchanges.

The module filters, sorts and draws; it receives rows, and requests what a row near the
view needs. `widgets.page_view` documents what the messages of all modules have in
common.
"""

from __future__ import annotations

from ..assets import read_module, read_style
from ..widgets.page_view import PageView


class ResultsTable(PageView):
    """Shows the results in a page: a row per input, a column per variant."""

    _esm = read_module("lab/results.js")
    _css = read_style("lab/results.css")

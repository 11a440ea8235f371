"""Interactive charts in the page of a running notebook.

A notebook stores only a picture of a chart: without a kernel, a stored widget would
show an error message in place of the picture. So there is one widget per kernel, which
has no view. Its module, ``assets/live.js``, looks for the pictures of this kernel's
charts in the page, asks for their specifications, and puts a live chart in the place of
each. If that fails, or if there are no widgets, the picture stays.

`altair.JupyterChart` would have been a widget per chart, each with the whole of Vega in
its state (1 MB, and again in each saved notebook). Here the page asks for Vega once.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

import anywidget
import traitlets

from . import vega

MAX_CHARTS = 200  # the latest charts of a kernel; earlier ones stay pictures once a page is reloaded
_ASSETS = Path(__file__).parent / "assets"


class TouchableChart(Protocol):
    """What the page needs from a chart."""

    def live_spec(self) -> dict[str, Any]:
        """The Vega-Lite specification."""

    def select(self, selection: dict[str, Any]) -> None:
        """Store what the page reports as selected, by parameter."""


class _Served:
    """The latest of several equal charts, and those that are still referenced."""

    def __init__(self, chart: TouchableChart) -> None:
        self.latest = chart
        self.equal: WeakSet[TouchableChart] = WeakSet()

    def add(self, chart: TouchableChart) -> None:
        self.latest = chart
        self.equal.add(chart)


class LiveCharts(anywidget.AnyWidget):
    """The widget without a view that serves the charts of this kernel to the page.

    Attributes
    ----------
    version : str
        The version of Vega's bundle. Kernels with equal versions share it within a
        page.
    """

    _esm = (_ASSETS / "live.js").read_text("utf-8")
    _css = (_ASSETS / "live.css").read_text("utf-8")
    version = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(version=vega.version())
        self._charts: OrderedDict[str, _Served] = OrderedDict()
        self.on_msg(self._answer)

    def add(self, name: str, chart: TouchableChart) -> None:
        """Serve a chart to the page under this name."""
        self._charts.setdefault(name, _Served(chart)).add(chart)
        self._charts.move_to_end(name)
        while len(self._charts) > MAX_CHARTS:
            self._charts.popitem(last=False)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        kind = message.get("type")
        if kind == "vega":
            # On a thread: bundling takes seconds, and a cell may be waiting.
            threading.Thread(target=self._send_vega, name="agentbook-vega", daemon=True).start()
        elif kind == "charts":
            for name in message.get("names", ()):
                self._send_chart(str(name))
        elif kind == "selection":
            served = self._charts.get(str(message.get("name")))
            for chart in served.equal if served else ():
                chart.select(dict(message.get("selection") or {}))

    def _send_vega(self) -> None:
        self.send({"type": "vega"}, [vega.bundle()])

    def _send_chart(self, name: str) -> None:
        if name in self._charts:
            self.send({"type": "chart", "name": name, "spec": self._charts[name].latest.live_spec()})


_widget: LiveCharts | None = None


def serve(chart: TouchableChart) -> str:
    """Let the page of this kernel draw an interactive chart.

    Returns the name by which the page finds and asks for it. Equal charts have equal
    names, so a notebook stores the same output when it is run again.
    """
    global _widget
    if _widget is None or _widget.comm is None:  # not created yet, or all widgets were closed
        _widget = LiveCharts()
    spec = json.dumps(chart.live_spec(), sort_keys=True)
    name = hashlib.sha256(spec.encode()).hexdigest()[:16]
    _widget.add(name, chart)
    return name


__all__ = ["LiveCharts", "serve"]

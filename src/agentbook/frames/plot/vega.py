"""Vega without a network: pictures, pages, and charts that a person can touch.

JupyterLab bundles an older Vega-Lite than the one Altair targets, and pages have none.
Here all comes from vl-convert.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.metadata
import json
import re
import zlib
from html import escape
from pathlib import Path
from typing import Any

import platformdirs

from ..._files import atomic_write
from .style import altair

_ASSETS = Path(__file__).parent / "assets"
# Vega's own tooltip knows light and dark, but not the notebook's theme: live.css does.
_OPTIONS = {"actions": False, "renderer": "svg", "tooltip": {"id": "ab-chart-tooltip", "disableDefaultStyle": True}}


def draw(form: str, spec: dict[str, Any], **options: Any) -> Any:
    """A specification as ``"svg"``, ``"png"`` or ``"pdf"``; nothing is fetched."""
    import vl_convert

    convert = getattr(vl_convert, f"vegalite_to_{form}")
    return convert(vl_spec=spec, vl_version=_vega_lite(), allowed_base_urls=[], **options)


def to_html(spec: dict[str, Any], title: str, background: str) -> str:
    """A page with an interactive chart, which fetches nothing."""
    parts = {
        "title": escape(title),
        "background": background,
        "css": (_ASSETS / "live.css").read_text("utf-8"),
        "vega": bundle().replace("</script", r"<\/script"),
        # Inside a script, "<" could end it.
        "spec": json.dumps(spec, ensure_ascii=False).replace("<", r"\u003c"),
        "options": json.dumps(_OPTIONS),
    }
    before, *rest = (_ASSETS / "page.html").read_text("utf-8").split("{{")
    return before + "".join(parts[name] + text for name, text in (part.split("}}", 1) for part in rest))


def live_chart(chart: Any) -> Any:
    """An `altair.JupyterChart` that needs no network."""
    kind, vega = _live_class()
    vega.open()  # again, after `Widget.close_all`
    return kind(chart, vega=vega, embed_options=_OPTIONS)


@functools.cache
def _live_class() -> tuple[Any, Any]:
    """A class of charts, and the widget that has Vega for all of them.

    With Vega in each chart, as `enable_offline` does, a page loads megabytes.
    """
    import traitlets
    from ipywidgets import Widget, widget_serialization

    class Vega(Widget):  # type: ignore[misc]
        script = traitlets.Bytes().tag(sync=True)

    class LiveChart(altair().JupyterChart):  # type: ignore[misc]
        _esm = (_ASSETS / "live.js").read_text("utf-8")
        _css = (_ASSETS / "live.css").read_text("utf-8")
        vega = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)

    return LiveChart, Vega(script=gzip.compress(bundle().encode()))


def bundle() -> str:
    """Vega and the module of `altair.JupyterChart` as one script.

    ``globalThis.agentbookVegaEmbed`` is Vega-Embed in it. Bundling takes seconds, so
    the result is kept in the user's cache folder.
    """
    version = f"{importlib.metadata.version('vl-convert-python')}-{importlib.metadata.version('altair')}"
    path = platformdirs.user_cache_path("agentbook") / f"jupyter-chart-{version}.js.gz"
    with contextlib.suppress(OSError, EOFError, zlib.error):  # absent, or damaged by another program
        return gzip.decompress(path.read_bytes()).decode()
    script = _bundled()
    with contextlib.suppress(OSError):  # a full disk or a read-only home: bundle again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, private=True) as file:
            file.write(gzip.compress(script.encode(), 6))
    return script


def _bundled() -> str:
    """What `altair.JupyterChart.enable_offline` makes, with Vega-Embed for pages."""
    import vl_convert
    from altair.jupyter.jupyter_chart import load_js_src

    source = re.sub(r"(?m)^import .*$", "", load_js_src())  # vl-convert knows what they import
    script: str = vl_convert.javascript_bundle(
        f"{source}\nglobalThis.agentbookVegaEmbed = vegaEmbed;", vl_version=_vega_lite()
    )
    return script


def _vega_lite() -> str:
    """The version that Altair targets, as vl-convert names it."""
    version: str = altair().SCHEMA_VERSION
    return "_".join(version.split(".")[:2])

"""Vega: drawings, and the bundle for pages, without network access.

JupyterLab bundles an older Vega-Lite than the one Altair targets, and pages have none.
Here both drawings and bundle come from vl-convert.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.metadata
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any

import platformdirs

from ..._files import atomic_write
from .drawing import drawing_process
from .style import altair

_PAGE = Path(__file__).parent / "assets" / "page.html"


def to_svg(spec: dict[str, Any]) -> str:
    """A specification as SVG; nothing is fetched."""
    return _text("vegalite_to_svg", vl_spec=spec, allowed_base_urls=[])


def to_png(spec: dict[str, Any], scale: float) -> bytes:
    """A specification as PNG, with `scale` pixels per point."""
    return _bytes("vegalite_to_png", vl_spec=spec, scale=scale, allowed_base_urls=[])


def to_pdf(spec: dict[str, Any]) -> bytes:
    """A specification as PDF."""
    return _bytes("vegalite_to_pdf", vl_spec=spec, allowed_base_urls=[])


def to_html(spec: dict[str, Any], title: str, background: str) -> str:
    """A page with an interactive chart, which fetches nothing."""
    parts = {
        "title": escape(title),
        "background": background,
        "css": (_PAGE.parent / "live.css").read_text("utf-8"),
        "vega": gzip.decompress(bundle()).decode().replace("</script", r"<\/script"),
        # Inside a script, "<" could end it.
        "spec": json.dumps(spec, ensure_ascii=False).replace("<", r"\u003c"),
    }
    before, *rest = _PAGE.read_text("utf-8").split("{{")
    return before + "".join(parts[name] + text for name, text in (part.split("}}", 1) for part in rest))


def bundle() -> bytes:
    """Vega, Vega-Lite and Vega-Embed as one compressed (gzip) ES module.

    Its default export, also ``globalThis.agentbookVegaEmbed``, is Vega-Embed. Bundling
    takes seconds, so the result is kept in the user's cache folder.
    """
    path = platformdirs.user_cache_path("agentbook") / f"vega-{version()}.js.gz"
    with contextlib.suppress(OSError, EOFError, zlib.error):
        script = path.read_bytes()
        gzip.decompress(script)  # raises if another program has damaged it
        return script
    script = gzip.compress(_bundled().encode(), 6)
    with contextlib.suppress(OSError):  # a full disk or a read-only home: bundle again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, private=True) as file:
            file.write(script)
    return script


def _bundled() -> str:
    snippet = "export default globalThis.agentbookVegaEmbed = vegaEmbed;"
    return _text("javascript_bundle", snippet=snippet)


def version() -> str:
    """The versions that the bundle depends on."""
    return f"{importlib.metadata.version('vl-convert-python')}-{_vega_lite()}"


def _text(function: str, **arguments: Any) -> str:
    text = drawing_process().call(function, vl_version=_vega_lite(), **arguments)
    assert isinstance(text, str)
    return text


def _bytes(function: str, **arguments: Any) -> bytes:
    content = drawing_process().call(function, vl_version=_vega_lite(), **arguments)
    assert isinstance(content, bytes)
    return content


def _vega_lite() -> str:
    """The version that Altair targets, as vl-convert names it."""
    version: str = altair().SCHEMA_VERSION
    return "_".join(version.split(".")[:2])

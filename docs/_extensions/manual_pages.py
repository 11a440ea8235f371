"""The manual's pages: their place in the navigation, and where their old names lead.

``manual.rst`` lists each page once, in groups. The hidden trees of the navigation are
made from it, and those of the tutorials and how-tos from the folder of notebooks.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from agentbook.service.demo.manual import order

# Notebooks are below these pages, which have a place of their own at the top.
NOTEBOOKS = {"tutorials": "tutorials/0*", "how-tos": "tutorials/how-to/*"}
_GROUP = re.compile(r"^(\w[\w ]*)\n-+\n\n((?:.+\n)+)", re.MULTILINE)
_TREE = "\n\n.. toctree::\n   :hidden:\n   :caption: {caption}\n\n   {names}\n"
_REDIRECT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Moved</title>
<script>location.replace("{new}.html" + location.hash)</script>
<noscript><meta http-equiv="refresh" content="0; url={new}.html"></noscript>
<p>This page is now <a href="{new}.html">{new}</a>.</p></html>
"""


def add_trees(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the hidden trees to the manual's contents, the tutorials and the how-tos."""
    if name == "manual":
        for caption, pages in _GROUP.findall(source[0]):
            names = [
                page for page in order(pages) if page not in (*NOTEBOOKS, "reference")
            ]
            source[0] += _TREE.format(caption=caption, names="\n   ".join(names))
    elif name in NOTEBOOKS:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{NOTEBOOKS[name]}\n```\n"


def redirect(app: Sphinx, error: Exception | None) -> None:
    """Write a page under each old name, which leads to the new one."""
    for old, new in (
        app.config.agentbook_moved.items() if app.builder.format == "html" else ()
    ):
        Path(app.outdir, f"{old}.html").write_text(_REDIRECT.format(new=new), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("agentbook_moved", {}, "", dict)
    app.connect("source-read", add_trees)
    app.connect("build-finished", redirect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

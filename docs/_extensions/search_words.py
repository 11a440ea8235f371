"""The site's search finds pages of the manual by their hidden keywords, too."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

_KEYWORDS = re.compile(r"<!-- keywords:\s+(.*?)\s*-->", re.DOTALL)


def add_keywords(app: Sphinx, page: nodes.document) -> None:
    """Make a meta element of the keywords, which Sphinx indexes."""
    comments = [node.astext() for node in page.findall(nodes.raw)]
    words = " ".join(match for comment in comments for match in _KEYWORDS.findall(comment)).split()
    if words:
        page.append(nodes.meta(name="keywords", content=", ".join(dict.fromkeys(words))))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", add_keywords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

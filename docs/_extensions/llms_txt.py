"""``llms.txt``: the site for language models, with links to the Markdown of its pages.

Next to each page of Markdown or cells is its text, under the same name with ``.md``.
The reference of the Python names is made from the code and has no Markdown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.application import Sphinx

from agentbook.service.demo.manual import ORDER, order

ABOUT = (
    "A notebook toolkit for the Agent Platform Public API: sessions as pandas DataFrames, analyses, chat panels, tests "
    "of prompts, and the platform itself as an embedded service. `agentbook skill` writes a skill for coding agents."
)
_INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)


def markdown_of(path: Path) -> str:
    """The text of a page, with what it includes; of a notebook, its cells."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [
            (cell["cell_type"], "".join(cell["source"]))
            for cell in json.loads(text)["cells"]
        ]
        text = (
            "\n\n".join(
                f"```python\n{source}\n```" if kind == "code" else source
                for kind, source in cells
            )
            + "\n"
        )
        return re.sub(r"\.ipynb(?=[)#])", ".md", text)
    return _INCLUDE.sub(lambda found: (path.parent / found[1]).read_text("utf-8"), text)


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the Markdown of each page, and ``llms.txt``."""
    if error is not None or app.builder.format != "html":
        return
    sections: dict[str, list[str]] = {"Manual": [], "Tutorials": [], "About": []}
    places = {
        name: place
        for place, name in enumerate(order(Path(app.srcdir, ORDER).read_text("utf-8")))
    }
    for name in sorted(
        app.env.found_docs, key=lambda name: (places.get(name, len(places)), name)
    ):
        path = Path(app.env.doc2path(name))
        if path.suffix not in (".md", ".ipynb"):
            continue
        target = Path(app.outdir, f"{name}.md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown_of(path), "utf-8")
        section = {"tutorials": "Tutorials", "about": "About"}.get(
            name.partition("/")[0], "Manual"
        )
        sections[section].append(f"- [{app.env.titles[name].astext()}]({name}.md)")
    parts = [f"## {name}\n\n" + "\n".join(links) for name, links in sections.items()]
    Path(app.outdir, "llms.txt").write_text(
        "\n\n".join(["# agentbook", f"> {ABOUT}", *parts]) + "\n", "utf-8"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The notebooks as pages, and a gallery of the charts that their cells have stored.

Sphinx reads only what is in its own folder, so the notebooks are copied there. Each
cell with a chart gets a label in the copy, to which the gallery links.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sphinx.application import Sphinx

GALLERY = ".. chart-gallery::"
_CHART = re.compile(
    r'<img class="ab-chart[^>]*? alt="([^"]*)"[^>]*? src="data:image/svg\+xml;base64,([^"]+)"'
)
_CALL = re.compile(r"ab\.plot\.\w+\(")
_CARD = """   .. grid-item-card::
      :img-top: /tutorials/charts/{label}.svg
      :img-alt: {description}
      :class-img-top: dark-light
      :link: tutorials/{page}.html#{label}
      :link-alt: The cell, in {title}

      ``{call}``

      .. card-footer::

         {title}
"""


@dataclass(frozen=True)
class ChartImage:
    """A chart that a cell stored: where it is, its text alternative and its SVG."""

    page: str
    label: str
    title: str
    call: str
    description: str
    svg: bytes


def copy_notebooks(app: Sphinx) -> None:
    """Copy the notebooks into the site's folder, and write their charts as files."""
    source, target = app.srcdir.parent / "notebooks", app.srcdir / "tutorials"
    shutil.rmtree(target, ignore_errors=True)
    (target / "charts").mkdir(parents=True)
    shutil.copytree(source / "images", target / "images")
    pictures: dict[bytes, ChartImage] = {}
    for path in [
        *sorted(source.glob("*.ipynb")),
        *sorted(source.glob("how-to/*.ipynb")),
    ]:
        notebook = json.loads(path.read_text("utf-8").replace("../docs/", "../"))
        page = path.relative_to(source).with_suffix("").as_posix()
        for picture in _label_charts(notebook, page):
            pictures.setdefault(
                picture.svg, picture
            )  # the first notebook that shows it
        copy = target / path.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(json.dumps(notebook), "utf-8")
    for picture in pictures.values():
        (target / "charts" / f"{picture.label}.svg").write_bytes(picture.svg)
    app.config.agentbook_pictures = list(pictures.values())


def _label_charts(notebook: dict[str, Any], page: str) -> list[ChartImage]:
    """The notebook's charts. A cell with a label is put before each cell with one."""
    title = next(
        re.findall(r"^# (.*)", "".join(cell["source"])) for cell in notebook["cells"]
    )[0]
    cells, pictures = [], []
    for cell in notebook["cells"]:
        charts = list(_charts(cell))
        if charts:
            label = f"chart-{cell['id']}"
            cells.append(
                {
                    "cell_type": "markdown",
                    "id": label,
                    "metadata": {},
                    "source": f"({label})=",
                }
            )
        if charts and "solution" not in cell["metadata"].get("tags", ()):
            pictures += [
                ChartImage(page, label, title, _call(cell), description, svg)
                for description, svg in charts
            ]
        cells.append(cell)
    notebook["cells"] = cells
    return pictures


def _charts(cell: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    for output in cell.get("outputs", ()):
        markup = "".join(output.get("data", {}).get("text/html", ""))
        for description, data in _CHART.findall(markup):
            yield html.unescape(description), base64.b64decode(data)


def _call(cell: dict[str, Any]) -> str:
    """The call that draws a cell's chart, or its last line."""
    source = "".join(cell["source"])
    call = _CALL.search(source)
    if call is None:
        return source.strip().rpartition("\n")[2]
    depth, end = 1, call.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(source[end], 0)
        end += 1
    return re.sub(r"\s+", " ", source[call.start() : end])


def fill_gallery(app: Sphinx, name: str, source: list[str]) -> None:
    """Put a card for each chart in place of the gallery's directive."""
    if GALLERY not in source[0]:
        return
    cards = [_CARD.format(**vars(picture)) for picture in app.config.agentbook_pictures]
    source[0] = source[0].replace(
        GALLERY, "\n".join([".. grid:: 1 1 2 2\n   :gutter: 3\n", *cards])
    )


def link_to_copies(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links of the pages lead to the copied notebooks, and to nothing outside."""
    text = source[0].replace("](../notebooks/", "](tutorials/")
    source[0] = re.sub(
        r"\[([^]]*)\]\((?:\.\./)+tests/[^)]*\)", r"\1", text
    )  # files of the repository only


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("agentbook_pictures", [], "", list)
    app.connect("builder-inited", copy_notebooks)
    app.connect("source-read", link_to_copies)
    app.connect("source-read", fill_gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

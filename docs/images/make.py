"""Draw the picture and print the table with which each page about an analysis begins.

``python docs/images/make.py`` runs the first block of these pages on the demo's month.
The value of the line that ends in ``# the picture`` becomes the picture, and its text
the alternative; the last line's frame becomes the table.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import agentbook as ab

DOCS = Path(__file__).resolve().parents[1]
ROWS, WIDEST = 5, 60
OPENING = re.compile(
    r"\A(?P<title># .*\n\n(?:[^!|\n].*\n)+\n)(?P<image>!\[[^\]]*\]\(images/(?P<name>[\w-]+)\.svg\)\n\n)?"
    r"(?P<block>```python\n(?P<code>(?:.*\n)*?)```\n\n)(?P<table>(?:\|.*\n)+)"
)


def run(code: str) -> tuple[Any, pd.DataFrame]:
    """The values of a block's picture and of its last line."""
    code = code.replace(
        'since="30d"', 'since="2026-09-01", until="2026-10-01"'
    )  # the same whenever it is run
    lines, names, values = code.splitlines(), {}, {}
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            is_picture = "# the picture" in lines[(statement.end_lineno or 1) - 1]
            values[is_picture] = eval(ast.unparse(statement), names)
        else:
            exec(ast.unparse(statement), names)
    return values.get(True), values[False]


def table(frame: pd.DataFrame) -> str:
    """The first rows, as Markdown."""
    rows = [
        [cell(value) for value in row]
        for row in frame.head(ROWS).itertuples(index=False)
    ]
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
    if isinstance(value, float) and pd.notna(value):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if not isinstance(value, str) and pd.api.types.is_list_like(value):
        value = ", ".join(map(str, value))
    text = "" if pd.isna(value) else " ".join(str(value).replace("|", "\\|").split())
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}…"


def main() -> None:
    warnings.simplefilter("ignore")
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text("utf-8")
        if opening := OPENING.match(page):
            chart, frame = run(opening["code"])
            image = ""
            if chart is not None:
                (DOCS / "images" / f"{path.stem}.svg").write_text(chart.svg(), "utf-8")
                image = f"![{chart.text}](images/{path.stem}.svg)\n\n"
            begin = opening["title"] + image + opening["block"] + table(frame)
            path.write_text(begin + page[opening.end() :], "utf-8")
            print(path.name)


if __name__ == "__main__":
    with (
        ab.platform() as platform,
        TemporaryDirectory() as folder,
        chdir(folder),
    ):  # pages write files
        os.environ |= {
            "AGENTBOOK_BASE_URL": platform.base_url,
            "AGENTBOOK_API_KEY": platform.api_key,
        }
        main()

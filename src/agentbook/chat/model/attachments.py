"""Attachments of a message: tables, files and the output of cells, as text.

A message to the platform is text. So an attachment is a readable part of it: a name,
how much was left out, and the content in a fenced block or as a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Any

from ..._text import check_text, replace_surrogates

if TYPE_CHECKING:
    import pandas as pd

Attached = Iterable[Any] | Mapping[str, Any]
MAX_ROWS = 50
MAX_CHARACTERS = 20_000
READ_BYTES = 4 * MAX_CHARACTERS + 4  # of a file
FORMATS = ("csv", "markdown")
_LANGUAGES = {
    ".py": "python", ".md": "markdown", ".json": "json", ".csv": "csv", ".sql": "sql", ".yaml": "yaml", ".yml": "yaml",
    ".toml": "toml", ".html": "html", ".js": "javascript", ".sh": "bash",
}  # fmt: skip


def attachment(value: Any, name: str = "", *, rows: int = MAX_ROWS, format: str = "csv") -> str:
    r"""Anything as a part of a message, with its name.

    Parameters
    ----------
    value : DataFrame, Series, Listing, Path, str, or any other object
        A table; the path of a text file; a text; or the output of a cell that
        ``%%capture`` stored. Other objects are attached as they print.
    name : str
        The name that the agent reads. Defaults to that of the file or of the type.
    rows : int
        How many rows of a table, from the first.
    format : str
        ``"csv"`` or ``"markdown"``, for tables.

    Returns
    -------
    str
        Markdown. Texts longer than 20,000 characters are cut, with a note that says so.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not a text file, or `rows` or `format` is out of range.

    Examples
    --------
    >>> print(attachment("id,n\na,1", "orders.csv"))
    **orders.csv**
    <BLANKLINE>
    ```csv
    id,n
    a,1
    ```
    """
    if format not in FORMATS or rows < 1:
        raise ValueError(
            f"An attached table has format csv or markdown and at least 1 row, not {format!r} and {rows!r}."
        )
    if isinstance(value, Path):
        return _file(value, name or value.name)
    if isinstance(value, str):
        return text_attachment(value, name or "text")
    if (frame := _frame(value)) is not None:
        return _table(frame, name or "table", rows, format)
    if hasattr(value, "stdout") and hasattr(value, "outputs"):
        return text_attachment(_captured(value), name or "output")
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # NumPy's numbers print their type
        value = value.item()
    return text_attachment(pformat(value, width=100, sort_dicts=False), name or type(value).__name__)


def with_attachments(text: str, attach: Attached, *, rows: int = MAX_ROWS) -> str:
    """A message followed by attachments; a mapping gives them names."""
    check_text(text)
    named = attach.items() if isinstance(attach, Mapping) else (("", value) for value in attach)
    return "\n\n".join([text, *(attachment(value, name, rows=rows) for name, value in named)])


def _frame(value: Any) -> pd.DataFrame | None:
    from ...frames.tabular import frame_of, is_tabular  # imports pandas

    if hasattr(value, "to_frame") and not hasattr(value, "columns"):  # a Series
        value = value.to_frame()
    return frame_of(value, caller="attach") if is_tabular(value) else None


def _table(frame: pd.DataFrame, name: str, rows: int, format: str) -> str:
    import pandas as pd

    first = frame.head(rows)
    plain_index = isinstance(first.index, pd.RangeIndex) and first.index.name is None
    first = first if plain_index else first.reset_index()
    note = f"the first {len(first):,} of {len(frame):,} rows" if len(first) < len(frame) else f"{len(frame):,} rows"
    if format == "csv":
        return _block(first.to_csv(index=False), name, note, "csv")
    lines = [list(map(str, first.columns)), ["---"] * len(first.columns)]
    lines += [
        ["" if value is None or value is pd.NA or value != value else str(value) for value in row]
        for row in first.itertuples(index=False)
    ]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    text, cut = _cut(replace_surrogates(table))
    return f"{_title(name, note, cut)}\n\n{text}"


def _cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


def _file(path: Path, name: str) -> str:
    with path.open("rb") as file:
        data = file.read(READ_BYTES)
    size = path.stat().st_size
    try:
        # The last character may be incomplete if the file goes on.
        text = data.decode("utf-8-sig", "strict" if len(data) >= size else "ignore")
        if "\0" in text:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{path} cannot be attached: it is not UTF-8 text. Attach its content as a str or a DataFrame."
        ) from None
    return text_attachment(text, name, size)


def text_attachment(text: str, name: str, size_bytes: int = 0) -> str:
    """A text as a part of a message; of a larger file, `text` is the beginning."""
    note = f"{size_bytes:,} bytes" if size_bytes > READ_BYTES or (size_bytes and len(text) > MAX_CHARACTERS) else ""
    return _block(text, name, note, _LANGUAGES.get(Path(name).suffix.lower(), ""))


def _captured(output: Any) -> str:
    """What `%%capture` stored: printed text, then displayed objects as text."""
    shown = [str(getattr(each, "data", {}).get("text/plain", "")) for each in output.outputs]
    return "\n".join(filter(None, (str(output.stdout).rstrip("\n"), *shown)))


def _block(text: str, name: str, note: str, language: str) -> str:
    text, cut = _cut(replace_surrogates(text).strip("\n"))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{_title(name, note, cut)}\n\n{fence}{language}\n{text}\n{fence}"


def _cut(text: str) -> tuple[str, str]:
    """The text up to the end of a line within the limit, and a note about the cut."""
    if len(text) <= MAX_CHARACTERS:
        return text, ""
    end = text.rfind("\n", 0, MAX_CHARACTERS)
    end = end if end > 0 else MAX_CHARACTERS
    return text[:end], f"cut after {end:,} of {len(text):,} characters"


def _title(name: str, *notes: str) -> str:
    remarks = ", ".join(filter(None, notes))
    return f"**{' '.join(name.replace('*', '').split())}**{f' ({remarks})' if remarks else ''}"

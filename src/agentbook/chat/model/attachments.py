"""Attachments of a message: tables, files and the output of cells, as text.

A message to the platform is text. So an attachment is a readable part of it: a name,
how much was left out, and the content in a fenced block or as a table. What looks like
a secret is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Any

from ..._masking import is_secret, mask_text
from ..._text import check_text, count_text, replace_surrogates

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


def attachment(value: Any, name: str = "", *, rows: int = MAX_ROWS, format: str = "csv", mask: bool = True) -> str:
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
    mask : bool
        Mask what looks like a secret, as `mask_text` does, and whole columns and values
        whose name suggests one. The text says what was masked.

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
        return _file(value, name or value.name, mask)
    if (table := _tabular(value)) is not None:
        return _table(table, name or "table", rows, format, mask)
    if mask and is_secret(name, value):
        return _block("<masked>", name, "", "", mask=False)
    if isinstance(value, str):
        return text_attachment(value, name or "text", mask=mask)
    if hasattr(value, "stdout") and hasattr(value, "outputs"):
        return text_attachment(_captured(value), name or "output", mask=mask)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # NumPy's numbers print their type
        value = value.item()
    return text_attachment(pformat(value, width=100, sort_dicts=False), name or type(value).__name__, mask=mask)


def with_attachments(text: str, attach: Attached, *, rows: int = MAX_ROWS) -> str:
    """A message followed by attachments; a mapping gives them names."""
    check_text(text)
    named = attach.items() if isinstance(attach, Mapping) else (("", value) for value in attach)
    return "\n\n".join([text, *(attachment(value, name, rows=rows) for name, value in named)])


def _tabular(value: Any) -> Any:
    """A table as it is, and a Series as one; None of anything else."""
    from ...frames.tabular import is_tabular  # imports pandas

    if hasattr(value, "to_frame") and not hasattr(value, "columns"):  # a Series
        value = value.to_frame()
    return value if is_tabular(value) else None


def _table(table: Any, name: str, rows: int, format: str, mask: bool) -> str:
    import pandas as pd

    from ...frames.tabular import frame_of

    if hasattr(table, "head") and hasattr(table, "__len__"):  # what is not sent is neither converted nor copied
        first, length = frame_of(table.head(rows), caller="attach"), len(table)
    else:
        whole = frame_of(table, caller="attach")
        first, length = whole.head(rows), len(whole)
    size = count_text(length, "row") if length <= rows else f"the first {rows:,} of {length:,} rows"
    note = f"{size} × {count_text(len(first.columns), 'column')}"
    plain_index = isinstance(first.index, pd.RangeIndex) and first.index.name is None
    first = first if plain_index else first.reset_index()
    if mask:
        first, note = _without_secrets(first, note)
    if format == "csv":
        return _block(first.to_csv(index=False), name, note, "csv", mask)
    lines = [list(map(str, first.columns)), ["---"] * len(first.columns)]
    lines += [
        ["" if value is None or value is pd.NA or value != value else str(value) for value in row]
        for row in first.itertuples(index=False)
    ]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    text, *notes = _shortened(table, mask)
    return f"{_title(name, note, *notes)}\n\n{text}"


def _without_secrets(frame: pd.DataFrame, note: str) -> tuple[pd.DataFrame, str]:
    """The frame with the columns masked whose names suggest secrets, and its note."""
    frame = frame.copy()
    for number, name in enumerate(map(str, frame.columns)):
        values, missing = frame.iloc[:, number].tolist(), frame.iloc[:, number].isna()
        masked = [
            "<masked>" if is_secret(name, value) and not gap else value
            for value, gap in zip(values, missing, strict=True)
        ]
        if masked != values:
            frame.isetitem(number, masked)
            note = f"{note}, masked: the column {name}"
    return frame, note


def _cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


def _file(path: Path, name: str, mask: bool) -> str:
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
    return text_attachment(text, name, size, mask=mask)


def text_attachment(text: str, name: str, size_bytes: int = 0, *, mask: bool = True) -> str:
    """A text as a part of a message; of a larger file, `text` is the beginning."""
    note = f"{size_bytes:,} bytes" if size_bytes > READ_BYTES or (size_bytes and len(text) > MAX_CHARACTERS) else ""
    return _block(text, name, note, _LANGUAGES.get(Path(name).suffix.lower(), ""), mask)


def _captured(output: Any) -> str:
    """What `%%capture` stored: printed text, then displayed objects as text."""
    shown = [str(getattr(each, "data", {}).get("text/plain", "")) for each in output.outputs]
    return "\n".join(filter(None, (str(output.stdout).rstrip("\n"), *shown)))


def _block(text: str, name: str, note: str, language: str, mask: bool) -> str:
    text, *notes = _shortened(text.strip("\n"), mask)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{_title(name, note, *notes)}\n\n{fence}{language}\n{text}\n{fence}"


def _shortened(text: str, mask: bool) -> tuple[str, str, str]:
    """The text up to a line's end within the limit, and notes on what is not in it."""
    text, masked = mask_text(replace_surrogates(text)) if mask else (replace_surrogates(text), ())
    masks = f"masked: {', '.join(masked)}" if masked else ""
    if len(text) <= MAX_CHARACTERS:
        return text, masks, ""
    end = text.rfind("\n", 0, MAX_CHARACTERS)
    end = end if end > 0 else MAX_CHARACTERS
    return text[:end], masks, f"cut after {end:,} of {len(text):,} characters"


def _title(name: str, *notes: str) -> str:
    remarks = ", ".join(filter(None, notes))
    return f"**{' '.join(name.replace('*', '').split())}**{f' ({remarks})' if remarks else ''}"

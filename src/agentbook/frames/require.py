"""What an analysis needs of the frame it is given: its columns, said by name when one is missing, and its instant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import pandas as pd


def require(frame: pd.DataFrame, *columns: str, what: str) -> None:
    """Raise a `ValueError` that names the first missing columns and what was to be computed.

    Examples
    --------
    >>> require(pd.DataFrame({"ID": []}), "id", what="turns")
    Traceback (most recent call last):
    ...
    ValueError: turns needs the column 'id', and the frame has none (did you mean 'ID'?).
    """
    missing = [name for name in columns if name not in frame.columns]
    if not missing:
        return
    names = {str(name).lower(): str(name) for name in frame.columns}
    close = get_close_matches(missing[0].lower(), names, 1)
    hint = f" (did you mean {names[close[0]]!r}?)" if close else f" (it has {', '.join(map(str, frame.columns))})"
    plural = "columns" if len(missing) > 1 else "column"
    raise ValueError(f"{what} needs the {plural} {', '.join(map(repr, missing))}, and the frame has none{hint}.")


def moment_of(frame: pd.DataFrame, as_of: Any, column: str) -> Any:
    """`as_of` in UTC; without it when the frame was loaded, else the newest instant of `column`."""
    if as_of is None:
        as_of = frame.attrs.get("agentbook", {}).get("loaded_at")
    moment: Any = frame[column].max() if as_of is None else pd.Timestamp(as_of)
    if not pd.isna(moment) and moment.tzinfo is None:
        moment = moment.tz_localize("UTC")
    return moment

"""What a load could not read as the specification says, as a frame of its own."""

from __future__ import annotations

import pandas as pd

from .schemas import STR

COLUMNS = ("row", "field", "problem", "raw")


def load_problems(frame: pd.DataFrame) -> pd.DataFrame:
    """What was wrong with the items of a loaded frame, one row each.

    Parameters
    ----------
    frame : DataFrame
        As `load_events`, ``Listing.to_pandas()`` or `session_log.sessions` give it; slices of it know the same.

    Returns
    -------
    DataFrame
        In the order they were met, at most 100; ``attrs["agentbook"]["problem_count"]`` counts all:

        ======= ===== ==========================================================================
        column  dtype meaning
        ======= ===== ==========================================================================
        row     Int64 the row of the frame; null where no row came of it
        field   str   the field on the wire; empty where the whole page could not be read
        problem str   what was wrong
        raw     str   the value as it came, shortened; masked where it may be a secret
        ======= ===== ==========================================================================

        Further columns, such as ``session_id``, say where it happened. The values themselves are kept in ``extra``.

    Raises
    ------
    ValueError
        The frame carries no provenance: it was not loaded by agentbook, or pandas dropped it on the way.

    Notes
    -----
    Specification: "Resources and their fields".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'{"items": [{"id": "e1", "type": 7}]}'
    >>> load_problems(to_frame("events", [page]))[["row", "field", "raw"]].values.tolist()
    [[0, 'type', '7']]
    """
    about = frame.attrs.get("agentbook", {})
    if "problems" not in about:
        raise ValueError(
            'load_problems reads what a load noted in attrs["agentbook"], and this frame has no such note: give the loaded frame.'
        )
    found = about["problems"]
    further = dict.fromkeys(name for one in found for name in one if name not in COLUMNS)
    table = pd.DataFrame(found, columns=[*COLUMNS, *further])
    table = table.astype({"row": "Int64", **dict.fromkeys([*COLUMNS[1:], *further], STR)})
    table.attrs["agentbook"] = {"derived": "load_problems", "problem_count": about.get("problem_count", len(found))}
    return table

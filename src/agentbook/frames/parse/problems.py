"""Values in a reply that do not match the specification, and `load_problems`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from .schemas import STR

# A load lists this many problems and counts the rest: pandas copies `attrs` with every
# slice of a frame.
MAX_PROBLEMS = 100
COLUMNS = ("row", "field", "problem", "raw")


@dataclass(slots=True)
class Problem:
    """A value in a reply that does not match the specification.

    `raw` is JSON text; it is masked if it may be secret.
    """

    row: int | None
    field: str
    problem: str
    raw: str | None

    def described(self) -> dict[str, Any]:
        """The problem as a frame's provenance lists it, its value shortened."""
        raw = self.raw if self.raw is None or len(self.raw) <= 200 else self.raw[:199] + "…"
        return {"row": self.row, "field": self.field, "problem": self.problem, "raw": raw}


def load_problems(frame: Any) -> pd.DataFrame:
    """The problems in the items of a loaded frame, one row each.

    Parameters
    ----------
    frame : DataFrame or History
        From `load_events`, ``Listing.to_pandas()`` or `session_log.sessions`, or a
        slice of such a frame; or a history, for those in its events, such as what
        `read_conversations` could not read.

    Returns
    -------
    DataFrame
        In the order of the load, at most 100 rows.
        ``attrs["agentbook"]["problem_count"]`` counts all problems:

        ======= ===== =============================================================
        column  dtype meaning
        ======= ===== =============================================================
        row     Int64 row of the frame; null if the item did not become a row
        field   str   wire name of the field; empty if the page was unreadable
        problem str   what is wrong
        raw     str   the value as sent, shortened; masked if it may be a secret
        ======= ===== =============================================================

        Further columns, such as ``session_id``, give the context of the request; those
    of `read_conversations` are ``file`` and ``line``. The
        values themselves are kept in ``extra``.

    Raises
    ------
    TypeError
        If `frame` is not a DataFrame, such as a `Listing`, which has to be loaded.
    ValueError
        If the frame has no provenance: agentbook did not load it, or pandas dropped its
        ``attrs``.

    Notes
    -----
    Specification: "Resources and their fields".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'{"items": [{"id": "e1", "type": 7}]}'
    >>> problems = load_problems(to_frame("events", [page]))
    >>> problems[["row", "field", "raw"]].values.tolist()
    [[0, 'type', '7']]
    """
    frame = frame if isinstance(frame, pd.DataFrame) else getattr(frame, "events", frame)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"load_problems needs the DataFrame that was loaded, not a {type(frame).__name__}: ab.load_events(client, "
            "sessions) or the to_pandas() of a list makes one."
        )
    provenance = frame.attrs.get("agentbook", {})
    if "problems" not in provenance:
        raise ValueError(
            'load_problems reads attrs["agentbook"]["problems"], and this frame has none: pass the frame that was loaded.'
        )
    problems = provenance["problems"]
    context = dict.fromkeys(name for problem in problems for name in problem if name not in COLUMNS)
    table = pd.DataFrame(problems, columns=[*COLUMNS, *context])
    table = table.astype({"row": "Int64", **dict.fromkeys([*COLUMNS[1:], *context], STR)})
    count = provenance.get("problem_count", len(problems))
    table.attrs["agentbook"] = {"derived": "load_problems", "problem_count": count}
    return table

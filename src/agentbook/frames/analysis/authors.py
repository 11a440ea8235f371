"""The keys and people who asked, and what they used."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..tabular import with_provenance
from .arguments import keep_top, require_top
from .turns import turns_in

AUTHOR = ("author_type", "author_id")
_COLUMNS = (
    *(*AUTHOR, "author", "first_at", "last_at", "sessions", "agents", "workspaces", "turns"),
    *("answered", "failed", "tokens"),
)


def authors(
    data: Any, *, by: str | list[str] | None = None, since: Any = None, until: Any = None, top: int | None = None
) -> pd.DataFrame:
    """One row per author of questions, a key or a person: how many, and when.

    Questions are grouped by who wrote them, not by who started the session.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`. Turns without a question are left out.
    by : str or list of str, optional
        Columns of the turns, such as ``"agent"``: one row per author and value.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`, as for `latency`.
    top : int, optional
        Number of groups of `by` to keep apart: those with the most turns. The others
        together are ``"other"``. Without `by`, the number of rows. Default: all.

    Returns
    -------
    DataFrame
        By number of questions, the largest first:

        =========== =================== ================================================
        column      dtype               meaning
        =========== =================== ================================================
        author_type category            ``api_key`` for a key, ``user``, ...
        author_id   str                 id of the key or person
        author      str                 latest name, if the turns have it
        first_at    datetime64[us, UTC] first question
        last_at     datetime64[us, UTC] last question
        sessions    int64               sessions asked in
        agents      int64               number of agents, if the turns have them
        workspaces  int64               workspaces asked in, if the turns have them
        turns       int64               questions
        answered    int64               answered ones
        failed      int64               failed ones
        tokens      Int64               tokens used, where the platform sends usage
        =========== =================== ================================================

    Raises
    ------
    ValueError
        If a column is missing; the message names it.

    Notes
    -----
    The agent and the workspace are those of the session: see `with_sessions`.
    Specification: "Resources and their fields", Session event; "Authentication".

    Examples
    --------
    >>> table = authors(events)
    >>> int(table["turns"].sum()) == int(ab.turns(events)["asked_at"].notna().sum())
    True
    """
    table, groups, _, span = turns_in(
        data, "session_id", "asked_at", "status", *AUTHOR, caller="authors", by=by, since=since, until=until,
        reserved=_COLUMNS,
    )  # fmt: skip
    rows = table.dropna(subset="asked_at").sort_values("asked_at")
    if groups:
        rows = keep_top(rows, groups, top, caller="authors")
    grouped = rows.assign(answered=rows["status"] == "answered", failed=rows["status"] == "failed").groupby(
        [*AUTHOR, *groups], observed=True, dropna=False
    )
    columns: dict[str, Any] = {"first_at": ("asked_at", "min"), "last_at": ("asked_at", "max")}
    columns["sessions"] = ("session_id", "nunique")
    for noun, ids in (("agents", "agent_id"), ("workspaces", "workspace_id")):
        source = next((name for name in (ids, noun[:-1]) if name in rows and name not in groups), None)
        if source is not None:
            columns[noun] = (source, "nunique")
    if "author" in rows:
        columns["author"] = ("author", "last")
    columns |= {"turns": ("session_id", "size"), "answered": ("answered", "sum"), "failed": ("failed", "sum")}
    result = grouped.agg(**columns)
    if "tokens" in rows:
        result["tokens"] = grouped["tokens"].sum(min_count=1)
    result = result.reset_index().sort_values("turns", ascending=False, kind="stable", ignore_index=True)
    if top is not None and not groups:
        require_top(top, caller="authors")
        result = result.head(top)
    names = [*AUTHOR, *groups, *(name for name in _COLUMNS[2:] if name in result)]
    return with_provenance(result[names], table, "authors", **span.details())

"""Failed turns by kind of failure."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pandas as pd

from ..parse.schemas import STR
from ..tabular import with_provenance
from .arguments import keep_top, period_starts
from .turns import turns_in

FAILURE_COLUMNS = ("kind", "turns", "sessions", "share", "n", "first_at", "last_at", "cause", "advice", "example")

# kind -> (cause, advice). The kinds are those of `agentbook.api.run_limits.RUN_LIMITS`,
# and "error" for all others.
FAILURE_KINDS: dict[str, tuple[str, str]] = {
    "state_size": ("saved agent state above 8 MiB", "start a new session, or let the agent keep less"),
    "llm_request_size": ("one LLM request above 8 MiB", "send less text, or shorten what tools return"),
    "llm_calls": ("too many LLM calls in the execution tree", "ask for less in one turn"),
    "llm_tokens": ("too many tokens in the execution tree", "ask for less in one turn"),
    "agent_tasks": ("too many sub-agent tasks started", "let the agent delegate less"),
    "tool_fan_out": ("too many tool calls in one task", "ask for less in one turn, or raise the workspace's limits"),
    "budget": ("a monthly spend budget is used up", "raise the budget, or wait for the next month"),
    "synchronous_steps": ("the agent looped without yielding", "fix the agent"),
    "turn_timeout": ("the turn ran past the wall-clock ceiling", "ask for less in one turn"),
    "error": ("another failure; read its message", "see the message; a retry may help"),
}


def failures(
    data: Any,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo | None = None,
    kinds: bool = True,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
    as_of: Any = None,
) -> pd.DataFrame:
    """Failed turns by kind of failure, group and period.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    by : str or list of str, optional
        Columns of the turns to group by as well, such as ``"agent"``.
    freq : str, optional
        Also group by the period of the question, or of the failure if there is no
        question: ``"1h"``, ``"1D"``, ``"W"``, ... Each period with turns then has a row
        for every kind in the data, with 0 turns where it did not occur. None (default)
        does not.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.
    kinds : bool
        If False, all kinds are counted together: one row per group and period, without
        ``kind``, ``cause`` and ``advice``, even where nothing failed.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`: instants with a time zone, dates
        (midnight in `tz`), or lengths of time such as ``"30d"`` before the data were
        loaded.
    top : int, optional
        Number of groups to keep apart: those with the most turns. The others together
        are ``"other"``. Default: all.
    as_of : datetime, optional
        The time up to which the events are known, as for `turns`.

    Returns
    -------
    DataFrame
        The most frequent kind first; with `freq`, by ``period`` (its start, in `tz`),
        group and kind:

        ========= =================== ==================================================
        column    dtype               meaning
        ========= =================== ==================================================
        kind      str                 a run limit of the specification, or ``error`` for
                                      any other failure
        turns     int64               turns that failed this way
        sessions  int64               sessions of these turns
        share     float64             of the `n` turns, 0 to 1
        n         int64               all turns, of the group with `by`, of the period
                                      with `freq`
        first_at  datetime64[us, UTC] time of the first failure
        last_at   datetime64[us, UTC] time of the last failure
        cause     str                 what happened
        advice    str                 what to do; a retry never helps with a run limit
        example   str                 message of the last failure
        ========= =================== ==================================================

        ``attrs["agentbook"]`` counts all `turns`, those `failed` and `unanswered`, and
        those that are in no period because they are `undated`.
        A failure that leaves no event is not visible here: an empty table does not mean
        that nothing failed.

    Raises
    ------
    ValueError
        If a column is missing; the message names it.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> table = failures(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["kind", "turns", "share"]].values.tolist()
    [['llm_calls', 1, 1.0]]
    """
    table, groups, tz, span = turns_in(
        data, "session_id", "failure", "failure_message", "replied_at", "status", caller="failures", by=by, since=since,
        until=until, tz=tz, as_of=as_of, or_replied=True, reserved=(*FAILURE_COLUMNS, "period"),
    )  # fmt: skip
    table = keep_top(table, groups, top, caller="failures")
    statuses = table["status"].value_counts()
    undated = 0 if freq is None else int(table["(at)"].isna().sum())
    if freq is not None:
        table = table.assign(period=period_starts(table["(at)"], freq, tz)).dropna(subset="period")
        groups = ["period", *groups]
    result = _counted(table, groups, kinds=kinds, fill=freq is not None or not kinds)
    for position, name in enumerate(("cause", "advice")):
        texts = {kind: causes_and_advice[position] for kind, causes_and_advice in FAILURE_KINDS.items()}
        result[name] = result["kind"].map(texts).astype(STR)
    order = ["turns", *groups, "kind"] if freq is None else [*groups, "kind"]
    result = result.sort_values(order, ascending=[name != "turns" for name in order], ignore_index=True)
    names = [name for name in FAILURE_COLUMNS if kinds or name not in ("kind", "cause", "advice")]
    return with_provenance(
        result[[*groups, *names]], table, "failures", turns=len(table), failed=int(statuses.get("failed", 0)),
        unanswered=int(statuses.get("unanswered", 0)), undated=undated, **span.details(),
    )  # fmt: skip


def _counted(table: pd.DataFrame, groups: list[str], *, kinds: bool, fill: bool) -> pd.DataFrame:
    """The failed turns of each group and kind.

    With `fill`, also where nothing failed.
    """
    failed = table[table["status"] == "failed"]
    kind = failed["failure"].astype(STR) if kinds else pd.Series("", failed.index, dtype=STR)
    failed = failed.assign(kind=kind)
    keys = [*groups, "kind"]
    counted = (
        failed.sort_values("replied_at")
        .groupby(keys, observed=True, dropna=False)
        .agg(
            turns=("kind", "size"), sessions=("session_id", "nunique"), first_at=("replied_at", "min"),
            last_at=("replied_at", "max"), example=("failure_message", "last"),
        )
        .reset_index()
    )  # fmt: skip
    totals = pd.DataFrame({"n": [len(table)]})
    if groups:
        totals = table.groupby(groups, observed=True, dropna=False).size().rename("n").reset_index()
    names = pd.DataFrame({"kind": (kind.unique() if kinds else [""]) if fill else counted["kind"].unique()}, dtype=STR)
    counted = totals.merge(names, how="cross").merge(counted, on=keys, how="left" if fill else "right")
    counted = counted.fillna({"turns": 0, "sessions": 0}).astype(
        {"turns": "int64", "sessions": "int64", "n": "int64", "kind": STR, "example": STR}
    )
    counted["share"] = (counted["turns"] / counted["n"]).astype("float64")
    return counted

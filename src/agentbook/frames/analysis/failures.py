"""Failed turns by kind of failure."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.schemas import STR
from .labels import with_provenance
from .turns import turns_of
from .validate import groups_of, require, with_instants

FAILURE_COLUMNS = ("kind", "turns", "sessions", "share", "first_at", "last_at", "cause", "advice", "example")

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
    "synchronous_steps": ("the agent looped without yielding", "mend the agent"),
    "turn_timeout": ("the turn ran past the wall-clock ceiling", "ask for less in one turn"),
    "error": ("another failure; read its message", "see the message; a retry may help"),
}


def failures(data: pd.DataFrame, *, by: str | list[str] | None = None, as_of: Any = None) -> pd.DataFrame:
    """Failed turns by kind of failure.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`.
    by : str or list of str, optional
        Columns of the turns to group by as well, such as ``"agent_id"``.
    as_of : datetime, optional
        As for `turns`.

    Returns
    -------
    DataFrame
        The most frequent kind first:

        ========= =================== ==================================================
        column    dtype               meaning
        ========= =================== ==================================================
        kind      str                 a run limit of the specification, or ``error`` for
                                      any other failure
        turns     int64               turns that failed this way
        sessions  int64               sessions of these turns
        share     float64             of all turns (of the group with `by`), 0 to 1
        first_at  datetime64[us, UTC] time of the first failure
        last_at   datetime64[us, UTC] time of the last failure
        cause     str                 what happened
        advice    str                 what to do; a retry never helps with a run limit
        example   str                 message of the last failure
        ========= =================== ==================================================

        ``attrs["agentbook"]`` counts all `turns`, and those `failed` and `unanswered`.
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
    table = turns_of(data, as_of=as_of)
    groups = groups_of(by, *FAILURE_COLUMNS, caller="failures")
    require(table, "session_id", "failure", "failure_message", "replied_at", "status", *groups, caller="failures")
    table = with_instants(table, "replied_at", caller="failures")
    failed = table[table["status"] == "failed"].assign(kind=lambda frame: frame["failure"].astype(STR))
    keys = [*groups, "kind"]
    result = (
        failed.sort_values("replied_at")
        .groupby(keys, observed=True, dropna=False)
        .agg(
            turns=("kind", "size"), sessions=("session_id", "nunique"), first_at=("replied_at", "min"),
            last_at=("replied_at", "max"), example=("failure_message", "last"),
        )
        .reset_index()
    )  # fmt: skip
    if groups:
        totals = table.groupby(groups, observed=True, dropna=False).size().rename("all").reset_index()
        result = result.merge(totals, on=groups, how="left")
    else:
        result["all"] = len(table)
    result["share"] = (result["turns"] / result["all"]).astype("float64")
    for position, name in enumerate(("cause", "advice")):
        texts = {kind: causes_and_advice[position] for kind, causes_and_advice in FAILURE_KINDS.items()}
        result[name] = result["kind"].map(texts).astype(STR)
    result = result.sort_values(["turns", *keys], ascending=[False, *[True] * len(keys)], ignore_index=True)
    result = result[[*groups, *FAILURE_COLUMNS]].astype({"kind": STR})
    statuses = table["status"].value_counts()
    return with_provenance(
        result, data, "failures", turns=len(table), failed=int(statuses.get("failed", 0)),
        unanswered=int(statuses.get("unanswered", 0)),
    )  # fmt: skip

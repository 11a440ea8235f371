"""Failed turns by kind of failure."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.schemas import STR
from .activity import about
from .turns import is_turns, turns
from .validate import groups_of, require, with_instants

FAILURE_COLUMNS = ("kind", "turns", "sessions", "share", "first_at", "last_at", "cause", "advice", "example")

# kind -> (what happened, what to do). The kinds are `agentbook.api.run_limits.RUN_LIMITS`'s, and "error" for all else.
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
        Events, or what `turns` made of them.
    by : str or list of str, optional
        Count per value of these columns of the turns too, such as ``"agent_id"``.
    as_of : datetime, optional
        As for `turns`.

    Returns
    -------
    DataFrame
        The most frequent first:

        =========== ==================== ====================================================================
        column      dtype                meaning
        =========== ==================== ====================================================================
        kind        str                  a run limit of the specification, or ``error`` for a failure it does not list
        turns       int64                turns that failed so
        sessions    int64                sessions they are in
        share       float64              of all turns (of the group's, with `by`), 0 to 1
        first_at    datetime64[us, UTC]  when the first failed
        last_at     datetime64[us, UTC]  when the last failed
        cause       str                  what happened
        advice      str                  what to do; no run limit goes away by a retry
        example     str                  the last one's message
        =========== ==================== ====================================================================

        ``attrs["agentbook"]`` counts all `turns`, and those `failed` and `unanswered`. A failure that leaves no event is
        not seen here: an empty table does not mean that nothing failed.

    Raises
    ------
    ValueError
        A column is missing; the message names it.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse.frame import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> table = failures(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["kind", "turns", "share"]].values.tolist()
    [['llm_calls', 1, 1.0]]
    """
    table = data if is_turns(data) else turns(data, as_of=as_of)
    groups = groups_of(by, *FAILURE_COLUMNS, what="failures")
    require(table, "session_id", "failure", "failure_message", "replied_at", "status", *groups, what="failures")
    table = with_instants(table, "replied_at", what="failures")
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
    for place, name in enumerate(("cause", "advice")):
        known = {kind: texts[place] for kind, texts in FAILURE_KINDS.items()}
        result[name] = result["kind"].map(known).astype(STR)
    order = [*groups, *FAILURE_COLUMNS]
    result = result.sort_values(["turns", *keys], ascending=[False, *[True] * len(keys)], ignore_index=True)[order]
    result["kind"] = result["kind"].astype(STR)
    statuses = table["status"].value_counts()
    return about(
        result, data, "failures", turns=len(table), failed=int(statuses.get("failed", 0)),
        unanswered=int(statuses.get("unanswered", 0)),
    )  # fmt: skip

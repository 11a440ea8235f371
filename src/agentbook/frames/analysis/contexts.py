"""Contexts of workspaces by status."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.schemas import STR
from ..tabular import frame_of, with_provenance
from .arguments import groups_of, keep_top, moment_of, require, rows_in, span_in, warn_if_empty, with_instants

_NO_CONTEXTS = "Load those of another workspace: client.workspaces.contexts(workspace).to_pandas()."
_COUNTS = (
    *("status", "contexts", "workspaces", "tasks", "published", "with_summary", "with_generated", "with_manual"),
    "age_p50_days",
)


def context_status(
    contexts: Any,
    *,
    by: str | list[str] | None = None,
    top: int | None = None,
    since: Any = None,
    until: Any = None,
    as_of: Any = None,
) -> pd.DataFrame:
    """Contexts by status: how many, how old, and what they hold.

    Parameters
    ----------
    contexts : DataFrame, Listing, History, or any other table of contexts
        ``client.workspaces.contexts(workspace)``, loaded or not, or a history that was
        loaded with ``contexts=True``.
    by : str or list of str, optional
        Columns of the contexts to group by as well, such as ``"workspace_id"``, or
        ``"workspace"`` in a history.
    top : int, optional
        Number of groups to keep apart: those with the most contexts. The others are
        counted together as ``"other"``. Default: all.
    since, until : str, datetime, date or Timedelta, optional
        Only contexts created from `since` on and before `until`: instants with a time
        zone, dates, or lengths of time such as ``"30d"`` before the frame was loaded.
    as_of : datetime, optional
        The time at which ages are computed; naive times are UTC. Default: when the
        frame was loaded (``attrs["agentbook"]["loaded_at"]``), else the latest
        `updated_at`.

    Returns
    -------
    DataFrame
        By `by`, the most frequent status first; statuses are as sent:

        =============== ======= ===== ==============================================
        column          dtype   unit  meaning
        =============== ======= ===== ==============================================
        status          str           null if none was sent
        contexts        int64         number of contexts
        workspaces      int64         number of workspaces
        tasks           int64         number of tasks that wrote them
        published       int64         those with a `published_by_id`
        with_summary    int64         those with a summary that is not empty
        with_generated  int64         those with generated text
        with_manual     int64         those with text a person wrote
        age_p50_days    float64 days  median time since `created_at`
        =============== ======= ===== ==============================================

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or an argument is invalid.
    TypeError
        If `contexts` is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no contexts, or none in the span.

    Notes
    -----
    Specification: "Resources and their fields", Context; "States and transitions".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "1", "status": "DRAFT", "summary": "s",
    ...   "created_at": "2026-10-01T00:00:00Z"}]}'''
    >>> contexts = to_frame("contexts", [page])
    >>> table = context_status(contexts, as_of="2026-10-03T00:00:00Z")
    >>> table[["status", "contexts", "with_summary", "age_p50_days"]].values.tolist()
    [['DRAFT', 1, 1, 2.0]]
    """
    texts = {"with_summary": "summary", "with_generated": "generated_context", "with_manual": "manual_context"}
    contexts = frame_of(contexts, caller="context_status", resource="contexts")
    require(contexts, "id", "status", "workspace_id", "task_id", "published_by_id", "created_at", "updated_at",
            *texts.values(), caller="context_status")  # fmt: skip
    contexts = with_instants(contexts, "created_at", "updated_at", caller="context_status")
    now = moment_of(contexts, as_of, "updated_at")
    groups = groups_of(by, *_COUNTS, caller="context_status", frame=contexts)
    warn_if_empty(contexts, caller="context_status", advice=_NO_CONTEXTS)
    span = span_in(contexts, "created_at", since, until)
    contexts = rows_in(span, contexts, contexts["created_at"], caller="context_status")
    contexts = keep_top(contexts, groups, top, caller="context_status")
    rows = contexts.assign(
        status=contexts["status"].astype(STR),
        published=contexts["published_by_id"].notna(),
        age=(now - contexts["created_at"]).dt.total_seconds() / 86_400,
        **{name: contexts[column].fillna("").str.strip() != "" for name, column in texts.items()},
    )
    table = rows.groupby([*groups, "status"], observed=True, dropna=False).agg(
        contexts=("id", "size"), workspaces=("workspace_id", "nunique"), tasks=("task_id", "nunique"),
        published=("published", "sum"), with_summary=("with_summary", "sum"), with_generated=("with_generated", "sum"),
        with_manual=("with_manual", "sum"), age_p50_days=("age", "median"),
    )  # fmt: skip
    keys = [*groups, "contexts", "status"]
    table = table.reset_index().sort_values(keys, ascending=[*[True] * len(groups), False, True], ignore_index=True)
    return with_provenance(table, contexts, "context_status", as_of=str(now), **span.details())

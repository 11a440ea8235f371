"""Contexts of workspaces by status."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.schemas import STR
from .labels import with_provenance
from .validate import moment_of, require, with_instants


def context_status(contexts: pd.DataFrame, *, as_of: Any = None) -> pd.DataFrame:
    """Contexts by status: how many, how old, and what they hold.

    Parameters
    ----------
    contexts : DataFrame
        From ``to_pandas()`` of a list of contexts, or `to_frame("contexts", ...)`.
    as_of : datetime, optional
        The time at which ages are computed; naive times are UTC. Default: when the
        frame was loaded (``attrs["agentbook"]["loaded_at"]``), else the latest
        `updated_at`.

    Returns
    -------
    DataFrame
        The most frequent status first; statuses are as sent:

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
        If a column is missing; the message names it.

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
    require(contexts, "id", "status", "workspace_id", "task_id", "published_by_id", "created_at", "updated_at",
            *texts.values(), caller="context_status")  # fmt: skip
    contexts = with_instants(contexts, "created_at", "updated_at", caller="context_status")
    until = moment_of(contexts, as_of, "updated_at")
    rows = contexts.assign(
        status=contexts["status"].astype(STR),
        published=contexts["published_by_id"].notna(),
        age=(until - contexts["created_at"]).dt.total_seconds() / 86_400,
        **{name: contexts[column].fillna("").str.strip() != "" for name, column in texts.items()},
    )
    table = rows.groupby("status", dropna=False).agg(
        contexts=("id", "size"), workspaces=("workspace_id", "nunique"), tasks=("task_id", "nunique"),
        published=("published", "sum"), with_summary=("with_summary", "sum"), with_generated=("with_generated", "sum"),
        with_manual=("with_manual", "sum"), age_p50_days=("age", "median"),
    )  # fmt: skip
    table = table.reset_index().sort_values(["contexts", "status"], ascending=[False, True], ignore_index=True)
    return with_provenance(table, contexts, "context_status", as_of=str(until))

"""A workspace's contexts by their status."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..parse.schemas import STR
from .activity import about
from .validate import moment_of, require, with_instants


def context_status(contexts: pd.DataFrame, *, as_of: Any = None) -> pd.DataFrame:
    """Contexts by status: how many, how old, what they hold.

    Parameters
    ----------
    contexts : DataFrame
        As `to_frame("contexts", ...)` makes it.
    as_of : datetime, optional
        Ages are up to then (UTC where it has no zone); default: when the frame was loaded
        (``attrs["agentbook"]["loaded_at"]``), else the newest context's `updated_at`.

    Returns
    -------
    DataFrame
        The most frequent status first; every status is kept as it came:

        =============== ======= ===== ==============================================
        column          dtype   unit  meaning
        =============== ======= ===== ==============================================
        status          str           null where none was sent
        contexts        int64         how many
        workspaces      int64         workspaces they are in
        tasks           int64         tasks that wrote them
        published       int64         those with a `published_by_id`
        with_summary    int64         those with a summary that is not empty
        with_generated  int64         those with generated text
        with_manual     int64         those with text a person wrote
        age_p50_days    float64 days  median time since `created_at`
        =============== ======= ===== ==============================================

    Raises
    ------
    ValueError
        A column is missing; the message names it.

    Notes
    -----
    Specification: "Resources and their fields", Context; "States and transitions".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "1", "status": "DRAFT", "summary": "s", "created_at": "2026-10-01T00:00:00Z"}]}'''
    >>> table = context_status(to_frame("contexts", [page]), as_of="2026-10-03T00:00:00Z")
    >>> table[["status", "contexts", "with_summary", "age_p50_days"]].values.tolist()
    [['DRAFT', 1, 1, 2.0]]
    """
    texts = {"with_summary": "summary", "with_generated": "generated_context", "with_manual": "manual_context"}
    require(contexts, "id", "status", "workspace_id", "task_id", "published_by_id", "created_at", "updated_at",
            *texts.values(), what="context_status")  # fmt: skip
    contexts = with_instants(contexts, "created_at", "updated_at", what="context_status")
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
    return about(table, contexts, "context_status", as_of=str(until))

"""Findings about credentials: severity, certainty and advice.

The certainty is ``exact`` for values as sent, ``proxy`` for a value that stands in for
another (an update for a rotation), ``derived`` for conclusions from the specification's
rules, and ``relative`` for conclusions from what happens to be in the frames.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..parse.frame import is_empty, list_column
from ..parse.schemas import STR
from ..tabular import frame_of, with_provenance
from .arguments import category, require

AGE_DAYS = (30, 90, 180, 365)
SEVERITIES = ("none", "low", "medium", "high")
FINDING_COLUMNS = ("check", "severity", "certainty", "finding", "advice")
_FINDINGS = pa.list_(pa.struct([(name, pa.large_string()) for name in FINDING_COLUMNS]))


def credential_findings(report: Any) -> pd.DataFrame:
    """One row per finding of a `credential_report`, the most severe first.

    Parameters
    ----------
    report : DataFrame, History, or any other table
        From `credential_report`; that of a history otherwise.

    Returns
    -------
    DataFrame
        ``id``, ``name``, ``integration``, ``check``, ``finding``, ``advice`` (str),
        ``severity`` (ordered category), ``certainty`` (str: exact, proxy, derived or
        relative).

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    TypeError
        If `report` is not a table; the message names the call that makes one.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> report = pd.DataFrame({
    ...     "id": ["c1"], "name": ["n"], "integration": ["github"],
    ...     "findings": [[{"check": "unsigned_webhook", "severity": "high",
    ...                    "certainty": "exact", "finding": "f", "advice": "a"}]]})
    >>> credential_findings(report)[["id", "check", "severity"]].values.tolist()
    [['c1', 'unsigned_webhook', 'high']]
    """
    report = frame_of(report, caller="credential_findings", resource="credential_report")
    require(report, "id", "name", "integration", "findings", caller="credential_findings")
    named = report[["id", "name", "integration", "findings"]].astype(object).itertuples(index=False, name=None)
    rows = [
        {"id": id_, "name": name, "integration": integration, **finding}
        for id_, name, integration, findings in named
        for finding in _list_of(findings)
    ]
    columns = ["id", "name", "integration", *FINDING_COLUMNS]
    frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns, STR))
    frame["severity"] = frame["severity"].astype(pd.CategoricalDtype(pd.Index(SEVERITIES, dtype="str"), ordered=True))
    frame = frame.sort_values("severity", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(frame, report, "findings")


def _list_of(findings: Any) -> list[Mapping[str, Any]]:
    """The findings of one credential; also reads JSON text, as stored in a CSV file."""
    if isinstance(findings, str):
        findings = json.loads(findings)
    return list(findings) if hasattr(findings, "__len__") else []


def find(report: pd.DataFrame, source: pd.DataFrame) -> pd.DataFrame:
    """One row per finding: `FINDING_COLUMNS`, the row in `report`, and a rank."""
    age, since = report["age_days"], report["days_since_update"]
    never = report["never_updated"].fillna(False).astype("bool")
    on = source["webhook_enabled"].fillna(False).astype("bool")
    idle = on & ~source["has_active_webhook_triggers"].fillna(True).astype("bool")
    nowhere = is_empty(report["open_in"]) & is_empty(report["open_if_granted"])
    days = since.round().astype("Int64").astype("str")
    others = report["alike"].astype("str")
    checks: list[tuple[pd.Series, str, str, str, Any, str]] = [
        (report["webhook"] == "unsigned", "unsigned_webhook", "high", "exact",
         "its webhook is on and not signed", "sign it: anyone who knows the address can trigger it"),
        (on & (report["webhook"] == "unknown"), "unread_signature", "low",
         "relative", "its webhook is on, and its signature type has an unknown form",
         "check its signature_type in `extra`"),
        (idle, "idle_webhook", "low", "exact", "its webhook is on and starts nothing", "switch it off"),
        (on & source["webhook_owner_identifier"].isna(), "webhook_without_owner", "low", "exact",
         "its webhook names no owner identifier", "connect it again"),
        (report["duplicate_of"].notna(), "duplicate", "medium", "exact",
         "same integration, owner, auth config and parameters as " + report["duplicate_of"].fillna(""),
         "keep one and remove the others"),
        ((report["duplicates"] == 0) & (report["alike"] > 0), "alike", "low", "relative",
         others + " more with the same integration and owner", "check whether all of them are needed"),
        (report["owner"] == "none", "no_owner", "medium", "exact", "it has no owner", "find out whose it is, or remove it"),
        (report["owner"] == "unknown", "unknown_owner", "low", "relative",
         "its owner is not among the ids seen here", "check that the owner still belongs here"),
        (report["creator"] == "none", "no_creator", "low", "exact", "it has no recorded creator", "find out whose it is"),
        (report["creator"] == "unknown", "unknown_creator", "low", "relative",
         "its creator is not among the ids seen here", "check that the creator still belongs here"),
        (report["target"] == "unknown", "unknown_target", "low", "relative",
         "its target is not among the ids seen here", "check that what it points at still exists"),
        (never & (age > AGE_DAYS[2]), "never_updated", "medium", "proxy",
         "unchanged since it was created " + days + " days ago", "rotate it"),
        (~never & (since > AGE_DAYS[3]), "not_updated", "medium", "proxy", "unchanged for " + days + " days", "rotate it"),
        (~never & (since > AGE_DAYS[2]) & (since <= AGE_DAYS[3]), "not_updated", "low", "proxy",
         "unchanged for " + days + " days", "plan its rotation"),
        (nowhere, "closed_everywhere", "low", "derived",
         "no workspace seen here may use it", "remove it, or change a workspace's required_credentials_mode"),
        (source["params"].isna() | source["params"].eq("{}"), "no_parameters", "low", "exact",
         "it holds no parameters", "check that it was ever completed"),
    ]  # fmt: skip
    found = []
    for mask, check, severity, certainty, finding, advice in checks:
        rows = np.flatnonzero(mask.fillna(False).to_numpy(dtype=bool))
        texts = finding.iloc[rows] if isinstance(finding, pd.Series) else [finding] * len(rows)
        found += [(row, check, severity, certainty, text, advice) for row, text in zip(rows, texts, strict=True)]
    findings = pd.DataFrame(found, columns=["row", *FINDING_COLUMNS])
    rank = findings["severity"].map({name: n for n, name in enumerate(SEVERITIES)}).astype("int64")
    return findings.assign(rank=rank).sort_values(
        ["row", "rank"], ascending=[True, False], kind="stable", ignore_index=True
    )


def worst_severity(findings: pd.DataFrame, count: int) -> pd.Categorical:
    """The worst severity of each of `count` rows."""
    codes = np.zeros(count, np.int64)
    np.maximum.at(codes, findings["row"].to_numpy(dtype=np.int64), findings["rank"].to_numpy(dtype=np.int64))
    return category(codes, SEVERITIES, ordered=True)


def findings_lists(findings: pd.DataFrame, count: int) -> pd.Series:
    """The findings of each of `count` rows, as a list."""
    lists: list[list[Any]] = [[] for _ in range(count)]
    for row, finding in zip(findings["row"], findings[list(FINDING_COLUMNS)].to_dict("records"), strict=True):
        lists[row].append(finding)
    return list_column(lists, type_=_FINDINGS)

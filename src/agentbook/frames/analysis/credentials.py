"""What an account's credentials look like: age, duplicates, webhooks, who may use them where, and what deserves a look.

The API tells neither when a credential was last used nor whether it still works: those columns are there, empty, so that
nobody takes an old credential for an unused one. What deserves a look is in `agentbook.frames.analysis.findings`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ..parse.masking import NO_HOST, host_of
from ..parse.schemas import STR
from .access import owners_named, usable_in
from .activity import about
from .findings import AGE_DAYS, SEVERITIES, find, listed, worst
from .validate import group_of, moment_of, require, with_instants

AGE_BUCKETS = ("0-30 days", "31-90 days", "91-180 days", "181-365 days", "over 365 days")
POOLS = ("account", "member", "unknown")
KNOWN = ("known", "unknown", "none", "not checked")
UNKNOWABLE = (
    "The API sends no last use, expiry or state of a credential: nothing here says that one is unused or broken."
)
_HOST = re.compile(rf"[\w.-]+|{NO_HOST}")
_NEEDED = (
    *("id", "integration", "owner_id", "creator_id", "target_id", "auth_config_id", "params", "params_fingerprint"),
    *("webhook_enabled", "webhook_url", "signature_type", "has_active_webhook_triggers", "webhook_owner_identifier"),
    *("created_at", "updated_at", "extra"),
)
_SUMMED = (
    *("credentials", "owners", "shared", "members", "never_updated", "duplicates", "webhooks", "unsigned"),
    *("high", "medium", "low", "age_p50_days", "update_p50_days", "oldest_days"),
)


def credential_report(
    credentials: pd.DataFrame,
    workspaces: pd.DataFrame | None = None,
    now: Any = None,
    *,
    account_id: Any = None,
    granted: pd.DataFrame | None = None,
    candidates: pd.DataFrame | None = None,
    known_ids: Iterable[str] = (),
) -> pd.DataFrame:
    """One row per credential: what is known of it, what follows, and what deserves a look.

    Parameters
    ----------
    credentials : DataFrame
        As `to_frame("credentials", ...)` makes it.
    workspaces : DataFrame, optional
        As `to_frame("workspaces", ...)` makes it: says which accounts share credentials, who is known, and where a
        credential may be used. Workspaces the key cannot see (``should_restrict_members``) are missing from any list.
    now : datetime, optional
        Ages are up to then (UTC where it has no zone); default: when the frame was loaded, else its newest `updated_at`.
    account_id : str or Record, optional
        The account whose credentials are shared, by id, by record, or by the name that `workspaces` has for it; default:
        the owners of the workspaces.
    granted : DataFrame, optional
        Credentials listed with ``workspace_id``: columns ``id`` and ``workspace_id``.
    candidates : DataFrame, optional
        Credentials listed with ``grant_candidates=True``: column ``id``.
    known_ids : iterable of str
        Further ids of people, keys, agents that exist.

    Returns
    -------
    DataFrame
        In the order of `credentials`, each id once: of an id that comes again (several lists joined) the first row counts,
        and ``attrs["agentbook"]["dropped"]`` counts the others.

        ===================== =================== ==== ================================================================
        column                dtype               unit meaning
        ===================== =================== ==== ================================================================
        id                    str                      the credential
        name                  str                      its name where the platform sends one
        integration           str                      what it opens
        owner_id              str                      whose it is
        pool                  category                 account (shared), member (a person's own) or unknown; inferred
        created_at            datetime64[us, UTC]
        updated_at            datetime64[us, UTC]
        age_days              float64             days since it was created
        age_bucket            category                 of `AGE_BUCKETS`, ordered
        days_since_update     float64             days since it last changed: a proxy for its rotation
        never_updated         boolean                  has not changed since it was created
        last_used_at          datetime64[us, UTC]      always null: the API does not tell
        owner, creator,       category                 known, unknown, none (null) or not checked; unknown means: not
        target                                         among the ids seen here, though others of its column are
        duplicate_of          str                      oldest with the same integration, owner, auth config and params
        duplicates            int64                    how many others are the same
        alike                 int64                    others of the same integration and owner
        webhook               category                 off, signed, unsigned, idle (nothing listens) or unknown (on, or how it
                                                       is signed)
        webhook_host          str                      host of its address
        open_in               str                      JSON list of workspaces that may use it as they are; null unless
                                                       `workspaces` is given
        open_if_granted       str                      JSON list of those that may once it is granted to their agents
        closed_in             str                      JSON list of those that may not
        granted_in            str                      JSON list of workspace ids; null unless `granted` is given
        grant_candidate       boolean                  null unless `candidates` is given
        severity              category                 the worst finding's: none, low, medium or high, ordered
        findings              str                      JSON list of {check, severity, certainty, finding, advice}
        ===================== =================== ==== ================================================================

        `credential_findings` makes one row of each finding. A workspace agent's own ``required_credentials_mode``
        overrides its workspace's and is not seen here.

    Raises
    ------
    ValueError
        A column is missing (the message names it), or `account_id` is none of the owners here.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials and Workspace.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "c1", "integration": "github", "owner_id": "o", "webhook_enabled": true,
    ...   "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}]}'''
    >>> report = credential_report(to_frame("credentials", [page]), now="2026-10-03")
    >>> report[["integration", "age_bucket", "webhook", "severity"]].values.tolist()
    [['github', '181-365 days', 'unsigned', 'high']]
    """
    require(credentials, *_NEEDED, what="credential_report")
    repeated = credentials["id"].notna() & credentials["id"].duplicated()
    source = credentials[~repeated].reset_index(drop=True)
    source = with_instants(source, "created_at", "updated_at", what="credential_report")
    until = moment_of(source, now, "updated_at", "now")
    if isinstance(known_ids, str):
        raise ValueError(f"known_ids must be a list of ids, not a text: write [{known_ids!r}].")
    known = set(known_ids)
    if workspaces is not None:
        require(workspaces, "id", "owner_id", "creator_id", "archived_by_id", what="credential_report (workspaces)")
        for column in ("id", "owner_id", "creator_id", "archived_by_id"):
            known |= set(workspaces[column].dropna())
    if account_id is not None:
        accounts = owners_named(account_id, [source, *([] if workspaces is None else [workspaces])], known)
    else:
        accounts = set() if workspaces is None else set(workspaces["owner_id"].dropna())
    known |= accounts
    report = pd.DataFrame({"id": source["id"], "name": source.get("name", pd.Series(pd.NA, source.index, dtype="str"))})
    for column in ("integration", "owner_id"):
        report[column] = source[column]
    report["pool"] = _pool(source["owner_id"], accounts)
    _add_ages(report, source, until)
    extra = [json.loads(text) if isinstance(text, str) else {} for text in source["extra"]]
    for name in ("owner", "creator", "target"):
        report[name] = _known(source[f"{name}_id"], known, [one.get(name) for one in extra])
    _add_duplicates(report, source)
    report["webhook"] = _webhook(source, [one.get("signature_type") for one in extra])
    report["webhook_host"] = _hosts(source["webhook_url"])
    usable = usable_in(report, workspaces)
    for label in usable:
        report[label] = usable[label]
    report["granted_in"] = _granted(source["id"], granted)
    report["grant_candidate"] = _candidates(source["id"], candidates)
    findings = find(report, source)
    report["severity"] = worst(findings, len(report))
    report["findings"] = listed(findings, len(report))
    dropped = int(repeated.sum())
    return about(report, credentials, "credential_report", now=str(until), unknowable=UNKNOWABLE, dropped=dropped)


def credential_summary(
    credentials: pd.DataFrame, workspaces: pd.DataFrame | None = None, now: Any = None, *, by: str = "integration"
) -> pd.DataFrame:
    """Credentials per integration.

    Parameters
    ----------
    credentials : DataFrame
        As `to_frame("credentials", ...)` makes it, or what `credential_report` made of it.
    workspaces, now
        As for `credential_report`; not used for a report.
    by : str
        Another column of the report, such as ``"owner_id"`` or ``"pool"``; default ``"integration"``.

    Returns
    -------
    DataFrame
        The most credentials first: `by`, then int64 ``credentials``, ``owners``, ``shared``, ``members``,
        ``never_updated``, ``duplicates``, ``webhooks``, ``unsigned``, ``high``, ``medium``, ``low`` (credentials by their
        worst finding), and float64 ``age_p50_days``, ``update_p50_days``, ``oldest_days``.

    Raises
    ------
    ValueError
        A column is missing (the message names it), or `by` is a column that the result has too.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'{"items": [{"id": "c1", "integration": "github"}, {"id": "c2", "integration": {"name": "github"}}]}'
    >>> credential_summary(to_frame("credentials", [page]))[["integration", "credentials"]].values.tolist()
    [['github', 2]]
    """
    require(credentials, what="credential_summary")
    group_of(by, *_SUMMED, what="credential_summary")
    report = credentials if "findings" in credentials else credential_report(credentials, workspaces, now)
    require(report, by, "pool", "severity", "webhook", what="credential_summary")
    rows = report.assign(
        shared=report["pool"] == "account",
        members=report["pool"] == "member",
        webhooks=report["webhook"].isin(["signed", "unsigned", "idle"]),
        unsigned=report["webhook"] == "unsigned",
        **{"(renewed)": report["never_updated"].fillna(False).astype("bool"), "(doubled)": report["duplicates"] > 0},
        **{severity: report["severity"] == severity for severity in SEVERITIES[:0:-1]},
    )
    table = rows.groupby(by, observed=True, dropna=False).agg(
        credentials=("duplicates", "size"), owners=("owner_id", "nunique"), shared=("shared", "sum"),
        members=("members", "sum"), never_updated=("(renewed)", "sum"), duplicates=("(doubled)", "sum"),
        webhooks=("webhooks", "sum"), unsigned=("unsigned", "sum"), high=("high", "sum"), medium=("medium", "sum"),
        low=("low", "sum"), age_p50_days=("age_days", "median"), update_p50_days=("days_since_update", "median"),
        oldest_days=("age_days", "max"),
    )  # fmt: skip
    table = table.reset_index().sort_values(["credentials", by], ascending=[False, True], ignore_index=True)
    return about(table, credentials, "credential_summary")


def _pool(owners: pd.Series, accounts: set[str]) -> pd.Categorical:
    shared = owners.isin(accounts)
    codes = np.where(owners.isna() | (not accounts), 2, np.where(shared, 0, 1))
    return pd.Categorical.from_codes(codes, categories=pd.Index(POOLS, dtype="str"))


def _add_ages(report: pd.DataFrame, source: pd.DataFrame, until: Any) -> None:
    created, updated = source["created_at"], source["updated_at"]
    report["created_at"], report["updated_at"] = created, updated
    report["age_days"] = (until - created).dt.total_seconds() / 86_400
    age = report["age_days"].to_numpy(dtype="float64")
    bucket = np.where(np.isnan(age), -1, np.searchsorted(AGE_DAYS, age))
    report["age_bucket"] = pd.Categorical.from_codes(bucket, pd.Index(AGE_BUCKETS, dtype="str"), ordered=True)
    report["days_since_update"] = (until - updated).dt.total_seconds() / 86_400
    never = (created == updated).astype("boolean")
    report["never_updated"] = never.mask(created.isna() | updated.isna())
    report["last_used_at"] = pd.Series(pd.NaT, source.index, dtype="datetime64[us, UTC]")


def _known(ids: pd.Series, known: set[str], objects: list[Any]) -> pd.Categorical:
    """An id is known where it was seen elsewhere, or where the platform sent the name of what it is the id of.

    Where none of a column is known, what was seen is of another kind (workspaces, say, and the ids are agents').
    """
    named = np.array([isinstance(one, dict) and bool(one.get("name") or one.get("full_name")) for one in objects], bool)
    seen = (ids.isin(known).to_numpy() | named) & ids.notna().to_numpy()
    codes = np.where(ids.isna(), 2, np.where(seen, 0, 1 if seen.any() else 3))
    return pd.Categorical.from_codes(codes, categories=pd.Index(KNOWN, dtype="str"))


def _add_duplicates(report: pd.DataFrame, source: pd.DataFrame) -> None:
    same = ["integration", "owner_id", "auth_config_id", "params_fingerprint"]
    whole = source["integration"].notna() & source["owner_id"].notna()
    there = source.assign(n=np.arange(len(source)))[whole & source["params_fingerprint"].notna()]
    group = there.sort_values(["created_at", "n"], na_position="last").groupby(same, dropna=False)
    count = group["n"].transform("size").reindex(source.index).fillna(1).astype("int64")
    oldest = group["id"].transform("first").reindex(source.index)
    first = group.cumcount().reindex(source.index).fillna(0) == 0
    report["duplicate_of"] = oldest.where((count > 1) & ~first).astype(STR)
    report["duplicates"] = count - 1
    alike = source[whole].groupby(["integration", "owner_id"])["id"].transform("size")
    report["alike"] = alike.reindex(source.index).fillna(1).astype("int64") - 1


def _webhook(source: pd.DataFrame, shapes: list[Any]) -> pd.Categorical:
    """`shapes` are those of signature types that could not be read: what they say is unknown, not nothing."""
    enabled, active = source["webhook_enabled"], source["has_active_webhook_triggers"]
    unsigned = source["signature_type"].isna() | source["signature_type"].str.lower().isin(
        ["", "none", "null", "unsigned"]
    )
    on = enabled.fillna(False).astype("bool")
    idle = ~active.fillna(True).astype("bool")
    unread = source["signature_type"].isna() & np.array([one not in (None, False, "", {}, []) for one in shapes], bool)
    signed = np.where(unread, 4, np.where(unsigned, 2, np.where(idle, 3, 1)))
    codes = np.where(on, signed, np.where(enabled.isna(), 4, 0))
    return pd.Categorical.from_codes(
        codes, categories=pd.Index(["off", "signed", "unsigned", "idle", "unknown"], dtype="str")
    )


def _hosts(urls: pd.Series) -> pd.Series:
    """The hosts alone, of a revealed frame too: a report is passed on."""
    known = {url: url if _HOST.fullmatch(url) else host_of(url) or NO_HOST for url in urls.dropna().unique()}
    return urls.map(known).astype(STR)


def _candidates(ids: pd.Series, candidates: pd.DataFrame | None) -> pd.Series:
    if candidates is None:
        return pd.Series(pd.NA, ids.index, dtype="boolean")
    require(candidates, "id", what="credential_report (candidates)")
    return ids.isin(candidates["id"]).astype("boolean")


def _granted(ids: pd.Series, granted: pd.DataFrame | None) -> pd.Series:
    if granted is None:
        return pd.Series(None, ids.index, dtype="str")
    require(granted, "id", "workspace_id", what="credential_report (granted)")
    lists = (
        granted.drop_duplicates(["id", "workspace_id"])
        .groupby("id")["workspace_id"]
        .agg(lambda column: json.dumps(sorted(column.dropna())))
    )
    return ids.map(lists).fillna("[]").astype(STR)

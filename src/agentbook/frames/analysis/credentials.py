"""Reports on an account's credentials: age, duplicates, webhooks, access, findings.

The API reports neither when a credential was last used nor whether it still works. The
columns for these exist and are empty, so that nobody mistakes an old credential for an
unused one. `agentbook.frames.analysis.findings` holds the checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ..._masking import NO_HOST, host_of
from ..parse.frame import list_column
from ..parse.schemas import STR
from ..tabular import frame_of, part_of, with_provenance
from .access import owner_ids, usable_in
from .arguments import category, group_of, keep_top, moment_of, require, warn_if_empty, with_instants
from .findings import AGE_DAYS, SEVERITIES, find, findings_lists, worst_severity

_NO_CREDENTIALS = (
    "Check the account, and its filters if any: client.credentials.list(account) lists what the account has connected."
)
AGE_BUCKETS = ("0-30 days", "31-90 days", "91-180 days", "181-365 days", "over 365 days")
POOLS = ("account", "member", "unknown")
KNOWN = ("known", "unknown", "none", "not checked")
WEBHOOKS = ("off", "signed", "unsigned", "idle", "unknown")
UNKNOWABLE = (
    "The API does not report the last use, expiry or state of a credential, "
    "so the report cannot say if one is unused or broken."
)
_HOST = re.compile(rf"[\w.-]+|{NO_HOST}")
_REQUIRED = (
    *("id", "integration", "owner_id", "creator_id", "target_id", "auth_config_id", "params", "params_fingerprint"),
    *("webhook_enabled", "webhook_url", "signature_type", "has_active_webhook_triggers", "webhook_owner_identifier"),
    *("created_at", "updated_at", "extra"),
)
_SUMMED = (
    *("credentials", "owners", "shared", "members", "never_updated", "duplicates", "webhooks", "unsigned"),
    *("high", "medium", "low", "age_p50_days", "update_p50_days", "oldest_days"),
)


def credential_report(
    credentials: Any,
    workspaces: Any = None,
    as_of: Any = None,
    *,
    account_id: Any = None,
    granted: Any = None,
    candidates: Any = None,
    known_ids: Iterable[str] = (),
) -> pd.DataFrame:
    """One row per credential: its state, who may use it where, and findings.

    Parameters
    ----------
    credentials : DataFrame, History, Listing, or any other table
        ``client.credentials.list(account)``, loaded or not, or a `History`.
    workspaces : DataFrame, History, Listing, or any other table, optional
        The account's workspaces: they show which accounts share credentials, who is
        known, and where a credential may be used. Default: those of a `History` passed
        as `credentials`. Workspaces that the key cannot see
        (``should_restrict_members``) are missing from any list.
    as_of : datetime, optional
        The time at which ages are computed; naive times are UTC. Default: when the
        frame was loaded, else its latest `updated_at`.
    account_id : str or Record, optional
        The account that shares credentials, by id, by record, or by its name in
        `workspaces`. Default: the owners of the workspaces.
    granted : DataFrame, optional
        The grants: credentials listed by workspace, with columns ``id`` and
        ``workspace_id``. Default: nothing counts as granted.
    candidates : DataFrame, optional
        Credentials listed with ``grant_candidates=True``: column ``id``.
    known_ids : iterable of str
        Further ids of existing people, keys and agents.

    Returns
    -------
    DataFrame
        In the order of `credentials`. If an id is repeated (because several lists were
        joined), its first row is used; ``attrs["agentbook"]["dropped"]`` counts the
        others.

        ================= =================== ==== =====================================
        column            dtype               unit meaning
        ================= =================== ==== =====================================
        id                str                      the credential
        name              str                      its name, if the platform sends one
        integration       str                      the service it is for
        owner_id          str                      its owner
        pool              category                 account (shared), member (a person's
                                                   own) or unknown; inferred
        created_at        datetime64[us, UTC]      when it was connected
        updated_at        datetime64[us, UTC]      when it last changed
        age_days          float64             days since it was created
        age_bucket        category                 one of `AGE_BUCKETS`, ordered
        days_since_update float64             days since it last changed: a proxy for
                                                   its rotation
        never_updated     boolean                  unchanged since it was created
        last_used_at      datetime64[us, UTC]      always null: the API does not
                                                   report it
        owner             category                 known, unknown, none (null) or not
                                                   checked; unknown if it is not among
                                                   the known ids, although others of its
                                                   column are
        creator           category                 like `owner`
        target            category                 like `owner`
        duplicate_of      str                      oldest with the same integration,
                                                   owner, auth config and params
        duplicates        int64                    number of others that are the same
        alike             int64                    others of the same integration and
                                                   owner
        webhook           category                 off, signed, unsigned, idle (starts
                                                   nothing) or unknown (state or
                                                   signature)
        webhook_host      str                      host of its address
        open_in           list of str              workspaces that may use it as it is:
                                                   their owner shares it, or it is
                                                   granted there; null without
                                                   `workspaces`
        open_if_granted   list of str              those that may use it once it is
                                                   granted to one of their agents
        closed_in         list of str              those that may not
        granted_in        list of str              ids of workspaces; null without
                                                   `granted`
        grant_candidate   boolean                  null without `candidates`
        severity          category                 worst finding: none, low, medium or
                                                   high, ordered
        findings          list of struct           {check, severity, certainty,
                                                   finding, advice}, texts
        ================= =================== ==== =====================================

        `credential_findings` returns one row per finding.

        Which workspaces may use a credential follows the rule by which a run gets one
        (the manual, Credentials). A member's own credential is used only where it is
        granted, and as long as the member belongs to the organization, which this
        report cannot see. With the mode ``MEMBER``, only that member's own runs use it.
        A workspace agent's own ``required_credentials_mode`` overrides its workspace's:
        for such an agent, put it in the column of `workspaces`, and pass as `granted`
        what is granted to the agent.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or `account_id` is not an owner
        in these frames.
    TypeError
        If an argument is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no credentials.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials and Workspace.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "c1", "integration": "github", "owner_id": "o",
    ...   "webhook_enabled": true, "created_at": "2026-01-01T00:00:00Z",
    ...   "updated_at": "2026-01-01T00:00:00Z"}]}'''
    >>> report = credential_report(to_frame("credentials", [page]), as_of="2026-10-03")
    >>> report[["integration", "age_bucket", "webhook", "severity"]].values.tolist()
    [['github', '181-365 days', 'unsigned', 'high']]
    """
    workspaces = part_of(credentials, "workspaces") if workspaces is None else workspaces
    credentials = frame_of(credentials, caller="credential_report", resource="credentials")
    if workspaces is not None:
        workspaces = frame_of(workspaces, caller="credential_report (workspaces)", resource="workspaces")
    require(credentials, *_REQUIRED, caller="credential_report")
    repeated = credentials["id"].notna() & credentials["id"].duplicated()
    source = credentials[~repeated].reset_index(drop=True)
    source = with_instants(source, "created_at", "updated_at", caller="credential_report")
    until = moment_of(source, as_of, "updated_at")
    warn_if_empty(source, caller="credential_report", advice=_NO_CREDENTIALS)
    if isinstance(known_ids, str):
        raise ValueError(f"known_ids must be a list of ids, not a string: write [{known_ids!r}].")
    known = set(known_ids)
    if workspaces is not None:
        require(workspaces, "id", "owner_id", "creator_id", "archived_by_id", caller="credential_report (workspaces)")
        for column in ("id", "owner_id", "creator_id", "archived_by_id"):
            known |= set(workspaces[column].dropna())
    if account_id is not None:
        accounts = owner_ids(account_id, [source, *([] if workspaces is None else [workspaces])], known)
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
        report[name] = _known(source[f"{name}_id"], known, [fields.get(name) for fields in extra])
    _add_duplicates(report, source)
    report["webhook"] = _webhook(source, [fields.get("signature_type") for fields in extra])
    report["webhook_host"] = _hosts(source["webhook_url"])
    granted_in = _granted(source["id"], granted)
    report = report.join(usable_in(report, workspaces, granted_in))
    report["granted_in"] = granted_in
    report["grant_candidate"] = _candidates(source["id"], candidates)
    findings = find(report, source)
    report["severity"] = worst_severity(findings, len(report))
    report["findings"] = findings_lists(findings, len(report))
    dropped = int(repeated.sum())
    return with_provenance(
        report, credentials, "credential_report", as_of=str(until), unknowable=UNKNOWABLE, dropped=dropped
    )


def credential_summary(
    credentials: Any, workspaces: Any = None, as_of: Any = None, *, by: str = "integration", top: int | None = None
) -> pd.DataFrame:
    """Credentials per integration.

    Parameters
    ----------
    credentials : DataFrame, History, Listing, or any other table
        Credentials, or the result of `credential_report`.
    workspaces, as_of
        As for `credential_report`; not used for a report.
    by : str
        A column of the report, such as ``"owner_id"`` or ``"pool"``. Default
        ``"integration"``.
    top : int, optional
        Number of groups to keep apart: those with the most credentials. The others are
        counted together as ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        The most credentials first: `by`, then int64 ``credentials``, ``owners``,
        ``shared``, ``members``, ``never_updated``, ``duplicates``, ``webhooks``,
        ``unsigned``, ``high``, ``medium``, ``low`` (credentials by their worst
        finding), and float64 ``age_p50_days``, ``update_p50_days``, ``oldest_days``.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), `by` names no column or one of
        the result, or `top` is not a positive number.
    TypeError
        If an argument is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no credentials.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "c1", "integration": "github"},
    ...                       {"id": "c2", "integration": {"name": "github"}}]}'''
    >>> table = credential_summary(to_frame("credentials", [page]))
    >>> table[["integration", "credentials"]].values.tolist()
    [['github', 2]]
    """
    workspaces = part_of(credentials, "workspaces") if workspaces is None else workspaces
    credentials = frame_of(credentials, caller="credential_summary", resource="credentials")
    group_of(by, *_SUMMED, caller="credential_summary")
    report = credentials if "findings" in credentials else credential_report(credentials, workspaces, as_of)
    group_of(by, caller="credential_summary", frame=report)
    require(report, "pool", "severity", "webhook", caller="credential_summary")
    report = keep_top(report, [by], top, caller="credential_summary")
    rows = report.assign(
        shared=report["pool"] == "account",
        members=report["pool"] == "member",
        webhooks=report["webhook"].isin(["signed", "unsigned", "idle"]),
        unsigned=report["webhook"] == "unsigned",
        **{
            "(never_updated)": report["never_updated"].fillna(False).astype("bool"),
            "(duplicates)": report["duplicates"] > 0,
        },
        **{severity: report["severity"] == severity for severity in SEVERITIES[:0:-1]},
    )
    table = rows.groupby(by, observed=True, dropna=False).agg(
        credentials=("duplicates", "size"), owners=("owner_id", "nunique"), shared=("shared", "sum"),
        members=("members", "sum"), never_updated=("(never_updated)", "sum"), duplicates=("(duplicates)", "sum"),
        webhooks=("webhooks", "sum"), unsigned=("unsigned", "sum"), high=("high", "sum"), medium=("medium", "sum"),
        low=("low", "sum"), age_p50_days=("age_days", "median"), update_p50_days=("days_since_update", "median"),
        oldest_days=("age_days", "max"),
    )  # fmt: skip
    table = table.reset_index().sort_values(["credentials", by], ascending=[False, True], ignore_index=True)
    return with_provenance(table, credentials, "credential_summary")


def _pool(owners: pd.Series, accounts: set[str]) -> pd.Categorical:
    codes = np.where(owners.isna() | (not accounts), 2, np.where(owners.isin(accounts), 0, 1))
    return category(codes, POOLS)


def _add_ages(report: pd.DataFrame, source: pd.DataFrame, until: Any) -> None:
    created, updated = source["created_at"], source["updated_at"]
    report["created_at"], report["updated_at"] = created, updated
    report["age_days"] = (until - created).dt.total_seconds() / 86_400
    age = report["age_days"].to_numpy(dtype="float64")
    report["age_bucket"] = category(
        np.where(np.isnan(age), -1, np.searchsorted(AGE_DAYS, age)), AGE_BUCKETS, ordered=True
    )
    report["days_since_update"] = (until - updated).dt.total_seconds() / 86_400
    unchanged = (created == updated).astype("boolean")
    report["never_updated"] = unchanged.mask(created.isna() | updated.isna())
    report["last_used_at"] = pd.Series(pd.NaT, source.index, dtype="datetime64[us, UTC]")


def _known(ids: pd.Series, known_ids: set[str], objects: list[Any]) -> pd.Categorical:
    """Whether each id is known: listed elsewhere, or sent with a named object.

    If no id in the column is known, the known ids are of another kind: of workspaces,
    for example, while the column holds agents' ids. The column is then not checked.
    """
    named = [isinstance(value, dict) and bool(value.get("name") or value.get("full_name")) for value in objects]
    known = (ids.isin(known_ids).to_numpy() | np.array(named, bool)) & ids.notna().to_numpy()
    return category(np.where(ids.isna(), 2, np.where(known, 0, 1 if known.any() else 3)), KNOWN)


def _add_duplicates(report: pd.DataFrame, source: pd.DataFrame) -> None:
    same = ["integration", "owner_id", "auth_config_id", "params_fingerprint"]
    owned = source["integration"].notna() & source["owner_id"].notna()
    comparable = source.assign(n=np.arange(len(source)))[owned & source["params_fingerprint"].notna()]
    group = comparable.sort_values(["created_at", "n"], na_position="last").groupby(same, dropna=False)
    count = group["n"].transform("size").reindex(source.index).fillna(1).astype("int64")
    oldest = group["id"].transform("first").reindex(source.index)
    is_oldest = group.cumcount().reindex(source.index).fillna(0) == 0
    report["duplicate_of"] = oldest.where((count > 1) & ~is_oldest).astype(STR)
    report["duplicates"] = count - 1
    alike = source[owned].groupby(["integration", "owner_id"])["id"].transform("size")
    report["alike"] = alike.reindex(source.index).fillna(1).astype("int64") - 1


def _webhook(source: pd.DataFrame, raw_types: list[Any]) -> pd.Categorical:
    """The state of each webhook.

    `raw_types` holds signature types that could not be read: those count as unknown,
    not as none.
    """
    enabled, active = source["webhook_enabled"], source["has_active_webhook_triggers"]
    signature = source["signature_type"]
    unsigned = signature.isna() | signature.str.lower().isin(["", "none", "null", "unsigned"])
    on = enabled.fillna(False).astype("bool")
    idle = ~active.fillna(True).astype("bool")
    unread = signature.isna() & np.array([value not in (None, False, "", {}, []) for value in raw_types], bool)
    state = np.where(unread, 4, np.where(unsigned, 2, np.where(idle, 3, 1)))
    return category(np.where(on, state, np.where(enabled.isna(), 4, 0)), WEBHOOKS)


def _hosts(urls: pd.Series) -> pd.Series:
    """Only the hosts, even in a frame with revealed secrets: reports are passed on."""
    hosts = {url: url if _HOST.fullmatch(url) else host_of(url) or NO_HOST for url in urls.dropna().unique()}
    return urls.map(hosts).astype(STR)


def _candidates(ids: pd.Series, candidates: pd.DataFrame | None) -> pd.Series:
    if candidates is None:
        return pd.Series(pd.NA, ids.index, dtype="boolean")
    candidates = frame_of(candidates, caller="credential_report (candidates)", resource="credentials")
    require(candidates, "id", caller="credential_report (candidates)")
    return ids.isin(candidates["id"]).astype("boolean")


def _granted(ids: pd.Series, granted: pd.DataFrame | None) -> pd.Series:
    if granted is None:
        return list_column([None] * len(ids), ids.index)
    granted = frame_of(granted, caller="credential_report (granted)", resource="credentials")
    require(granted, "id", "workspace_id", caller="credential_report (granted)")
    granted = granted[["id", "workspace_id"]].dropna().drop_duplicates().sort_values("workspace_id")
    workspaces = {id_: group.to_list() for id_, group in granted.groupby("id")["workspace_id"]}
    return list_column([workspaces.get(id_, []) for id_ in ids], ids.index)

"""Which workspaces may use a credential, by the specification's rules of a workspace's flags.

``required_credentials_mode``: ``SHARED`` takes account credentials alone, ``MEMBER`` the acting member's own alone, unset
both. ``restrict_account_credentials``: account credentials serve only once granted or connected to the workspace's agents.
An account's credentials serve in its own workspaces; a member's wherever that member acts. An archived workspace runs
nothing. (Specification: "Resources and their fields", Workspace.)
"""

from __future__ import annotations

import json

import pandas as pd

from .require import require

_COLUMNS = ("open_in", "open_if_granted", "closed_in")


def usable_in(report: pd.DataFrame, workspaces: pd.DataFrame | None) -> pd.DataFrame:
    """JSON lists of workspace names for each row of ``pool`` and ``owner_id``: ``open_in``, ``open_if_granted``,
    ``closed_in``. All null without workspaces; null too where the pool is unknown.
    """
    if workspaces is None:
        return pd.DataFrame({column: pd.Series(None, report.index, dtype="str") for column in _COLUMNS})
    require(
        workspaces, "id", "owner_id", "archived_at", "required_credentials_mode", "restrict_account_credentials",
        what="credential_report (workspaces)",
    )  # fmt: skip
    rules = _rules(workspaces)
    # The answer depends on pool and owner alone: few pairs, however many credentials.
    pairs = report[["pool", "owner_id"]].astype("str").drop_duplicates()
    answers = {pair: _answer(*pair, rules) for pair in zip(pairs["pool"], pairs["owner_id"], strict=True)}
    found = [answers[pair] for pair in zip(report["pool"].astype("str"), report["owner_id"].astype("str"), strict=True)]
    return pd.DataFrame(
        {column: pd.Series([one[n] for one in found], report.index, dtype="str") for n, column in enumerate(_COLUMNS)}
    )


def _rules(workspaces: pd.DataFrame) -> pd.DataFrame:
    name = workspaces["id"]
    for column in ("name", "full_name"):
        if column in workspaces:
            name = workspaces[column].fillna(name)
    return pd.DataFrame(
        {
            "name": name,
            "owner_id": workspaces["owner_id"],
            "live": workspaces["archived_at"].isna(),
            "mode": workspaces["required_credentials_mode"].astype("str").fillna(""),
            "restricted": workspaces["restrict_account_credentials"].fillna(False).astype("bool"),
        }
    ).sort_values("name")


def _answer(pool: str, owner: object, rules: pd.DataFrame) -> tuple[str | None, str | None, str | None]:
    if pool == "unknown":
        return None, None, None
    if pool == "account":
        rules = rules[rules["owner_id"] == owner]
        allowed = rules["live"] & (rules["mode"] != "MEMBER")
        granted = allowed & rules["restricted"]
    else:
        allowed = rules["live"] & (rules["mode"] != "SHARED")
        granted = allowed & False
    masks = (allowed & ~granted, granted, ~allowed)
    names = [json.dumps(rules.loc[mask, "name"].dropna().to_list(), ensure_ascii=False) for mask in masks]
    return names[0], names[1], names[2]

"""Which workspaces may use a credential, by the workspaces' flags.

- ``required_credentials_mode``: ``SHARED`` allows only account credentials, ``MEMBER``
  only the acting member's own, unset allows both.
- ``restrict_account_credentials``: account credentials work only after they are granted
  or connected to the workspace's agents.
- An account's credentials work in its own workspaces, a member's credentials wherever
  that member acts.
- An archived workspace runs nothing.

Specification: "Resources and their fields", Workspace.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pandas as pd

from ...api.calls import ref
from ..parse.lists import list_column
from ..parse.schemas import STR
from .validate import require

_COLUMNS = ("open_in", "open_if_granted", "closed_in")


def usable_in(report: pd.DataFrame, workspaces: pd.DataFrame | None) -> pd.DataFrame:
    """The columns ``open_in``, ``open_if_granted`` and ``closed_in`` of a report.

    Each is a list of workspace names, by ``pool`` and ``owner_id``. Null without
    workspaces, or if the pool is unknown.
    """
    if workspaces is None:
        return pd.DataFrame({column: list_column([None] * len(report), report.index) for column in _COLUMNS})
    require(
        workspaces, "id", "owner_id", "archived_at", "required_credentials_mode", "restrict_account_credentials",
        caller="credential_report (workspaces)",
    )  # fmt: skip
    rules = _rules(workspaces)
    # Access depends only on pool and owner, and there are few such pairs.
    pairs = list(report[["pool", "owner_id"]].astype(STR).itertuples(index=False, name=None))
    access = {(pool, owner): _access(pool, owner, rules) for pool, owner in dict.fromkeys(pairs)}
    return pd.DataFrame(
        {column: list_column([access[pair][n] for pair in pairs], report.index) for n, column in enumerate(_COLUMNS)}
    )


def owner_ids(account: Any, frames: Iterable[pd.DataFrame], known: Container[str]) -> set[str]:
    """The owner ids of an account, which is an id, a name or a record.

    Raises a `ValueError` if no frame has such an owner.
    """
    name, ids, named = ref(account), set[str](), set[str]()
    for frame in frames:
        ids |= set(frame["owner_id"].dropna())
        if "owner_name" in frame:
            named |= set(frame.loc[frame["owner_name"] == name, "owner_id"].dropna())
    if name in ids or name in known or not ids:
        return {name}
    if not named:
        shown = ", ".join(sorted(ids)[:5]) + (", …" if len(ids) > 5 else "")
        raise ValueError(
            f"account_id={name!r} is none of the owners here ({shown}), neither by id nor by a name in the workspaces. "
            "If the account owns nothing here, add its id to known_ids as well."
        )
    return named


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
            "mode": workspaces["required_credentials_mode"].astype(STR).fillna(""),
            "restricted": workspaces["restrict_account_credentials"].fillna(False).astype("bool"),
        }
    ).sort_values("name")


def _access(pool: str, owner: object, rules: pd.DataFrame) -> list[list[str] | None]:
    if pool == "unknown":
        return [None] * len(_COLUMNS)
    if pool == "account":
        rules = rules[rules["owner_id"] == owner]
        allowed = rules["live"] & (rules["mode"] != "MEMBER")
        granted = allowed & rules["restricted"]
    else:
        allowed = rules["live"] & (rules["mode"] != "SHARED")
        granted = allowed & False
    return [rules.loc[mask, "name"].dropna().to_list() for mask in (allowed & ~granted, granted, ~allowed)]

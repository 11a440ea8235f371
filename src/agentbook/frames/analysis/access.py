"""Which workspaces may use a credential: the rule by which a run gets one.

- A run gets what is granted to its agent in the workspace and, unless the workspace has
  ``restrict_account_credentials``, what its owner shares. A member's own credential is
  never shared: it must be granted.
- ``required_credentials_mode``: with ``SHARED``, only what belongs to the workspace's
  owner; with ``MEMBER``, only what belongs to the person who acts; unset, both.
- An account's credentials work in its own workspaces.
- An archived workspace runs nothing.

Specification: "Resources and their fields", Workspace.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...api.calls import ref
from ..parse.frame import list_column
from ..parse.schemas import STR
from .arguments import require

_COLUMNS = ("open_in", "open_if_granted", "closed_in")


def usable_in(report: pd.DataFrame, workspaces: pd.DataFrame | None, granted_in: pd.Series) -> pd.DataFrame:
    """The columns ``open_in``, ``open_if_granted`` and ``closed_in`` of a report.

    Each is a list of workspace names, by ``pool``, ``owner_id`` and grants; null
    without workspaces, or if the pool is unknown. `granted_in` has lists of workspace
    ids; null counts as none.
    """
    if workspaces is None:
        return pd.DataFrame({column: list_column([None] * len(report), report.index) for column in _COLUMNS})
    require(
        workspaces, "id", "owner_id", "archived_at", "required_credentials_mode", "restrict_account_credentials",
        caller="credential_report (workspaces)",
    )  # fmt: skip
    rules = _rules(workspaces)
    # Access depends only on pool, owner and grants, and there are few such triples.
    grants = [tuple(ids) if hasattr(ids, "__len__") else () for ids in granted_in]
    keys = list(zip(report["pool"].astype(STR), report["owner_id"].astype(STR), grants, strict=True))
    access = {key: _access(*key, rules) for key in dict.fromkeys(keys)}
    return pd.DataFrame(
        {column: list_column([access[key][n] for key in keys], report.index) for n, column in enumerate(_COLUMNS)}
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
    owner_type = workspaces["owner_type"].astype(STR) if "owner_type" in workspaces else None
    return pd.DataFrame(
        {
            "id": workspaces["id"],
            "name": name,
            "is_persons": False if owner_type is None else owner_type.eq("user").fillna(False).astype("bool"),
            "owner_id": workspaces["owner_id"],
            "live": workspaces["archived_at"].isna(),
            "mode": workspaces["required_credentials_mode"].astype(STR).fillna(""),
            "restricted": workspaces["restrict_account_credentials"].fillna(False).astype("bool"),
        }
    ).sort_values("name")


def _access(pool: str, owner: object, granted: Sequence[str], rules: pd.DataFrame) -> list[list[str] | None]:
    if pool == "unknown":
        return [None] * len(_COLUMNS)
    own = (rules["owner_id"] == owner).fillna(False).astype("bool")
    # A person may have workspaces, and be a member of an organization that has others.
    if pool == "account" and not rules["is_persons"][own].any():
        rules, own = rules[own], own[own]
    # The owner of a person's workspace is the one who acts there.
    allowed = rules["live"] & np.where(
        own, (rules["mode"] != "MEMBER") | rules["is_persons"], rules["mode"] != "SHARED"
    )
    usable = rules["id"].isin(granted) | (~rules["restricted"] & own & (pool == "account"))
    masks = (allowed & usable, allowed & ~usable, ~allowed)
    return [rules.loc[mask, "name"].dropna().to_list() for mask in masks]

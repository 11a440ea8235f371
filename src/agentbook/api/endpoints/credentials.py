"""Integration credentials of an account, not those of a client (`agentbook.api.auth`).

Specification: "Endpoints", Accounts.
"""

from __future__ import annotations

from typing import Any

from ..calls import SMALL_MAX_PAGE, Call, ListCall, path, record, ref


def list_(
    account: Any,
    *,
    integration: str | None = None,
    search: str | None = None,
    workspace: Any = None,
    scope: bool | None = None,
    grant_candidates: bool | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """An account's integration credentials.

    Parameters
    ----------
    account : str or Record
        Id or name.
    integration, search : str, optional
    workspace : str or Record, optional
        Sent as ``workspace_id``.
    scope, grant_candidates : bool, optional
        Filters as the specification names them; None leaves the filter off.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of credential records; their `params`, `extra_data` and `config_params` are
        masked wherever they are shown.

    Raises
    ------
    InsufficientScope
        Without ``integrations:read``.
    NotFound, InvalidInput

    Notes
    -----
    Specification: "Endpoints", Accounts; "Limits" (pages of at most 500).

    Examples
    --------
    >>> list_("acme", integration="github").max_page
    500
    """
    query = {
        "integration": integration,
        "search": search,
        "workspace_id": None if workspace is None else ref(workspace),
        "scope": scope,
        "grant_candidates": grant_candidates,
    }
    call = Call("credentials.list", "GET", path("accounts", account, "credentials"), record, query)
    return ListCall(call, "credentials", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)

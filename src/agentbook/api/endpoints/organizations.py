"""Invitations of organizations.

Specification: "Endpoints", Organizations and the current user.
"""

from __future__ import annotations

from typing import Any

from ..calls import SMALL_MAX_PAGE, Call, ListCall, path, record


def invitations(organization: Any, *, limit: int | None = None, offset: int = 0) -> ListCall:
    """The invitations of an organization.

    Parameters
    ----------
    organization : str or Record
        Id or name.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing

    Raises
    ------
    Unauthorized, NotFound

    Notes
    -----
    Specification: "Endpoints", Organizations and the current user; "Limits" (pages of
    at most 500).

    Examples
    --------
    >>> client.organizations.invitations("acme").to_pandas().columns[0]
    'id'
    """
    call = Call("organizations.invitations", "GET", path("organizations", organization, "invitations"), record)
    return ListCall(call, "invitations", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)

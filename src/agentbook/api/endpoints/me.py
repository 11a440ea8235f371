"""The current user or account, and invitations.

Specification: "Endpoints", Organizations and the current user.
"""

from __future__ import annotations

from typing import Any, Literal

from ..calls import SMALL_MAX_PAGE, Call, ListCall, path, record
from ..discovery import discovered_selector
from ..record import Record


def get() -> Call[Record]:
    """The account that this credential acts for. A key needs no scope for this.

    Returns
    -------
    Record
        The platform decides its fields; the specification does not show them.

    Raises
    ------
    Unauthorized

    Notes
    -----
    Specification: "Authentication", rule 2.

    Examples
    --------
    >>> client.me.get().name
    'acme'
    """
    return Call("me.get", "GET", "me", record)


def workspaces(
    *,
    which: Literal["my", "all"] | None = None,
    sort_by: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """The current user's workspaces.

    Parameters
    ----------
    which : {"my", "all"}, optional
        ``all`` adds the workspaces of the user's organizations. The parameter's wire
        name is read from the platform's openapi.yaml, once. None leaves it to the
        platform, whose default is ``my``.
    sort_by : str, optional
        Column name; a leading ``-`` means descending.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing

    Raises
    ------
    Unauthorized, InsufficientScope, InvalidInput, NotOffered

    Notes
    -----
    Specification: "Endpoints", Organizations and the current user; "Limits" (pages of
    at most 500).

    Examples
    --------
    >>> "support" in [workspace.name for workspace in client.me.workspaces()]
    True
    """
    if which not in (None, "my", "all"):
        raise ValueError(f"which must be 'my' or 'all', not {which!r}.")
    call = Call("me.workspaces", "GET", "me/workspaces", record, {"sort_by": sort_by})
    if which is not None:
        call = discovered_selector(call, "/me/workspaces", value=which)
    return ListCall(call, "workspaces", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)


def invitations(*, limit: int | None = None, offset: int = 0) -> ListCall:
    """Invitations sent to the current user.

    Parameters
    ----------
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing

    Raises
    ------
    Unauthorized

    Notes
    -----
    Specification: "Endpoints", Organizations and the current user; "Limits" (pages of
    at most 500).

    Examples
    --------
    >>> len(client.me.invitations())
    0
    """
    call = Call("me.invitations", "GET", "me/invitations", record)
    return ListCall(call, "invitations", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)


def of_organization(organization: Any, *, limit: int | None = None, offset: int = 0) -> ListCall:
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

"""Skills of an account: list and create. Specification: "Endpoints", Accounts."""

from __future__ import annotations

from typing import Any

from ..calls import UNSET, Call, ListCall, code_for, create_read_back, drop_unset, path, record
from ..record import Record


def list_(
    account: Any,
    *,
    search: str | None = None,
    archived: bool | None = None,
    sort_by: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """An account's skills.

    Parameters
    ----------
    account : str or Record
        Id or name.
    search : str, optional
    archived : bool, optional
        None leaves the filter off.
    sort_by : str, optional
        Column name; a leading ``-`` means descending.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of skill records. The platform decides their fields.

    Raises
    ------
    InsufficientScope
        Without ``skills:read``.
    NotFound, InvalidInput

    Notes
    -----
    Specification: "Endpoints", Accounts.

    Examples
    --------
    >>> [skill.name for skill in client.skills.list("acme", search="careful")]
    ['careful-sql']
    """
    query = {"search": search, "archived": archived, "sort_by": sort_by}
    call = Call("skills.list", "GET", path("accounts", account, "skills"), record, query)
    return ListCall(call, "skills", limit=limit, offset=offset)


def create(
    account: Any,
    name: str,
    *,
    overview: str | None = UNSET,
    is_public: bool = UNSET,
    avatar_url: str | None = UNSET,
) -> Call[Record]:
    """Create a skill; if the reply is lost, it is looked up by its name.

    Parameters
    ----------
    account : str or Record
        Id or name.
    name : str
    overview, avatar_url : str or None, optional
    is_public : bool, optional
        A key cannot make a skill public.

    Returns
    -------
    Record

    Raises
    ------
    Forbidden
        With `is_public` true, for a key.
    InsufficientScope
        Without ``skills:write``.
    InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", Accounts.

    Examples
    --------
    >>> client.skills.create("acme", "short-answers").full_name
    'acme~short-answers'
    """
    body = drop_unset(name=name, overview=overview, is_public=is_public, avatar_url=avatar_url)
    skills = path("accounts", account, "skills")
    read_back = create_read_back("skills.create", skills, body, query={"search": name, "limit": 1000})
    shows = code_for("skills.list", account, search=name)
    return Call("skills.create", "POST", skills, record, body=body, check=shows, read_back=read_back)

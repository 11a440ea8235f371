"""Agents: list, read, create, update. What they run is in `agent_versions`.

Specification: "Endpoints", Agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..calls import UNSET, Call, ListCall, code_for, drop_unset, optional_ref, path, record
from ..errors import invalid_argument
from ..read_back import create_read_back
from ..record import Record


def list_(
    *,
    search: str | None = None,
    fast: bool | None = None,
    published_only: bool | None = None,
    is_public: bool | None = None,
    is_pinned: bool | None = None,
    for_workspace: Any = None,
    tags: str | Sequence[str] | None = None,
    categories: str | Sequence[str] | None = None,
    agent_types: str | Sequence[str] | None = None,
    owner: Any = None,
    contributor: Any = None,
    sort_by: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """The agents this credential can see.

    Public agents, and with ``agents:read`` those of the account.

    Parameters
    ----------
    search : str, optional
        Words matched in name or description.
    fast, published_only, is_pinned : bool, optional
        Filters as the specification names them; None leaves the filter off.
    is_public : bool, optional
        True lists public agents only. False is refused: it is the platform's default
        and selects nothing, so private agents are selected in the frame, as in
        ``frame[~frame["is_public"]]``.
    for_workspace : str or Record, optional
        A workspace by id, name or record.
    tags, categories, agent_types : str or sequence of str, optional
        Several are joined by commas.
    owner, contributor : str or Record, optional
        A user or organization by id, name or record.
    sort_by : str, optional
        Column name; a leading ``-`` means descending.
    limit : int, optional
        At most this many agents; None for all of them.
    offset : int
        Agents skipped at the start.

    Returns
    -------
    Listing
        Of agent records. The platform decides their fields.

    Raises
    ------
    InvalidInput, Unauthorized, ServerError

    Notes
    -----
    Specification: "Endpoints", Agents.

    Examples
    --------
    >>> [agent.name for agent in client.agents.list(search="guide")]
    ['guide']
    """
    if is_public is not None and not is_public:
        raise invalid_argument(
            "agents.list",
            "is_public=False would list public and private agents alike, since false is the platform's default. Leave it "
            'out, and select the private ones: frame[~frame["is_public"]].',
        )
    query = {
        "search": search,
        "fast": fast,
        "published_only": published_only,
        "is_public": is_public,
        "is_pinned": is_pinned,
        "for_workspace": optional_ref(for_workspace),
        "tags": tags,
        "categories": categories,
        "agent_types": agent_types,
        "owner": optional_ref(owner),
        "contributor": optional_ref(contributor),
        "sort_by": sort_by,
    }
    return ListCall(Call("agents.list", "GET", "agents", record, query), "agents", limit=limit, offset=offset)


def get(agent: Any) -> Call[Record]:
    """One agent, by id or ``<owner>~<name>``.

    Parameters
    ----------
    agent : str or Record
        Id or name, or a record that has an id.

    Returns
    -------
    Record

    Raises
    ------
    NotFound
        If it is absent, or private and invisible to this credential.

    Notes
    -----
    Specification: "Endpoints", Agents.

    Examples
    --------
    >>> client.agents.get("acme~guide").name
    'guide'
    """
    return Call("agents.get", "GET", path("agents", agent), record)


def create(
    name: str,
    *,
    description: str | None = UNSET,
    is_public: bool = UNSET,
    avatar_url: str | None = UNSET,
    owner_id: Any = UNSET,
    maintainer_id: Any = UNSET,
    category: Any = UNSET,
    tags: Sequence[str] | None = UNSET,
    forked_from_version: Any = UNSET,
    template: str | None = UNSET,
) -> Call[Record]:
    """Create an agent; if the reply is lost, the agent is read back by its name.

    If there is none, the request is sent once more, since a duplicate would be refused.

    Parameters
    ----------
    name : str
        Unique in the account.
    description, avatar_url : str or None, optional
    is_public : bool, optional
        A key cannot make an agent public.
    owner_id : str or Record, optional
        User or organization by id or name; left out, the caller's own account.
    maintainer_id : str, Record or None, optional
        User or organization by id or name.
    category : str, Record or None, optional
        A category's id or name.
    tags : sequence of str or None, optional
    forked_from_version : str, Record or None, optional
        The version to copy, as from `versions`.
    template : str, optional
        One of ``LLM``, ``AUTO_MANAGED_STATE``, ``BLANK``, ``GOOSE``,
        ``PLATFORM_NATIVE``, ``OPENCLAW``, ``LANGGRAPH``, ``ADK``; others are sent as
        they are.

    Returns
    -------
    Record
        The agent; its id is the top-level ``id``.

    Raises
    ------
    Conflict
        If the name is taken.
    InsufficientScope
        Without ``agents:write``.
    OutcomeUnknown
        If the reply was lost and reading back does not show the agent.

    Notes
    -----
    Specification: "Endpoints", create-agent body.

    Examples
    --------
    >>> client.agents.create("helper", template="LLM").full_name
    'acme~helper'
    """
    body = drop_unset(
        name=name,
        description=description,
        is_public=is_public,
        avatar_url=avatar_url,
        owner_id=optional_ref(owner_id),
        maintainer_id=optional_ref(maintainer_id),
        category=optional_ref(category),
        tags=tags if tags is UNSET or tags is None else list(tags),
        forked_from_version=optional_ref(forked_from_version),
        template=template,
    )
    full = f"{body['owner_id']}~{name}" if body.get("owner_id") else name
    read_back = create_read_back("agents.create", path("agents", full), body)
    return Call(
        "agents.create",
        "POST",
        "agents",
        record,
        body=body,
        write=True,
        check=code_for("agents.get", full),
        read_back=read_back,
        refuses_duplicates=True,
    )


def update(
    agent: Any,
    *,
    is_public: bool | None = UNSET,
    is_archived: bool | None = UNSET,
    is_pinned: bool | None = UNSET,
    avatar_url: str | None = UNSET,
    maintainer_id: Any = UNSET,
    category: Any = UNSET,
    tags: Sequence[str] | None = UNSET,
) -> Call[Record]:
    """Change an agent. For OAuth tokens only: a key gets `Unauthorized`.

    An argument that is left out is not sent; None is sent as null.

    Parameters
    ----------
    agent : str or Record
    is_public, is_archived, is_pinned : bool or None, optional
    avatar_url : str or None, optional
    maintainer_id : str, Record or None, optional
        User or organization by id or name.
    category : str, Record or None, optional
        A category's id or name.
    tags : sequence of str or None, optional

    Returns
    -------
    Record
        The updated agent.

    Raises
    ------
    Unauthorized, InsufficientScope, Forbidden, NotFound, InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", update-agent body.

    Examples
    --------
    >>> try:
    ...     client.agents.update("acme~guide", is_archived=True)
    ... except ab.errors.Unauthorized:
    ...     print("a key cannot change an agent")
    a key cannot change an agent
    """
    body = drop_unset(
        is_public=is_public,
        is_archived=is_archived,
        is_pinned=is_pinned,
        avatar_url=avatar_url,
        maintainer_id=optional_ref(maintainer_id),
        category=optional_ref(category),
        tags=tags if tags is UNSET or tags is None else list(tags),
    )
    return Call(
        "agents.update",
        "PATCH",
        path("agents", agent),
        record,
        body=body,
        write=True,
        idempotent=True,
        check=code_for("agents.get", agent),
    )

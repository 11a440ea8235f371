"""Workspaces: list, create, contexts, and their agents.

Specification: "Endpoints", Accounts; Workspaces and sessions.
"""

from __future__ import annotations

from typing import Any

from ..calls import (
    MAX_PAGE,
    SMALL_MAX_PAGE,
    UNSET,
    Call,
    ListCall,
    acknowledgement,
    code_for,
    create_read_back,
    drop_unset,
    path,
    record,
    ref,
)
from ..discovery import offered
from ..record import Record

_AGENTS = "/workspaces/{}/agents"


def list_(
    account: Any,
    *,
    archived: bool | None = None,
    filter: str | None = None,
    search: str | None = None,
    sort_by: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> ListCall:
    """An account's workspaces.

    An account key never sees those with ``should_restrict_members``.

    Parameters
    ----------
    account : str or Record
        Id or name.
    archived : bool, optional
        None leaves the filter off.
    filter, search : str, optional
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
    InsufficientScope
        Without ``workspaces:read``.
    NotFound, InvalidInput

    Notes
    -----
    Specification: "Endpoints", Accounts.

    Examples
    --------
    >>> "support" in [w.name for w in client.workspaces.list("acme", archived=False)]
    True
    """
    query = {"archived": archived, "filter": filter, "search": search, "sort_by": sort_by}
    call = Call("workspaces.list", "GET", path("accounts", account, "workspaces"), record, query)
    return ListCall(call, "workspaces", limit=limit, offset=offset)


def create(name: str, *, owner_id: Any = UNSET) -> Call[Record]:
    """Create a workspace; if the reply is lost, it is looked up by its name.

    Parameters
    ----------
    name : str
    owner_id : str or Record, optional
        Must be the key's own account, which is the default.

    Returns
    -------
    Record
        The workspace; its id is the top-level ``id``.

    Raises
    ------
    Forbidden
        If `owner_id` is another account.
    InsufficientScope
        Without ``workspaces:write``.
    InvalidInput, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions.

    Examples
    --------
    >>> client.workspaces.create("drafts").full_name
    'acme~drafts'
    """
    body = drop_unset(name=name, owner_id=owner_id if owner_id is UNSET else ref(owner_id))
    if "owner_id" in body:
        workspaces = path("accounts", body["owner_id"], "workspaces")
        query = {"search": name, "limit": MAX_PAGE}
        shows = code_for("workspaces.list", body["owner_id"], search=name)
    else:  # the caller's own account, whose name only the platform knows
        workspaces = "me/workspaces"
        query = {"sort_by": "-created_at", "limit": SMALL_MAX_PAGE}
        shows = code_for("me.workspaces", sort_by="-created_at")
    read_back = create_read_back("workspaces.create", workspaces, body, query=query, records_key=True)
    return Call("workspaces.create", "POST", "workspaces", record, body=body, check=shows, read_back=read_back)


def contexts(workspace: Any, *, limit: int | None = None, offset: int = 0) -> ListCall:
    """A workspace's contexts.

    Parameters
    ----------
    workspace : str or Record
        Id or ``<owner>~<name>``.
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
    Specification: "Endpoints", Workspaces and sessions; "Limits" (pages of at most
    500).

    Examples
    --------
    >>> client.workspaces.contexts("acme~support").to_pandas()["status"].isna().sum()
    np.int64(0)
    """
    call = Call("workspaces.contexts", "GET", path("workspaces", workspace, "contexts"), record)
    return ListCall(call, "contexts", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)


def agents(workspace: Any, *, limit: int | None = None, offset: int = 0) -> ListCall:
    """The agents of a workspace, if the platform's openapi.yaml offers the list.

    Parameters
    ----------
    workspace : str or Record
        Id or ``<owner>~<name>``.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of workspace-agent records. `uninstall_agent` takes their `id`.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    InsufficientScope, NotFound

    Notes
    -----
    Specification: "Endpoints", gaps in this part; "Authentication", rule 4.

    Examples
    --------
    >>> client.workspaces.agents("acme~support").first().agent["name"]
    'guide'
    """
    call = Call("workspaces.agents", "GET", path("workspaces", workspace, "agents"), record)
    return ListCall(offered(call, _AGENTS), "workspace_agents", limit=limit, offset=offset)


def install_agent(workspace: Any, agent_id: Any) -> Call[Record]:
    """Install an agent in a workspace, if the platform's openapi.yaml offers it.

    Parameters
    ----------
    workspace, agent_id : str or Record

    Returns
    -------
    Record
        The workspace agent.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    Conflict, InsufficientScope, NotFound, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", gaps in this part.

    Examples
    --------
    >>> agent = client.agents.create("minute-taker", template="LLM")
    >>> client.workspaces.install_agent("acme~support", agent).agent["name"]
    'minute-taker'
    """
    where, shows = path("workspaces", workspace, "agents"), code_for("workspaces.agents", workspace)
    body = {"agent_id": ref(agent_id)}
    call = Call("workspaces.install_agent", "POST", where, acknowledgement, body=body, check=shows)
    return offered(call, _AGENTS)


def uninstall_agent(workspace_agent_id: Any) -> Call[Record]:
    """Remove an agent from a workspace.

    Parameters
    ----------
    workspace_agent_id : str or Record
        The id of the installation, not of the agent.

    Returns
    -------
    Record
        Empty.

    Raises
    ------
    NotFound, InsufficientScope, OutcomeUnknown

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions.

    Examples
    --------
    >>> agent = client.agents.create("passer-by", template="LLM")
    >>> installed = client.workspaces.install_agent("acme~support", agent)
    >>> gone = client.workspaces.uninstall_agent(installed)
    """
    where, shows = path("workspace_agents", workspace_agent_id), "client.workspaces.agents(workspace)"
    return Call("workspaces.uninstall_agent", "DELETE", where, acknowledgement, idempotent=True, check=shows)

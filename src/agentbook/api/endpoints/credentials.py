"""Integration credentials of an account, not those of a client (`agentbook.api.auth`).

Specification: "Endpoints", Accounts; "Authentication", rule 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import SMALL_MAX_PAGE, Call, ListCall, acknowledgement, code_for, optional_ref, path, record
from ..discovery import offered
from ..record import Record

_OF_AGENT = "/workspace_agents/{}/credentials"


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
    >>> tokens = client.credentials.list("acme", integration="github").to_pandas()
    >>> set(tokens["integration"])
    {'github'}
    """
    query = {
        "integration": integration,
        "search": search,
        "workspace_id": optional_ref(workspace),
        "scope": scope,
        "grant_candidates": grant_candidates,
    }
    call = Call("credentials.list", "GET", path("accounts", account, "credentials"), record, query)
    return ListCall(call, "credentials", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)


def of_agent(workspace_agent_id: Any, *, limit: int | None = None, offset: int = 0) -> ListCall:
    """The credentials granted to an installed agent, if the platform offers the list.

    Parameters
    ----------
    workspace_agent_id : str or Record
        The id of the installation, as in ``client.workspaces.agents(workspace)``.
    limit : int, optional
        At most this many; None for all.
    offset : int
        Items skipped at the start.

    Returns
    -------
    Listing
        Of credential records; the content of a credential is masked wherever it is
        shown.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    InsufficientScope
        Without ``integrations:read``.
    NotFound

    Notes
    -----
    Specification: "Endpoints", gaps in this part; "Authentication", rule 4.

    Examples
    --------
    >>> installed = client.workspaces.agents("acme~support").first()
    >>> client.credentials.of_agent(installed).to_pandas().columns[0]
    'id'
    """
    where = path("workspace_agents", workspace_agent_id, "credentials")
    call = offered(Call("credentials.of_agent", "GET", where, record), _OF_AGENT)
    return ListCall(call, "credentials", max_page=SMALL_MAX_PAGE, limit=limit, offset=offset)


def attach(
    workspace_agent_id: Any,
    credential_id: Any = None,
    *,
    auth_config_id: Any = None,
    integration: str | None = None,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Call[Record]:
    """Grant an installed agent a credential, if the platform's openapi.yaml offers it.

    Parameters
    ----------
    workspace_agent_id : str or Record
        The id of the installation, as in ``client.workspaces.agents(workspace)``.
    credential_id : str or Record, optional
        An existing credential of your account.
    auth_config_id : str, optional
        Make a new credential with this auth config instead.
    integration, name : str, optional
        For a new credential.
    params : mapping, optional
        The content of a new credential.

    Returns
    -------
    Record
        The credential.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    InsufficientScope
        Without ``integrations:write``.
    Conflict
        If it is attached already.
    Forbidden, InvalidInput, NotFound, OutcomeUnknown

    Notes
    -----
    Specification: "Authentication", rule 4; "Endpoints", gaps in this part.

    Examples
    --------
    >>> installed = client.workspaces.agents("acme~support").first()
    >>> attached = client.credentials.attach(installed, "Release bot")
    """
    body = {
        "credential_id": optional_ref(credential_id),
        "auth_config_id": optional_ref(auth_config_id),
        "integration": integration,
        "name": name,
        "params": None if params is None else dict(params),
    }
    body = {field: value for field, value in body.items() if value is not None}
    where = path("workspace_agents", workspace_agent_id, "credentials")
    shows = code_for("credentials.of_agent", workspace_agent_id)
    call = Call("credentials.attach", "POST", where, acknowledgement, body=body, check=shows)
    return offered(call, _OF_AGENT)


def detach(workspace_agent_id: Any, credential_id: Any) -> Call[Record]:
    """Take a credential away from an installed agent; the credential stays.

    Parameters
    ----------
    workspace_agent_id, credential_id : str or Record

    Returns
    -------
    Record
        Empty.

    Raises
    ------
    NotOffered
        If the platform does not describe such a path; the specification shows none.
    InsufficientScope, NotFound, OutcomeUnknown

    Notes
    -----
    Specification: "Authentication", rule 4; "Endpoints", gaps in this part.

    Examples
    --------
    >>> installed = client.workspaces.agents("acme~release").first()
    >>> granted = client.credentials.of_agent(installed).first()
    >>> detached = client.credentials.detach(installed, granted)
    """
    where = path("workspace_agents", workspace_agent_id, "credentials", credential_id)
    shows = code_for("credentials.of_agent", workspace_agent_id)
    call = Call("credentials.detach", "DELETE", where, acknowledgement, idempotent=True, check=shows)
    return offered(call, _OF_AGENT + "/{}")

"""The two clients: a connection with the resources of the specification on it.

They differ only in the driver. `Client` blocks and works anywhere, a notebook cell
included; `AsyncClient` is awaited. Each can make the other (`Client.asynchronous`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .api.calls import ListCall, ref
from .api.connection import AsyncConnection, Connection
from .api.errors import NotFound
from .listing import AsyncListing, Listing
from .resources import (
    Agents,
    AsyncMode,
    AsyncSessions,
    Credentials,
    Me,
    Organizations,
    Sessions,
    Skills,
    SyncMode,
    Workspaces,
)


class Client(Connection):
    """A client of the Agent Platform Public API.

    Parameters
    ----------
    base_url : str
        The versioned address, such as ``https://host/v1``.
    credentials : ApiKey or OAuthToken or str or None
        A string is taken as an API key ``id:secret``. None sends no credential, which
        is enough for public agents.
    http_client : object, optional
        Your own ``Client`` of httpx2 or httpx for REST, or any object with its
        ``build_request`` and ``send``. It keeps its own proxy and certificates, and a
        blocking one is used from other threads. Streams do not use it: for certificates
        and proxies that apply to both, pass `tls` and `proxy` instead.
    timeout_s : float
        Seconds one request may take, its connection included; at most a week.
    deadline_s : float
        Seconds a whole call may take, waits and retries included; at most a week.
    tls : ssl.SSLContext, optional
        Checks the platform's certificate, for requests and streams alike; None trusts
        the system's and certifi's authorities, or those that ``SSL_CERT_FILE`` or
        ``SSL_CERT_DIR`` names.
    proxy : str, optional
        Address of a proxy, for requests and streams alike; None uses the proxy that the
        environment names, except for addresses on this machine. A SOCKS proxy needs
        the packages ``httpx2[socks]`` and ``python-socks``.
    allow_http : bool, optional
        True allows an ``http://`` address on another machine, although anyone on the
        network path can read the credential. None reads the environment variable
        ``AGENTBOOK_ALLOW_HTTP``, which allows it if it is ``1``. Addresses on this
        machine are always allowed.

    Raises
    ------
    ValueError
        If the address or the key is malformed, or the address is not encrypted.

    Notes
    -----
    Safe to use from several threads. Specification: "Endpoints", "Authentication",
    "Errors" (retry rules).

    Examples
    --------
    >>> Client("http://127.0.0.1:8765/v1", credentials="id:secret")
    Client('http://127.0.0.1:8765/v1', credentials=ApiKey('id:…'))
    """

    def _set_up(self, http_client: Any) -> None:
        super()._set_up(http_client)
        self.me: Me[SyncMode] = Me(self)
        self.agents: Agents[SyncMode] = Agents(self)
        self.skills: Skills[SyncMode] = Skills(self)
        self.credentials: Credentials[SyncMode] = Credentials(self)
        self.workspaces: Workspaces[SyncMode] = Workspaces(self)
        self.sessions = Sessions(self)
        self.organizations: Organizations[SyncMode] = Organizations(self)

    def _listing(self, call: ListCall) -> Listing:
        return Listing(self, call)

    def asynchronous(self) -> AsyncClient:
        """The `AsyncClient` with the same address, credential and limits."""
        return self._counterpart(AsyncClient)


class AsyncClient(AsyncConnection):
    """As `Client`, but awaited: the same parameters, resources and errors.

    `http_client` is an ``AsyncClient`` of httpx2 or httpx. The client may be used from
    one event loop after another (a second ``asyncio.run`` works). List operations are
    not awaited, but their results are: ``await client.agents.list().to_pandas()``.

    Notes
    -----
    Specification: "Endpoints", "Authentication", "Errors" (retry rules).

    Examples
    --------
    >>> AsyncClient("http://127.0.0.1:8765/v1")
    AsyncClient('http://127.0.0.1:8765/v1', credentials=None)
    """

    def _set_up(self, http_client: Any) -> None:
        super()._set_up(http_client)
        self.me: Me[AsyncMode] = Me(self)
        self.agents: Agents[AsyncMode] = Agents(self)
        self.skills: Skills[AsyncMode] = Skills(self)
        self.credentials: Credentials[AsyncMode] = Credentials(self)
        self.workspaces: Workspaces[AsyncMode] = Workspaces(self)
        self.sessions = AsyncSessions(self)
        self.organizations: Organizations[AsyncMode] = Organizations(self)

    def _listing(self, call: ListCall) -> AsyncListing:
        return AsyncListing(self, call)


# Workspaces, agents and sessions by record, frame row, id or name

NAME_FIELDS = ("name", "full_name")


def name_of(entity: Any) -> str:
    """A display name, if one is known; empty for a bare id.

    Examples
    --------
    >>> name_of({"id": "a1", "name": "guide"}), name_of("guide")
    ('guide', 'guide')
    >>> name_of("0199a0b2-0000-7000-8000-000000000000")
    ''
    """
    if entity is None or isinstance(entity, str):
        return "" if entity is None or is_uuid(entity) else entity
    # A frame's row also has `get`, and its attribute `name` is its index label.
    names = [entity.get(field) if hasattr(entity, "get") else getattr(entity, field, None) for field in NAME_FIELDS]
    return next((name for name in names if isinstance(name, str) and name), "")


def agent_list(agents: Any) -> list[Any]:
    """Several agents as a list; for a frame, each row's id and name.

    Raises
    ------
    TypeError
        If `agents` is not a collection.
    ValueError
        If a frame has no column ``id``.

    Examples
    --------
    >>> agent_list(name for name in ("guide", "scribe")), agent_list("guide")
    (['guide', 'scribe'], ['guide'])
    """
    if hasattr(agents, "columns") and hasattr(agents, "to_dict"):
        if "id" not in agents.columns:
            columns = ", ".join(map(str, agents.columns)) or "none"
            raise ValueError(
                "A frame of agents needs a column 'id', as client.agents.list().to_pandas() has. "
                f"Its columns: {columns}."
            )
        agents = agents[[name for name in ("id", *NAME_FIELDS) if name in agents]].to_dict("records")
    if isinstance(agents, str | Mapping):
        return [agents]
    if not isinstance(agents, Iterable):
        raise TypeError(
            f'Agents must be a list of ids, names or records such as ["guide", "echo"], not {type(agents).__name__}.'
        )
    return list(agents)


async def get_agent(client: AsyncClient, agent: Any) -> Mapping[str, Any]:
    """An agent's record; at least ``id``, and ``name`` if it is known.

    A name or id is read from the platform. A record or frame row costs no request.

    Raises
    ------
    NotFound
        If this key can see no agent with that name.
    """
    if not isinstance(agent, str):
        return agent if isinstance(agent, Mapping) else {"id": ref(agent), "name": name_of(agent)}
    try:
        return await client.agents.get(agent)
    except NotFound as error:
        # A key that may only chat can use a private agent by its id without reading it.
        if not is_uuid(agent):
            raise NotFound(f"Agent {agent!r}: {error}", **vars(error)) from None
        return {"id": agent}


def is_uuid(text: str) -> bool:
    """Whether `text` is an id of the platform rather than a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

"""The two clients. They differ by the driver alone: same nouns, same calls, same policy.

`Client` blocks and works anywhere, a notebook cell included; `AsyncClient` is awaited. Either gives the other
(`Client.asynchronous`), with the same credential and the same 429 gate.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from .api.auth import ApiKey, Credentials
from .api.calls import Call, ListCall, Reply
from .api.endpoint import Async, Sync
from .api.endpoints.agents import Agents
from .api.endpoints.credentials import Credentials as CredentialsNoun
from .api.endpoints.me import Me
from .api.endpoints.organizations import Organizations
from .api.endpoints.sessions import AsyncSessions, Sessions
from .api.endpoints.skills import Skills
from .api.endpoints.workspaces import Workspaces
from .api.policy import Exchange, Settings, exchange
from .api.rate_limit import RateLimitGate, gate_of
from .api.transport import AsyncTransport, Network, SyncTransport
from .listing import AsyncListing, Listing

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

TIMEOUT_S = 30.0
DEADLINE_S = 180.0  # two rate windows and the request itself


class _Core:
    """What both clients are made of, and what neither sends."""

    def __init__(
        self,
        base_url: str,
        *,
        credentials: Credentials | str | None = None,
        http_client: Any = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        base_url = _checked(base_url)
        if isinstance(credentials, str):
            credentials = ApiKey(credentials)
        for name, value in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
            if not value > 0:
                raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}.")
        if credentials is not None and not hasattr(credentials, "identity"):
            raise TypeError(
                "credentials must be an API key as text (id:secret), an ApiKey, or what sign_in returns, not "
                f"{type(credentials).__name__}. Another client's own are its .auth."
            )
        identity = credentials.identity if credentials is not None else "anonymous"
        gate = gate_of(base_url, identity, time.monotonic)
        self._settings = Settings(base_url, credentials, gate, timeout_s, deadline_s)
        self.network = Network(tls, proxy)
        self._http_client = http_client
        self._openapi: Mapping[str, Any] | None = None
        self._attach()

    def _attach(self) -> None:
        """Give the client its driver and its nouns."""
        raise TypeError("Use Client or AsyncClient.")

    @property
    def base_url(self) -> str:
        """The versioned address of the platform, without a trailing slash."""
        return self._settings.base_url

    @property
    def auth(self) -> Credentials | None:
        """The credential calls are signed with; its repr shows no secret."""
        return self._settings.credentials

    @property
    def gate(self) -> RateLimitGate:
        """The 429 gate of this credential, which sockets share."""
        return self._settings.gate

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return exchange(call, self._settings, self._description)

    def _description(self) -> Exchange[Mapping[str, Any]]:
        """The exchange that gets the live openapi.yaml, or gives the one that is here already."""
        if self._openapi is None:
            call = Call("openapi", "GET", "openapi.yaml", _yaml)
            self._openapi = yield from exchange(call, self._settings, self._description)
        return self._openapi

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r}, credentials={self.auth!r})"


class Client(_Core):
    """A client of the Agent Platform Public API.

    Parameters
    ----------
    base_url : str
        The versioned address, such as ``https://host/v1``.
    credentials : ApiKey or OAuthToken or str or None
        A text is taken as an API key ``id:secret``; None calls without a credential, for public agents.
    http_client : httpx.Client, optional
        Your own client for REST; anything with its ``build_request`` and ``send``. Streams do not use it: for certificates and
        proxies that hold for both, give `tls` and `proxy` instead.
    timeout_s : float
        Seconds one request may take.
    deadline_s : float
        Seconds a whole call may take, waits and retries included.
    tls : ssl.SSLContext, optional
        Checks the platform's certificate, for requests and streams alike; None for this system's certificates.
    proxy : str, optional
        Address of a proxy, for requests and streams alike; None for the environment's. An address on this machine is
        reached directly unless this names one.

    Raises
    ------
    ValueError
        If the address or the key has not the right form.

    Notes
    -----
    Safe to use from several threads. Specification: "Endpoints", "Authentication", "Errors" (retry rules).

    Examples
    --------
    >>> Client("http://127.0.0.1:8765/v1", credentials="id:secret")
    Client('http://127.0.0.1:8765/v1', credentials=ApiKey('id:…'))
    """

    def _attach(self) -> None:
        self._transport = SyncTransport(self.base_url, self._http_client, self.network)
        self.me: Me[Sync] = Me(self)
        self.agents: Agents[Sync] = Agents(self)
        self.skills: Skills[Sync] = Skills(self)
        self.credentials: CredentialsNoun[Sync] = CredentialsNoun(self)
        self.workspaces: Workspaces[Sync] = Workspaces(self)
        self.sessions = Sessions(self)
        self.organizations: Organizations[Sync] = Organizations(self)
        self._asynchronous: AsyncClient | None = None

    def run(self, call: Call[T]) -> T:
        """Carry out a call; what it reads from the reply.

        Parameters
        ----------
        call : Call
            Made by an endpoint function of ``agentbook.api``; the nouns' methods do both.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded, OutcomeUnknown

        Examples
        --------
        >>> from agentbook.api.endpoints import me
        >>> client.run(me.get()).name
        'acme'
        """
        return self._transport.drive(self._exchange(call))

    def listing(self, call: ListCall) -> Listing:
        """A list operation as a lazy `Listing`.

        Parameters
        ----------
        call : ListCall
            Made by an endpoint function of ``agentbook.api``; the nouns' methods do both.

        Raises
        ------
        ApiError
            Not here: when the list is looked at.

        Examples
        --------
        >>> from agentbook.api.endpoints import me
        >>> len(client.listing(me.workspaces())) > 0
        True
        """
        return Listing(call, self.run)

    def request(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None) -> Any:
        """Any request to the platform, for what has no method here.

        Parameters
        ----------
        method : str
            ``GET``, ``POST``, ...
        path : str
            Relative to `base_url`, already encoded: ``agents`` or ``/agents``.
        params : mapping, optional
            Query parameters; None values are left out.
        json : object, optional
            The body.

        Returns
        -------
        object
            The decoded JSON reply; None where it is empty. Retried only if it is a GET or HEAD.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded, OutcomeUnknown

        Examples
        --------
        >>> client.request("GET", "agents", params={"limit": 1})["pagination"]["limit"]
        1
        """
        return self.run(_free(method, path, params, json))

    def openapi(self) -> Mapping[str, Any]:
        """The platform's live OpenAPI description, parsed; fetched once for each client."""
        return self._transport.drive(self._description())

    def asynchronous(self) -> AsyncClient:
        """The `AsyncClient` with the same address, credential and limits, and the same 429 gate."""
        if self._asynchronous is None:
            settings = self._settings
            self._asynchronous = AsyncClient(
                self.base_url,
                credentials=self.auth,
                timeout_s=settings.timeout_s,
                deadline_s=settings.deadline_s,
                tls=self.network.tls,
                proxy=self.network.proxy,
            )
            if self._transport.is_closed:
                self._asynchronous._transport.close()
        return self._asynchronous

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._transport.close()
        if self._asynchronous is not None:
            self._asynchronous._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient(_Core):
    """As `Client`, awaited: the same parameters, nouns and errors; `http_client` is an ``httpx.AsyncClient``.

    It may be used from one event loop after another (a second ``asyncio.run`` works). List operations are not awaited, what is
    done with them is: ``await client.agents.list().to_pandas()``.

    Notes
    -----
    Specification: "Endpoints", "Authentication", "Errors" (retry rules).

    Examples
    --------
    >>> AsyncClient("http://127.0.0.1:8765/v1")
    AsyncClient('http://127.0.0.1:8765/v1', credentials=None)
    """

    def _attach(self) -> None:
        self._transport = AsyncTransport(self.base_url, self._http_client, self.network)
        self.me: Me[Async] = Me(self)
        self.agents: Agents[Async] = Agents(self)
        self.skills: Skills[Async] = Skills(self)
        self.credentials: CredentialsNoun[Async] = CredentialsNoun(self)
        self.workspaces: Workspaces[Async] = Workspaces(self)
        self.sessions = AsyncSessions(self)
        self.organizations: Organizations[Async] = Organizations(self)

    async def run(self, call: Call[T]) -> T:
        """As `Client.run`, awaited."""
        return await self._transport.drive(self._exchange(call))

    def listing(self, call: ListCall) -> AsyncListing:
        """As `Client.listing`; not awaited, but what is done with the list is."""
        return AsyncListing(call, self.run)

    async def request(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None
    ) -> Any:
        """As `Client.request`, awaited."""
        return await self.run(_free(method, path, params, json))

    async def openapi(self) -> Mapping[str, Any]:
        """The platform's live OpenAPI description, parsed; fetched once for each client."""
        return await self._transport.drive(self._description())

    def asynchronous(self) -> AsyncClient:
        """This client itself."""
        return self

    async def aclose(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        await self._transport.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


def _free(method: str, path: str, params: Mapping[str, Any] | None, json: Any) -> Call[Any]:
    method = method.upper()
    call: Call[Any] = Call(
        f"{method} {path}", method, path.lstrip("/"), _json, params or {}, json, write=method not in ("GET", "HEAD")
    )
    return call


def _json(reply: Reply) -> Any:
    return msgspec.json.decode(reply.body) if reply.body else None


def _yaml(reply: Reply) -> Mapping[str, Any]:
    import yaml

    try:
        loaded = yaml.load(reply.body, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise msgspec.DecodeError(" ".join(str(error).split())) from None
    return loaded if isinstance(loaded, dict) else {}


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url.strip()) if isinstance(base_url, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        # Never shown: what is given in its place is often the key.
        key = isinstance(base_url, str) and re.fullmatch(r"[^/:\s]+:[^/:\s]+", base_url.strip())
        advice = " This looks like an API key: that is api_key= of connect(), credentials= of a client." if key else ""
        raise ValueError(
            f"base_url must be an address such as https://host/v1, with http:// or https:// first.{advice}"
        )
    if parts.username or parts.password:
        raise ValueError(
            "base_url must not hold a user name or password: pass credentials=ApiKey('id:secret') instead."
        )
    if parts.query or parts.fragment:
        raise ValueError("base_url must end with its path (https://host/v1), without ? or #.")
    return base_url.strip().rstrip("/")

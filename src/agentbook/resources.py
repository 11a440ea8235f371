"""The resources of the specification: ``client.agents``, ``client.sessions``, ...

Each endpoint is written once, in `agentbook.api.endpoints`, as a function that returns
a `Call` or a `ListCall`. Here it becomes a method of a resource. On `Client` the method
returns the result, on `AsyncClient` an awaitable of it. A list operation returns a
`Listing` or an `AsyncListing`. The type annotations reflect this, so an editor knows
the difference.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from ._text import argument_error
from .api.calls import UNSET, Call, ListCall, ref
from .api.endpoints import agents, credentials, me, sessions, skills, workspaces
from .api.transport import bare
from .listing import AsyncListing, Listing

if TYPE_CHECKING:
    from .events.stream import AsyncEventStream, EventStream
    from .events.turns import Turn

P = ParamSpec("P")
T = TypeVar("T")


def _import_before_fork() -> None:
    """Import what the methods import, and wait for what other threads are importing.

    A child has no thread that would release the locks of their imports.
    """
    begun = [name for name in list(sys.modules) if name.startswith("agentbook.")]
    for name in ("agentbook.events.ask", "agentbook.events.stream", *begun):
        importlib.import_module(name)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_import_before_fork)


class SyncMode:
    """Marks the resources of `Client`."""


class AsyncMode:
    """Marks the resources of `AsyncClient`."""


M = TypeVar("M", SyncMode, AsyncMode)


class Resource(Generic[M]):
    """One resource of the specification on one client."""

    _name = ""  # in messages; default: the name of the class

    def __init__(self, client: Any) -> None:
        self._client = client

    def __repr__(self) -> str:
        names = [name for name in dir(type(self)) if not name.startswith("_")]
        return f"<{_name_of(type(self))}: {', '.join(names)}>"


def _name_of(resource: type) -> str:
    return getattr(resource, "_name", "") or resource.__name__.lower()


class Operation:
    """A method of a resource: it runs what an endpoint function builds."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.__doc__, self.__module__ = build.__doc__, build.__module__

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__, self.title = name, f"{_name_of(owner)}.{name}"

    def method_of(self, resource: Resource[Any], use: Callable[[Any], Any], returns: str) -> Callable[..., Any]:
        """The method of one client, whose help is that of the operation."""
        build, title = self.build, self.title

        @wraps(build)
        def method(*args: Any, **params: Any) -> Any:
            wrong: Exception | None = argument_error(title, _signature(build), args, params)
            try:
                call = None if wrong else build(*args, **params)
            except Exception as error:
                wrong = bare(error)
            del args, params  # they may hold a new credential's secrets, which tracebacks would show
            if wrong is not None:
                raise wrong
            return use(call)

        method.__name__, method.__qualname__ = self.__name__, f"{type(resource).__name__}.{self.__name__}"
        method.__annotations__ = {**build.__annotations__, "return": returns}
        method.__signature__ = _signature(build).replace(return_annotation=returns)  # type: ignore[attr-defined]
        return method


@cache
def _signature(build: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(build)


class Endpoint(Operation, Generic[P, T]):
    """The method of an operation that is one call."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        super().__init__(build)

    @overload
    def __get__(self, resource: None, owner: Any) -> Endpoint[P, T]: ...
    @overload
    def __get__(self, resource: Resource[SyncMode], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[AsyncMode], owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, resource: Any, owner: Any) -> Any:
        if resource is None:
            return self
        result = self.build.__annotations__["return"].removeprefix("Call[").removesuffix("]")
        run = resource._client._run
        return self.method_of(resource, run, f"Awaitable[{result}]" if inspect.iscoroutinefunction(run) else result)


class ListOperation(Operation, Generic[P]):
    """The method of an operation that is a list."""

    def __init__(self, build: Callable[P, ListCall]) -> None:
        super().__init__(build)

    @overload
    def __get__(self, resource: None, owner: Any) -> ListOperation[P]: ...
    @overload
    def __get__(self, resource: Resource[SyncMode], owner: Any) -> Callable[P, Listing]: ...
    @overload
    def __get__(self, resource: Resource[AsyncMode], owner: Any) -> Callable[P, AsyncListing]: ...
    def __get__(self, resource: Any, owner: Any) -> Any:
        if resource is None:
            return self
        is_async = inspect.iscoroutinefunction(resource._client._run)
        return self.method_of(resource, resource._client._listing, "AsyncListing" if is_async else "Listing")


class Me(Resource[M]):
    """``client.me``."""

    get = Endpoint(me.get)
    workspaces = ListOperation(me.workspaces)
    invitations = ListOperation(me.invitations)


class Agents(Resource[M]):
    """``client.agents``."""

    list = ListOperation(agents.list_)
    get = Endpoint(agents.get)
    create = Endpoint(agents.create)
    update = Endpoint(agents.update)
    configure_llm = Endpoint(agents.configure_llm)
    versions = ListOperation(agents.versions)
    models = ListOperation(agents.models)
    publish = Endpoint(agents.publish)


class Skills(Resource[M]):
    """``client.skills``."""

    list = ListOperation(skills.list_)
    create = Endpoint(skills.create)


class Credentials(Resource[M]):
    """``client.credentials``."""

    list = ListOperation(credentials.list_)
    of_agent = ListOperation(credentials.of_agent)
    attach = Endpoint(credentials.attach)
    detach = Endpoint(credentials.detach)


class Workspaces(Resource[M]):
    """``client.workspaces``."""

    list = ListOperation(workspaces.list_)
    create = Endpoint(workspaces.create)
    contexts = ListOperation(workspaces.contexts)
    agents = ListOperation(workspaces.agents)
    install_agent = Endpoint(workspaces.install_agent)
    uninstall_agent = Endpoint(workspaces.uninstall_agent)


class Organizations(Resource[M]):
    """``client.organizations``."""

    invitations = ListOperation(me.of_organization)


class _SessionOperations(Resource[M]):
    _name = "sessions"

    start = Endpoint(sessions.start)
    events = ListOperation(sessions.events)
    send = Endpoint(sessions.send)
    get = Endpoint(sessions.get)
    list = ListOperation(sessions.list_)


class Sessions(_SessionOperations[SyncMode]):
    """``client.sessions``."""

    def stream(
        self,
        session_id: Any,
        *,
        from_id: Any = None,
        since: Any = None,
        types: Sequence[str] | None = None,
        drafts: bool = True,
    ) -> EventStream:
        """A session's events as they happen.

        Each persisted event is delivered exactly once, in order, across reconnects.

        Parameters
        ----------
        session_id : str or Record
        from_id : str or Record, optional
            An event, or its id: replay the events after it first, then continue live.
        since : str, datetime, date or timedelta, optional
            Replay from this time on, then continue live: an instant; a date or a time
            without a zone, which is UTC; or a length of time before now, such as
            ``"1h"``. With neither, live events only.
        types : sequence of str, optional
            Only events of these types; None for all.
        drafts : bool
            False leaves out drafts: replies as they are being written.

        Returns
        -------
        EventStream
            An iterator of event records, to be closed or used in a ``with`` block. Each
            has an attribute `draft`, which is True for a draft. A draft is not a reply
            yet, whatever its type.

        Raises
        ------
        InvalidInput
            At once if `from_id` is not the id of a persisted event (a draft's is not)
            or `since` is not a time; later if the platform's socket does not know
            one of `types`.
        NotFound, Unauthorized, InsufficientScope
        StreamClosed
            If the stream cannot continue, or the client was closed.

        Notes
        -----
        Specification: "Endpoints", Session events WebSocket; "Events", rule 6.

        Examples
        --------
        >>> with client.sessions.stream(
        ...     session.id, since="2020-01-01", drafts=False) as stream:
        ...     for event in stream:  # stop at the first reply
        ...         if event.type == "runtime_done" and "text" in event.content:
        ...             break
        >>> event.draft
        False
        """
        from .events.stream import EventStream

        return EventStream(self._client, ref(session_id), from_id=from_id, since=since, types=types, drafts=drafts)

    def ask(
        self,
        session_id: Any,
        text: str,
        *,
        timeout_s: float | None = None,
        mode: str = "text",
        agent_id: Any = UNSET,
    ) -> Turn:
        """Send a message and wait for the reply.

        Parameters
        ----------
        session_id : str or Record
        text, mode, agent_id
            As for `send`.
        timeout_s : float, optional
            Seconds to wait for the reply; None waits without limit. The agent continues
            after a timeout.

        Returns
        -------
        Turn
            Answered, with text, latency and events.

        Raises
        ------
        ExecutionLimit
            If the run hit a limit.
        ServerError
            If the run failed otherwise.
        DeadlineExceeded
            If no reply came in time.
        NotFound
            If this key did not start the session.

        Notes
        -----
        Specification: "Events", rules 3 to 5; "Errors", runtime limit failures.

        Examples
        --------
        >>> client.sessions.ask(session.id, "What is an event?", timeout_s=60).status
        'answered'
        """
        from .events.ask import ask

        return ask(self._client, ref(session_id), text, timeout_s, mode=mode, agent_id=agent_id)


class AsyncSessions(_SessionOperations[AsyncMode]):
    """``client.sessions`` of `AsyncClient`."""

    def stream(
        self,
        session_id: Any,
        *,
        from_id: Any = None,
        since: Any = None,
        types: Sequence[str] | None = None,
        drafts: bool = True,
    ) -> AsyncEventStream:
        """A session's events, for ``async for``; see `Sessions.stream`."""
        from .events.stream import AsyncEventStream

        return AsyncEventStream(self._client, ref(session_id), from_id=from_id, since=since, types=types, drafts=drafts)

    async def ask(
        self,
        session_id: Any,
        text: str,
        *,
        timeout_s: float | None = None,
        mode: str = "text",
        agent_id: Any = UNSET,
    ) -> Turn:
        """Send a message and wait for the reply; see `Sessions.ask`."""
        from .events.ask import ask_async

        return await ask_async(self._client, ref(session_id), text, timeout_s, mode=mode, agent_id=agent_id)

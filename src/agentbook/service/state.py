"""The state that every handler reaches: the store, live delivery and turns."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from .cluster import Cluster
from .engines.base import Engine
from .engines.function import FunctionEngine
from .faults.switch import Switch
from .proxies import TrustedProxies
from .store import Store
from .store.transaction import access_changes
from .turns.live import Hub
from .turns.runner import Turns, TurnSettings

log = logging.getLogger("agentbook.service")

# How soon changes that the command line and other processes make are noticed.
ACCESS_CHECK_S = 1.0


@dataclass(eq=False, repr=False)
class Platform:
    """One running platform on one store.

    Parameters
    ----------
    store
        Must be open; closed by `aclose`.
    engines
        The engine of each name; None means those of the package, the demo's agents and
        `functions`.
    functions
        The engines of agents that are functions, by their names; closed by `aclose`.
    settings
        How turns are run.
    root_url
        The service's address without the version path, as in the metadata documents.
    hosts
        The Host headers to accept; None accepts any.
    proxies
        The proxies that say where a request comes from.
    requests_per_minute
        The limit for each key and address; 0 for none.
    faults
        Faults on demand, if they are enabled.

    Attributes
    ----------
    cluster : Cluster
        The other processes on this store.
    claims : set
        What uncommitted writes in this process have claimed. A write in another process
        waits for the commit, and sees it.
    draining : bool
        Whether the service is about to stop.
    """

    store: Store
    _: KW_ONLY
    engines: Callable[[str], Engine] | None = None
    functions: Mapping[str, FunctionEngine] = field(default_factory=dict)
    settings: TurnSettings = field(default_factory=TurnSettings)
    root_url: str = "http://127.0.0.1:8765"
    hosts: frozenset[str] | None = None
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    requests_per_minute: int = 0
    faults: Switch | None = None

    def __post_init__(self) -> None:
        self.claims: set[Hashable] = set()
        self.draining = False
        self.hub = Hub(self.store.clock)
        if self.store.engine.dialect.name == "sqlite":
            self.cluster = Cluster(self.hub.publish)
        else:
            from .cluster.postgres import PostgresCluster

            self.cluster = PostgresCluster(self.store, self.hub)
        self._access_watch: asyncio.Task[None] | None = None
        self.store.on_events.append(self.cluster.deliver)
        self.store.on_access_change = self.hub.recheck_access
        self.turns = Turns(self.store, self.hub, self.engines or self._load_engine, self.settings, self.cluster)
        if self.faults is not None:
            self.turns.fault_for_turn = self.faults.for_turn

    def _load_engine(self, name: str) -> Engine:
        """The engine with that name, loaded for the first turn.

        So a service that only answers reads does not load the engines.
        """
        from .demo.agents import AGENTS
        from .engines.registry import load_engine

        return self.functions.get(name) or load_engine(name, AGENTS)

    async def start(self) -> None:
        """Begin to work with other processes on the store; before the first request."""
        await self.cluster.start(self.turns.take_over)
        self._access_watch = asyncio.create_task(self._watch_access())

    async def _watch_access(self) -> None:
        """Have the sockets notice changes that others make to the store."""
        handled: str | None = None
        while True:
            await asyncio.sleep(ACCESS_CHECK_S)
            if not self.hub.sockets:
                continue
            try:
                changes = await self.store.read(access_changes)
            except Exception as error:  # the next check may succeed
                log.warning("the access of open sockets could not be checked: %s", str(error).partition("\n")[0])
                continue
            if changes != handled:
                handled = changes
                self.hub.recheck_access()

    async def drain(self, timeout_s: float) -> None:
        """Take no new turns, and wait until the running ones have ended.

        Everything else is answered as before. Turns that take longer than `timeout_s`
        stay pending.
        """
        self.draining = True
        self.turns.refuse()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.turns.wait_until_idle()

    async def aclose(self) -> None:
        """Stop turns and sockets, finish waiting writes and close the store."""
        if self._access_watch is not None:
            self._access_watch.cancel()
        self.hub.close()
        await self.turns.aclose()
        for function in self.functions.values():
            await function.aclose()
        await self.cluster.aclose()
        self.store.close()

"""The state that every handler reaches: the store, live delivery and turns."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .engines.base import Engine
from .faults import Switch
from .store import Store
from .turns.live import Hub
from .turns.runner import Turns, TurnSettings


def _load_engine(name: str) -> Engine:
    """The engine of that name, loaded with the first turn.

    A service that only answers reads starts without the engines.
    """
    from .engines.registry import load_engine

    return load_engine(name)


class Platform:
    """One running platform on one store.

    Parameters
    ----------
    store
        Must be open; closed by `aclose`.
    engines
        The engine of each name; None means the engines in the package.
    settings
        How turns are run.
    root_url
        The service's address without the version path, as in the metadata documents.
    hosts
        The Host headers to accept; None accepts any.
    requests_per_minute
        The limit of each key and address; 0 for none.
    faults
        Faults on demand, if they are enabled.

    Attributes
    ----------
    claims : set
        What requests have claimed that are not answered yet.
    """

    def __init__(
        self,
        store: Store,
        *,
        engines: Callable[[str], Engine] | None = None,
        settings: TurnSettings | None = None,
        root_url: str = "http://127.0.0.1:8765",
        hosts: frozenset[str] | None = None,
        requests_per_minute: int = 0,
        faults: Switch | None = None,
    ) -> None:
        self.store = store
        self.claims: set[Hashable] = set()
        self.root_url = root_url
        self.hosts = hosts
        self.requests_per_minute = requests_per_minute
        self.faults = faults
        self.hub = Hub(store.clock)
        store.on_events = self.hub.publish
        self.turns = Turns(store, self.hub, engines or _load_engine, settings or TurnSettings())
        if faults is not None:
            self.turns.intercept = faults.for_turn

    async def aclose(self) -> None:
        """Stop turns and sockets, finish waiting writes and close the store."""
        self.hub.close()
        await self.turns.aclose()
        self.store.close()

"""A platform of several processes: services on one database behind a proxy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from service.process import Service
from support.round_robin import RoundRobin


class PlatformOfProcesses:
    """Runs from construction to the end of the ``with`` block.

    Parameters
    ----------
    folder
        Where each service gets its own data directory.
    database
        The URL of the database that they share.
    count
        How many services to start, all at the same time.
    arguments
        Additional arguments of ``agentbook serve``.
    scripted
        Use the tests' scripted agent for every engine.

    Attributes
    ----------
    database : str
    services : list of Service
    base_url : str
        The URL of the proxy, which passes each connection to the next service.
    """

    def __init__(self, folder: Path, database: str, *arguments: str, count: int = 2, scripted: bool = False) -> None:
        self.folder = folder
        self.database = database
        self._arguments = arguments
        self._scripted = scripted
        with ExitStack() as stack:
            self.proxy = RoundRobin()
            stack.callback(self.proxy.close)
            self.root_url = f"http://127.0.0.1:{self.proxy.port}"
            self.base_url = f"{self.root_url}/v1"
            with ThreadPoolExecutor(count) as threads:
                starting = [threads.submit(self._start, number) for number in range(count)]
            problems = [start.exception() for start in starting if start.exception() is not None]
            self.services = [start.result() for start in starting if start.exception() is None]
            for service in self.services:
                stack.enter_context(service)
            if problems:
                raise AssertionError(f"services did not start: {problems}")
            self._update_proxy()
            self._stack = stack.pop_all()

    def __enter__(self) -> PlatformOfProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def remove(self, service: Service, number: int) -> int:
        """Stop a service with a signal, and return its exit code."""
        self.services.remove(service)
        code = service.stop(number)
        self._update_proxy()
        return code

    def key(self, *scopes: str, account: str = "acme") -> str:
        """Create a key."""
        return self.services[0].key(*scopes, account=account)

    def http(self, key: str) -> httpx.Client:
        """A client of the proxy that makes a new connection for each request."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.base_url, auth=_pair(key), timeout=60, limits=limits)

    def each(self, work: Callable[[httpx.Client], Any], key: str) -> list[Any]:
        """The results of `work` with a client of each service."""
        answers = []
        for service in self.services:
            with service.http(key) as http:
                answers.append(work(http))
        return answers

    def _start(self, number: int) -> Service:
        start = partial(Service, self.folder / f"service-{number}", public_url=self.root_url)
        if self._scripted:
            return start(scripted=True, database=self.database)
        return start(*self._arguments, database=self.database)

    def _update_proxy(self) -> None:
        self.proxy.set_ports([service.facts["port"] for service in self.services])


def _pair(key: str) -> tuple[str, str]:
    id_, _, secret = key.partition(":")
    return id_, secret

"""The embedded service with its demo data, started by its command, and clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import agentbook as ab
from service.process import Service

SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service"), "--speed", "0") as running:
        yield running
        running.stop()


@pytest.fixture(scope="module")
def key(service: Service) -> str:
    return service.key(*SCOPES)


@pytest.fixture(scope="module")
def client(service: Service, key: str) -> Iterator[ab.Client]:
    with ab.Client(service.base_url, credentials=key) as client:
        yield client

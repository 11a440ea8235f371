"""How the service starts uvicorn."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
import uvicorn

from agentbook.service.http import uvicorn_server
from agentbook.service.http.app import build
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.mark.skipif("sys.platform == 'win32'", reason="its loop cannot watch a socket")
async def test_new_connections_are_received_by_the_credentials_that_were_valid_lately(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Any] = []

    async def startup(_self: uvicorn.Server, sockets: list[Any] | None = None) -> None:
        assert sockets == []

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    monkeypatch.setattr(uvicorn_server, "Reception", lambda *args: received.append(args))
    # For the whole process.
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(logging.Logger, "setLevel", lambda _self, _level: None)
    server = uvicorn_server.Server(world.platform, build(world.platform), lambda: None, None, drain_s=0.0)
    server.config.load()
    listener: Any = object()
    await server.startup([listener])
    kind: Any = server.config.http_protocol_class
    ((receives, _, _, valid),) = received
    assert receives is listener
    assert valid is kind.admission.valid

"""Clients whose requests a function answers, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

import agentbook as ab

KEY = "id1:secret"


def client_of(answer: Any, **options: Any) -> ab.Client:
    return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)), **options)


def async_client_of(answer: Any, **options: Any) -> ab.AsyncClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return ab.AsyncClient("https://h/v1", http_client=http, **options)


Sent = tuple[str, str, list[tuple[str, str]], str]  # method, target, headers, body


class Wire:
    """Answers everything; records the requests, except those for openapi.yaml."""

    def __init__(self, openapi: bytes) -> None:
        self.openapi = openapi
        self.requests: list[Sent] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/openapi.yaml":
            return httpx.Response(200, content=self.openapi)
        headers = sorted((name, value) for name, value in request.headers.items() if name != "user-agent")
        self.requests.append((request.method, request.url.raw_path.decode(), headers, request.read().decode()))
        if request.method == "GET":
            return httpx.Response(200, json={"items": [], "pagination": {"total_count": 0}, "id": "1"})
        return httpx.Response(201, json={"id": "1"})


def sent_by_both(act: Callable[[Any], Any], openapi: bytes) -> tuple[list[Sent], Any]:
    """What both clients send for a call, which is the same, and what it returns."""
    wires = Wire(openapi), Wire(openapi)
    result = act(client_of(wires[0], credentials=KEY))
    result = list(result) if hasattr(result, "to_pandas") else result

    async def run() -> Any:
        awaited = act(async_client_of(wires[1], credentials=KEY))
        return [item async for item in awaited] if hasattr(awaited, "to_pandas") else await awaited

    assert asyncio.run(run()) == result
    assert wires[0].requests == wires[1].requests != []
    return wires[0].requests, result

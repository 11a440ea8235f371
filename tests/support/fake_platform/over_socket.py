"""The fake platform on a real socket, for the stream tests, with faults on demand.

It has one session. Events can become visible late, connections can be cut at random,
drafts can be mixed in, and cursors can be rejected.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from .core import START_MS, Event, FakePlatform, event_id, list_page

SESSION = "s"


def event(n: int, *, milliseconds: int | None = None, **fields: Any) -> Event:
    at = n * 10 if milliseconds is None else milliseconds - START_MS
    return {"id": event_id(at, n), "type": "note", "content": {"n": n}, "task_id": "t", **fields}


class SocketPlatform(FakePlatform):
    """One session, whatever its id.

    Runs on its own thread and loop; used as a context manager.
    """

    def __init__(self, seed: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.tls = tls
        self.sockets: set[ServerConnection] = set()
        self.handshakes: list[dict[str, str]] = []
        self.lists = 0
        self.refuse_socket: tuple[int, dict[str, Any]] | None = None
        self.refuse_from_id: tuple[int, str] | None = None
        self.close_at_once: int | None = None
        self.close_reason = ""
        self.says_first: str | None = None  # on each socket
        self.max_frames: int | None = None  # cut a connection after this many
        self.sends_drafts = False
        self.is_mute = False  # sockets open, and nothing comes

    def __enter__(self) -> SocketPlatform:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def base_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    def _serve(self, ready: threading.Event) -> None:
        async def start() -> Server:
            return await serve(
                self._socket,
                "127.0.0.1",
                0,
                process_request=self._request,
                compression=None,
                max_size=None,
                ssl=self.tls,
            )

        self._server = self._loop.run_until_complete(start())
        self.port = self._server.sockets[0].getsockname()[1]
        self._loop.call_soon(ready.set)
        self._loop.run_forever()

    async def _stop(self) -> None:
        # asyncio leaks a connection that it has accepted, but not attached, when the
        # server closes (python/cpython#109564).
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
        self._server.close()
        await self._server.wait_closed()
        # The connection accepted last is not among the server's connections: a second
        # task serves it, and ends when its client is gone.
        while late := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(late)

    # -- what a test does to it

    def add(self, *events: Event) -> None:
        """Make events visible: in the list, and on every open socket."""
        self.call(self._add(events))

    async def _add(self, events: tuple[Event, ...]) -> None:
        for item in events:
            self.insert(SESSION, item)
            await self.broadcast(item)

    async def broadcast(self, item: Event) -> None:
        for socket in list(self.sockets) if not self.is_mute else ():
            await self._send(socket, item)

    def cut(self, code: int | None = None) -> None:
        """End every connection: with a close code, or by dropping it."""
        self.call(self._cut(code))

    async def _cut(self, code: int | None) -> None:
        for socket in list(self.sockets):
            if code is None:
                socket.transport.abort()
            else:
                await socket.close(code)

    # -- what it answers

    def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        if "/events/ws" not in request.path:
            return self._list(request)
        self.handshakes.append(
            {name.lower(): value for name, value in request.headers.raw_items()} | {":path": request.path}
        )
        query = parse_qs(urlsplit(request.path).query)
        if self.refuse_socket is not None:
            return _json(*self.refuse_socket)
        if self.refuse_from_id and "from_id" in query:
            status, message = self.refuse_from_id
            return _json(status, {"message": message})
        return None

    def _list(self, request: Request) -> Response:
        self.lists += 1
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        return _json(200, list_page(self.histories.get(SESSION, []), query))

    async def _socket(self, socket: ServerConnection) -> None:
        if self.says_first is not None:
            await socket.send(self.says_first)
        if self.close_at_once is not None:
            await socket.close(self.close_at_once, self.close_reason)
            return
        assert socket.request is not None
        query = parse_qs(urlsplit(socket.request.path).query)
        from_id = query.get("from_id", [None])[0]
        if from_id is not None:
            for item in [item for item in self.histories.get(SESSION, []) if item["id"] > from_id]:
                await self._send(socket, item)
        self.sockets.add(socket)
        try:
            await socket.wait_closed()
        finally:
            self.sockets.discard(socket)

    async def _send(self, socket: ServerConnection, item: Event) -> None:
        sent = getattr(socket, "frames", 0) + 1
        socket.frames = sent  # type: ignore[attr-defined]
        try:
            if self.sends_drafts:
                await socket.send(
                    json.dumps({"id": f"draft-{sent}", "type": "runtime_draft", "content": {"delta": "x"}})
                )
            await socket.send(json.dumps(item))
        except Exception:
            return
        if self.max_frames is not None and sent >= self.rng.randint(1, self.max_frames):
            if self.rng.random() < 0.5:
                socket.transport.abort()
            else:
                await socket.close(self.rng.choice([1000, 1001, 1011, 1012, 1013]))


def _json(status: int, body: Any) -> Response:
    content = json.dumps(body).encode()
    headers = Headers(
        {"Content-Type": "application/json", "Content-Length": str(len(content)), "X-Request-ID": "req-7"}
    )
    return Response(status, HTTPStatus(status).phrase, headers, content)

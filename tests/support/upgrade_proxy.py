"""A proxy that passes HTTP on, and answers upgrades to WebSockets as a test says."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable

RESET, HANG, CLOSE = b"reset", b"hang", b"close"  # instead of an answer


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    """A whole HTTP reply."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class UpgradeProxy(socketserver.ThreadingTCPServer):
    """In front of a platform on this machine; used as a context manager.

    Attributes
    ----------
    answer : callable
        Returns the answer to an upgrade: bytes, `RESET`, `HANG` or `CLOSE`; None passes
        it on.
    down : bool
        Whether every connection is closed at once.
    refused, passed : int
        How many upgrades were refused, or passed on.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.answer: Callable[[], bytes | None] = lambda: None
        self.down = False
        self.refused = self.passed = 0
        self.released = threading.Event()
        self.open: set[socket.socket] = set()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> UpgradeProxy:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()
        self.cut()

    def cut(self) -> None:
        """Drop every open connection."""
        for each in list(self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Handler(socketserver.BaseRequestHandler):
    server: UpgradeProxy
    request: socket.socket

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self._handle()

    def _handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := self.request.recv(65536)):
                return
            head += piece
        if self.server.down:
            return
        if b"upgrade: websocket" in head.lower():
            answer = self.server.answer()
            if answer is not None:
                self.server.refused += 1
                self._refuse(answer)
                return
            self.server.passed += 1
        with socket.create_connection(("127.0.0.1", self.server.port)) as platform:
            platform.sendall(head)
            self.server.open |= {self.request, platform}
            back = threading.Thread(target=_pass_on, args=(platform, self.request), daemon=True)
            back.start()
            _pass_on(self.request, platform)
            back.join()
            self.server.open -= {self.request, platform}

    def _refuse(self, answer: bytes) -> None:
        if answer == HANG:
            self.server.released.wait(60)
        elif answer == RESET:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif answer != CLOSE:
            self.request.sendall(answer)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

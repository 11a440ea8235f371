"""A platform that records the bytes it is sent, and answers with given bytes."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time

PLAIN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"id":"a1"}'


class RawPlatform(socketserver.ThreadingTCPServer):
    """Records the raw bytes of each request by connection; answers with `reply`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # connections that have to wait until they are accepted

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = PLAIN
        self.hang_up = False
        self.drip = b" "
        self.drips = 0  # so many further pieces of a reply are sent one by one
        self.may_hang_up = threading.Event()
        self.may_hang_up.set()
        self.connections: list[list[bytes]] = []
        self.ended = threading.Semaphore(0)  # released once for each connection that ended

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def requests(self) -> list[bytes]:
        return [request for connection in self.connections for request in connection]


class _Handler(socketserver.StreamRequestHandler):
    server: RawPlatform

    def handle(self) -> None:
        mine: list[bytes] = []
        self.server.connections.append(mine)
        while head := self._head():
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
            )
            mine.append(head + self.rfile.read(length))
            last = self.server.hang_up  # read before the answer: the test goes on as soon as it has it
            with contextlib.suppress(OSError):
                self.wfile.write(self.server.reply)
                for _ in range(self.server.drips):
                    self.wfile.write(self.server.drip)
                    time.sleep(0.05)
            if last:
                self.server.may_hang_up.wait(60)
                break

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the client may be gone
            super().finish()
            self.request.shutdown(socket.SHUT_RDWR)
        self.request.close()
        self.server.ended.release()

    def _head(self) -> bytes:
        lines = []
        with contextlib.suppress(ConnectionError):
            while (line := self.rfile.readline()) not in (b"", b"\r\n"):
                lines.append(line)
        return b"".join(lines)


__all__ = ["PLAIN", "RawPlatform"]

"""Many WebSocket clients in a process of their own, which only count what arrives.

    python tests/benchmarks/crowd.py < ADDRESSES

Each line is a port of this machine and a handshake in base64, for one client. Prints
how many were accepted, then how many bytes all have got at each empty line. The bytes
are not parsed: a thousand clients that parse frames would take the processor from what
is measured.
"""

from __future__ import annotations

import base64
import resource
import selectors
import socket
import sys
import threading
from collections.abc import Sequence
from subprocess import PIPE, Popen

_RESERVED_FILES = 64


class Crowd:
    """Clients of some handshakes; open until the end of the ``with`` block.

    Parameters
    ----------
    clients
        A port and a handshake for each.
    """

    def __init__(self, clients: Sequence[tuple[int, bytes]]) -> None:
        self._process = Popen([sys.executable, __file__], stdin=PIPE, stdout=PIPE, text=True)
        lines = [f"{port} {base64.b64encode(handshake).decode()}\n" for port, handshake in clients]
        accepted = self._ask("".join(lines) + "\n")
        assert accepted == len(clients), f"{accepted} of {len(clients)} sockets were accepted"

    def received_bytes(self) -> int:
        """How many bytes they have got so far, without the heads of the responses."""
        return self._ask("\n")

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def _ask(self, text: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _open(port: int, handshake: bytes) -> socket.socket | None:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(handshake)
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows is counted
        more = client.recv(1)
        if not more:
            return None
        head += more
    client.setblocking(False)
    return client if b" 101 " in head.split(b"\r\n")[0] else None


def _require_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            sys.exit(f"{count} sockets need {needed} open files; the limit is {hard} (ulimit -n).")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def main() -> None:
    clients = []
    while line := sys.stdin.readline().strip():
        port, handshake = line.split()
        clients.append((int(port), base64.b64decode(handshake)))
    _require_files(len(clients))
    selector = selectors.DefaultSelector()
    opened = [client for address in clients if (client := _open(*address)) is not None]
    for client in opened:
        selector.register(client, selectors.EVENT_READ)
    received = 0

    def answer() -> None:
        print(len(opened), flush=True)
        while sys.stdin.readline():
            print(received, flush=True)
        ended.set()

    ended = threading.Event()
    threading.Thread(target=answer, daemon=True).start()
    while not ended.is_set():
        for key, _ in selector.select(timeout=0.2):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            data = client.recv(1 << 16)
            received += len(data)
            if not data:
                selector.unregister(client)


if __name__ == "__main__":
    main()

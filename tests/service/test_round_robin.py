"""The proxy in front of several services passes on how a connection ends."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from support.round_robin import RoundRobin

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset, as the kernel does for a process that was killed


def test_a_connection_that_the_service_resets_ends() -> None:
    with (
        contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server,
        contextlib.closing(RoundRobin()) as proxy,
    ):
        proxy.set_ports([server.getsockname()[1]])

        def accept_and_reset() -> None:
            connection, _ = server.accept()
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection.close()

        service = threading.Thread(target=accept_and_reset)
        service.start()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as client:
            client.sendall(b"GET")
            with contextlib.suppress(ConnectionResetError):  # or an end, depending on the system
                assert client.recv(1) == b""
        service.join()

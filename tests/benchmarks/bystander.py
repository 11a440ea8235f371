"""Somebody with a key of their own, while the service is attacked."""

from __future__ import annotations

import base64
import threading
import time
from http.client import HTTPConnection, HTTPException

from service_process import cpu_s, rss_bytes


class Bystander(threading.Thread):
    """Reads GET /me with another account's key, and watches the service's memory."""

    def __init__(self, port: int, key: str, pid: int) -> None:
        super().__init__(daemon=True)
        self._port, self._pid = port, pid
        self._basic = "Basic " + base64.b64encode(key.encode()).decode()
        self._ended = threading.Event()
        self.delays: list[float] = []
        self.computed: list[float] = []  # CPU seconds of the service during each read
        self.errors: list[str] = []
        self._before = self._peak = rss_bytes(pid)

    @property
    def growth_mb(self) -> float:
        return (self._peak - self._before) / 1e6

    def run(self) -> None:
        lasting = self._connect()
        while not self._ended.is_set():
            fresh = self._connect()
            for connection in (lasting, fresh):
                start, computed = time.monotonic(), cpu_s(self._pid)
                try:
                    connection.request("GET", "/v1/me", headers={"Authorization": self._basic})
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 200:
                        self.errors.append(str(answer.status))
                except (OSError, HTTPException) as error:
                    self.errors.append(type(error).__name__)
                    connection.close()
                self.delays.append(time.monotonic() - start)
                self.computed.append(cpu_s(self._pid) - computed)
            fresh.close()
            self._peak = max(self._peak, rss_bytes(self._pid))
            self._ended.wait(0.05)
        lasting.close()

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=20)

    def stop(self) -> None:
        self._ended.set()
        self.join()

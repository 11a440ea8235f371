"""A platform for the benchmarks that serves session events from its own process.

A reply costs it a table lookup and a join of bytes, so the benchmarks measure the
client. The events have the mix of real sessions; see `tests/benchmarks/wire_server.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

SERVER = Path(__file__).with_name("wire_server.py")


def session_id(n: int) -> str:
    return f"019a0b1c-0000-7000-8000-{n:012x}"


class Platform:
    """Starts the platform's process; the ``with`` block ends it."""

    def __init__(self, sessions: int, events: int, delay_ms: int) -> None:
        arguments = [str(value) for value in (sessions, events, delay_ms)]
        self.process = subprocess.Popen([sys.executable, str(SERVER), *arguments], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.base_url = self.process.stdout.readline().strip()
        self.sessions = [session_id(n) for n in range(sessions)]

    def __enter__(self) -> Platform:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

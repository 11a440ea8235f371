"""What the scripts of the peers share: a server on loopback, rows to read, a
measurement. The standard library alone, since each script runs in its peer's
environment.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROUNDS = 3
PATIENCE_S = 30


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def served(command: Sequence[str], health: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A server of its own process group, from its first good answer on; its whole group
    is ended afterwards, also where this script is told to end.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, cwd=log.parent,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, health, log)
        yield
    finally:
        for number, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(process.pid, number)
                process.wait(patience_s)
                break
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def _wait(process: subprocess.Popen[bytes], health: str, log: Path, patience_s: float = 120) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    last_lines = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    raise SystemExit(f"its server did not answer at {health} within {patience_s:.0f} s: {last_lines[-300:]}")


def grow(database: Path, table: str, rows: int, fresh: Mapping[str, str]) -> None:
    """Copy the rows of an SQLite table until there are so many.

    A peer takes its rows one request at a time, a hundred a second: what is measured is
    reading them. `fresh` gives an SQL expression for each column that must differ from
    copy to copy; an integer key is left to SQLite.
    """
    with sqlite3.connect(database) as db:
        columns = [name for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})") if fresh.get(name) != ""]
        names = ", ".join(columns)
        values = ", ".join(fresh.get(name, name) for name in columns)
        while (missing := rows - db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) > 0:
            db.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} LIMIT {missing}")
    db.close()


def measured(label: str, rows: int, call: Callable[[], Any]) -> dict[str, Any]:
    """The best of a few rounds; a call that gives another number of rows is no
    measurement.
    """
    best, least = float("inf"), float("inf")
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        count = len(call())
        best, least = min(best, time.perf_counter() - wall), min(least, time.process_time() - cpu)
        if count != rows:
            raise SystemExit(f"{label} gave {count:,} rows instead of {rows:,}")
        if best > PATIENCE_S:  # what takes so long is not disturbed much by anything else
            break
    return {"what": label, "rows": rows, "wall_s": best, "cpu_s": least}


def say(line: dict[str, Any]) -> None:
    """Hand a measurement to `tests/benchmarks/peers.py`."""
    print(json.dumps(line), flush=True)

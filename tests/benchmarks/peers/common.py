"""Helpers of the peers' scripts: a server on loopback, rows to read, a measurement.

Uses the standard library only, because each script runs in its peer's environment.
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
ENOUGH_S = 30


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def served(command: Sequence[str], health: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Start a server, and wait until it answers at `health`.

    It has its own process group. The whole group is ended afterwards, also if this
    script is terminated.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, cwd=log.parent,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait_until_healthy(process, health, log)
        yield
    finally:
        for number, timeout_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(process.pid, number)
                process.wait(timeout_s)
                break
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def _wait_until_healthy(process: subprocess.Popen[bytes], health: str, log: Path, timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    last_lines = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    raise SystemExit(f"its server did not answer at {health} within {timeout_s:.0f} s: {last_lines[-300:]}")


def grow(database: Path, table: str, rows: int, fresh: Mapping[str, str]) -> None:
    """Copy the rows of an SQLite table until it has `rows` rows.

    Writing them through the peer would take too long, at a hundred requests a second,
    and only reading is measured. `fresh` gives an SQL expression for each column whose
    values must differ between copies; an empty one leaves an integer key to SQLite.
    """
    with sqlite3.connect(database) as db:
        columns = [name for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})") if fresh.get(name) != ""]
        names = ", ".join(columns)
        values = ", ".join(fresh.get(name, name) for name in columns)
        while (missing := rows - db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) > 0:
            db.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} LIMIT {missing}")
    db.close()


def measured(label: str, rows: int, call: Callable[[], Any]) -> dict[str, Any]:
    """The least wall-clock and CPU seconds of a call, over a few rounds.

    Fails if the call returns another number of rows.
    """
    wall_s, cpu_s = float("inf"), float("inf")
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        count = len(call())
        wall_s, cpu_s = min(wall_s, time.perf_counter() - wall), min(cpu_s, time.process_time() - cpu)
        if count != rows:
            raise SystemExit(f"{label} returned {count:,} rows instead of {rows:,}")
        if wall_s > ENOUGH_S:  # other work on the machine hardly matters in a long call
            break
    return {"measurement": label, "rows": rows, "wall_s": wall_s, "cpu_s": cpu_s}


def report(line: dict[str, Any]) -> None:
    """Pass a measurement to `tests/benchmarks/peers.py`, on stdout."""
    print(json.dumps(line), flush=True)

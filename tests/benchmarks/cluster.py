"""Measures several processes on one PostgreSQL against their goals.

    python tests/benchmarks/cluster.py [writers] [page] [turns] [--quick]

PostgreSQL is a server of its own in a temporary directory, which writes through to the
disk as one in use does. Its processes, the platform's and this one share the machine's
processors, so only the ratios say something of another machine. Prints a Markdown
table, and below it what one database carries by these figures; the exit code is 1 if a
goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
from report import Report
from service_process import Service, cpu_s
from sqlalchemy import make_url

sys.path.append(str(Path(__file__).parents[1] / "service"))

from databases import HOW_TO_GET_IT, Cluster, database_url, server_binaries  # type: ignore[import-not-found]

WRITERS = 64

# Reads how many writers to run and how many events each writes; says when it is ready,
# and how long it took once it was told to begin.
PLATFORM = """
import asyncio, sys, time
from pathlib import Path
from agentbook.service.store import Store, events
from agentbook.service.store import event_json

url, data, first, writers, count = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
author = {"type": "api_key", "id": "k", "name": "k"}

async def write(store, session, count):
    def append(tx):
        events.append(tx, session, "message", "t", lambda i, at: event_json.message(
            id=i, text="hello " * 20, task_id="t", created_at=at, author=author))
    for _ in range(count):
        await store.write(append)

async def main():
    store = Store(data, url)
    sessions = [f"session-{number}" for number in range(first, first + writers)]
    await asyncio.gather(*(write(store, session, 5) for session in sessions))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(write(store, session, count) for session in sessions))
    print("done", flush=True)
    sys.stdin.readline()
    store.close()

asyncio.run(main())
"""
# The same rows by the driver alone: transactions of so many, one after another.
BARE = """
import sys, psycopg
url, first, transactions, rows = sys.argv[1], *map(int, sys.argv[2:])
wire = "x" * 330
with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:"), autocommit=True) as connection:
    print("ready", flush=True)
    sys.stdin.readline()
    number = 0
    for _ in range(transactions):
        with connection.transaction(), connection.cursor() as cursor:
            batch = []
            for _ in range(rows):
                number += 1
                batch.append((f"bare-{first}", f"{number:032}", "message", "t", "api_key", "2026", 330, wire))
            cursor.executemany("INSERT INTO bare VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", batch)
    print("done", flush=True)
    sys.stdin.readline()
"""


class Timed:
    """Processes that begin together; how long until the last is done."""

    def __init__(self, commands: list[list[str]]) -> None:
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
        ]
        self._expect("ready")

    def run(self) -> float:
        began = time.monotonic()
        self._say()
        self._expect("done")
        return time.monotonic() - began

    def end(self) -> None:
        self._say()
        for process in self._processes:
            process.communicate(timeout=60)

    def _say(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    def _expect(self, line: str) -> None:
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == line


@contextlib.contextmanager
def database() -> Iterator[tuple[str, Path]]:
    """The URL of an empty database, and a directory."""
    binaries = server_binaries()
    if binaries is None:
        sys.exit(HOW_TO_GET_IT)
    with (
        tempfile.TemporaryDirectory(prefix="agentbook-benchmark-") as folder,
        Cluster(binaries, durable=True) as cluster,
    ):
        yield database_url(cluster.url, Path(folder)), Path(folder)


def _ask(url: str, sql: str) -> int:
    with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:"), autocommit=True) as connection:
        answer = connection.execute(sql)
        return int(answer.fetchone()[0]) if answer.description else 0  # type: ignore[index]


def _commits(url: str) -> int:
    """The transactions of the database so far; a process that ends reports its own."""
    return _ask(url, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")


def measure_writers(report: Report, quick: bool) -> None:
    """Compare 64 writers in 1 and 2 processes with the driver alone."""
    count = 30 if quick else 100
    for processes in (1, 2):
        with database() as (url, folder):
            each = WRITERS // processes
            platform = Timed(
                [
                    [sys.executable, "-c", PLATFORM, url, str(folder), str(n * each), str(each), str(count)]
                    for n in range(processes)
                ]
            )
            before = _commits(url)
            duration_s = platform.run()
            platform.end()
            time.sleep(1)  # the server's statistics are written once a second
            transactions = max(processes, _commits(url) - before)
            rows = max(1, round(WRITERS * count / transactions))
            rounds = max(1, transactions // processes)
            _ask(url, "CREATE TABLE bare (LIKE events INCLUDING ALL)")
            bare = Timed([[sys.executable, "-c", BARE, url, str(n), str(rounds), str(rows)] for n in range(processes)])
            bare_s = bare.run()
            bare.end()
        rate, ceiling = WRITERS * count / duration_s, processes * rounds * rows / bare_s
        report.row(
            f"{WRITERS} writers in {processes} process{'es' if processes > 1 else ''}, events",
            f"{rate:,.0f}/s",
            f"bare INSERT of {rows} a commit: {ceiling:,.0f}/s",
            rate / ceiling,
            0.4,
            at_least=True,
        )


def measure_page(report: Report, quick: bool) -> None:
    """Compare a page of 1,000 events with one of a service on SQLite."""
    rounds, count = (3, 30) if quick else (7, 100)
    with database() as (url, folder), contextlib.ExitStack() as stack:
        pages = {}
        for name, store in (("PostgreSQL", url), ("SQLite", None)):
            running = Service(folder / name, store)
            stack.callback(running.close)
            session = running.session()
            running.publish(session, 1000, 120)
            asyncio.run(running.wait_until_published())
            pages[name] = running, f"/sessions/{session}/events?limit=1000&sort_by=id"
        wall: dict[str, list[float]] = {name: [] for name in pages}
        cpu: dict[str, list[float]] = {name: [] for name in pages}
        for _ in range(rounds):
            for name, (running, path) in pages.items():
                began, used = time.monotonic(), running.cpu_s
                for _ in range(count):
                    running.http.get(path).raise_for_status()
                wall[name].append((time.monotonic() - began) / count * 1e3)
                cpu[name].append((running.cpu_s - used) / count * 1e3)
    for label, times in (("time of a page of 1,000 events", wall), ("CPU time of the service for it", cpu)):
        mine, other = (statistics.median(times[name]) for name in ("PostgreSQL", "SQLite"))
        report.row(label, f"{mine:.2f} ms", f"SQLite: {other:.2f} ms", mine / other, 1.3)


def measure_turns(report: Report, quick: bool) -> None:
    """Measure what a turn costs the database and a process; the model costs nothing."""
    sessions, each = (8, 10) if quick else (32, 40)

    async def converse(running: Service, ids: list[str], messages: int) -> None:
        async def send(session: str) -> None:
            for _ in range(messages):
                answer = await http.post(f"/sessions/{session}/events", json={"content": "hello"})
                answer.raise_for_status()

        key, _, secret = running.key.partition(":")
        async with httpx.AsyncClient(base_url=running.base_url, auth=(key, secret), timeout=120) as http:
            await asyncio.gather(*(send(session) for session in ids))
        while _ask(url, "SELECT count(*) FROM pending_turns"):
            await asyncio.sleep(0.2)  # each look is a process of the server

    with database() as (url, folder), contextlib.closing(Service(folder / "a", url)) as running:
        ids = [running.session() for _ in range(sessions)]
        asyncio.run(converse(running, ids, 2))
        began, commits = time.monotonic(), _commits(url)
        used_s = running.cpu_s, _server_cpu_s(url)
        asyncio.run(converse(running, ids, each))
        duration_s = time.monotonic() - began
        process_ms, database_ms = (
            (after - before) / (sessions * each) * 1e3
            for before, after in zip(used_s, (running.cpu_s, _server_cpu_s(url)), strict=True)
        )
        time.sleep(1)
        per_turn = (_commits(url) - commits) / (sessions * each)
    report.note(
        f"{sessions} sessions had {sessions * each / duration_s:,.0f} turns a second in one process on this machine. A "
        f"turn took {process_ms:.1f} ms of the process's CPU time, {database_ms:.1f} ms of the database's, and "
        f"{per_turn:.1f} transactions, reads among them. So one core carries {1000 / process_ms:,.0f} turns a second "
        f"of a process, or {1000 / database_ms:,.0f} of the database: while there are fewer than "
        f"{process_ms / database_ms:.1f} processes for each core of the database they are the first bottleneck, and "
        "its CPU from there on."
    )


def _server_cpu_s(url: str) -> float:
    """The CPU time of the database so far, by all of its processes."""
    folder = Path(str(make_url(url).query["host"])) / "data"
    server = int((folder / "postmaster.pid").read_text().split()[0])
    ended = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[13:15]
    running = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return sum(cpu_s(int(pid)) for pid in [str(server), *running]) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")


MEASUREMENTS = {
    "writers": measure_writers,
    "page": measure_page,
    "turns": measure_turns,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    report = Report()
    for name in options.measurements:
        MEASUREMENTS[name](report, options.quick)
    report.print_notes()
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""Measures how fast the events of a platform are loaded into a frame.

    python tests/benchmarks/load.py [--scale 1.0] [--rounds 3]

The comparison, in the same run, is a loop of httpx with ``pandas.json_normalize``. The
platform runs in its own process, with pages serialised beforehand and a delay before
each reply (`tests/benchmarks/wire.py`). The rounds are interleaved and the best one
counts, because other work on the machine disturbs it least.

The peak memory of a load is that of a new process with the load, less that of one
without. The memory of `turns`, also in its own process, is that of the frame plus what
`turns` adds. The Dask cluster has two worker processes of one thread each, started
beforehand; its partitions are counted on the workers. Prints a Markdown table; the exit
code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))
from parse import floor
from wire import Platform

import agentbook as ab
from agentbook.frames.store.store import Store


def by_hand(base_url: str, sessions: list[str]) -> pd.DataFrame:
    """Load as people write it by hand.

    Reads one page after another on one connection, then calls `json_normalize`.
    """
    items: list[dict[str, Any]] = []
    with httpx.Client() as client:
        for session in sessions:
            query: dict[str, Any] = {"limit": 1000, "sort_by": "id"}
            while True:
                page = client.get(f"{base_url}/sessions/{session}/events", params=query).json()
                items += [{**item, "session_id": session} for item in page["items"]]
                if not page["pagination"]["has_more"]:
                    break
                query["from_id"] = page["items"][-1]["id"]
    frame = pd.json_normalize(items)
    for name in ("created_at", "updated_at"):
        frame[name] = pd.to_datetime(frame[name])
    return frame


def ours(base_url: str, sessions: list[str]) -> pd.DataFrame:
    with ab.Client(base_url) as client:
        return ab.load_events(client, sessions)


def list_events(base_url: str, session: str) -> pd.DataFrame:
    with ab.Client(base_url) as client:
        return client.sessions.events(session).to_pandas()


def fetch_pages(base_url: str, sessions: list[str]) -> list[bytes]:
    """The first page of each session, as bytes."""
    with httpx.Client() as client:
        return [
            client.get(f"{base_url}/sessions/{session}/events", params={"limit": 1000, "sort_by": "id"}).content
            for session in sessions
        ]


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """The wall-clock and the CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def best_times(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """The least wall-clock and CPU seconds of each call; the rounds are interleaved."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call))
    return {name: (min(wall for wall, _ in each), min(cpu for _, cpu in each)) for name, each in times.items()}


def peak_memory_mb(name: str, base_url: str, sessions: list[str]) -> float:
    """The peak memory of a load in its own process.

    The memory of the same process with a load of one session only is subtracted.
    """
    command = [sys.executable, __file__, "--peak", name, base_url]
    sizes = [
        float(subprocess.run(command, input=json.dumps(chosen), capture_output=True, text=True, check=True).stdout)
        for chosen in (sessions[:1], sessions)
    ]
    return sizes[1] - sizes[0]


def measure_turns(base_url: str, sessions: list[str]) -> tuple[float, float]:
    """The least seconds of `turns` over these sessions, and its peak memory.

    The memory includes the frame, and is given as a multiple of the frame's.
    """
    frame = ours(base_url, sessions)
    size = frame.memory_usage(deep=True).sum() / 2**20
    before = resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    times = [timed(lambda: ab.turns(frame, as_of="2030-01-01"))[0] for _ in range(3)]
    return min(times), (resident_mb("VmHWM") - before + size) / size


def resident_mb(field: str) -> float:
    return float(re.search(rf"{field}:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


def peak_resident_mb() -> float:
    """The peak resident size of this process.

    Not ``ru_maxrss``, which includes the parent's size before the exec.
    """
    return resident_mb("VmHWM")


class Report:
    """Prints the table and counts the missed goals."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, label: str, ours_s: str, other: str, ratio: float, goal: float, *, at_least: bool = True) -> None:
        met = ratio >= goal if at_least else ratio <= goal
        self.missed += not met
        sign = "at least" if at_least else "at most"
        print(
            f"| {label} | {ours_s} | {other} | {ratio:.2f} | {sign} {goal:g} | {'met' if met else 'MISSED'} |",
            flush=True,
        )


def measure_loads(report: Report, scale: float, rounds: int) -> None:
    sessions = max(int(200 * scale), 4)
    with Platform(sessions, 1000, 0) as platform:
        pages = fetch_pages(platform.base_url, platform.sessions)
        result = best_times(
            {
                "ours": lambda: ours(platform.base_url, platform.sessions),
                "by hand": lambda: by_hand(platform.base_url, platform.sessions),
                "floor": lambda: floor(pages),
            },
            rounds,
        )
        mine, hand, minimum = result["ours"], result["by hand"], result["floor"]
        label = f"{sessions * 1000:,} events at 0 ms"
        report.row(f"{label}, wall", f"{mine[0]:.2f} s", f"{hand[0]:.2f} s by hand", hand[0] / mine[0], 4)
        report.row(
            f"{label}, CPU", f"{mine[1]:.2f} s", f"{minimum[1]:.2f} s floor", mine[1] / minimum[1], 2.5, at_least=False
        )
        memory = [peak_memory_mb(name, platform.base_url, platform.sessions) for name in ("ours", "by_hand")]
        figures = f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB by hand"
        report.row(f"{label}, peak memory", *figures, memory[0] / memory[1], 0.45, at_least=False)
    with Platform(1, sessions * 1000, 80) as platform:
        mine, hand = time_slow_loads(platform)
        label = f"one session of {sessions * 1000:,} events at 80 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s by hand", hand / mine, 11)
    with Platform(1, sessions * 1000, 50) as platform:
        [session] = platform.sessions
        result = best_times(
            {
                "listing": lambda: list_events(platform.base_url, session),
                "load_events": lambda: ours(platform.base_url, [session]),
            },
            rounds,
        )
        (listing_s, _), (events_s, _) = result["listing"], result["load_events"]
        label = f"listing one session's {sessions * 1000:,} events at 50 ms"
        report.row(
            label, f"{listing_s:.2f} s", f"{events_s:.2f} s load_events", listing_s / events_s, 1.2, at_least=False
        )
    with Platform(sessions * 10, 100, 20) as platform:
        mine, hand = time_slow_loads(platform)
        label = f"{sessions * 10:,} sessions of 100 events at 20 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s one after another", hand / mine, 16)


def time_slow_loads(platform: Platform) -> tuple[float, float]:
    """The seconds of a load with agentbook, and by hand, where replies are delayed."""
    seconds = min(timed(lambda: ours(platform.base_url, platform.sessions))[0] for _ in range(2))
    return seconds, timed(lambda: by_hand(platform.base_url, platform.sessions))[0]


def measure_stores(report: Report, scale: float, rounds: int) -> None:
    sessions = max(int(1000 * scale), 4)
    rows = sessions * 1000
    with Platform(sessions, 1000, 0, 60_000) as platform, tempfile.TemporaryDirectory() as path:
        client = ab.Client(platform.base_url)
        new_stores = [Store(Path(path) / str(n)) for n in range(rounds)]
        sync_s = min(timed(lambda store=store: store.sync(client, platform.sessions))[0] for store in new_stores)  # type: ignore[misc]
        store = new_stores[-1]
        report.row(f"{rows:,} events into the store", f"{sync_s:.2f} s", "rows/s", rows / sync_s, 250_000)
        resync_s = min(timed(lambda: store.sync(client))[0] for _ in range(rounds))
        report.row(
            f"a sync with nothing new, {sessions:,} sessions", f"{resync_s:.2f} s", "s", resync_s, 1.0, at_least=False
        )
        size = sum(file.stat().st_size for file in Path(store.path).rglob("*") if file.is_file()) / 1e6
        report.row(f"{rows:,} events on disk", f"{size:.0f} MB", "MB", size, 70, at_least=False)
        query = "SELECT session_id, date_trunc('hour', \"at\") AS hour, count(*) AS n FROM events GROUP BY ALL"
        query_s = min(timed(lambda: store.query(query))[0] for _ in range(rounds))
        report.row("events per hour and session from the store", f"{query_s:.2f} s", "s", query_s, 0.3, at_least=False)
        command = [sys.executable, __file__, "--turns", platform.base_url]
        done = subprocess.run(command, input=json.dumps(platform.sessions), capture_output=True, text=True, check=True)
        seconds, times = json.loads(done.stdout)
        report.row(f"turns of {rows:,} events", f"{seconds:.2f} s", "s", seconds, 1.5, at_least=False)
        report.row("memory of these turns", "", "times the frame", times, 3, at_least=False)


def measure_clusters(report: Report, scale: float, rounds: int) -> None:
    from dask.distributed import Client, LocalCluster

    sessions = max(int(1000 * scale), 4)
    with (
        Platform(sessions, 1000, 20) as platform,
        tempfile.TemporaryDirectory() as path,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=path) as cluster,
        Client(cluster) as distributed,
    ):
        distributed.run(lambda: __import__("agentbook").dask)

        def count() -> None:
            events = ab.dask.load_events(ab.Client(platform.base_url), platform.sessions, partitions=8)
            assert (
                events.map_partitions(len, enforce_metadata=False, meta=("rows", "int64")).compute().sum()
                == sessions * 1000
            )

        seconds = min(timed(count)[0] for _ in range(rounds))
        label = f"{sessions * 1000:,} events at 20 ms by Dask, two processes"
        report.row(label, f"{seconds:.2f} s", "rows/s", sessions * 1000 / seconds, 150_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of sessions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("loads", "stores", "clusters"), help="measure one part only")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--turns", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        frame = {"ours": ours, "by_hand": by_hand}[options.peak[0]](options.peak[1], json.load(sys.stdin))
        print(peak_resident_mb() if len(frame) else 0)
        return 0
    if options.turns:
        print(json.dumps(measure_turns(options.turns, json.load(sys.stdin))))
        return 0
    report = Report()
    print("| measurement | agentbook | other | ratio | goal | |\n|---|---|---|---|---|---|")
    for name, part in {"loads": measure_loads, "stores": measure_stores, "clusters": measure_clusters}.items():
        if options.only in (None, name):
            part(report, options.scale, options.rounds)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())

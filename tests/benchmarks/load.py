"""How fast a platform's events become a frame, against a loop of httpx with
``pandas.json_normalize``, in one run.

    python tests/benchmarks/load.py [--scale 1.0] [--rounds 3]

The platform is a process of its own with pages serialised beforehand and a delay before
each reply (`tests/benchmarks/wire.py`). Each measurement is the best of its rounds,
interleaved, which other work on the machine disturbs least. Peak memory is that of a
fresh process with the load, less that of one without; that of `turns` is the frame with
what `turns` adds to it, in a process of its own. The Dask cluster has two worker
processes of one thread each, started beforehand; its partitions are counted where they
are. Prints a Markdown table; the exit code is 1 where a goal is missed.
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
    """What people write: one connection, one page after another, `json_normalize` at
    the end.
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


def listed(base_url: str, session: str) -> pd.DataFrame:
    with ab.Client(base_url) as client:
        return client.sessions.events(session).to_pandas()


def bodies(base_url: str, sessions: list[str]) -> list[bytes]:
    with httpx.Client() as client:
        return [
            client.get(f"{base_url}/sessions/{session}/events", params={"limit": 1000, "sort_by": "id"}).content
            for session in sessions
        ]


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def best(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call))
    return {name: (min(wall for wall, _ in each), min(cpu for _, cpu in each)) for name, each in times.items()}


def peak(name: str, base_url: str, sessions: list[str]) -> float:
    """Megabytes at the peak of a load in a process of its own, above those of the same
    process without it.
    """
    command = [sys.executable, __file__, "--peak", name, base_url]
    sizes = [
        float(subprocess.run(command, input=json.dumps(chosen), capture_output=True, text=True, check=True).stdout)
        for chosen in (sessions[:1], sessions)
    ]
    return sizes[1] - sizes[0]


def turning(base_url: str, sessions: list[str]) -> tuple[float, float]:
    """Best seconds of `turns` over these sessions, and the greatest memory it takes,
    its frame included, as times the frame.
    """
    frame = ours(base_url, sessions)
    size = frame.memory_usage(deep=True).sum() / 2**20
    before = resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the greatest size so far is forgotten
    times = [timed(lambda: ab.turns(frame, as_of="2030-01-01"))[0] for _ in range(3)]
    return min(times), (resident_mb("VmHWM") - before + size) / size


def resident_mb(which: str) -> float:
    return float(re.search(rf"{which}:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


def highest_mb() -> float:
    """This process's greatest resident size.

    ``ru_maxrss`` would count the parent's, of before the exec.
    """
    return resident_mb("VmHWM")


class Report:
    """The table, and whether the goals are met."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, label: str, ours_s: str, other: str, ratio: float, goal: float, *, least: bool = True) -> None:
        met = ratio >= goal if least else ratio <= goal
        self.missed += not met
        sign = "at least" if least else "at most"
        print(
            f"| {label} | {ours_s} | {other} | {ratio:.2f} | {sign} {goal:g} | {'met' if met else 'MISSED'} |",
            flush=True,
        )


def loads(report: Report, scale: float, rounds: int) -> None:
    sessions = max(int(200 * scale), 4)
    with Platform(sessions, 1000, 0) as platform:
        pages = bodies(platform.base_url, platform.sessions)
        result = best(
            {
                "ours": lambda: ours(platform.base_url, platform.sessions),
                "by hand": lambda: by_hand(platform.base_url, platform.sessions),
                "floor": lambda: floor(pages),
            },
            rounds,
        )
        mine, hand, least = result["ours"], result["by hand"], result["floor"]
        label = f"{sessions * 1000:,} events at 0 ms"
        report.row(f"{label}, wall", f"{mine[0]:.2f} s", f"{hand[0]:.2f} s by hand", hand[0] / mine[0], 4)
        report.row(f"{label}, CPU", f"{mine[1]:.2f} s", f"{least[1]:.2f} s floor", mine[1] / least[1], 2.5, least=False)
        memory = [peak(name, platform.base_url, platform.sessions) for name in ("ours", "by_hand")]
        both = f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB by hand"
        report.row(f"{label}, peak memory", *both, memory[0] / memory[1], 0.45, least=False)
    with Platform(1, sessions * 1000, 80) as platform:
        mine, hand = slow(platform)
        label = f"one session of {sessions * 1000:,} events at 80 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s by hand", hand / mine, 11)
    with Platform(1, sessions * 1000, 50) as platform:
        [session] = platform.sessions
        result = best(
            {
                "listing": lambda: listed(platform.base_url, session),
                "load_events": lambda: ours(platform.base_url, [session]),
            },
            rounds,
        )
        (listing_s, _), (events_s, _) = result["listing"], result["load_events"]
        label = f"the listing of one session's {sessions * 1000:,} events at 50 ms"
        report.row(label, f"{listing_s:.2f} s", f"{events_s:.2f} s load_events", listing_s / events_s, 1.2, least=False)
    with Platform(sessions * 10, 100, 20) as platform:
        mine, hand = slow(platform)
        label = f"{sessions * 10:,} sessions of 100 events at 20 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s one after another", hand / mine, 13)


def slow(platform: Platform) -> tuple[float, float]:
    first = min(timed(lambda: ours(platform.base_url, platform.sessions))[0] for _ in range(2))
    return first, timed(lambda: by_hand(platform.base_url, platform.sessions))[0]


def stores(report: Report, scale: float, rounds: int) -> None:
    sessions = max(int(1000 * scale), 4)
    rows = sessions * 1000
    with Platform(sessions, 1000, 0, 60_000) as platform, tempfile.TemporaryDirectory() as path:
        client = ab.Client(platform.base_url)
        some = [Store(Path(path) / str(n)) for n in range(rounds)]
        first = min(timed(lambda store=store: store.sync(client, platform.sessions))[0] for store in some)  # type: ignore[misc]
        store = some[-1]
        report.row(f"{rows:,} events into the store", f"{first:.2f} s", "rows/s", rows / first, 250_000)
        second = min(timed(lambda: store.sync(client))[0] for _ in range(rounds))
        report.row(f"a sync with nothing new, {sessions:,} sessions", f"{second:.2f} s", "s", second, 1.0, least=False)
        size = sum(file.stat().st_size for file in Path(store.path).rglob("*") if file.is_file()) / 1e6
        report.row(f"{rows:,} events on disk", f"{size:.0f} MB", "MB", size, 70, least=False)
        query = "SELECT session_id, date_trunc('hour', \"at\") AS hour, count(*) AS n FROM events GROUP BY ALL"
        query_s = min(timed(lambda: store.query(query))[0] for _ in range(rounds))
        report.row("events per hour and session from the store", f"{query_s:.2f} s", "s", query_s, 0.3, least=False)
        command = [sys.executable, __file__, "--turns", platform.base_url]
        done = subprocess.run(command, input=json.dumps(platform.sessions), capture_output=True, text=True, check=True)
        seconds, times = json.loads(done.stdout)
        report.row(f"turns of {rows:,} events", f"{seconds:.2f} s", "s", seconds, 1.5, least=False)
        report.row("the same, memory", "", "of the frame's", times, 3, least=False)


def clusters(report: Report, scale: float, rounds: int) -> None:
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
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of sessions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("loads", "stores", "clusters"), help="one part of it")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--turns", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        frame = {"ours": ours, "by_hand": by_hand}[options.peak[0]](options.peak[1], json.load(sys.stdin))
        print(highest_mb() if len(frame) else 0)
        return 0
    if options.turns:
        print(json.dumps(turning(options.turns, json.load(sys.stdin))))
        return 0
    report = Report()
    print("| what | agentbook | other | ratio | goal | |\n|---|---|---|---|---|---|")
    for name, part in {"loads": loads, "stores": stores, "clusters": clusters}.items():
        if options.only in (None, name):
            part(report, options.scale, options.rounds)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measures how fast the events of a platform, and files, are loaded into a frame.

    python tests/benchmarks/load.py [fast] [slow] [files] [--scale 1.0] [--rounds 3]

The comparison, in the same run, is a loop of httpx with ``pandas.json_normalize``. The
platform runs in its own process, with pages serialised beforehand and a delay before
each reply (`tests/benchmarks/wire.py`). The rounds are interleaved and the best one
counts, because other work on the machine disturbs it least.

The peak memory of a load is that of a new process with the load, less that of one
without. Files have the records of `recorded_files.py`, and are compared with the CPU
time that msgspec takes to decode their lines. Prints a Markdown table; the exit code is
1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pandas as pd
import recorded_files
from parse import floor
from report import Report, least_times, timed
from wire import Platform

import agentbook as ab


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


def fetch_pages(base_url: str, sessions: list[str]) -> list[bytes]:
    """The first page of each session, as bytes."""
    with httpx.Client() as client:
        return [
            client.get(f"{base_url}/sessions/{session}/events", params={"limit": 1000, "sort_by": "id"}).content
            for session in sessions
        ]


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


def peak_resident_mb() -> float:
    """The peak resident size of this process.

    Not ``ru_maxrss``, which includes the parent's size before the exec.
    """
    return float(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


def measure_fast(report: Report, scale: float, rounds: int) -> None:
    """Load without latency: by hand, and by the least it can cost."""
    sessions = max(int(200 * scale), 4)
    with Platform(sessions, 1000, 0) as platform:
        pages = fetch_pages(platform.base_url, platform.sessions)
        result = least_times(
            {
                "ours": lambda: ours(platform.base_url, platform.sessions),
                "by hand": lambda: by_hand(platform.base_url, platform.sessions),
                "floor": lambda: floor(pages),
            },
            rounds,
        )
        mine, hand, minimum = result["ours"], result["by hand"], result["floor"]
        label = f"load {sessions * 1000:,} events at 0 ms"
        figures = f"{mine[0]:.2f} s", f"{hand[0]:.2f} s by hand"
        report.row(f"{label}: time", *figures, hand[0] / mine[0], 4, at_least=True)
        report.row(f"{label}: CPU", f"{mine[1]:.2f} s", f"{minimum[1]:.2f} s floor", mine[1] / minimum[1], 2.5)
        memory = [peak_memory_mb(name, platform.base_url, platform.sessions) for name in ("ours", "by_hand")]
        figures = f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB by hand"
        report.row(f"{label}: peak memory", *figures, memory[0] / memory[1], 0.45)


def measure_slow(report: Report, scale: float, rounds: int) -> None:
    """Load where each reply takes some time."""
    sessions = max(int(200 * scale), 4)
    with Platform(1, sessions * 1000, 80) as platform:
        mine, hand = time_slow_loads(platform)
        label = f"load one session of {sessions * 1000:,} events at 80 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s by hand", hand / mine, 14, at_least=True)
    with Platform(sessions * 10, 100, 20) as platform:
        mine, hand = time_slow_loads(platform)
        label = f"load {sessions * 10:,} sessions of 100 events at 20 ms"
        report.row(label, f"{mine:.2f} s", f"{hand:.2f} s one after another", hand / mine, 14, at_least=True)


def time_slow_loads(platform: Platform) -> tuple[float, float]:
    """The seconds of a load with agentbook, and by hand, where replies are delayed."""
    seconds = min(timed(lambda: ours(platform.base_url, platform.sessions))[0] for _ in range(4))
    return seconds, timed(lambda: by_hand(platform.base_url, platform.sessions))[0]


def measure_files(report: Report, scale: float, rounds: int) -> None:
    """Read files of other tools; decoding their lines is the least it can cost."""
    for kind, goal in recorded_files.GOALS.items():
        with tempfile.TemporaryDirectory() as path:
            files = recorded_files.write(kind, Path(path), int(200e6 * scale))

            def decode(files: list[Path] = files) -> None:
                for each in files:
                    with each.open("rb") as file:
                        for line in file:
                            msgspec.json.decode(line)

            result = least_times({"ours": lambda path=path: ab.read_conversations(path), "floor": decode}, rounds)  # type: ignore[misc]
            mine, least = result["ours"][1], result["floor"][1]
            size = sum(file.stat().st_size for file in files) / 1e6
            report.row(f"{size:.0f} MB of {kind}: CPU", f"{mine:.2f} s", f"{least:.2f} s decoding", mine / least, goal)
            memory = peak_memory_mb("read", path, [str(files[0]), path])
            report.row(f"{size:.0f} MB of {kind}: peak memory", f"{memory:.0f} MB", "of the files", memory / size, 1.5)


def read(path: str, paths: list[str]) -> pd.DataFrame:
    return ab.read_conversations(paths[-1]).events


PARTS: dict[str, Callable[[Report, float, int], None]] = {
    "fast": measure_fast,
    "slow": measure_slow,
    "files": measure_files,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="what to measure; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of sessions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        frame = {"ours": ours, "by_hand": by_hand, "read": read}[options.peak[0]](options.peak[1], json.load(sys.stdin))
        print(peak_resident_mb() if len(frame) else 0)
        return 0
    report = Report()
    for name in options.parts:
        PARTS[name](report, options.scale, options.rounds)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())

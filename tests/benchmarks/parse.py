"""Measures how fast pages of events are parsed into a frame.

    python tests/benchmarks/parse.py [--pages 200] [--rounds 11]

The events are those of `tests/benchmarks/event_mixes.py`. Compared are agentbook;
``json.loads`` with ``pandas.json_normalize``, as people write it by hand; and a floor,
the least it can cost. The floor decodes the same bytes with msgspec into structs and
makes an Arrow column of each field and a frame of the columns; it has no instants of
ids, no authors, no texts apart from their content, and drops unknown fields.

Times are CPU seconds of this process. Each round is compared within itself and the
median of the rounds counts: the speed of a machine that others use changes, so the
least times may come from different minutes. The peak memory is that of a new process,
less that of one without the pages' frame. Prints a Markdown table; the exit code is 1
if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
from event_mixes import MIXES, PAGE, SESSION, make_pages
from report import Report

from agentbook.frames.parse.frame import to_frame

GOALS = {"texts": 1.4, "tools": 1.5, "unknown": 2.2, "blocks": 3}
BY_HAND_GOAL = 0.2
MEMORY_GOAL = 0.2


def ours(pages: list[bytes]) -> pd.DataFrame:
    return to_frame("events", pages, context={"session_id": SESSION})


def by_hand(pages: list[bytes]) -> pd.DataFrame:
    frame = pd.json_normalize([item for page in pages for item in json.loads(page)["items"]])
    for name in ("created_at", "updated_at"):
        frame[name] = pd.to_datetime(frame[name])
    return frame


class _Event(msgspec.Struct, gc=False):
    id: str
    type: str
    content: msgspec.Raw
    task_id: str
    created_at: str
    updated_at: str


class _Page(msgspec.Struct, gc=False):
    items: list[_Event]


def floor(pages: list[bytes]) -> pd.DataFrame:
    """The least that parsing these pages into a frame can cost."""
    decoder, batches = msgspec.json.Decoder(_Page), []
    for page in pages:
        items = decoder.decode(page).items
        columns: dict[str, Any] = {
            "id": pa.array([item.id for item in items]),
            "type": pa.array([item.type for item in items]),
            "task_id": pa.array([item.task_id for item in items]),
            "content": pa.array([bytes(item.content) for item in items], pa.string()),
            "created_at": pa.array([item.created_at for item in items]).cast(pa.timestamp("us", "UTC")),
            "updated_at": pa.array([item.updated_at for item in items]).cast(pa.timestamp("us", "UTC")),
        }
        batches.append(pa.record_batch(columns))
    return pa.Table.from_batches(batches).to_pandas()


WAYS: dict[str, Callable[[list[bytes]], pd.DataFrame]] = {"ours": ours, "floor": floor, "by hand": by_hand}


def measured_times(pages: list[bytes], rounds: int) -> dict[str, list[float]]:
    """The CPU seconds of each way in each round."""
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(rounds):
        for name, parse in WAYS.items():
            if name == "by hand" and number >= 3:
                continue  # several times slower, and only shown for scale
            started = time.process_time()
            parse(pages)
            times[name].append(time.process_time() - started)
    return times


def peak_memory_mb(way: str, mix: str, pages: int) -> float:
    """The peak memory that parsing takes in a process of its own, beside the pages."""
    command = [sys.executable, __file__, "--peak", way, mix, str(pages)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_peak(way: str, mix: str, count: int) -> float:
    """Megabytes by which parsing raises the peak of this process."""
    pages = make_pages(count, mix)
    WAYS[way](pages[:1])  # what a first use loads is no part of it
    before = _resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    WAYS[way](pages)
    return _resident_mb("VmHWM") - before


def _resident_mb(name: str) -> float:
    match = re.search(rf"{name}:\s*(\d+)", Path("/proc/self/status").read_text())
    return float(match[1]) / 1024 if match else float("nan")


def measure(report: Report, count: int = 200, rounds: int = 11) -> None:
    """Measure CPU and memory for each mix of events."""
    for mix in MIXES:
        pages = make_pages(count, mix)
        size = sum(map(len, pages)) / len(pages) / PAGE
        times = measured_times(pages, rounds)
        label = f"parse {mix}, {count * PAGE:,} events of {size:.0f} bytes: CPU per event"
        for other, goal in (("floor", GOALS[mix]), ("by hand", BY_HAND_GOAL)):
            ratio = median(mine / theirs for mine, theirs in zip(times["ours"], times[other], strict=False))
            mine_us, theirs_us = (1e6 * median(times[name]) / count / PAGE for name in ("ours", other))
            report.row(label, f"{mine_us:.2f} µs", f"{theirs_us:.2f} µs {other}", ratio, goal)
        memory = [peak_memory_mb(way, mix, count) for way in ("ours", "by hand")]
        label = f"parse {mix}, {count * PAGE:,} events: peak memory"
        report.row(
            label, f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB json_normalize", memory[0] / memory[1], MEMORY_GOAL
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(measure_peak(options.peak[0], options.peak[1], int(options.peak[2])))
        return 0
    report = Report()
    measure(report, options.pages, options.rounds)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())

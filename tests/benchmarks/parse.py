"""Measures how fast pages of events are parsed into a frame.

    python tests/benchmarks/parse.py [--pages 40] [--rounds 15]

Three mixes of events as sessions hold them:

- texts: three events in five are a text of 50 to 300 characters, the others are empty;
- tools: 10 % texts, 20 % empty, 70 % tool events with nested arguments;
- unknown: as tools, with two fields in each event that no schema names.

One event in ten has an author. Compared are agentbook; ``json.loads`` with
``pandas.json_normalize``, as people write it by hand; and a floor, the least it can
cost. The floor decodes the same bytes with msgspec into structs and makes an Arrow
column of each field and a frame of the columns; it has no instants of ids, no authors,
no texts apart from their content, and drops unknown fields.

Times are CPU seconds of this process. The rounds are interleaved and the least time of
each way counts, because other work on the machine only ever adds to it. The peak memory
is that of a new process, less that of one without the pages' frame. Prints a Markdown
table; the exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from agentbook.frames.parse.frame import to_frame

PAGE = 1000
SESSION = "019a0b1c-0000-7000-8000-000000000000"
MIXES = ("texts", "tools", "unknown")
GOALS = {"texts": 1.4, "tools": 1.4, "unknown": 1.9}
MEMORY_GOAL = 0.2
_WORDS = ("report", "order", "refund", "north", "customer", "total", "pending", "ticket", "invoice", "review")
_TOOLS = ("search_orders", "send_mail", "read_table", "http_get")


def make_pages(count: int, mix: str = "tools", seed: int = 1) -> list[bytes]:
    """Pages of 1,000 events of a mix, reproducible by the seed."""
    draw = random.Random(seed)
    pages = []
    for page in range(count):
        items = [_event(draw, mix, page * PAGE + row) for row in range(PAGE)]
        body = {"items": items, "pagination": {"total_count": count * PAGE, "has_more": page + 1 < count}}
        pages.append(json.dumps(body, separators=(",", ":")).encode())
    return pages


def _event(draw: random.Random, mix: str, number: int) -> dict[str, Any]:
    hexa = f"{1_790_000_000_000 + 700 * number:012x}"
    share = draw.random()
    texts, empty = (0.6, 1.0) if mix == "texts" else (0.1, 0.3)
    if share < texts:
        content: dict[str, Any] = {"text": "word " * draw.randint(10, 60)}
    else:
        content = {} if share < empty else _tool_call(draw)
    created_at = f"2026-10-{1 + number // 86_400 % 28:02d}T08:15:{number % 60:02d}.{number % 1000:03d}000Z"
    event: dict[str, Any] = {
        "id": f"{hexa[:8]}-{hexa[8:]}-7000-8000-{draw.getrandbits(48):012x}",
        "type": "tool_call" if "tool" in content else "runtime_done",
        "content": content,
        "task_id": f"{hexa[:8]}-{hexa[8:]}-7000-9000-{draw.getrandbits(48):012x}",
        "created_at": created_at,
        "updated_at": created_at,
    }
    if draw.random() < 0.1:
        event |= {"type": "message", "author": {"type": "api_key", "id": SESSION, "name": "notebook"}}
    if mix == "unknown":
        event |= {"trace_id": f"{draw.getrandbits(64):016x}", "region": draw.choice(("eu", "us"))}
    return event


def _tool_call(draw: random.Random) -> dict[str, Any]:
    conditions = [
        {"field": "status", "op": "eq", "value": draw.choice(_WORDS)},
        {"field": "amount", "op": "gt", "value": round(draw.random() * 1000, 2)},
    ]
    return {
        "tool": draw.choice(_TOOLS),
        "arguments": {
            "query": " ".join(draw.choices(_WORDS, k=6)),
            "conditions": conditions,
            "limit": draw.randint(1, 500),
            "options": {"dry_run": False, "retries": draw.randint(0, 3)},
        },
        "call_id": f"call_{draw.getrandbits(40):010x}",
        "duration_ms": draw.randint(1, 9000),
    }


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


def least_times(pages: list[bytes], rounds: int) -> dict[str, float]:
    """The least CPU seconds of each way."""
    times = dict.fromkeys(WAYS, float("inf"))
    for number in range(rounds):
        for name, parse in WAYS.items():
            if name == "by hand" and number >= 2:
                continue  # several times slower, and only shown for scale
            started = time.process_time()
            parse(pages)
            times[name] = min(times[name], time.process_time() - started)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(measure_peak(options.peak[0], options.peak[1], int(options.peak[2])))
        return 0
    missed = 0
    print("| measurement | agentbook | other | ratio | goal | |\n|---|---|---|---|---|---|")

    def row(label: str, mine: str, other: str, ratio: float, goal: float) -> None:
        nonlocal missed
        missed += ratio > goal
        verdict = "met" if ratio <= goal else "MISSED"
        print(f"| {label} | {mine} | {other} | {ratio:.2f} | at most {goal:g} | {verdict} |", flush=True)

    for mix in MIXES:
        pages = make_pages(options.pages, mix)
        size = sum(map(len, pages)) / len(pages) / PAGE
        times = {
            name: 1e6 * seconds / options.pages / PAGE for name, seconds in least_times(pages, options.rounds).items()
        }
        label = f"{mix}, {options.pages * PAGE:,} events of {size:.0f} bytes: CPU"
        row(
            label,
            f"{times['ours']:.2f} µs",
            f"{times['floor']:.2f} µs floor",
            times["ours"] / times["floor"],
            GOALS[mix],
        )
        row(
            label,
            f"{times['ours']:.2f} µs",
            f"{times['by hand']:.2f} µs by hand",
            times["ours"] / times["by hand"],
            0.2,
        )
        memory = [peak_memory_mb(way, mix, 5 * options.pages) for way in ("ours", "by hand")]
        figures = f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB json_normalize"
        row(f"{mix}, {5 * options.pages * PAGE:,} events: peak memory", *figures, memory[0] / memory[1], MEMORY_GOAL)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
